"""Multivariate normal: several numbers with a covariance matrix.

Kotz, Balakrishnan, Johnson (2000), Continuous Multivariate Distributions, chapter 45.
"""

from __future__ import annotations

from bayeslab.distributions.toolbox.contract import declared

DECLARATION = declared(
    "MvNormal", "mu cov tau chol", support=1, positional=2, core={"mu": 1, "cov": 2, "tau": 2, "chol": 2}
)
