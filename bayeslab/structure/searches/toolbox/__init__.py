"""What several searches share; no module here is one of them."""
