"""The record of a run, from which summaries, predictions and plots are computed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeslab.data.binding import bind
from bayeslab.data.bound import Data
from bayeslab.data.dataset import Dataset
from bayeslab.data.tables import read_dataset
from bayeslab.labelled import Group, of_dataset
from bayeslab.language.spec import Model
from bayeslab.posterior.contract import Posterior
from bayeslab.results.verdict import Verdict

if TYPE_CHECKING:
    import xarray as xr

__all__ = [
    "Fitted", "bound_dataset", "bound_to", "joined", "log_evidence", "posterior_values", "read_for", "without_cells",
]  # fmt: skip


class Fitted:
    """A fitted model.

    Attributes
    ----------
    bound_model : Posterior
        The model on its data.
    model : Model
    data : Data
        The data bound to the model.
    verdict : Verdict
        Whether the answer can be trusted.
    folder : Path or None
        The run folder.
    method, reason : str
        The engine, and why it was chosen.
    seed : int
    timings : dict of str to float
        Seconds of each phase.
    """

    def __init__(
        self,
        bound_model: Posterior,
        result: dict[str, Group] | xr.DataTree,
        verdict: Verdict,
        info: Mapping[str, Any],
        folder: Path | None,
    ) -> None:
        self.bound_model, self.verdict, self.folder = bound_model, verdict, folder
        self.info = dict(info)
        self._views: dict[Any, Any] = {}
        # One of the two is None: the groups after somebody asked for the tree.
        self._groups: dict[str, Group] | None = result if isinstance(result, dict) else None
        self._tree: xr.DataTree | None = None if isinstance(result, dict) else result

    @property
    def model(self) -> Model:
        return self.bound_model.model

    @property
    def data(self) -> Data:
        return self.bound_model.data

    @property
    def method(self) -> str:
        return str(self.info["method"])

    @property
    def reason(self) -> str:
        return str(self.info["reason"])

    @property
    def seed(self) -> int:
        return int(self.info["seed"])

    @property
    def timings(self) -> dict[str, float]:
        return dict(self.info["timings"])

    @property
    def result(self) -> dict[str, Group] | xr.DataTree:
        """The result as it is held: groups, or a tree."""
        return self.data_tree if self._groups is None else self._groups

    @property
    def data_tree(self) -> xr.DataTree:
        """The results as ArviZ's groups; every ArviZ function accepts it."""
        if self._tree is None:
            import xarray as xr

            made = {name: group.to_dataset() for name, group in (self._groups or {}).items()}
            self._tree, self._groups = xr.DataTree.from_dict(made), None
        return self._tree

    def has_group(self, name: str) -> bool:
        """Whether the result has a group of this name."""
        return name in (self.data_tree.children if self._groups is None else self._groups)

    def light_group(self, name: str) -> Group:
        """A group without xarray."""
        if self._groups is not None:
            return self._groups[name]
        return of_dataset(self.data_tree.children[name].to_dataset())

    @property
    def posterior(self) -> xr.DataTree:
        """The group ``posterior``; dims (chain, draw, ...)."""
        return self.data_tree.children["posterior"]

    def view[T](self, make: Callable[[Any], T]) -> T:
        """The result of a function of the fit, computed once and cached."""
        if make not in self._views:
            self._views[make] = make(self)
        made: T = self._views[make]
        return made

    def add(self, groups: Mapping[str, xr.Dataset]) -> None:
        """Add groups to :attr:`data_tree`, replacing groups of the same names."""
        import xarray as xr

        for name, group in groups.items():
            self.data_tree[name] = xr.DataTree(group)

    def group(self, name: str, make: Callable[[Any], xr.Dataset]) -> xr.DataTree:
        """A group of :attr:`data_tree`, computed if it is missing."""
        if name not in self.data_tree.children:
            self.add({name: make(self)})
        return self.data_tree.children[name]


def posterior_values(fit: Fitted) -> dict[str, np.ndarray]:
    """Posterior draws by node name, chains joined: shape (chain × draw, ...)."""
    # ``states`` are those whose number the data choose: their labels are arbitrary, so that they are not checked.
    names = [name for name in ("posterior", "states", "components") if fit.has_group(name)]
    out = {n: values for name in names for n, values in joined(fit.light_group(name)).items()}
    if fit.has_group("partitions"):
        out |= _kept_partitions(fit.light_group("partitions"))
    return out


def joined(group: Group) -> dict[str, np.ndarray]:
    """Draws with chains joined, (chain × draw, ...)."""
    arrays = {name: v.transpose("chain", "draw", ...).values for name, v in group.data_vars.items()}
    return {name: array.reshape(-1, *array.shape[2:]) for name, array in arrays.items()}


def _kept_partitions(group: Group) -> dict[str, np.ndarray]:
    """The stored partitions with chains joined, and for each draw the index of its partition (not all are stored)."""
    labels, of_draw = group["labels"].to_numpy(), group["of_draw"].to_numpy()
    places = of_draw + labels.shape[1] * np.arange(len(labels))[:, None]
    kept = {f"_{name}": v.to_numpy() for name, v in group.data_vars.items() if name != "of_draw"}
    return {name: v.reshape(-1, *v.shape[2:]) for name, v in kept.items()} | {"_of_draw": places.ravel()}


def bound_to(fit: Fitted, given: Any) -> Data:
    """New data, read as the data of the fit were, and bound to the model."""
    return bound_dataset(fit, read_for(fit, given))


def read_for(fit: Fitted, given: Any) -> Dataset:
    """New data, read as the data of the fit were."""
    source = fit.model.data.model_copy(update={"table": None, "arrays": None, "tables": {}})
    used = dict(source.dims)
    if not hasattr(given, "columns"):
        present = set(given) if isinstance(given, Mapping) else None
        used = {n: d for n, d in used.items() if present is None or n in present}
    source = source.model_copy(update={"dims": used})
    new = read_dataset(source, None, given, fit.model.declared())
    return new.complete(fit.data.dataset.columns).with_truths_of(fit.data.dataset).over(fit.data.dataset)


def without_cells(fit: Fitted, data: Data, name: str) -> Data:
    """The same rows with every cell of a column missing, read as the data of the fit were."""
    return bound_dataset(fit, data.dataset.emptied(name))


def bound_dataset(fit: Fitted, dataset: Dataset) -> Data:
    """New rows bound to the model of a fit."""
    bound = bind(fit.model, dataset, fit.model.factors(), fit.data.memory())
    bound.origin = fit.data
    return bound


def log_evidence(fit: Fitted) -> float:
    """The log evidence computed by the engine, else NaN."""
    for group in ("exact_posterior", "posterior"):
        if fit.has_group(group) and "log_evidence" in (attrs := fit.light_group(group).attrs):
            return float(attrs["log_evidence"])
    return math.nan
