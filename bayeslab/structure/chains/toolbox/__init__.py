"""What several chains share; no module here is one of them."""
