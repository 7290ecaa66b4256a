"""Random walk: each number is the previous one plus an innovation."""

from __future__ import annotations

from bayeslab.distributions.toolbox.contract import declared

DECLARATION = declared(
    "RandomWalk", "init_dist innovation_dist", support=1, distributions=("init_dist", "innovation_dist")
)
