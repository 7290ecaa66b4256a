"""What several engines share; no module here is one of them."""
