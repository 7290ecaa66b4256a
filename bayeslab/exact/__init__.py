"""Inference on plain arrays: closed forms and quadrature; no PyMC, no PyTensor.

Modules compute; they know nothing of model files. What they return are distributions with
moments, quantiles, draws and, where it exists, the evidence.
"""
