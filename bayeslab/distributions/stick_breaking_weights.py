"""Stick-breaking weights: weights of K components, broken one after the other from a stick of length 1.

Ishwaran, James (2001), JASA 96, 161-173.
"""

from __future__ import annotations

from bayeslab.distributions.toolbox.contract import declared

DECLARATION = declared("StickBreakingWeights", "alpha K", "alpha", "[0, 1]", support=1, lengths=("K",))
