"""Normal mixture: a normal number of one of several components, by their weights."""

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
