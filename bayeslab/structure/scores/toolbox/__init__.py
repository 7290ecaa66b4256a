"""Code shared by several scores; no module here is itself a score."""
