"""Wishart: the precision matrix of normal vectors; sums of squares and products.

Wishart (1928), Biometrika 20A, 32-52.
"""

from __future__ import annotations

from bayeslab.distributions.toolbox.contract import declared

DECLARATION = declared("Wishart", "nu V", support=2, core={"V": 2})
