"""Predictions from sampled structures, averaged over structures and parameters with weights by each row's evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bayeslab.arrays import lengths
from bayeslab.data.bound import Data
from bayeslab.data.dataset import Column
from bayeslab.errors import DataError, OptionError
from bayeslab.families.bayes_net.net import codes_from
from bayeslab.latents.networks.gaussian_network import joint, observe
from bayeslab.latents.networks.junction_tree import JunctionTree
from bayeslab.latents.networks.mixed_network import MixedNetwork, draws, log_density
from bayeslab.latents.networks.network import DiscreteNetwork
from bayeslab.posterior.groups import labelled
from bayeslab.results import structure_averages as averages
from bayeslab.results.structures import Structures, structures_of
from bayeslab.streams import stream

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from bayeslab.results.fitted import Fitted

__all__ = ["log_likelihoods", "predicted", "replications"]

Array = NDArray[np.float64]
# Number of evenly spaced draws of structure and parameters for likelihoods and replications.
_DRAWS = 1000
# Number of quantile points of each net's predictive distribution, from which quantiles of their mixture are computed.
_POINTS = 16


def predicted(fit: Fitted, bound: Data, kind: str, *, ci_prob: float, seed: int) -> pd.DataFrame:
    """Predictions of missing cells, or of the model's target: see :meth:`bayeslab.results.fit.Fit.predict`."""
    import pandas as pd

    structures = fit.view(structures_of)
    columns = {v: _column(bound, v) for v in structures.names if bound.has(v)}
    if not columns:
        raise DataError("the new data have a column for none of the variables", code="unknown-column")
    n_rows = len(next(iter(columns.values())).values)
    target = fit.model.model.target  # type: ignore[attr-defined]
    labels = bound.labels.get(fit.model.data.rows, np.arange(n_rows))
    out: dict[str, Any] = {fit.model.data.rows: labels}
    if structures.discrete:
        if kind != "probabilities":
            raise OptionError(
                f"states have no mean; averaged over structures, kind is 'probabilities', not {kind!r}",
                code="not-applicable",
            )
        codes = codes_from(structures.states, columns, n_rows)
        if target is not None:
            codes[:, structures.variable(target)] = -1
        _some(np.any(codes < 0))
        answers = structures.predictions(codes, target)
        impossible = np.flatnonzero(~np.isfinite(answers.pop("log_evidence")))
        if impossible.size:
            raise DataError(
                f"row {impossible[0] + 1} of the new data has probability zero under the model", code="probability-zero"
            )
        return pd.DataFrame(out | answers)
    if not structures.gaussian:
        raise OptionError("mixed nets are queried row by row: fit.structures.query({...})", code="not-applicable")
    if kind != "mean":
        raise OptionError(
            f"numbers predicted from averaged structures have kind 'mean', not {kind!r}", code="not-applicable"
        )
    values = np.full((n_rows, len(structures.names)), np.nan)
    for v, column in columns.items():
        values[:, structures.variable(v)] = np.where(column.absent(), np.nan, column.values)
    if target is not None:
        values[:, structures.variable(target)] = np.nan
    _some(np.any(np.isnan(values)))
    wanted = [
        k
        for k in range(len(structures.names))
        if np.any(np.isnan(values[:, k])) and target in (None, structures.names[k])
    ]
    percent = f"{100 * ci_prob:g}"
    for k, parts in zip(wanted, _of_numbers(structures, values, wanted, ci_prob, seed), strict=True):
        name = "" if target is not None else f"{structures.names[k]}_"
        words = ("mean", "sd", f"eti{percent}_lb", f"eti{percent}_ub")
        out |= {f"{name}{word}": part for word, part in zip(words, parts, strict=True)}
    return pd.DataFrame(out)


def log_likelihoods(fit: Fitted, bound: Data) -> xr.Dataset:
    """Log probability (density) of each row at draws of structure and parameters."""
    structures = fit.view(structures_of)
    columns = {v: _column(bound, v) for v in structures.names if bound.has(v)}
    lacking = [v for v in structures.names if v not in columns or columns[v].absent().any()]
    if lacking and not structures.discrete:
        raise DataError(
            f"'{lacking[0]}' has missing cells: structures of continuous variables need complete rows", code="missing"
        )
    n_rows = len(next(iter(columns.values())).values)
    codes = codes_from(structures.states, columns, n_rows)
    numbers = [columns[v].values for v in structures.names if v not in structures.states]
    values = np.column_stack(numbers) if numbers else np.zeros((n_rows, 0))
    rng = stream(fit.seed, "likelihood")
    chosen = averages._Chosen.spaced(structures, _DRAWS)
    weigh = _of_observed if lacking else log_density
    terms = np.stack([weigh(_mixed(net), codes, values) for net in chosen.nets(rng)])
    # A variable cannot have the name of a dimension.
    name = "evidence" if fit.model.data.rows != "evidence" else "log_evidence"
    return _by_row(fit, bound, {name: terms.reshape(*chosen.of_draw.shape, n_rows)})


