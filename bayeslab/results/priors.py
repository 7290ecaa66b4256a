"""The priors of a model: their texts, draws of the parameters, and the outcomes that they imply.

References
----------
A prior is judged by the data that it implies: Gabry, Simpson, Vehtari, Betancourt, Gelman (2019). Visualization in
Bayesian workflow. Journal of the Royal Statistical Society A 182(2), 389-402. arXiv:1709.01449.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bayeslab.errors import ModelError, OptionError, listed
from bayeslab.language.nodes import nodes_of
from bayeslab.memory import check_draws
from bayeslab.plots.priors import densities
from bayeslab.posterior.contract import Posterior
from bayeslab.posterior.groups import observed_groups
from bayeslab.preparation import ModelLike, Source, seed_of
from bayeslab.results.predict import prior_groups

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

__all__ = ["Implied", "Priors", "prior_texts", "priors"]

type Array = NDArray[np.float64]

_QUANTILES = (0.055, 0.5, 0.945)
_COLUMNS = ["5.5%", "50%", "94.5%"]
# Characters of a drawing of a density, from low to high; its width; the largest number of values it is made of, and of
# characters of a prior; rows of a sample by weights.
_BARS, _WIDTH, _VALUES, _LONGEST, _SAMPLE = "▁▂▃▄▅▆▇█", 16, 200_000, 48, 10_000


@dataclass(frozen=True, eq=False)
class Implied:
    """The prior predictive distribution of an outcome, beside the data.

    Attributes
    ----------
    name : str
    drawn : ndarray
        Values of all rows in all draws; of an outcome with levels, the share of each level in each draw,
        (draws, levels).
    observed : ndarray
        Values of the data without missing cells; of an outcome with levels, the share of each level. Empty: no data.
    levels : tuple of str
        Levels of the outcome; empty if it is a number.
    """

    name: str
    drawn: Array
    observed: Array
    levels: tuple[str, ...] = ()

    @property
    def within(self) -> float:
        """The share of prior predictive values within the range of the data; NaN for levels, or without data."""
        if self.levels or not self.observed.size:
            return float("nan")
        return float(((self.drawn >= self.observed.min()) & (self.drawn <= self.observed.max())).mean())

    def rows(self) -> Iterator[tuple[str, Array, float]]:
        """The lines of a table: a name, prior predictive values or shares, and the observed share (else NaN)."""
        if not self.levels:
            yield self.name, self.drawn, float("nan")
        # The share of 0 is one minus that of 1.
        for k, level in list(enumerate(self.levels))[self.levels == ("0", "1") :]:
            yield f"{self.name} = {level}", self.drawn[:, k], float(self.observed[k]) if self.observed.size else np.nan


@dataclass(frozen=True, eq=False)
class Priors:
    """The priors of a model; printed, a table with their shapes.

    Attributes
    ----------
    name : str
        Name of the model.
    texts : mapping of str to str
        The prior of each parameter in the model language. Elements of a vector that have different priors are
        separate: ``b[size]``.
    draws : mapping of str to ndarray
        Values drawn from each prior; elements of a vector that share a prior are pooled.
    implied : tuple of Implied
        The outcomes.
    improper : tuple of str
        Parameters whose prior cannot be drawn from, since it is improper: then nothing is drawn.
    """

    name: str
    texts: Mapping[str, str]
    draws: Mapping[str, Array]
    implied: tuple[Implied, ...]
    improper: tuple[str, ...] = ()

    @property
    def frame(self) -> pd.DataFrame:
        """One row for each parameter: its prior, and quantiles of its draws."""
        import pandas as pd

        rows = {
            label: {"prior": text, **dict(zip(_COLUMNS, _quantiles(self.draws.get(label)), strict=True))}
            for label, text in self.texts.items()
        }
        return pd.DataFrame.from_dict(rows, orient="index", columns=["prior", *_COLUMNS])

    @property
    def outcomes(self) -> pd.DataFrame:
        """Two rows for each outcome, ``prior`` and ``data``, with quantiles; for levels, quantiles of their shares."""
        import pandas as pd

        rows = {}
        for outcome in self.implied:
            for name, drawn, share in outcome.rows():
                rows[name, "prior"] = dict(zip(_COLUMNS, _quantiles(drawn), strict=True))
                if outcome.levels and outcome.observed.size:
                    rows[name, "data"] = {"50%": share}
                elif outcome.observed.size:
                    rows[name, "data"] = dict(zip(_COLUMNS, _quantiles(outcome.observed), strict=True))
        index = pd.MultiIndex.from_tuples(list(rows), names=["outcome", "of"])
        return pd.DataFrame(list(rows.values()), index=index, columns=_COLUMNS)

    def plot(self) -> Any:
        """Draw the density of each prior, and the prior predictive distribution of each outcome over the data.

        Raises
        ------
        ModelError
            A prior is improper, so that nothing is drawn from it.
        """
        if self.improper:
            raise ModelError(
                f"the priors of {listed(self.improper)} are improper, so that there are no densities to draw: give them"
                " proper ones",
                code="improper",
            )
        return densities(
            f"{self.name}: priors",
            {label: (self.texts[label], values) for label, values in self.draws.items()},
            {name: (drawn, share) for outcome in self.implied for name, drawn, share in outcome.rows()},
            {outcome.name: outcome.observed for outcome in self.implied if not outcome.levels},
        )

    def __str__(self) -> str:
        if self.improper:
            out = _aligned([("", "prior"), *self.texts.items()])
            return f"{out}\n\nNothing is drawn, because these priors are improper: {', '.join(self.improper)}."
        lines = [("", "prior", *_COLUMNS, "density")]
        for label, text in self.texts.items():
            values = self.draws.get(label)
            lines.append((label, _cut(text), *_numbers(_quantiles(values)), sparkline(values)))
        out = _aligned(lines)
        lines = [("", "", *_COLUMNS, "density")]
        for outcome in self.implied:
            for name, drawn, share in outcome.rows():
                lines.append((name, "prior predictive", *_numbers(_quantiles(drawn)), sparkline(drawn)))
                if outcome.levels and outcome.observed.size:
                    lines.append(("", "data", "", f"{share:.3g}", "", ""))
                elif outcome.observed.size:
                    data = _numbers(_quantiles(outcome.observed))
                    lines.append(("", "data", *data, sparkline(outcome.observed)))
        shares = any(outcome.levels for outcome in self.implied)
        out += f"\n\nOutcomes{' (shares of levels in a data set)' if shares else ''}\n{_aligned(lines)}"
        for outcome in self.implied:
            if not np.isnan(outcome.within):
                within, name = f"{outcome.within:.0%}", outcome.name
                out += f"\n{within} of the prior predictive values of {name} lie in the range of the data."
        return out

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


def priors(model: ModelLike, data: Any = None, draws: int = 1_000, *, seed: int | None = None) -> Priors:
    """The priors of a model, default ones included, with draws of the parameters and of the outcomes.

    Parameters
    ----------
    model
        A model or the path of a model file.
    data
        Predictors, the lengths of dimensions, and the outcomes to compare with. None: the data that the model file
        names.
    draws
        Number of draws.
    seed
        Seed; None: the model's, else a new one.

    Raises
    ------
    ModelError
        The model has no priors, as classical learners, or a dimension has no length.

    Example
    -------
    >>> coin = bl.Model(model={"family": "graph", "nodes": {"p": "Beta(2, 2)", "y[obs_id]": "Bernoulli(p)"}}, seed=1)
    >>> shown = bl.priors(coin, {"y": [1, 0, 1]})
    >>> shown.texts["p"], round(float(np.mean(shown.draws["p"])), 1)
    ('Beta(2, 2)', 0.5)
    """
    if isinstance(draws, bool) or not isinstance(draws, int) or draws < 1:
        raise OptionError(f"draws is a whole number ≥ 1, not {draws!r}", code="out-of-range")
    source = Source(model)
    with source.located():
        posterior = source.posterior(data)
        size = posterior.draw_size()
        check_draws(draws, 0, 1, 1 if size is None else size)
        nodes = posterior.generative("simulate")
        texts = prior_texts(posterior, {str(dim) for dims in nodes.dims.values() for dim in dims})
        if not texts:
            raise ModelError("this model has no priors", code="not-applicable")
        improper = tuple(name for name in nodes.random if name in nodes.undrawable)
        if improper:
            return Priors(source.model.name, texts, {}, (), improper)
        groups = prior_groups(posterior, draws, seed_of(seed, source.model))
    drawn = groups["prior"]
    values = {label: array for label in texts if (array := _values(drawn, label)) is not None}
    return Priors(source.model.name, texts, values, tuple(_implied(posterior, groups["prior_predictive"])))


def prior_texts(posterior: Posterior, dims: Collection[str]) -> dict[str, str]:
    """The priors of a model in the model language, by variable or by label (``b[size]``).

    Parameters
    ----------
    dims
        Names of the dimensions of its parameters.
    """
    if posterior.model.model.is_learner:
        return {}
    texts = dict(posterior.priors())
    if not texts and posterior.model.model.is_language:
        written, columns = posterior.model.model.model_dump()["nodes"], posterior.data.names()
        random = [node for node in nodes_of(written).values() if node.kind == "random" and node.name not in columns]
        texts = {node.name: node.expression.text for node in random}
    # The family names vectors with their dimensions (``sd[group]``), and rows with their labels (``b[size]``).
    out = {}
    for name, text in texts.items():
        bare, bracket, inside = name.partition("[")
        of_variable = bracket and {part.strip() for part in inside.rstrip("]").split(",")} <= set(dims)
        out[bare if of_variable else name] = text
    return out


def _values(drawn: xr.Dataset, label: str) -> Array | None:
    """The draws of a variable, of all its elements, or of the element with a label; None if there are none."""
    name, bracket, inside = label.partition("[")
    if name not in drawn:
        return None
    values = drawn[name].transpose("chain", "draw", ...)
    array = values.to_numpy().astype(float)
    if array.ndim == 4 and _correlations(array):
        array = array[:, :, *np.tril_indices(array.shape[2], -1)]
    array = array.reshape(array.shape[0] * array.shape[1], -1)
    if bracket:
        dims = values.dims[2:]
        names = [values.coords[d].to_numpy().astype(str) if d in values.coords else _positions(values, d) for d in dims]
        labels = [", ".join(parts) for parts in product(*names)]
        if inside.removesuffix("]") not in labels:
            return None
        array = array[:, [labels.index(inside.removesuffix("]"))]]
    flat: Array = array.ravel()
    return flat[:: -(-flat.size // _VALUES)]


def _correlations(array: Array) -> bool:
    """Whether each draw is a matrix of correlations, whose diagonal is 1 and no parameter."""
    square = array.shape[2] == array.shape[3] > 1
    return square and np.allclose(np.diagonal(array, axis1=2, axis2=3), 1.0) and np.allclose(array, array.mT)


def _positions(values: xr.DataArray, dim: Any) -> NDArray[np.str_]:
    return np.arange(values.sizes[dim]).astype(str)


def _implied(posterior: Posterior, drawn: xr.Dataset) -> Iterator[Implied]:
    """The outcomes drawn from the prior, and those observed."""
    groups = observed_groups(posterior, {})
    observed = groups["observed_data"].data_vars if "observed_data" in groups else {}
    levels, weights = posterior.outcome_levels(), posterior.row_weights()
    for name, values in drawn.data_vars.items():
        array = values.to_numpy().astype(float)
        array = array.reshape(array.shape[0] * array.shape[1], -1)
        real = np.asarray(observed[name].values, float).ravel() if name in observed else np.zeros(0)
        if str(name) in weights:
            rows = _repeated(np.ravel(weights[str(name)]))
            array, real = array[:, rows], real[rows] if real.size else real
        known = levels.get(str(name))
        if known is None and np.isin(array, (0.0, 1.0)).all() and np.isin(real[~np.isnan(real)], (0.0, 1.0)).all():
            known = np.array(["0", "1"])
        if known is not None:
            codes, there = np.arange(len(known)), real[~np.isnan(real) & (real >= 0)]
            shares = (array[:, :, None] == codes).mean(axis=1)
            in_data = (there[:, None] == codes).mean(axis=0) if there.size else np.zeros(0)
            yield Implied(str(name), shares, in_data, tuple(map(str, known)))
        else:
            flat = array.ravel()
            yield Implied(str(name), flat[:: -(-flat.size // _VALUES)], real[np.isfinite(real)])


def _repeated(weights: Array) -> NDArray[np.intp]:
    """Rows, each as often as its weight says; of weights that are no counts, a systematic sample."""
    if (weights == np.floor(weights)).all() and weights.sum() <= _VALUES:
        return np.repeat(np.arange(len(weights)), weights.astype(int))
    return np.searchsorted(np.cumsum(weights) / weights.sum(), (np.arange(_SAMPLE) + 0.5) / _SAMPLE)


def _quantiles(values: Array | None) -> tuple[float, float, float]:
    if values is None or not values.size:
        return (np.nan, np.nan, np.nan)
    low, middle, high = _between(values, _QUANTILES)
    return float(low), float(middle), float(high)


def _between(values: Array, at: Sequence[float]) -> Array:
    """Quantiles; of infinite values, between which there is nothing to interpolate, those that occur."""
    return np.quantile(values, at, method="inverted_cdf" if np.isinf(values).any() else "linear")


def sparkline(values: Array | None) -> str:
    """A density drawn in block characters, over the central 95 % of the values.

    >>> sparkline(np.repeat([0.0, 1.0, 2.0, 3.0], [10, 30, 80, 10]))
    '▂▁▁▁▁▃▁▁▁▁█▁▁▁▁▂'
    """
    if values is None or not values.size:
        return ""
    low, high = _between(values, [0.025, 0.975])
    if not (np.isfinite([low, high]).all() and high > low):
        return ""
    counts, _ = np.histogram(values, _WIDTH, (low, high))
    if not counts.any():  # two values, and none between the quantiles
        return ""
    heights = np.ceil(counts / counts.max() * (len(_BARS) - 1)).astype(int)
    return "".join(_BARS[height] for height in heights)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _numbers(values: tuple[float, float, float]) -> list[str]:
    """Quantiles with three digits, and without digits that are small against their differences."""
    low, middle, high = values
    if np.isnan(low):
        return ["", "", ""]
    gap = min(g for g in (middle - low, high - middle, 1.0) if g > 0.0)
    step = 10.0 ** (math.floor(math.log10(gap)) - 2)
    # Numbers beyond the largest float are infinite, and so are their differences.
    steps = (value / step for value in values)
    return [
        f"{round(s) * step + 0.0 if math.isfinite(s) else value:.3g}" for s, value in zip(steps, values, strict=True)
    ]


def _aligned(lines: list[tuple[str, ...]]) -> str:
    """Lines of a table: words at the left, numbers at the right of their columns."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    out = []
    for line in lines:
        cells = [
            cell.rjust(width) if 2 <= k <= 4 else cell.ljust(width)
            for k, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        out.append("  ".join(cells).rstrip())
    return "\n".join(out)
