"""Functions with Gaussian-process priors: covariances, dense and sparse solvers, Markov and Hilbert-space forms."""
