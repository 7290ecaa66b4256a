"""Code shared by several chains; no module here is itself a chain."""
