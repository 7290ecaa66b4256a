"""Dirichlet-multinomial: counts of n trials whose probabilities vary as Dirichlet vectors.

Mosimann (1962), Biometrika 49, 65-82.
"""

from __future__ import annotations

from bayeslab.distributions.toolbox.contract import declared

DECLARATION = declared(
    "DirichletMultinomial", "n a", "a", "[0, n]", support=1, core={"a": 1}, discrete=True, n="[0, inf)"
)
