"""Zero-sum normal: normal numbers that sum to 0."""

from __future__ import annotations

from bayeslab.distributions.toolbox.contract import declared

DECLARATION = declared("ZeroSumNormal", "sigma n_zerosum_axes", "sigma", support=1)
