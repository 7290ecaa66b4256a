"""Inference on plain arrays: closed forms and quadrature, without PyMC or PyTensor.

The modules do not depend on model files. They return distributions with moments, quantiles, draws and, if it exists,
the evidence.
"""
