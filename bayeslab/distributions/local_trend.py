"""Local linear trend: a level along a dimension with a slope that follows a random walk.

x[1] ~ initial, v[1] ~ initial_slope, x[t] = x[t-1] + v[t-1] + e[t], v[t] = v[t-1] + u[t], with e[t] ~ N(0,
sigma_level^2) and u[t] ~ N(0, sigma_slope^2). Its values are x; a node ``trend`` has v in ``trend_slope``. With
``sigma_level`` 0 it is an integrated random walk.

Harvey (1989), Forecasting, Structural Time Series Models and the Kalman Filter, section 2.3; Durbin, Koopman (2012),
Time Series Analysis by State Space Methods, 2nd ed., section 3.2.1.
"""

from __future__ import annotations

from bayeslab.distributions.toolbox.contract import declared

DECLARATION = declared(
    "LocalTrend",
    "sigma_level sigma_slope initial initial_slope sequence",
    positional=4,
    distributions=("initial", "initial_slope"),
    columns=("sequence",),
    states=True,
    sigma_level="[0, inf)",
    sigma_slope="[0, inf)",
)
