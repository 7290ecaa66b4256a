"""Gaussian processes: covariance functions, dense and sparse solvers, state-space and Hilbert-space forms."""
