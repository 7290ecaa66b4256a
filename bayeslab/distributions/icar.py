"""Intrinsic conditional autoregression: each area's value is normal around its neighbours' mean; values sum to 0.

Besag, Kooperberg (1995), Biometrika 82, 733-746.
"""

from __future__ import annotations

from bayeslab.distributions.toolbox.contract import declared

DECLARATION = declared("ICAR", "W sigma zero_sum_stdev", "sigma zero_sum_stdev", support=1, core={"W": 2}, fixed=("W",))
