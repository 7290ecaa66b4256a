"""Log densities of univariate distributions by PyMC's names and parameters, without PyMC."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from inspect import Parameter, signature
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayeslab.distributions.toolbox.contract import Distribution, Maths
from bayeslab.distributions.toolbox.table import DISTRIBUTIONS, ends, maths
from bayeslab.errors import ModelError, hint

__all__ = ["SCALARS", "Density", "log_densities", "log_density", "log_size"]

type Density = tuple[Callable[[NDArray[np.float64]], NDArray[np.float64]], float, float, bool]


class _Scalars(Set[str]):
    """Names of the continuous univariate distributions with a log density in this package."""

    def __contains__(self, name: object) -> bool:
        if name not in DISTRIBUTIONS:
            return False
        entry = DISTRIBUTIONS[str(name)]
        return not (entry.discrete or entry.support or entry.atoms) and maths(str(name)) is not None

    def __iter__(self) -> Iterator[str]:
        return (name for name in DISTRIBUTIONS if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


SCALARS: Set[str] = _Scalars()


def log_density(name: str, arguments: Mapping[str, float]) -> Density:
    """A prior's log density, its support, and whether it is proper.

    Parameters
    ----------
    name
        PyMC's name, one of :data:`SCALARS`.
    arguments
        Parameters by PyMC's names, as numbers.

    Returns
    -------
    function
        Log density at an array of values inside the support.
    lower, upper : float
        The support.
    proper : bool
        False for ``Flat`` and ``HalfFlat``, whose density is 1.

    Raises
    ------
    ModelError
        The distribution or a parameter is unknown; a parameter is missing or out of range.
    """
    if name not in SCALARS:
        raise ModelError(f"no log density is known for '{name}'{hint(name, SCALARS)}", code="not-a-distribution")
    entry, functions = DISTRIBUTIONS[name], maths(name)
    assert functions is not None
    given = {key: float(value) for key, value in arguments.items() if value is not None}
    _check(entry, functions, given)
    try:
        with np.errstate(divide="ignore", invalid="ignore"):
            parameters = functions.canonical(**given)
    except ModelError as error:
        raise ModelError(f"{name} {error.message}", code=error.code) from None
    lower, upper = map(float, ends(name, parameters))

    def at(x: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(functions.log_density(np.asarray(x, dtype=float), *parameters))

    return at, lower, upper, entry.proper


def log_densities(name: str, arguments: Mapping[str, Any], x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log density, or log probability, of each number, for parameters that are numbers or arrays of the shape of
    ``x``.

    Parameters
    ----------
    name
        PyMC's name of a distribution of single numbers.
    arguments
        Parameters by PyMC's names.

    Raises
    ------
    ModelError
        A parameter is unknown, missing or out of range.
    """
    entry, functions = DISTRIBUTIONS[name], maths(name)
    assert functions is not None
    given = {key: np.asarray(value, float) for key, value in arguments.items()}
    _check(entry, functions, given)
    with np.errstate(all="ignore"):
        try:
            parameters = functions.canonical(**given)
        except ModelError as error:
            raise ModelError(f"{name} {error.message}", code=error.code) from None
        low, high = ends(name, parameters)
        outside = entry.domain.values.outside(x, low, high) | np.isnan(x)
        there = ~outside & (~np.bool_(entry.discrete) | (x == np.floor(x)))
        return np.where(there, functions.log_density(np.where(there, x, np.nan), *parameters), -np.inf)


def _check(entry: Distribution, functions: Maths, given: Mapping[str, Any]) -> None:
    """Refuse parameters that are unknown, missing or out of range."""
    known = signature(functions.canonical).parameters
    for key in given:
        if key not in known:
            raise ModelError(f"{entry.name} has no parameter '{key}'{hint(key, known)}", code="unknown-parameter")
    for key, parameter in known.items():
        if key not in given and parameter.default is Parameter.empty:
            raise ModelError(f"{entry.name} needs its parameter '{key}'", code="incomplete")
    for key, interval in entry.domain.parameters.items():
        low, high = (np.nan if isinstance(end, str) else end for end in (interval.low, interval.high))
        if key not in given:
            continue
        outside = interval.outside(np.asarray(given[key]), low, high)
        if outside.any():
            wrong = np.asarray(given[key])[outside].flat[0]
            raise ModelError(
                f"{entry.name} needs {key} {interval.words(low, high)}, not {wrong:g}", code="out-of-range"
            )
    rising = entry.domain.increasing
    values: dict[str, Any] = {key: parameter.default for key, parameter in known.items()} | dict(given)
    for below, above in pairwise(rising):
        if not np.all(values[below] < values[above]):
            raise ModelError(
                f"{entry.name} needs {below} < {above}, not {np.max(values[below]):g} and {np.min(values[above]):g}",
                code="out-of-range",
            )


def log_size(density: Callable[[NDArray[np.float64]], NDArray[np.float64]], lower: float = -np.inf) -> float:
    """Log of the order of magnitude of a density's bulk, between 1e-286 and 1e286; 0 if it is within e^15 of one.

    Parameters
    ----------
    density : callable
        Log density of an array of numbers, up to a constant.
    lower : float
        Lower end of the support; if it is 0 or more, only positive numbers are searched.
    """
    sizes = np.linspace(-660.0, 660.0, 2641)
    ends = np.exp(sizes)
    with np.errstate(all="ignore"):
        logs = density(ends) if lower >= 0.0 else np.maximum(density(ends), density(-ends))
    size = float(sizes[int(np.argmax(np.nan_to_num(logs + sizes, nan=-np.inf, posinf=-np.inf)))])
    return 0.0 if abs(size) < 15.0 else size
