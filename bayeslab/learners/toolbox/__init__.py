"""What several learners share; no module here is one of them."""
