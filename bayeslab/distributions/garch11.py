"""GARCH(1, 1): a variance that depends on its last value and on the last squared observation.

Bollerslev (1986), Journal of Econometrics 31, 307-327.
"""

from __future__ import annotations

from bayeslab.distributions.toolbox.contract import declared

DECLARATION = declared(
    "GARCH11",
    "omega alpha_1 beta_1 initial_vol",
    "omega initial_vol",
    support=1,
    alpha_1="[0, 1]",
    beta_1="[0, 1]",
)
