"""Predictions: from the prior (``simulate``), for the data of a fit, and for new data."""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from bayeslab.arrays import number
from bayeslab.data.bound import Data
from bayeslab.data.dataset import Dataset
from bayeslab.errors import DataError, ModelError, OptionError, listed
from bayeslab.language.indexing import is_whole_number, labels_are_numbers
from bayeslab.memory import check_draws
from bayeslab.posterior.contract import Eliminated, Posterior
from bayeslab.posterior.evaluation import expand
from bayeslab.posterior.generative import Generative
from bayeslab.posterior.groups import GraphLayout, Layout, Named, dataset, labelled
from bayeslab.posterior.machine.arrays import NotLowered
from bayeslab.posterior.transforms import tables_at, unconstrained
from bayeslab.preparation import Source, seed_of
from bayeslab.results import topics
from bayeslab.results.fitted import Fitted, bound_to, posterior_values, without_cells
from bayeslab.results.structure_predictions import log_likelihoods, predicted, replications
from bayeslab.results.tails import heavy
from bayeslab.streams import derived, stream

if TYPE_CHECKING:
    import pandas as pd
    import pymc
    import xarray as xr

    from bayeslab.posterior.machine.model import MachineModel

# Predictive draws at a point estimate; fewer if there are very many rows.
_AT_A_POINT, _FEWEST, _CELLS = 1_000, 100, 20_000_000

__all__ = [
    "in_labels",
    "level_labels",
    "log_likelihood",
    "log_prior",
    "numbers_of_levels",
    "pointwise_graph",
    "posterior_predictive",
    "predict",
    "prior_groups",
    "simulate",
    "summarised",
    "value_draws",
    "values_between",
]


def simulate(model: Any, data: Any = None, draws: int = 500, *, seed: int | None = None) -> xr.DataTree:
    """Draw parameters and data from the prior.

    Parameters
    ----------
    model
        A model or the path of a model file.
    data
        Predictors, and the lengths of dimensions. None: the data that the model file names, if
        any; without data every dimension needs a length in ``dims``.
    draws
        Number of draws.
    seed
        Seed; None: the model's, else a new one.

    Returns
    -------
    xarray.DataTree
        Groups ``prior`` and ``prior_predictive``, dims (chain, draw, ...) with one chain.

    Raises
    ------
    ModelError
        A node has an improper prior (Flat), or a dimension has no length.
    """
    import xarray as xr

    if isinstance(draws, bool) or not isinstance(draws, int) or draws < 1:
        raise OptionError(f"draws is a whole number ≥ 1, not {draws!r}", code="out-of-range")
    source = Source(model)
    with source.located():
        posterior = source.posterior(data)
        size = posterior.draw_size()
        check_draws(draws, 0, 1, 1 if size is None else size)
        groups = prior_groups(posterior, draws, seed_of(seed, source.model))
        groups["prior_predictive"] = in_labels(posterior, groups["prior_predictive"])
        return xr.DataTree.from_dict(groups)


def prior_groups(posterior: Posterior, draws: int, seed: int) -> dict[str, xr.Dataset]:
    """The groups ``prior`` and ``prior_predictive``."""
    posterior.data.refuse_folded("prior predictive draws")
    nodes = posterior.generative("simulate")
    _refuse_flat(nodes)
    drawn = posterior.ordered(nodes.draw([*nodes.random, *nodes.computed], {}, derived(seed, "prior"), draws))
    # Predictors with a distribution are simulated with the outcomes.
    columns = posterior.data_columns()
    observed = {*posterior.outcomes(), *(name for name in nodes.random if name in columns)}
    coords = {"chain": np.array([0]), "draw": np.arange(draws)}
    attrs = {"seed": seed, "model_digest": posterior.model.digest(), "creation_library": "bayeslab"}
    shaped = {name: values[None] for name, values in drawn.items()}
    return {
        "prior": dataset({n: v for n, v in shaped.items() if n not in observed}, nodes, coords, attrs).to_dataset(),
        "prior_predictive": dataset(
            {n: v for n, v in shaped.items() if n in observed}, nodes, coords, attrs
        ).to_dataset(),
    }


def _refuse_flat(nodes: Generative) -> None:
    for name in nodes.random:
        if name in nodes.undrawable:
            raise ModelError(
                f"'{name}' has no proper prior (Flat, HalfFlat or ICAR), so there is nothing to draw from:"
                f" give it one to simulate",
                code="improper",
            )


