"""Multivariate Student's t: a multivariate normal scale mixture with heavy tails.

Kotz, Nadarajah (2004), Multivariate t Distributions and Their Applications.
"""

from __future__ import annotations

from bayeslab.distributions.toolbox.contract import declared

DECLARATION = declared(
    "MvStudentT",
    "nu mu scale tau chol",
    "nu",
    support=1,
    positional=3,
    core={"mu": 1, "scale": 2, "tau": 2, "chol": 2},
)
