"""The declaration of a distribution, and the protocol of its functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bayeslab.distributions.toolbox.response import Response
from bayeslab.errors import ModelError

__all__ = [
    "Array",
    "Distribution",
    "Domain",
    "Form",
    "Fused",
    "Interval",
    "Maths",
    "Slopes",
    "Values",
    "declared",
    "deviation",
]

# A number or an array of numbers; the type stubs of NumPy and SciPy do not cover arithmetic of either.
type Array = Any
type Values = tuple[Array, ...]
# None: no derivative, since the argument is an integer.
type Slopes = tuple[Array | None, ...]
# The log density of one number, then its derivatives by the number and by each parameter; 0 for integer arguments.
type Fused = tuple[float, ...]

_INF = math.inf


@dataclass(frozen=True, slots=True)
class Interval:
    """An interval whose ends are numbers or names of parameters; ends may be open."""

    low: float | str = -_INF
    high: float | str = _INF
    open_low: bool = False
    open_high: bool = False

    @classmethod
    def read(cls, text: str) -> Interval:
        """Read an interval from text such as ``(0, inf)`` or ``[0, n]``."""
        low, high = (_end(part.strip()) for part in text[1:-1].split(","))
        return cls(low, high, text[0] == "(", text[-1] == ")")

    def outside(self, values: NDArray[np.float64], low: Array, high: Array) -> NDArray[np.bool_]:
        """Which values are outside the interval; missing values and unknown ends (NaN) exclude nothing."""
        with np.errstate(invalid="ignore"):
            below = (values <= low) if self.open_low else (values < low)
            above = (values >= high) if self.open_high else (values > high)
        return np.asarray(below | above)

    def words(self, low: float, high: float) -> str:
        """Describe the interval in words."""
        if np.isfinite(low) and np.isfinite(high):
            if low == high:
                return f"{low:g}"
            if self.open_low == self.open_high:
                return f"between {low:g} and {high:g}" if self.open_low else f"from {low:g} to {high:g}"
            return f"above {low:g}, up to {high:g}" if self.open_low else f"from {low:g}, below {high:g}"
        if np.isfinite(low):
            return f"above {low:g}" if self.open_low else f"{low:g} or more"
        return f"below {high:g}" if self.open_high else f"{high:g} or less"


def _end(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


@dataclass(frozen=True, slots=True)
class Domain:
    """Domains of a distribution's parameters, and its support.

    Attributes
    ----------
    parameters
        The interval of each restricted parameter; others may be any number.
    values
        The support.
    increasing
        Parameters that must be non-decreasing in this order; increasing, if ``strictly``.
    bounded_by
        End of the support -> (name, value): the density at this end is finite only if this parameter has this value.
    defaults
        Default values of parameters that are ends of the support.
    """

    parameters: Mapping[str, Interval] = field(default_factory=dict)
    values: Interval = Interval()
    increasing: tuple[str, ...] = ()
    strictly: bool = False
    bounded_by: Mapping[str, tuple[str, float]] = field(default_factory=dict)
    defaults: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Distribution:
    """Declaration of one distribution of the model language.

    Attributes
    ----------
    name : str
        PyMC's name.
    parameters : tuple of str
        Names of the parameters, in PyMC's order.
    core : mapping of str to int
        Number of trailing dimensions of one value of a parameter (a covariance matrix: 2).
    support : int
        Number of trailing dimensions of one draw (a vector: 1).
    discrete, finite : bool
        Whether values are integers, and whether there are finitely many.
    positional : int, optional
        Number of parameters that may be given by position, if the others are alternative parametrisations; it may be
        larger than in PyMC (``StudentT(nu, mu, sigma)``).
    distributions, lengths : tuple of str
        Parameters that are distributions, and those that are lengths.
    fixed : tuple of str
        Parameters that are data, which PyMC needs as arrays at construction.
    apart : tuple of str
        Parameters that are vectors along a dimension other than the node's (the coefficients of an autoregression, the
        components of a mixture); a number is read as a vector of length one.
    atoms : tuple of str
        Values with positive probability under a continuous distribution.
    angles : tuple of str
        Parameters that are angles, with period 2π.
    domain : Domain
        Domains of the parameters, and the support.
    proper : bool
        Whether the density integrates to one.
    path : bool
        Whether one draw is a path of hidden states along the node's last dimension.
    process : bool
        Whether one draw is a function of columns of the data, along the node's last dimension.
    states : bool
        Whether one draw is a series of linear-Gaussian states, along the node's last dimension.
    words : mapping of str to tuple of str
        Parameters that accept a key word instead of an expression, with the allowed key words.
    columns : tuple of str
        Parameters that are columns of the data, by their names.
    response : Response or None
        How a regression's linear predictor enters; None if the distribution is not a likelihood of regressions.
    """

    name: str
    parameters: tuple[str, ...]
    core: Mapping[str, int] = field(default_factory=dict)
    support: int = 0
    discrete: bool = False
    positional: int | None = None
    finite: bool = False
    distributions: tuple[str, ...] = ()
    lengths: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()
    atoms: tuple[str, ...] = ()
    domain: Domain = Domain()
    proper: bool = True
    angles: tuple[str, ...] = ()
    path: bool = False
    process: bool = False
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    response: Response | None = None
    states: bool = False


@dataclass(frozen=True, slots=True)
class Form:
    """A fused density with one argument replaced by its link, for digits that the argument itself has lost.

    Attributes
    ----------
    parameter : str
        The argument of the log density that is replaced, a parameter or ``x``; the others are the same.
    inverse : str
        The function that gives the argument from its replacement: ``sigmoid`` (replaced by its log odds) or ``exp``
        (by its logarithm).
    fused : callable
        See :meth:`Maths.fused`.
    """

    parameter: str
    inverse: str
    fused: Callable[..., Fused]


class Maths(Protocol):
    """Functions of a univariate distribution, on arrays that broadcast; its file has all of them or none.

    ``fused`` alone takes single numbers. ``FORMS``, if defined, has further fused densities (:class:`Form`) by the name
    of a link. ``log_cumulative`` and ``log_survival``, if defined, give log P(X ≤ x) and log P(X > x) with derivatives
    as ``fused`` does, for parameters inside their domains; the derivatives are 0 where the probability is 0 or 1.

    Log densities that use only arithmetic and NumPy's logarithms accept PyTensor variables too.

    ``moments`` (mean and variance as functions of the parameters) is defined if both have a closed form.
    """

    def canonical(self, **given: Array) -> Values:
        """The parameters of :func:`log_density`, from those given by PyMC's names, alternatives and defaults."""

    def log_density(self, x: Array, *parameters: Array) -> Array:
        """Log density of each number inside the support."""

    def slopes(self, x: Array, *parameters: Array) -> Slopes:
        """Derivatives of the log density by x and by each parameter; None for integer arguments."""

    def fused(self, x: float, *parameters: float) -> Fused:
        """Log density of one number and its derivatives by x and by each parameter, in one pass.

        Plain Python that numba compiles, without exceptions. Outside the support, and of parameters outside their
        domains, the log density is -inf and all derivatives are 0.
        """

    def draw(self, rng: np.random.Generator, size: tuple[int, ...], *parameters: Array) -> Array:
        """Independent draws."""