def _held(fit: Fitted, names: Iterable[str], layout: Layout, data: Data) -> dict[str, np.ndarray]:
    """The posterior draws that nodes on other data can use: those of the same quantities.

    Rows that have names (a column with the name of their dimension) are the rows of the fit with these names, whatever
    their order and however many of them there are.
    """
    paths = fit.bound_model.hidden_paths()
    group = fit.posterior.to_dataset()
    same_rows = data.dataset is fit.data.dataset or data.dataset.digests() == fit.data.dataset.digests()
    named_rows = data.dataset.rows in data.dataset.levels
    out = {}
    coords = {str(dim): np.asarray(labels).astype(str) for dim, labels in layout.coords.items() if labels is not None}
    for name in names:
        if name not in group:
            continue
        draws = group[name]
        dims = tuple(str(dim) for dim in layout.dims.get(name) or ())
        cells = any(d.endswith("_missing") for d in dims)
        rowwise = cells or data.dataset.rows in dims
        labels_agree = all(
            d in draws.coords and np.array_equal(draws.coords[d].to_numpy().astype(str), coords[d]) for d in dims
        )
        if rowwise and not (labels_agree and (same_rows or named_rows)):
            if not named_rows or cells or name.startswith("_"):
                continue
            if name in paths and not _known(draws, data.dataset.rows, coords[data.dataset.rows]):
                continue
        if not labels_agree:
            draws = _of_levels(draws, {d: coords[d] for d in dims})
        if draws is not None:
            out[name] = draws.to_numpy().reshape(-1, *draws.shape[2:])
    return out


def _known(draws: Any, dim: str, levels: np.ndarray) -> bool:
    """Whether all levels of a dimension are levels of the fit."""
    return dim in draws.coords and bool(np.isin(levels.astype(str), draws.coords[dim].to_numpy().astype(str)).all())


def _of_levels(draws: Any, wanted: Mapping[str, np.ndarray]) -> Any:
    """Draws at the levels of other data, matched by name; None if all levels of a dimension are new.

    Raises
    ------
    DataError
        Some levels are new and others are not, but new levels can only be drawn all together.
    """
    for dim, levels in wanted.items():
        if dim not in draws.coords:
            return None
        positions = {word: place for place, word in enumerate(draws.coords[dim].to_numpy().astype(str).tolist())}
        known = [word for word in levels.tolist() if word in positions]
        if not known:
            return None
        if len(known) < len(levels):
            new = [word for word in levels.tolist() if word not in positions]
            raise DataError(
                f"'{draws.name}' runs along '{dim}', of which the new data have new levels ({listed(new)}) and levels"
                f" of the fit ({listed(known)}): predict for new and for known levels separately",
                code="unknown-level",
            )
        draws = draws.isel({dim: [positions[word] for word in levels.tolist()]})
    return draws


def posterior_predictive(fit: Fitted, each: int | None = None) -> xr.Dataset:
    """Replications of the observed nodes for the data of the fit.

    Parameters
    ----------
    each
        Number of replications at each draw; None: one, or many at a point estimate.
    """
    fit.data.refuse_folded("replications")
    if fit.has_group("parent_sets"):
        return replications(fit, fit.data, fit.seed)
    return _draws(fit, fit.bound_model, fit.seed, each or _replications(fit, fit.data))


def _draws(fit: Fitted, posterior: Posterior, seed: int, each: int = 1, *, open_cells: bool = False) -> xr.Dataset:
    """Outcomes drawn ``each`` times at every posterior draw; with ``open_cells``, of missing cells only if possible."""
    names = list(fit.bound_model.outcomes())
    if posterior.on_arrays:
        values, rng = _repeated(posterior_values(fit), each), stream(seed, "predict")
        made = posterior.completed(values, rng) if open_cells else posterior.predictive(values, rng)
        if made is not None:
            return _on_arrays(fit, posterior, made, {"seed": seed}, each)
    nodes, given = _unobserved(fit, posterior, names, each)
    coords = _coords(fit, each)
    lengths = [len(axis) for axis in coords.values()]
    drawn = nodes.draw(names, given, derived(seed, "predict"), math.prod(lengths))
    shaped = {name: values.reshape(*lengths, *values.shape[1:]) for name, values in drawn.items()}
    return dataset(shaped, nodes, coords, {"seed": seed, "creation_library": "bayeslab"}).to_dataset()


def _unobserved(
    fit: Fitted, posterior: Posterior, names: list[str], each: int = 1
) -> tuple[Generative, dict[str, np.ndarray]]:
    """The nodes, outcomes among the random ones, and the posterior draws that they use."""
    nodes = posterior.generative("predict", names)
    given = _repeated(_held(fit, nodes.random, nodes, posterior.data), each)
    given |= _paths_given(fit, posterior, given, each)
    given |= _states_given(fit, {*nodes.random} - {*names}, given, each)
    needed = next((n for n in nodes.random if n in nodes.undrawable and n not in given and n not in names), None)
    if needed:
        raise DataError(
            f"'{needed}' has an improper prior and no draws for these data: it cannot be predicted for new levels",
            code="improper",
        )
    _warn_of_unused(nodes, given, posterior, names)
    return nodes, given


