"""What each distribution declares, and the mathematics that goes with it."""

from __future__ import annotations

import math
from collections.abc import Mapping
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
    "Interval",
    "Maths",
    "Slopes",
    "Values",
    "declared",
    "deviation",
]

# A number or an array of numbers; the stubs of NumPy and SciPy know no arithmetic of either.
type Array = Any
type Values = tuple[Array, ...]
# None: no derivative, since the argument is a whole number.
type Slopes = tuple[Array | None, ...]

_INF = math.inf


@dataclass(frozen=True, slots=True)
class Interval:
    """Numbers between two ends, each a number or the name of a parameter; open ends are left out."""

    low: float | str = -_INF
    high: float | str = _INF
    open_low: bool = False
    open_high: bool = False

    @classmethod
    def read(cls, text: str) -> Interval:
        """An interval as it is written: ``(0, inf)``, ``[0, n]``."""
        low, high = (_end(part.strip()) for part in text[1:-1].split(","))
        return cls(low, high, text[0] == "(", text[-1] == ")")

    def outside(self, values: NDArray[np.float64], low: Array, high: Array) -> NDArray[np.bool_]:
        """Which values are not between the ends; missing values and unknown ends (NaN) exclude nothing."""
        with np.errstate(invalid="ignore"):
            below = (values <= low) if self.open_low else (values < low)
            above = (values >= high) if self.open_high else (values > high)
        return np.asarray(below | above)

    def words(self, low: float, high: float) -> str:
        """The interval in words."""
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
    """What the parameters of a distribution may be, and what it can draw.

    Attributes
    ----------
    parameters
        The numbers each parameter may be; others may be any.
    values
        The numbers it draws.
    increasing
        Parameters none of which may be below the one before it; ``strictly``, nor equal.
    bounded_by
        At an end of the values the density is finite only where this parameter has this value: end -> (name, value).
    defaults
        Of parameters that are ends of the values, where they are not given.
    """

    parameters: Mapping[str, Interval] = field(default_factory=dict)
    values: Interval = Interval()
    increasing: tuple[str, ...] = ()
    strictly: bool = False
    bounded_by: Mapping[str, tuple[str, float]] = field(default_factory=dict)
    defaults: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Distribution:
    """One distribution as the language knows it.

    Attributes
    ----------
    name : str
        PyMC's name.
    parameters : tuple of str
        In PyMC's order.
    core : mapping of str to int
        Trailing dimensions that belong to one value of a parameter (a covariance matrix: 2).
    support : int
        Trailing dimensions of one draw (a vector: 1).
    discrete, finite : bool
        Whether values are whole numbers, and whether there are finitely many of them.
    positional : int, optional
        How many parameters may be given by position where the rest are alternatives of each other; it may be more than
        PyMC allows (``StudentT(nu, mu, sigma)``).
    distributions, lengths : tuple of str
        Parameters that are distributions, and those that are lengths.
    fixed : tuple of str
        Parameters that are data: PyMC wants them as arrays when the distribution is made.
    apart : tuple of str
        Vectors along a dimension that is not the node's (the coefficients of an autoregression, the components of a
        mixture); a number there is a vector of one.
    atoms : tuple of str
        Values that a continuous distribution takes with a probability above zero.
    angles : tuple of str
        Parameters that are angles: a turn more makes no difference.
    domain : Domain
        What the parameters may be, and what is drawn.
    proper : bool
        Whether the density integrates to one.
    path : bool
        Whether one draw is a path of hidden states along the node's last dimension.
    process : bool
        Whether one draw is a function of columns of the data, along the node's last dimension.
    states : bool
        Whether one draw is a series of linear-Gaussian states, along the node's last dimension.
    words : mapping of str to tuple of str
        Parameters that may be a word in place of an expression, and the words.
    columns : tuple of str
        Parameters that are columns of the data, by their names.
    response : Response or None
        How the linear predictor of a regression drives it; None where it is no likelihood of a regression.
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


class Maths(Protocol):
    """The functions of a distribution of single numbers, on arrays that broadcast; its file has all or none of them.

    Log densities made of arithmetic and NumPy's logarithms take PyTensor's variables as well.

    ``moments`` (mean and variance of the parameters) is there where both have a closed form.
    """

    def canonical(self, **given: Array) -> Values:
        """The parameters of :func:`log_density` from those given, by PyMC's names, alternatives and defaults."""

    def log_density(self, x: Array, *parameters: Array) -> Array:
        """Log density of each number inside the support."""

    def slopes(self, x: Array, *parameters: Array) -> Slopes:
        """Derivatives of the log density: by x, then by each parameter; None of whole numbers."""

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
    """A distribution as its file declares it.

    Parameters
    ----------
    name
        PyMC's name.
    parameters, positive, increasing
        Names, separated by blanks: all in PyMC's order, those above 0, those that rise.
    values, **ranges
        Intervals as text: of the values, of other parameters.
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
    """The standard deviation, from it or from the precision; 1 where neither is given."""
    if sigma is not None and precision is not None:
        raise ModelError(f"takes sigma or {word}, not both", code="conflict")
    if precision is not None:
        return precision**-0.5
    return 1.0 if sigma is None else sigma
