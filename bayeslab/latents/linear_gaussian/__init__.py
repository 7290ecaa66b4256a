"""Linear-Gaussian states: Kalman filters and smoothers, and structural time series."""