def _paths_given(
    fit: Fitted, posterior: Posterior, given: Mapping[str, np.ndarray], each: int
) -> dict[str, np.ndarray]:
    """Draws of hidden paths that the fit lacks, at its parameters and given the observed outcomes of these data."""
    lacking = [name for name in posterior.hidden_paths() if name not in given]
    if not lacking:
        return {}
    data, names = posterior.data, fit.bound_model.outcomes()
    if not any(data.has(name) and data.present(name) for name in names):
        return {}
    rng, machine = stream(fit.seed, "paths"), posterior.summing()
    n_draws = math.prod(len(axis) for axis in _coords(fit, each).values())
    if machine is not None:
        if any(parameter.name not in given for parameter in machine.parameters):
            return {}
        drawn = machine.recovered(machine.points_at(given, n_draws), rng)
        return {name: drawn[name] for name in lacking}
    eliminated = posterior.elimination()
    assert eliminated is not None
    model, sums = eliminated
    if any(rv.name not in given for rv in model.free_RVs):
        return {}
    made = [sums.drawn(tables, rng) for tables in tables_at(model, sums, given, n_draws)]
    return {name: np.concatenate([each[name] for each in made]) for name in lacking}


def _warn_of_restart(fit: Fitted, data: Data) -> None:
    """Warn if new rows begin a series anew, so that they are no forecast of what follows the rows of the fit.

    Tables that repeat the rows of the fit are, and sequences with new labels begin rightly. So does an unnamed table
    whose first outcome is observed: it is another series.
    """
    old, new, rows = fit.data.dataset, data.dataset, fit.data.dataset.rows
    outcomes = [name for name in fit.bound_model.outcomes() if name in old.columns]
    blank = [new.columns[n].absent().reshape(-1) if n in new.columns else np.ones(1, bool) for n in outcomes]
    named = rows in new.levels and rows in old.levels
    if blank and (not any(mask.any() for mask in blank) or not (named or all(mask[:1].all() for mask in blank))):
        return
    if new.digests() == old.digests() or _repeats(old, new, outcomes):
        return
    for what, sequence in fit.bound_model.beginnings(named=named, known=named and _among(new, old)):
        if sequence is not None and sequence in old.columns and sequence in new.columns:
            labels = new.columns[sequence].values, old.columns[sequence].values
            if not np.isin(*labels).any():
                continue
        warnings.warn(
            f"{what} of the new rows begins anew: to forecast what follows the rows of the fit, or to fill in some of"
            " them, give those rows too, with their outcomes, or fit them together; leave the outcomes to be predicted"
            " empty",
            UserWarning,
            stacklevel=2,
        )


def _among(some: Dataset, all_: Dataset) -> bool:
    """Whether all named rows are rows of another table."""
    rows = all_.rows
    return bool(np.isin(some.levels[rows].astype(str), all_.levels[rows].astype(str)).all())


def _repeats(old: Dataset, new: Dataset, outcomes: list[str]) -> bool:
    """Whether new rows have the rows of the fit among them: by name, else at their beginning, by their outcomes."""
    rows = old.rows
    if rows in old.levels and rows in new.levels:
        return _among(old, new)
    if not outcomes:
        return False
    for name in outcomes:
        before, after = old.columns[name], new.columns.get(name)
        n = len(before.values)
        if after is None or len(after.values) < n:
            return False
        absent = before.absent()
        if not np.array_equal(absent, after.absent()[:n]) or not np.array_equal(
            before.values[~absent].astype(str), after.values[:n][~absent].astype(str)
        ):
            return False
    return True


def _states_given(
    fit: Fitted, random: Collection[str], given: Mapping[str, np.ndarray], each: int
) -> dict[str, np.ndarray]:
    """Draws of the integrated-out normal states that a point estimate lacks, given its data and its parameters."""
    lacking = set(random) - given.keys()
    if not lacking or not lacking & set(fit.bound_model.integrated().values()):
        return {}
    rng, held = stream(fit.seed, "states"), _repeated(posterior_values(fit), each)
    machine = fit.bound_model.summing()
    if machine is not None:
        whole = machine.recovered(machine.points_at(held), rng)
        return {name: values for name, values in whole.items() if name in lacking}
    eliminated = fit.bound_model.elimination()
    assert eliminated is not None
    model, sums = eliminated
    drawn = [sums.drawn(tables, rng) for tables in tables_at(model, sums, held)]
    return {name: np.concatenate([one[name] for one in drawn]) for name in drawn[0] if name in lacking}


