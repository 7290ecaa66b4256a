"""Multivariate Gaussian random walk: each vector is multivariate normal around the previous one."""

from __future__ import annotations

from bayeslab.distributions.toolbox.contract import declared

DECLARATION = declared(
    "MvGaussianRandomWalk",
    "mu cov tau chol init_dist",
    support=2,
    positional=2,
    core={"mu": 1, "cov": 2, "tau": 2, "chol": 2},
    distributions=("init_dist",),
)
