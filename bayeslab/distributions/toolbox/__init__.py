"""What several distributions share; no module here is one of them."""