def _warn_of_unused(nodes: Generative, given: Mapping[str, np.ndarray], posterior: Posterior, names: list[str]) -> None:
    """Warn if some outcomes are given but do not inform the predictions of the others.

    The others are columns without any observed cell, and the empty cells of columns whose rows share something hidden.
    """
    columns, free = posterior.data.dataset.columns, set(nodes.random)
    absent = {n: c.absent() for n in names if (c := columns.get(n)) is not None}
    present = [n for n, mask in absent.items() if not mask.all()]
    hidden = free - given.keys() - set(names)
    partial = hidden and any(absent[n].any() for n in present)
    if len(present) == len(names) and not partial:
        return
    if unused := [n for n in present if n in free and n not in posterior.outcomes_as_predictors()]:
        warnings.warn(
            f"{listed(unused)} of the new rows {'is' if len(unused) == 1 else 'are'} drawn anew and not used: what is"
            f" hidden in new rows is not learnt from them; fit them with the other rows, the cells to be predicted"
            f" empty",
            UserWarning,
            stacklevel=2,
        )


def _repeated(values: Mapping[str, np.ndarray], each: int) -> dict[str, np.ndarray]:
    return {name: np.repeat(value, each, axis=0) if each > 1 else value for name, value in values.items()}


def _coords(fit: Fitted, each: int = 1) -> dict[str, np.ndarray]:
    """Coordinates of chains and draws; renumbered if there are several replications per draw."""
    chain, draw = fit.posterior["chain"].to_numpy(), fit.posterior["draw"].to_numpy()
    return {"chain": chain, "draw": draw if each == 1 else np.arange(len(draw) * each)}


def _on_arrays(
    fit: Fitted,
    posterior: Posterior,
    made: Mapping[str, tuple[tuple[str, ...], np.ndarray]],
    attrs: Mapping[str, Any],
    each: int = 1,
) -> xr.Dataset:
    """Arrays that a family computed for each draw, as a Dataset."""
    labels = posterior.bound_data().labels
    coords = _coords(fit, each)
    lengths = [len(axis) for axis in coords.values()]
    shaped = {name: values.reshape(*lengths, *values.shape[1:]) for name, (_, values) in made.items()}
    dims = {name: dims for name, (dims, _) in made.items()}
    return labelled(shaped, dims, labels, coords, {**attrs, "creation_library": "bayeslab"}).to_dataset()


type Kind = Literal["mean", "draws", "probabilities", "components"]


def predict(
    fit: Fitted,
    data: Any,
    kind: Kind | None = None,
    *,
    ci_prob: float = 0.89,
    seed: int | None = None,
    unseen: str | None = None,
) -> Any:
    """See :meth:`bayeslab.results.fit.Fit.predict`; cells of the column ``unseen`` are predicted from the others."""
    seed = fit.seed if seed is None else seed
    kind = kind or fit.bound_model.suited_prediction()
    if kind not in ("mean", "draws", "probabilities", "components"):
        raise OptionError(f"kind is mean, draws, probabilities or components, not {kind!r}", code="unknown-word")
    number(ci_prob, "ci_prob", 0, 1, above=True, below=True)
    if data is None:
        fit.data.refuse_folded("predictions of the rows of the fit")
    bound = fit.data if data is None else bound_to(fit, data)
    if unseen is not None:
        bound = without_cells(fit, bound, unseen)
    if fit.has_group("parent_sets"):
        return _like(predicted(fit, bound, kind, ci_prob=ci_prob, seed=seed), data)
    if fit.bound_model.view == "topics":
        of_topics = topics.predicted(fit, bound, data, kind, ci_prob=ci_prob, seed=seed)
        return of_topics if kind == "draws" else _like(of_topics, data)
    if bound is not fit.data:
        _warn_of_restart(fit, bound)
    posterior = fit.bound_model.on(bound)
    if kind in ("mean", "components"):
        parts = posterior.exact_predictions(posterior_values(fit), kind, ci_prob)
        if parts is not None:
            return _like(_joined(posterior, parts), data)
    if kind == "components":
        raise OptionError(f"the family {fit.model.model.family} has no additive components", code="other-family")
    if kind == "probabilities":
        import pandas as pd

        exact = posterior.probabilities(posterior_values(fit))
        if exact is not None:
            return _like(pd.DataFrame(exact), data)
    drawn = _draws(fit, posterior, seed, _replications(fit, bound), open_cells=True)
    return summarised(fit, in_labels(posterior, drawn) if kind == "mean" else drawn, data, kind, ci_prob)