def _of_observed(net: MixedNetwork, codes: NDArray[np.integer], values: Array) -> Array:
    """Log probability of the observed cells of each row of states."""

    distinct, back = np.unique(codes, axis=0, return_inverse=True)
    tables = DiscreteNetwork(net.states, net.parents, net.tables)
    return np.asarray(JunctionTree.of(tables).query_many(distinct, []).log_evidence)[back.ravel()]


def replications(fit: Fitted, bound: Data, seed: int) -> xr.Dataset:
    """Replicated rows, as many as in the data, at draws of structure and parameters."""
    structures = fit.view(structures_of)
    n_rows = len(_column(bound, structures.names[0]).values)
    rng = stream(seed, "predict")
    chosen = averages._Chosen.spaced(structures, _DRAWS)
    made = [draws(_mixed(net), rng, n_rows) for net in chosen.nets(rng)]
    shape = (*chosen.of_draw.shape, n_rows)
    states = list(structures.states)
    others = [v for v in structures.names if v not in states]
    out = {v: np.stack([codes[:, states.index(v)] for codes, _ in made]).reshape(shape) for v in states}
    out |= {v: np.stack([values[:, others.index(v)] for _, values in made]).reshape(shape) for v in others}
    return _by_row(fit, bound, {v: out[v] for v in structures.names})


def _mixed(net: DiscreteNetwork | MixedNetwork) -> MixedNetwork:
    return net if isinstance(net, MixedNetwork) else MixedNetwork(net.states, net.parents, net.tables, {})


def _by_row(fit: Fitted, bound: Data, arrays: dict[str, Array]) -> xr.Dataset:

    rows = fit.model.data.rows
    n_draws = next(iter(arrays.values())).shape[1]
    lead = {"chain": fit.view(structures_of).chains, "draw": np.arange(n_draws)}
    attrs = {"creation_library": "bayeslab", "seed": fit.seed, "draws": "evenly spaced ones of the posterior"}
    return labelled(arrays, dict.fromkeys(arrays, (rows,)), bound.labels, lead, attrs).to_dataset()


def _some(anything: Any) -> None:
    if not anything:
        raise DataError(
            "the new rows have a value for every variable: nothing is left to predict (leave cells empty, or name a"
            " target in the model)",
            code="nothing-to-predict",
        )


def _column(bound: Data, name: str) -> Column:
    if name in bound.dataset.columns:
        return bound.dataset.columns[name]
    term = bound.term(name, missing=True)
    return Column(np.asarray(term.value), tuple(str(d) for d in term.dims))


def _of_numbers(
    structures: Structures, values: Array, wanted: list[int], ci_prob: float, seed: int, n_draws: int = 400
) -> Array:
    """Mean, sd and the ends of the interval of some variables in each row, shape (variable, 4, row)."""
    low, high = averages._tails(ci_prob)
    rng = stream(seed, "predict")
    spaced = averages._Chosen.spaced(structures, n_draws)
    normals = [joint(net) for net in spaced.nets(rng) if isinstance(net, MixedNetwork)]
    mean, factor = np.stack([one.mean for one in normals]), np.stack([one.factor for one in normals])
    noise = rng.standard_normal((_POINTS, len(normals), 1))
    out = np.full((len(wanted), 4, len(values)), np.nan)
    patterns, of_row = np.unique(np.isnan(values), axis=0, return_inverse=True)
    for number, missing in enumerate(patterns):
        rows = np.flatnonzero(of_row.ravel() == number)
        known = ~missing
        conditional = observe(mean[:, None, known], factor[:, None, known], values[rows][:, known])
        log_weight = np.broadcast_to(conditional.log_density, (len(normals), len(rows)))
        weight = np.exp(log_weight - log_weight.max(axis=0))
        weight = weight / weight.sum(axis=0)
        for i, k in enumerate(wanted):
            if not missing[k]:
                for part, value in enumerate((values[rows, k], 0.0, values[rows, k], values[rows, k])):
                    out[i, part, rows] = value
                continue
            at, left = conditional.update(mean[:, None, k], factor[:, None, k])
            sd = np.broadcast_to(lengths(left), at.shape)
            centre = (weight * at).sum(axis=0)
            spread = np.sqrt((weight * (sd**2 + (at - centre) ** 2)).sum(axis=0))
            points = (at + sd * noise).reshape(-1, len(rows))
            shares = np.tile(weight, (_POINTS, 1))
            ends = [averages._quantiles(points[:, [r]], shares[:, r], (low, high))[:, 0] for r in range(len(rows))]
            for part, value in enumerate((centre, spread, *np.array(ends).T)):
                out[i, part, rows] = value
    return out
