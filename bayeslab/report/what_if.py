"""Expected outcomes of a regression as numbers that a page can add up: a function of predictors on grids of values.

The linear predictor at each draw is a sum of functions of one predictor, and of two where they interact, each zero at a
typical row. The functions are tables over the grid; a table of draws by cells has a low rank (one for a linear term),
so that the page holds a few numbers for each draw. The decomposition is verified at random rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit, ndtr

from bayeslab.errors import DataError
from bayeslab.posterior.expectation import Scale
from bayeslab.results.effects.predictors import expectation_of, predictor, quantity_of
from bayeslab.results.effects.rows import chosen_rows, grid
from bayeslab.results.fitted import Fitted, posterior_values

__all__ = ["Part", "Slider", "WhatIf", "what_if"]

type Array = NDArray[np.float64]

# Values of a slider, levels of a list, predictors, and rows at which the decomposition is verified.
_VALUES, _LEVELS, _PREDICTORS, _ROWS = 41, 60, 20, 100
# Largest relative error of the decomposition, and the smallest singular value that counts.
_ERROR, _RANK = 1e-9, 1e-12

# Inverse links by name; the script of the page has the same.
INVERSE: Mapping[str, Callable[[Array], Array]] = {
    "identity": lambda x: x,
    "exp": np.exp,
    "logistic": expit,
    "normal": ndtr,
    "cloglog": lambda x: -np.expm1(-np.exp(x)),
    "inverse": lambda x: 1 / x,
    "square": np.square,
}


@dataclass(frozen=True, eq=False)
class Slider:
    """A predictor with the values it can take.

    Attributes
    ----------
    name : str
    values : sequence
        Numbers in increasing order, or levels.
    start : int
        Position of the typical value.
    numeric : bool
    """

    name: str
    values: Sequence[Any]
    start: int
    numeric: bool


@dataclass(frozen=True, eq=False)
class Part:
    """A function of one or two predictors at each draw: ``left @ right``.

    Attributes
    ----------
    of : tuple of int
        Positions of its predictors among the sliders.
    left : ndarray (draws, rank)
    right : ndarray (rank, cells)
        Cells of two predictors are in row-major order.
    """

    of: tuple[int, ...]
    left: Array
    right: Array


@dataclass(frozen=True, eq=False)
class WhatIf:
    """The expected outcome as a function of the sliders' positions.

    Attributes
    ----------
    quantity : str
        A description of the expected outcome.
    sliders : sequence of Slider
    base : ndarray (draws,)
        The linear predictor at the start.
    parts : sequence of Part
    inverse : str
        The inverse link, one of :data:`INVERSE`.
    factor : ndarray (draws,)
        Factor of the inverse link, such as exp(sigma²/2) of a log-normal mean.
    rest : mapping of str to str
        Columns that stay as they are, with their values.
    """

    quantity: str
    sliders: Sequence[Slider]
    base: Array
    parts: Sequence[Part]
    inverse: str
    factor: Array
    rest: Mapping[str, str]

    def linear(self, at: Array) -> Array:
        """The linear predictor at positions of the sliders, shape (rows, sliders); shape (draws, rows)."""
        out = np.repeat(self.base[:, None], len(at), axis=1)
        for part in self.parts:
            cell = at[:, part.of[0]]
            if len(part.of) == 2:
                cell = cell * len(self.sliders[part.of[1]].values) + at[:, part.of[1]]
            out += part.left @ part.right[:, cell]
        return out

    def values(self, at: Array) -> Array:
        """The expected outcome at positions of the sliders, shape (draws, rows)."""
        return self.factor[:, None] * INVERSE[self.inverse](self.linear(at))

    def start(self) -> Array:
        """The positions at the start, shape (sliders,)."""
        return np.array([slider.start for slider in self.sliders])


def what_if(fit: Fitted) -> WhatIf:
    """The expected outcome of a fit as a function of its predictors.

    Raises
    ------
    OptionError
        The model has no expected outcome as a function of columns of a table.
    DataError
        The outcome has levels, or its expectation is no function of this kind.
    """
    expectation = expectation_of(fit)
    if expectation.levels:
        raise DataError("the outcome has levels, each with its probability", code="not-applicable")
    typical, draws = grid(fit, {}), posterior_values(fit)
    sliders, fixed = list[Slider](), dict[str, Any]()
    for name in typical.columns:
        slider = _slider(fit, str(name)) if name in expectation.predictors else None
        if slider is None or len(sliders) == _PREDICTORS:
            fixed[str(name)] = typical[name].iloc[0]
        elif len(slider.values) > 1:
            sliders.append(slider)
        else:
            fixed[str(name)] = slider.values[0]
    if not sliders:
        raise DataError("the expected outcome depends on no column", code="not-applicable")
    start = np.array([slider.start for slider in sliders])

    def at(positions: Array, scale: Scale) -> Array:
        """The expected outcome at positions of the sliders, shape (draws, rows)."""
        table = {s.name: [s.values[k] for k in column] for s, column in zip(sliders, positions.T, strict=True)}
        table |= {name: [value] * len(positions) for name, value in fixed.items()}
        return np.asarray(chosen_rows(fit, pd.DataFrame(table), None, False).at({}).values(draws, scale))

    def varied(of: tuple[int, ...]) -> Array:
        """Rows with all combinations of the values of some sliders, others at the start."""
        axes = np.meshgrid(*(np.arange(len(sliders[k].values)) for k in of), indexing="ij")
        out = np.repeat(start[None], axes[0].size, axis=0)
        out[:, of] = np.stack([axis.ravel() for axis in axes], axis=1)
        return out

    base = at(start[None], "link")[:, 0]
    parts: list[Part] = []
    for k in range(len(sliders)):
        parts += _part((k,), at(varied((k,)), "link") - base[:, None], base)
    quantity = quantity_of(fit, expectation, "response")
    made = WhatIf(quantity, sliders, base, parts, "identity", np.ones(len(base)), {})
    rng = np.random.default_rng(0)
    random = np.stack([rng.integers(0, len(slider.values), _ROWS) for slider in sliders], axis=1)
    truth = at(random, "link")
    if not _same(made.linear(random), truth):
        for pair in combinations(range(len(sliders)), 2):
            some = np.repeat(start[None], _ROWS, axis=0)
            some[:, pair] = random[:, pair]
            if not _same(made.linear(some), at(some, "link")):
                cells = varied(pair)
                parts += _part(pair, at(cells, "link") - made.linear(cells), base)
        if not _same(made.linear(random), truth):
            raise DataError("three or more of its predictors interact", code="not-applicable")
    response = at(np.concatenate([start[None], random]), "response")
    for name, inverse in INVERSE.items():
        with np.errstate(all="ignore"):
            shape = inverse(np.concatenate([base[:, None], truth], axis=1))
            factor = response[:, 0] / shape[:, 0]
            if np.isfinite(factor).all() and _same(factor[:, None] * shape, response):
                rest = {column: _shown(value) for column, value in fixed.items()}
                rest |= dict.fromkeys(sorted(expectation.grouping), "none")
                return WhatIf(made.quantity, sliders, base, parts, name, factor, rest)
    raise DataError("it is no simple function of the linear predictor", code="not-applicable")


def _slider(fit: Fitted, name: str) -> Slider | None:
    """The values of a predictor; None if it has too many levels."""
    one = predictor(fit, expectation_of(fit), name)
    distinct = np.unique(one.values)
    typical = one.typical()
    if one.levels is not None:
        levels = one.levels.tolist()
        return Slider(name, levels, levels.index(typical), False) if len(levels) <= _LEVELS else None
    if len(distinct) <= _VALUES:
        values = distinct
    else:
        values = np.linspace(distinct[0], distinct[-1], _VALUES)
        # Short numbers, so that a reader can write them.
        step = 10.0 ** np.floor(np.log10(values[1] - values[0]) - 1)
        short = np.round(values / step) * step
        values = np.clip(np.array([float(f"{v:.15g}") for v in short]), distinct[0], distinct[-1])
    return Slider(name, values.tolist(), int(np.abs(values - typical).argmin()), True)


def _part(of: tuple[int, ...], table: Array, base: Array) -> list[Part]:
    """A table of draws by cells as the product of two matrices; none if it is zero."""
    left, size, right = np.linalg.svd(table, full_matrices=False)
    rank = int(np.sum(size > _RANK * max(float(size[0]), float(np.linalg.norm(base)))))
    return [Part(of, left[:, :rank] * size[:rank], right[:rank])] if rank else []


def _same(a: Array, b: Array) -> bool:
    return bool(np.allclose(a, b, rtol=_ERROR, atol=_ERROR * float(np.abs(b).max())))


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
