"""Multivariate t random walk: each vector is multivariate t around the previous one."""

from __future__ import annotations

from bayeslab.distributions.toolbox.contract import declared

DECLARATION = declared(
    "MvStudentTRandomWalk",
    "nu mu scale tau chol init_dist",
    "nu",
    support=2,
    positional=1,
    core={"mu": 1, "scale": 2, "tau": 2, "chol": 2},
    distributions=("init_dist",),
)
