"""Ordered probit: ordered categories, the intervals between cutpoints of a normal variable.

McKelvey, Zavoina (1975), Journal of Mathematical Sociology 4, 103-120.
"""

from __future__ import annotations

from bayeslab.distributions.toolbox.contract import declared

DECLARATION = declared(
    "OrderedProbit", "eta cutpoints sigma", "sigma", discrete=True, core={"cutpoints": 1}, apart=("cutpoints",)
)
