"""What several scores share; no module here is one of them."""
