"""Adding rows to a fit of clusters: chains continue from their partitions, with the new rows assigned to clusters."""

from __future__ import annotations

import os
from collections.abc import Set
from dataclasses import replace
from typing import Any

import numpy as np

from bayeslab import registry, running
from bayeslab.data.binding import bind
from bayeslab.data.dataset import Column, Dataset
from bayeslab.data.tables import read_dataset
from bayeslab.engines.toolbox.contract import engine
from bayeslab.errors import BayeslabError, DataError, OptionError
from bayeslab.job import options_of
from bayeslab.language.spec import Model
from bayeslab.posterior.contract import posterior_of
from bayeslab.results.fitted import Fitted
from bayeslab.run_folder.folder import RunFolder

__all__ = ["extended", "longer"]


def extended(
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

    Each chain continues from its last partition: the new rows are assigned to clusters one by one, each given all rows
    before it, and sweeps over all rows follow. Priors, including those scaled to the data, stay those of the earlier
    fit and are written into the model, so the draws are those of a fit of that model to all rows.

    Parameters
    ----------
    before
        A fit of a mixture with ``components: dirichlet_process`` by method gibbs, or its run folder.
    data
        The new rows, with the same columns as the old ones.
    draws, tune
        Draws and warm-up sweeps of each chain; default: as many draws as before, and a fifth as much warm-up.
    seed
        Seed; None: the earlier fit's seed plus one.
    runs
        Folder in which the run folder is created; None: beside that of the earlier fit, if it has one.
    """
    fit = running.opened(before) if isinstance(before, str | os.PathLike) else before
    if not fit.has_group("partitions"):
        raise OptionError(
            "rows are added to fits by method gibbs of mixtures with components: dirichlet_process; fit again",
            code="not-applicable",
        )
    source = fit.model.data.model_copy(update={"table": None, "arrays": None, "tables": {}})
    new = (
        read_dataset(source, None, data, fit.model.declared())
        .complete(fit.data.dataset.columns)
        .plain()
        .with_truths_of(fit.data.dataset)
    )
    model = fit.bound_model.with_fitted_priors()
    whole = longer(_without_unused(model, fit.data.dataset, new), new)
    bound = bind(model, whole, model.factors(), fit.data.memory())
    registry.load("families", model.model.family).check(model, bound.names())
    posterior = posterior_of(model, bound)
    n_rows = len(bound.labels[bound.dataset.rows])
    seed = fit.seed + 1 if seed is None else seed
    given = dict(fit.info["options"]) | ({"cores": cores} if cores is not None else {})
    given["chains"] = fit.posterior.sizes["chain"]
    given["draws"] = given["draws"] if draws is None else draws
    given["tune"] = max(1, given["tune"] // 5) if tune is None else tune
    options = options_of(engine("gibbs").options, given, "gibbs")
    group = fit.data_tree.children["partitions"].to_dataset()
    labels, alphas = group["labels"].to_numpy()[:, -1], group["concentration"].to_numpy()[:, -1]
    chains = posterior.joined(labels, alphas, seed, options)
    base = runs if runs is not None else fit.folder.parent if fit.folder is not None else None
    folder = RunFolder.create(base, name or fit.model.name) if base is not None else None
    reason = f"gibbs goes on from a fit of {len(labels[0]):,} rows with {n_rows - len(labels[0]):,} more"
    info = running.described(model, bound, "gibbs", reason, options, seed)
    if folder:
        folder.write_inputs(model, bound.dataset)
        folder.write_info(info)
    return running.carried_on(posterior, options, info, folder, chains, progress)


def _without_unused(model: Model, before: Dataset, new: Dataset) -> Dataset:
    """The former rows without columns that the new rows lack and the model does not use."""
    spare = {name for name, column in before.columns.items() if column.dims == (before.rows,)} - new.columns.keys()
    if spare and not _fits_without(model, before, spare):
        spare = {name for name in spare if _fits_without(model, before, {name})}
    return replace(before, columns={name: c for name, c in before.columns.items() if name not in spare})


def _fits_without(model: Model, data: Dataset, names: Set[str]) -> bool:
    """Whether the model can be fitted to data without some columns."""
    rest = replace(data, columns={name: column for name, column in data.columns.items() if name not in names})
    try:
        bound = bind(model, rest, model.factors())
        registry.load("families", model.model.family).check(model, bound.names())
        return not isinstance(posterior_of(model, bound).gibbs_plan, str)
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
        columns[name] = Column(np.concatenate([column.values, other.values]), column.dims, missing)
    levels = {dim: names for dim, names in first.levels.items() if dim != first.rows}
    if first.rows in first.levels and second.rows in second.levels:
        levels[first.rows] = np.concatenate([first.levels[first.rows], second.levels[second.rows]])
    return Dataset(columns, first.rows, levels)
