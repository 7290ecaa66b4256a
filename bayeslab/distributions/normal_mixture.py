"""Normal mixture: a normal variable from one of several weighted components."""

from __future__ import annotations

from bayeslab.distributions.toolbox.contract import declared

DECLARATION = declared(
    "NormalMixture",
    "w mu sigma tau",
    "sigma tau",
    core={"w": 1, "mu": 1, "sigma": 1, "tau": 1},
    apart=("mu", "sigma", "tau"),
    w="[0, 1]",
)
