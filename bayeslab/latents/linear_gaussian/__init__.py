"""States that move linearly with normal noise: Kalman filters and smoothers, and structural time series."""
