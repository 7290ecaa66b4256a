"""Wishart: matrices of sums of squares and products of normal vectors; a prior of precision matrices.

Wishart (1928), Biometrika 20A, 32-52.
"""

from __future__ import annotations

from bayeslab.distributions.toolbox.contract import declared

DECLARATION = declared("Wishart", "nu V", support=2, core={"V": 2})
