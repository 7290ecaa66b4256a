"""Latent variables that models sum out: priors, posteriors given parameters, and learned parameters."""
