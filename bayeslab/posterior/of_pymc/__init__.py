"""Plain PyMC models as programs of the density machine, without compiling them."""
