"""File formats of Bayes nets used by other programs, one module each."""
