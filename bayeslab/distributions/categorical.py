"""Categorical: one of several categories, by their probabilities.

P(x) = p[x]; ``logit_p`` are log probabilities up to a constant.
"""

from __future__ import annotations

from bayeslab.distributions.toolbox.conjugate import Conjugate
from bayeslab.distributions.toolbox.contract import declared

DECLARATION = declared("Categorical", "p logit_p", discrete=True, finite=True, core={"p": 1, "logit_p": 1}, p="[0, 1]")

CONJUGATE = Conjugate("p", "Dirichlet")
