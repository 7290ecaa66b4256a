"""Stick-breaking: weights broken off a stick of length 1 one after the other; the last weight is the rest.

Along a dimension of length K, x_k = v_k Π_{j<k} (1 - v_j) with v_k ~ Beta(1 - discount, alpha + k discount) for k < K,
and x_K is the rest. These are the weights of a Dirichlet process without a discount, and of a Pitman-Yor process with
one, both truncated after K - 1 breaks. Ishwaran, James (2001), JASA 96, 161-173.
"""

from __future__ import annotations

from typing import Any

from bayeslab.distributions.toolbox.contract import declared

DECLARATION = declared("StickBreaking", "alpha discount", "alpha", "[0, 1]", support=1, discount="[0, 1)")


def pymc_class() -> Any:
    """The distribution of weight vectors, with PyMC's transform for a Dirichlet."""
    from bayeslab.distributions.toolbox.broken_stick import StickBreaking

    return StickBreaking
