"""Conditional autoregression: each area's value is normal around alpha times the mean of its neighbours.

Besag (1974), JRSS B 36, 192-236.
"""

from __future__ import annotations

from bayeslab.distributions.toolbox.contract import declared

DECLARATION = declared("CAR", "mu W alpha tau", "tau", support=1, core={"mu": 1, "W": 2}, alpha="[-1, 1]")
