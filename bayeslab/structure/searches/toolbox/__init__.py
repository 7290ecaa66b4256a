"""Code shared by several searches; no module here is itself a search."""
