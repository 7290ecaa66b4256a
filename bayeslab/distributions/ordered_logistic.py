"""Ordered logistic: ordered categories, the intervals between cutpoints of a logistic variable.

McCullagh (1980), JRSS B 42, 109-142.
"""

from __future__ import annotations

from bayeslab.distributions.toolbox.contract import declared

DECLARATION = declared("OrderedLogistic", "eta cutpoints", discrete=True, core={"cutpoints": 1}, apart=("cutpoints",))
