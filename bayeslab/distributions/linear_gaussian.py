"""Linear-Gaussian state: a vector that evolves linearly along a dimension with normal noise; outputs are linear in it.

s[1] ~ N(initial_mean, initial_covariance), s[t] = F s[t-1] + N(0, Q), and the value at t is x[t] = H s[t].

Durbin, Koopman (2012), Time Series Analysis by State Space Methods, 2nd ed., section 3.1, with T, R Q R' and Z for F, Q
and H.
"""

from __future__ import annotations

from bayeslab.distributions.toolbox.contract import declared

DECLARATION = declared(
    "LinearGaussian",
    "F Q H initial_mean initial_covariance sequence",
    positional=5,
    core={"F": 2, "Q": 2, "H": 1, "initial_mean": 1, "initial_covariance": 2},
    columns=("sequence",),
    states=True,
)
