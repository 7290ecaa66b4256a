"""Multinomial: counts of n trials by category.

P(x) = n! / Π x_i! · Π p_i^x_i.
"""

from __future__ import annotations

from bayeslab.distributions.toolbox.conjugate import Conjugate
from bayeslab.distributions.toolbox.contract import declared

DECLARATION = declared(
    "Multinomial", "n p", values="[0, n]", support=1, core={"p": 1}, discrete=True, n="[0, inf)", p="[0, 1]"
)

CONJUGATE = Conjugate("p", "Dirichlet")
