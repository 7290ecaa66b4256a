"""Ordered multinomial: counts of n trials by ordered category."""

from __future__ import annotations

from bayeslab.distributions.toolbox.contract import declared

DECLARATION = declared(
    "OrderedMultinomial",
    "eta cutpoints n",
    values="[0, n]",
    support=1,
    core={"cutpoints": 1},
    discrete=True,
    apart=("cutpoints",),
)
