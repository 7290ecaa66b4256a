"""Which prior is conjugate to a distribution's parameter, and what each item adds to that prior."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bayeslab.distributions.toolbox.contract import Array

__all__ = ["Conjugate"]


@dataclass(frozen=True, slots=True)
class Conjugate:
    """A parameter θ whose conjugate prior the posterior has too.

    Attributes
    ----------
    parameter, prior : str
        PyMC's names of the parameter and of the prior.
    terms : callable or None
        ``(x, **others)`` to ``(a, b, c)``, the other parameters by PyMC's names: the log density of x is
        a log θ + b log(1 - θ) + c where the prior is a beta, a log θ - b θ + c where it is a gamma. With the prior
        Beta(α, β) or Gamma(α, β) the posterior is that of α + a and β + b. None where the prior is a Dirichlet: then
        outcomes are counted.

    References
    ----------
    Raiffa, Schlaifer (1961). Applied Statistical Decision Theory. Harvard University.
    """

    parameter: str
    prior: str
    terms: Callable[..., tuple[Array, Array, Array]] | None = None
