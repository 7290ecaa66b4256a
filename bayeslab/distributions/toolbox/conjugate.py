"""Declaration of a conjugate prior, and of each item's contribution to its posterior."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from inspect import Parameter, signature

from bayeslab.distributions.toolbox.contract import Array

__all__ = ["Conjugate"]


@dataclass(frozen=True, slots=True)
class Conjugate:
    """A parameter θ with a conjugate prior.

    Attributes
    ----------
    parameter, prior : str
        PyMC's names of the parameter and of the prior.
    counts, rest : callable or None
        Functions of ``(x, **others)``, the other parameters by PyMC's names, that return (a, b) and c. The log density
        of x is a log θ + b log(1 - θ) + c for a beta prior, and a log θ - b θ + c for a gamma prior. With the prior
        Beta(α, β) or Gamma(α, β) the posterior has the parameters α + a and β + b. None for a Dirichlet prior, for
        which outcomes are counted.

    References
    ----------
    Raiffa, Schlaifer (1961). Applied Statistical Decision Theory. Harvard University.
    """

    parameter: str
    prior: str
    counts: Callable[..., tuple[Array, Array]] | None = None
    rest: Callable[..., Array] | None = None

    @property
    def others(self) -> frozenset[str]:
        """Names of the other parameters that the counts of an item may depend on."""
        return frozenset() if self.counts is None else frozenset(signature(self.counts).parameters) - {"x"}

    @property
    def needed(self) -> tuple[str, ...]:
        """Other parameters that are required to count items."""
        given = {} if self.counts is None else signature(self.counts).parameters
        return tuple(word for word, one in given.items() if word != "x" and one.default is Parameter.empty)