def in_labels(posterior: Posterior, drawn: xr.Dataset) -> xr.Dataset:
    """Draws with codes replaced by levels for outcomes whose levels are numbers, so that they can be read as data.

    Draws of outcomes with other levels stay positions from 0, which are read as positions.
    """
    for name, labels in posterior.outcome_levels().items():
        if name in drawn and (numbers := numbers_of_levels(labels)) is not None:
            drawn = drawn.assign({name: drawn[name].copy(data=numbers[drawn[name].to_numpy()])})
    return drawn


def numbers_of_levels(labels: np.ndarray) -> np.ndarray | None:
    """The numbers that levels are, or None: they are words, or their positions."""
    if labels.dtype.kind == "f":
        return labels
    if not labels_are_numbers(labels):
        return None
    whole = labels.dtype.kind in "iu" or all(map(is_whole_number, labels.tolist()))
    return labels.astype(np.int64) if whole else labels


def _joined(posterior: Posterior, parts: Mapping[str, Mapping[str, np.ndarray]]) -> pd.DataFrame:
    """The tables of parts concatenated, with the labels of the rows."""
    import pandas as pd

    data = posterior.bound_data()
    labels = data.labels.get(data.dataset.rows)
    frames = []
    for name, columns in parts.items():
        rows = np.arange(len(next(iter(columns.values())))) if labels is None else labels
        head: dict[str, Any] = {"component": name} if name else {}
        frames.append(pd.DataFrame({data.dataset.rows: rows} | head | dict(columns)))
    return pd.concat(frames, ignore_index=True)


