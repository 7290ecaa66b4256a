"""Local level: a random walk along a dimension, the state of a structural time series.

x[1] ~ initial, x[t] = x[t-1] + e[t], e[t] ~ N(0, sigma^2). Series begin again where the column ``sequence`` changes.

Harvey (1989), Forecasting, Structural Time Series Models and the Kalman Filter, section 2.3; Durbin, Koopman (2012),
Time Series Analysis by State Space Methods, 2nd ed., section 2.1.
"""

from __future__ import annotations

from bayeslab.distributions.toolbox.contract import declared

DECLARATION = declared(
    "LocalLevel",
    "sigma initial sequence",
    positional=2,
    distributions=("initial",),
    columns=("sequence",),
    states=True,
    sigma="[0, inf)",
)
