"""What several commands share; no module here is one of them."""
