"""Gaussian random walk: each number is normal about the one before it."""

from __future__ import annotations

from bayeslab.distributions.toolbox.contract import declared

DECLARATION = declared("GaussianRandomWalk", "mu sigma init_dist", "sigma", support=1, distributions=("init_dist",))
