"""Seasonal effects along a dimension, which sum to zero over each period except for noise.

x[t] = -(x[t-1] + ... + x[t-period+1]) + e[t], e[t] ~ N(0, sigma^2): the dummy form. The effects of one period before
the first are ``initial``, a ZeroSumNormal.

Harvey (1989), Forecasting, Structural Time Series Models and the Kalman Filter, section 2.3.4; Durbin, Koopman (2012),
Time Series Analysis by State Space Methods, 2nd ed., section 3.2.2.
"""

from __future__ import annotations

from bayeslab.distributions.toolbox.contract import declared

DECLARATION = declared(
    "Seasonal",
    "period sigma initial sequence",
    positional=3,
    distributions=("initial",),
    lengths=("period",),
    columns=("sequence",),
    states=True,
    period="[2, inf)",
    sigma="[0, inf)",
)
