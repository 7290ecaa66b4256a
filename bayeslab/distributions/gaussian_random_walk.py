"""Gaussian random walk: each number is normal around the previous one."""

from __future__ import annotations

from bayeslab.distributions.toolbox.contract import declared

DECLARATION = declared("GaussianRandomWalk", "mu sigma init_dist", "sigma", support=1, distributions=("init_dist",))
