"""Stick-breaking: shares broken off a stick of length 1 one after the other, the last what is left.

Along a dimension of length K, x_k = v_k Π_{j<k} (1 - v_j) with v_k ~ Beta(1 - discount, alpha + k discount) for k < K,
and x_K is the rest. Without a discount these are the shares of a Dirichlet process, with one those of a Pitman-Yor
process, both broken off after K - 1 shares. Ishwaran, James (2001), JASA 96, 161-173.
"""

from __future__ import annotations

from typing import Any

from bayeslab.distributions.toolbox.contract import declared

DECLARATION = declared("StickBreaking", "alpha discount", "alpha", "[0, 1]", support=1, discount="[0, 1)")


def pymc_class() -> Any:
    """The distribution of vectors of shares, sampled as PyMC samples those of a Dirichlet."""
    from bayeslab.distributions.toolbox.broken_stick import StickBreaking

    return StickBreaking
