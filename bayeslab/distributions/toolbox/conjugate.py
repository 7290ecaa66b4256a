"""Which prior is conjugate to a distribution's parameter, and what each item adds to that prior."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from inspect import Parameter, signature

from bayeslab.distributions.toolbox.contract import Array

__all__ = ["Conjugate"]


@dataclass(frozen=True, slots=True)
class Conjugate:
    """A parameter θ whose conjugate prior the posterior has too.

    Attributes
    ----------
    parameter, prior : str
        PyMC's names of the parameter and of the prior.
    counts, rest : callable or None
        ``(x, **others)``, the other parameters by PyMC's names, to a and b, and to c: the log density of x is
        a log θ + b log(1 - θ) + c where the prior is a beta, a log θ - b θ + c where it is a gamma. With the prior
        Beta(α, β) or Gamma(α, β) the posterior is that of α + a and β + b. None where the prior is a Dirichlet: then
        outcomes are counted.

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
        """Names of the other parameters that an item's counts may depend on."""
        return frozenset() if self.counts is None else frozenset(signature(self.counts).parameters) - {"x"}

    @property
    def needed(self) -> tuple[str, ...]:
        """Those of the others without which items cannot be counted."""
        given = {} if self.counts is None else signature(self.counts).parameters
        return tuple(word for word, one in given.items() if word != "x" and one.default is Parameter.empty)
