"""Kernels of the density machine: small functions compiled once on a computer, by numba."""