def _replications(fit: Fitted, data: Data) -> int:
    """Number of predictive draws per posterior draw: one, or many at a point estimate."""
    if fit.posterior.sizes["chain"] * fit.posterior.sizes["draw"] > 1:
        return 1
    rows = max(len(data.labels.get(data.dataset.rows, ())), 1)
    return max(_FEWEST, min(_AT_A_POINT, _CELLS // rows))


def summarised(fit: Fitted, drawn: xr.Dataset, data: Any, kind: str, ci_prob: float) -> Any:
    """Predictive draws summarised as the requested kind of prediction."""
    if kind == "draws":
        return drawn
    frame = _probabilities(fit, drawn, data) if kind == "probabilities" else _means(drawn, ci_prob, _words(fit, drawn))
    return _like(frame, data)


def _words(fit: Fitted, drawn: xr.Dataset) -> dict[str, np.ndarray]:
    """The levels of outcomes that are words; their draws are positions in these levels."""
    return {n: v for n, v in fit.bound_model.outcome_levels().items() if n in drawn and numbers_of_levels(v) is None}


def level_labels(fit: Fitted, name: str) -> np.ndarray | None:
    """The levels of an outcome in the order of the positions that its draws are; None if its draws are numbers."""
    levels = fit.bound_model.outcome_levels()
    return levels[name] if name in levels else fit.data.labels.get(name)


def _means(drawn: xr.Dataset, ci_prob: float, words: Mapping[str, np.ndarray]) -> pd.DataFrame:
    """Mean, sd and interval of each cell; for words, the most probable one and its probability."""
    import pandas as pd

    tail = (1 - ci_prob) / 2
    percent = f"{100 * ci_prob:g}"
    parts = []
    for name, values in drawn.data_vars.items():
        flat = values.stack(sample=("chain", "draw")).transpose("sample", ...)
        array = flat.to_numpy().astype(float)
        rest = [d for d in flat.dims if d != "sample"]
        columns: dict[str, Any] = {"node": str(name)} if len(drawn.data_vars) > 1 else {}
        grid = np.meshgrid(*(_labels(drawn, d) for d in rest), indexing="ij") if rest else []
        columns |= {str(d): g.ravel() for d, g in zip(rest, grid, strict=True)}
        if str(name) in words:
            share = np.stack([(array == k).mean(axis=0).ravel() for k in range(len(words[str(name)]))])
            nothing = np.full(share.shape[1], np.nan)
            columns |= dict.fromkeys(("mean", "sd", f"eti{percent}_lb", f"eti{percent}_ub"), nothing)
            columns |= {"most_probable": words[str(name)][share.argmax(axis=0)], "probability": share.max(axis=0)}
            parts.append(pd.DataFrame(columns, index=None if rest else [0]))
            continue
        low, middle, high = np.quantile(array, [tail, 0.5, 1 - tail], axis=0)
        # If tails are too heavy for a mean, the median is given.
        meanless = ~np.isnan(heavy(array.reshape(len(array), 1, -1).T))
        sd = array.std(axis=0, ddof=1).ravel() if len(array) > 1 else np.zeros(array[0].size)
        # Values that are equal in all draws are reported without the rounding error of averages.
        given = (array == array[0]).all(axis=0).ravel()
        columns |= {
            "mean": np.where(meanless, np.nan, np.where(given, array[0].ravel(), array.mean(axis=0).ravel())),
            "sd": np.where(meanless, np.nan, np.where(given, 0.0, sd)),
            **({"median": middle.ravel()} if meanless.any() else {}),
            f"eti{percent}_lb": low.ravel(),
            f"eti{percent}_ub": high.ravel(),
        }
        parts.append(pd.DataFrame(columns, index=None if rest else [0]))
    return pd.concat(parts, ignore_index=True)


def _labels(drawn: xr.Dataset, dim: Any) -> np.ndarray:
    return drawn.coords[dim].to_numpy() if dim in drawn.coords else np.arange(drawn.sizes[dim])


def _averaged(fit: Fitted, bound: Data, name: str, levels: np.ndarray, seed: int) -> np.ndarray | None:
    """P(outcome = level | draw) averaged over the draws, shape (levels, ...); None if there is no such density.

    Shares of predictive draws would have a binomial error, which for a rare level exceeds its probability.
    """
    posterior = fit.bound_model.on(bound)
    n_draws = fit.posterior.sizes["chain"] * fit.posterior.sizes["draw"]
    if posterior.on_arrays or n_draws < _FEWEST_AVERAGED:
        return None
    nodes, given = _unobserved(fit, posterior, list(posterior.outcomes()))
    total = nodes.probabilities(name, levels, given, derived(seed, "chances"), n_draws)
    return None if total is None or np.isnan(total).any() else total / n_draws


# Fewest draws to average over: at a point estimate, shares of predictive draws do as well.
_FEWEST_AVERAGED = 2
# Largest range of counts in which every value gets a column, drawn or not.
_MOST_VALUES = 1_000
# Smallest remaining probability that is more than rounding error.
_REST = 1e-9


def _probabilities(fit: Fitted, drawn: xr.Dataset, data: Any) -> pd.DataFrame:
    import pandas as pd

    bound = fit.data if data is None else bound_to(fit, data)

    parts = []
    for name, values in drawn.data_vars.items():
        if values.dtype.kind not in "iub":
            raise OptionError(
                f"'{name}' is continuous; probabilities are for discrete outcomes (use kind='mean')",
                code="not-applicable",
            )
        array = values.stack(sample=("chain", "draw")).transpose("sample", ...).to_numpy()
        if array.ndim > 2:
            raise OptionError(f"'{name}' is a vector in every row; use kind='draws'", code="not-applicable")
        levels, labels = np.unique(array), level_labels(fit, str(name))
        if labels is not None and levels.max() < len(labels):
            levels = np.arange(len(labels))
        else:
            levels = values_between(levels)
        along = [d for d in values.dims if d not in ("chain", "draw")]
        columns: dict[str, Any] = {str(d): _labels(drawn, d) for d in along}
        shares = _averaged(fit, bound, str(name), levels, fit.seed)
        if shares is None:
            shares = np.stack([(array == level).mean(axis=0) for level in levels])
        for level, share in zip(levels, shares, strict=True):
            shown = labels[level] if labels is not None and len(labels) > levels.max() else level
            columns[f"P({name}={shown})"] = np.atleast_1d(share)
        rest = np.atleast_1d(1 - shares.sum(axis=0))
        if (rest > _REST).any():
            # Values outside the range of the draws.
            columns[f"P({name}=other)"] = np.maximum(rest, 0.0)
        parts.append(pd.DataFrame(columns))
    return pd.concat(parts, axis=1)


def values_between(values: np.ndarray) -> np.ndarray:
    """All integers from the smallest to the largest value, unless there are very many; 0 and 1 for values in {0, 1}."""
    low, high = int(values.min()), int(values.max())
    if low >= 0 and high <= 1:
        return np.arange(2)
    return np.arange(low, high + 1) if high - low < _MOST_VALUES else values


def _like(frame: pd.DataFrame, given: Any) -> Any:
    """The table as the same type of dataframe as the given data."""
    if type(given).__module__.startswith("polars"):
        import polars

        return polars.from_pandas(frame)
    if type(given).__module__.startswith("pyarrow"):
        import pyarrow

        return pyarrow.Table.from_pandas(frame)
    return frame


def log_likelihood(fit: Fitted, data: Data | None = None, *, weighted: bool = True) -> xr.Dataset:
    """Pointwise log likelihood of the observed nodes at every draw.

    Parameters
    ----------
    data
        Other data bound to the model, with the same parameters as the fit.
    weighted
        Whether the terms of rows are multiplied by the model's weights.
    """
    (data or fit.data).refuse_folded("log likelihoods of rows")
    posterior = fit.bound_model.on(data or fit.data)
    log_p = _unweighted_log_likelihood(fit, posterior, data)
    weights = posterior.row_weights() if weighted else {}
    return log_p.assign({name: log_p[name] * weight for name, weight in weights.items() if name in log_p})


def _unweighted_log_likelihood(fit: Fitted, posterior: Posterior, data: Data | None) -> xr.Dataset:
    if fit.has_group("parent_sets"):
        return log_likelihoods(fit, posterior.data)
    made = posterior.log_likelihoods(posterior_values(fit))
    if made is not None:
        # A variable cannot have the name of its dimension.
        named = {f"{name}_density" if (name,) == dims else name: (dims, v) for name, (dims, v) in made.items()}
        return _on_arrays(fit, posterior, named, {})
    machine = posterior.summing()
    if machine is not None:
        return _machine_log_likelihood(fit, posterior, machine, data)
    eliminated = posterior.elimination()
    if eliminated is not None:
        return _summed_log_likelihood(fit, data, *eliminated)
    nodes = posterior.generative("predict")
    given = posterior_values(fit) if data is None else _held(fit, nodes.random, nodes, data)
    coords = _coords(fit)
    layout: Layout = nodes
    shape, terms = [len(axis) for axis in coords.values()], None
    if given.keys() >= set(nodes.random):
        terms = nodes.log_densities({name: given[name] for name in nodes.random}, math.prod(shape))
    if terms is None:
        terms, layout = _graph_log_likelihood(fit, posterior, data)
    shaped = {name: term.reshape(*shape, *term.shape[1:]) for name, term in terms.items()}
    return dataset(shaped, layout, coords, {"creation_library": "bayeslab"}).to_dataset()


def _graph_log_likelihood(
    fit: Fitted, posterior: Posterior, data: Data | None
) -> tuple[dict[str, np.ndarray], GraphLayout]:
    graph = pointwise_graph(posterior)
    observed = list(graph.observed_RVs)
    terms = expand(graph, value_draws(fit, graph, data), graph.logp(vars=observed, sum=False, jacobian=False))
    named = {rv.name.removesuffix("_observed"): term for rv, term in zip(observed, terms, strict=True)}
    return named, GraphLayout(graph)


def _refuse_lacking(names: Iterable[str], held: Mapping[str, np.ndarray]) -> None:
    lacking = [name for name in names if name not in held]
    if lacking:
        raise DataError(f"the fit has no draws of '{lacking[0]}' for these data", code="not-kept")


def log_prior(fit: Fitted) -> xr.Dataset:
    """Log prior density of each parameter at every draw, without the Jacobians of transforms.

    Raises
    ------
    DataError
        The fit has no draws of a parameter of the graph.
    """
    try:
        machine = fit.bound_model.machine_model()
        points = _points(fit, machine)
        terms: Mapping[str, np.ndarray] = machine.log_priors(points)
        layout: Layout = machine
    except NotLowered:
        terms, layout = _graph_log_prior(fit)
    coords = _coords(fit)
    shaped = {name: term.reshape(*map(len, coords.values()), *term.shape[1:]) for name, term in terms.items()}
    # The density of a vector, such as a Dirichlet's, has fewer dimensions than its draw.
    dims = {name: tuple(layout.dims.get(name) or ())[: values.ndim - 2] for name, values in shaped.items()}
    dims = {n: d if len(d) == shaped[n].ndim - 2 else _numbered(n, shaped[n]) for n, d in dims.items()}
    return labelled(shaped, dims, layout.coords, coords, {"creation_library": "bayeslab"}).to_dataset()


def _points(fit: Fitted, machine: MachineModel) -> np.ndarray:
    """The fit's draws as unconstrained points of a program, shape (chain × draw, n_dim).

    Raises
    ------
    DataError
        The fit has no draws of a parameter.
    """
    n_draws = fit.posterior.sizes["chain"] * fit.posterior.sizes["draw"]
    if fit.has_group("unconstrained_posterior"):
        raw = fit.data_tree["unconstrained_posterior"].to_dataset()
        if all(parameter.value_name in raw for parameter in machine.parameters):
            parts = [raw[parameter.value_name].to_numpy().reshape(n_draws, -1) for parameter in machine.parameters]
            return np.concatenate([np.empty((n_draws, 0)), *parts], axis=1)
    held = fit.bound_model.with_standardized(posterior_values(fit))
    _refuse_lacking((parameter.name for parameter in machine.parameters), held)
    return machine.points_at(held, n_draws)


def _graph_log_prior(fit: Fitted) -> tuple[dict[str, np.ndarray], GraphLayout]:
    graph = fit.bound_model.graph()
    values = value_draws(fit, graph)
    terms = expand(graph, values, graph.logp(vars=list(graph.free_RVs), sum=False, jacobian=False))
    return {rv.name: term for rv, term in zip(graph.free_RVs, terms, strict=True)}, GraphLayout(graph)


def _numbered(name: str, values: np.ndarray) -> tuple[str, ...]:
    return tuple(f"{name}_dim_{i}" for i in range(values.ndim - 2))


def _machine_log_likelihood(fit: Fitted, posterior: Posterior, machine: MachineModel, data: Data | None) -> xr.Dataset:
    """Log densities of observations, of which discrete nodes are summed out; of series given all others."""
    names, coords = [parameter.name for parameter in machine.parameters], _coords(fit)
    held = posterior_values(fit) if data is None else _held(fit, names, machine, data)
    _refuse_lacking(names, held)
    shape = [len(axis) for axis in coords.values()]
    dims, shaped = dict(machine.dims), dict[str, np.ndarray]()
    for name, terms in machine.terms(machine.points_at(held, math.prod(shape))).items():
        lengths = [len(machine.coords[dim]) for dim in dims[name]]
        # The density of a vector has fewer dimensions than its draw.
        batch = next(k for k in range(len(lengths) + 1) if math.prod(lengths[:k]) == terms.shape[1])
        dims[name], shaped[name] = dims[name][:batch], terms.reshape(*shape, *lengths[:batch])
    others = posterior.generative("predict").log_densities(held, math.prod(shape), without=shaped)
    if others is None:
        eliminated = posterior.elimination()
        assert eliminated is not None
        return _summed_log_likelihood(fit, data, *eliminated)
    shaped |= {name: terms.reshape(*shape, *terms.shape[1:]) for name, terms in others.items()}
    return dataset(shaped, Named(dims, machine.coords), coords, {"creation_library": "bayeslab"}).to_dataset()


def _summed_log_likelihood(fit: Fitted, data: Data | None, graph: pymc.Model, sums: Eliminated) -> xr.Dataset:
    """Likelihood terms with the discrete nodes summed out, one per observation."""
    names = [rv.name for rv in graph.free_RVs]
    held = posterior_values(fit) if data is None else _held(fit, names, GraphLayout(graph), data)
    _refuse_lacking(names, held)
    sums.check_terms()
    chains, draws = fit.posterior.sizes["chain"], fit.posterior.sizes["draw"]
    made = [sums.terms(tables) for tables in tables_at(graph, sums, held, chains * draws)]
    coords = {"chain": fit.posterior["chain"].to_numpy(), "draw": fit.posterior["draw"].to_numpy()}
    shaped = {}
    for name, dims in sums.observed.items():
        shape = tuple(len(graph.coords[dim]) for dim in dims)
        shaped[name] = np.concatenate([each[name] for each in made]).reshape(chains, draws, *shape)
        graph.named_vars_to_dims[name] = dims
    if graph.observed_RVs:
        values = unconstrained(graph, held)
        terms = expand(graph, values, graph.logp(vars=graph.observed_RVs, sum=False, jacobian=False))
        for rv, term in zip(graph.observed_RVs, terms, strict=True):
            shaped[rv.name.removesuffix("_observed")] = term.reshape(chains, draws, *term.shape[1:])
    return dataset(shaped, GraphLayout(graph), coords, {"creation_library": "bayeslab"}).to_dataset()


def pointwise_graph(posterior: Posterior) -> pymc.Model:
    """The model's graph with one likelihood term per observation, even if the graph for fitting aggregates them.

    Discrete nodes without data are random in it, because given their values each observation has its own term.
    """
    if not posterior.summed_out():
        built = posterior.graph()
        names = {rv.name.removesuffix("_observed") for rv in built.observed_RVs}
        if set(posterior.outcomes()) <= names:
            return built
    return posterior.graph(purpose="predict", targets=())


def value_draws(fit: Fitted, graph: pymc.Model, data: Data | None = None) -> dict[str, np.ndarray]:
    """The fit's draws as draws of a graph's value variables, shape (chain × draw, ...).

    Raises
    ------
    DataError
        The fit has no draws of some of the graph's parameters.
    """
    names = {v.name for v in graph.value_vars}
    if data is None and fit.has_group("unconstrained_posterior"):
        raw = fit.data_tree["unconstrained_posterior"].to_dataset()
        if names <= set(raw.data_vars):
            return {str(n): v.to_numpy().reshape(-1, *v.shape[2:]) for n, v in raw.data_vars.items()}
    random = [rv.name for rv in graph.free_RVs]
    held = posterior_values(fit) if data is None else _held(fit, random, GraphLayout(graph), data)
    _refuse_lacking(random, held)
    return unconstrained(graph, held)