def declared(
    name: str,
    parameters: str,
    positive: str = "",
    values: str = "(-inf, inf)",
    increasing: str = "",
    *,
    strictly: bool = False,
    bounded_by: Mapping[str, tuple[str, float]] | None = None,
    defaults: Mapping[str, float] | None = None,
    support: int = 0,
    core: Mapping[str, int] | None = None,
    discrete: bool = False,
    finite: bool = False,
    positional: int | None = None,
    distributions: tuple[str, ...] = (),
    lengths: tuple[str, ...] = (),
    fixed: tuple[str, ...] = (),
    apart: tuple[str, ...] = (),
    atoms: tuple[str, ...] = (),
    proper: bool = True,
    angles: tuple[str, ...] = (),
    path: bool = False,
    process: bool = False,
    words: Mapping[str, tuple[str, ...]] | None = None,
    columns: tuple[str, ...] = (),
    response: Response | None = None,
    states: bool = False,
    **ranges: str,
) -> Distribution:
    """Declare a distribution, from its file.

    Parameters
    ----------
    name
        PyMC's name.
    parameters, positive, increasing
        Names separated by blanks: all parameters in PyMC's order, those above 0, those that must be increasing.
    values, **ranges
        Intervals as text: the support, and the domains of other parameters.
    """
    known = {word: Interval.read("(0, inf)") for word in positive.split()}
    known |= {word: Interval.read(text) for word, text in ranges.items()}
    rising = tuple(increasing.split())
    domain = Domain(known, Interval.read(values), rising, strictly, bounded_by or {}, defaults or {})
    return Distribution(
        name,
        tuple(parameters.split()),
        core or {},
        support,
        discrete,
        positional,
        finite,
        distributions,
        lengths,
        fixed,
        apart,
        atoms,
        domain,
        proper,
        angles,
        path,
        process,
        words or {},
        columns,
        response,
        states,
    )


def deviation(sigma: Array | None, precision: Array | None, word: str = "tau") -> Array:
    """The standard deviation, from itself or from the precision; 1 if neither is given."""
    if sigma is not None and precision is not None:
        raise ModelError(f"takes sigma or {word}, not both", code="conflict")
    if precision is not None:
        return precision**-0.5
    return 1.0 if sigma is None else sigma
