"""Further rows for a fit: the posterior given all rows so far.

Of a process, chains continue from their partitions, with the new rows assigned to clusters. Other models are fitted to
all rows, so that the result does not depend on the batches in which rows came.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bayeslab import registry, running
from bayeslab.data.binding import bind
from bayeslab.data.bound import Data, Memory
from bayeslab.data.dataset import Column, Dataset
from bayeslab.data.tables import read_dataset
from bayeslab.engines.toolbox.contract import engine
from bayeslab.errors import BayeslabError, DataError, OptionError
from bayeslab.job import options_of
from bayeslab.language.spec import Model
from bayeslab.posterior.contract import Posterior, posterior_of
from bayeslab.preparation import prepared
from bayeslab.results.fitted import Fitted
from bayeslab.run_folder.folder import RunFolder

__all__ = ["longer", "updated"]


def updated(
    before: Fitted | str | os.PathLike[str],
    data: Any,
    *,
    draws: int | None = None,
    tune: int | None = None,
    seed: int | None = None,
    progress: bool = True,
    runs: str | os.PathLike[str] | None = None,
    name: str | None = None,
    cores: int | None = None,
) -> Fitted:
    """A fit to the rows of an earlier fit and new rows.

    The result is that of the model fitted to all rows at once, in whatever batches they came: exactly by method exact,
    and up to Monte Carlo error by method gibbs.

    Of a mixture with ``components: dirichlet_process`` each chain continues from its last partition: the new rows are
    assigned to clusters one by one, each given all rows before it, and sweeps over all rows follow. Its priors that are
    scaled to the data stay those of the earlier fit and are written into the model. All other models are fitted anew,
    with priors scaled to all rows, in the time that all rows take.

    Parameters
    ----------
    before
        A fit by method exact or gibbs, or its run folder.
    data
        The new rows, with the same columns as the old ones.
    draws, tune
        Draws and warm-up sweeps of each chain; default: as many as before; chains that continue have a fifth as much
        warm-up.
    seed
        Seed; None: the earlier fit's seed, plus one for chains that continue.
    runs
        Folder in which the run folder is created; None: beside that of the earlier fit, if it has one.

    Raises
    ------
    OptionError
        The earlier fit is by another method, or its data are not rows of a table.
    DataError
        The new rows lack a column, or have another kind of values in it.
    """
    fit = running.opened(before) if isinstance(before, str | os.PathLike) else before
    method = fit.info["method"]
    if method not in ("exact", "gibbs"):
        raise OptionError(
            f"rows are added to fits by method exact or gibbs, and this one is by {method}: fit all rows together",
            code="not-applicable",
        )
    if fit.data.dataset.rows not in fit.data.labels:
        raise OptionError("the data of this fit are not rows of a table: fit all data together", code="not-applicable")
    options = {k: v for k, v in {"draws": draws, "tune": tune, "cores": cores}.items() if v is not None}
    base = runs if runs is not None else fit.folder.parent if fit.folder is not None else None
    add = _continued if fit.has_group("partitions") else _refitted
    return add(fit, data, options, seed, _Place(base, name), progress)


@dataclass(frozen=True)
class _Place:
    """Where runs are stored, and the name of the new one: each may be None."""

    base: str | os.PathLike[str] | None
    name: str | None

    def folder(self, model: Model, bound: Data, info: Mapping[str, Any]) -> RunFolder | None:
        """The folder of the new run, with what it begins from; None if runs are not stored."""
        if self.base is None:
            return None
        folder = RunFolder.create(self.base, self.name or model.name)
        folder.write_inputs(model, bound.dataset)
        folder.write_info(dict(info))
        return folder


def _refitted(
    fit: Fitted, data: Any, options: Mapping[str, Any], seed: int | None, place: _Place, progress: bool
) -> Fitted:
    """The model fitted anew to all rows."""
    method = fit.info["method"]
    posterior, reason = _of_all_rows(fit, fit.model, data, None)
    work = prepared(posterior, method, {**fit.info["options"], **options}, fit.seed if seed is None else seed)
    reason = f"{method} of the rows of {reason}"
    info = running.described(work.model, work.data, method, reason, work.options, work.seed)
    folder = place.folder(work.model, work.data, info)
    with running.alone(folder):
        return running.run(replace(work, reason=reason, info=info), folder, progress)


def _continued(
    fit: Fitted, data: Any, options: Mapping[str, Any], seed: int | None, place: _Place, progress: bool
) -> Fitted:
    """Chains that start from the last partitions, with the new rows assigned."""
    method, before = fit.info["method"], fit.info["options"]
    posterior, reason = _of_all_rows(fit, fit.bound_model.with_fitted_priors(), data, fit.data.memory())
    kept = {"chains": fit.posterior.sizes["chain"], "tune": max(1, before["tune"] // 5)}
    settings = options_of(engine(method).options, {**before, **kept, **options}, method)
    seed = fit.seed + 1 if seed is None else seed
    group = fit.data_tree.children["partitions"].to_dataset()
    labels, alphas = group["labels"].to_numpy()[:, -1], group["concentration"].to_numpy()[:, -1]
    chains = posterior.joined(labels, alphas, seed, settings)
    model, bound = posterior.model, posterior.data
    info = running.described(model, bound, method, f"{method} goes on from {reason}", settings, seed)
    return running.carried_on(posterior, settings, info, place.folder(model, bound, info), chains, progress)


def _of_all_rows(fit: Fitted, model: Model, data: Any, memory: Memory | None) -> tuple[Posterior, str]:
    """The posterior of a model given the rows of a fit and new rows; and how many there are, in words."""
    source = fit.model.data.model_copy(update={"table": None, "arrays": None, "tables": {}})
    old = fit.data.dataset
    new = read_dataset(source, None, data, fit.model.declared()).complete(old.columns).plain().with_truths_of(old)
    if old.counts is not None:
        # Computed columns of folded rows have means of their own, and are not functions of other columns.
        computed = old.columns.keys() & model.data.derive.keys()
        new = bind(model, new, model.factors(), memory).settled(computed)
    whole = longer(_without_unused(model, old, new, fit.info["method"]), new)
    bound = bind(model, whole, model.factors(), memory)
    registry.load("families", model.model.family).check(model, bound.names())
    n_rows, n_before = (len(d.labels[d.dataset.rows]) for d in (bound, fit.data))
    return posterior_of(model, bound), f"a fit of {n_before:,} rows with {n_rows - n_before:,} more"


def _without_unused(model: Model, before: Dataset, new: Dataset, method: str) -> Dataset:
    """The former rows without columns that the new rows lack and the model does not use."""
    spare = {name for name, column in before.columns.items() if column.dims == (before.rows,)} - new.columns.keys()
    if spare and not _fits_without(model, before, spare, method):
        spare = {name for name in spare if _fits_without(model, before, {name}, method)}
    return replace(before, columns={name: c for name, c in before.columns.items() if name not in spare})


def _fits_without(model: Model, data: Dataset, names: Set[str], method: str) -> bool:
    """Whether the model can be fitted by a method to data without some columns."""
    rest = replace(data, columns={name: column for name, column in data.columns.items() if name not in names})
    try:
        bound = bind(model, rest, model.factors())
        registry.load("families", model.model.family).check(model, bound.names())
        return not engine(method).refuse(posterior_of(model, bound))
    except BayeslabError:
        return False


def longer(first: Dataset, second: Dataset) -> Dataset:
    """The rows of two tables, concatenated.

    Raises
    ------
    DataError
        A column is missing or has another type.
    """
    columns = {}
    for name, column in first.columns.items():
        if column.dims != (first.rows,):
            columns[name] = column
            continue
        if name not in second.columns:
            raise DataError(f"the new rows have no column '{name}', which the fit has", code="unknown-column")
        other = second.columns[name]
        if other.dims is None or len(other.dims) != 1 or other.text != column.text:
            raise DataError(
                f"column '{name}' of the new rows is not of the kind that it has in the fit", code="other-kind"
            )
        missing = None
        if column.missing is not None or other.missing is not None:
            missing = np.concatenate([column.absent(), other.absent()])
        values = np.concatenate([column.values, other.values])
        columns[name] = Column(values, column.dims, missing, _order(name, column, other), column.truth)
    levels = {dim: names for dim, names in first.levels.items() if dim != first.rows}
    if first.rows in first.levels and second.rows in second.levels:
        levels[first.rows] = np.concatenate([first.levels[first.rows], second.levels[second.rows]])
    counts = None
    if first.counts is not None or second.counts is not None:
        counts = np.concatenate([_counts(first), _counts(second)])
    return Dataset(columns, first.rows, levels, counts=counts)


def _counts(dataset: Dataset) -> np.ndarray:
    """How many rows each row stands for."""
    if dataset.counts is not None:
        return dataset.counts
    return np.ones(next(len(c.values) for c in dataset.columns.values() if c.dims == (dataset.rows,)))


def _order(name: str, column: Column, other: Column) -> tuple[str, ...] | None:
    """The order of the levels of a column, if the data of the fit have one."""
    if column.order is None:
        return None
    strange = sorted(set(other.values[~other.absent()]) - set(column.order))
    if strange:
        raise DataError(
            f"column '{name}' of the new rows has '{strange[0]}', which has no place in the order of the fit's levels,"
            f" {' < '.join(column.order)}",
            code="unknown-level",
        )
    return column.order
