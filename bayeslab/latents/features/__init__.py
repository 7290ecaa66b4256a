"""Latent features: binary factor models, the Indian buffet process, and factor analysis."""
