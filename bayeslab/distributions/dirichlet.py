"""Dirichlet: probabilities of several categories (a point in the simplex).

Density Γ(Σ a) / Π Γ(a_i) · Π x_i^(a_i - 1). Kotz, Balakrishnan, Johnson (2000), Continuous Multivariate Distributions,
chapter 49.
"""

from __future__ import annotations

from bayeslab.distributions.toolbox.contract import declared

DECLARATION = declared("Dirichlet", "a", "a", "[0, 1]", support=1, core={"a": 1})
