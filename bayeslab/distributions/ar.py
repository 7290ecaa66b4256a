"""Autoregression: each number is normal around a linear function of the preceding numbers."""

from __future__ import annotations

from bayeslab.distributions.toolbox.contract import declared

DECLARATION = declared(
    "AR",
    "rho sigma tau init_dist constant",
    "sigma tau",
    support=1,
    positional=3,
    core={"rho": 1},
    distributions=("init_dist",),
    apart=("rho",),
)
