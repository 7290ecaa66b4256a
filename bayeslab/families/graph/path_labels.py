"""Exchangeable states of hidden paths: detection, and consistent relabelling across draws.

States are exchangeable if permuting them does not change the model's density. This is tested at draws of the parameters
for two permutations that generate all others. Then each draw's states are relabelled so that the posteriors of the path
agree (Stephens's algorithm [1]_), and numbered by the mean of a parameter with one number for each state.

References
----------
.. [1] Stephens (2000). Dealing with label switching in mixture models. JRSS B 62, 795-809.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from bayeslab.families.graph.discrete_layout import Latent
from bayeslab.families.graph.lowered_draws import PathSum
from bayeslab.latents.labels.clusters import relabel_by_probabilities
from bayeslab.posterior.evaluation import expand
from bayeslab.posterior.machine.model import MachineModel
from bayeslab.posterior.machine.program import Program
from bayeslab.posterior.transforms import constrained, tables_at, unconstrained

if TYPE_CHECKING:
    import pymc

    from bayeslab.families.graph.path_sums import Sums

__all__ = ["Hidden", "HiddenInGraph", "HiddenInProgram", "relabelled"]

# Number of cells used for relabelling, and number of draws at which exchangeability is tested.
_TELLING, _TRIED = 60, 3


class Hidden(ABC):
    """A model with hidden paths that are summed out, evaluated at draws of its parameters by name."""

    @property
    @abstractmethod
    def paths(self) -> Sequence[Latent]:
        """The paths that are linked to no other discrete node."""

    @property
    @abstractmethod
    def parameters(self) -> Sequence[str]:
        """Names of the parameters."""

    @property
    @abstractmethod
    def deterministics(self) -> Sequence[str]:
        """Names of the deterministic nodes."""

    @abstractmethod
    def dims(self, name: str) -> tuple[str | None, ...]:
        """Dimensions of a parameter."""

    @abstractmethod
    def height(self, draws: Mapping[str, np.ndarray]) -> np.ndarray:
        """Log density (draws,) of parameters and data, without Jacobians."""

    @abstractmethod
    def probabilities(self, paths: Sequence[Latent], draws: Mapping[str, np.ndarray]) -> np.ndarray:
        """P(state | data) at each draw, of a few cells: (draws, cells, states)."""

    @abstractmethod
    def computed(self, draws: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The deterministic nodes at each draw."""


@dataclass(frozen=True, eq=False)
class HiddenInGraph(Hidden):
    """A graph of PyMC for fitting, and its sums."""

    model: pymc.Model
    sums: Sums

    @property
    def paths(self) -> Sequence[Latent]:
        return [path.latent for path in self.sums.paths]

    @property
    def parameters(self) -> Sequence[str]:
        return [rv.name for rv in self.model.free_RVs]

    @property
    def deterministics(self) -> Sequence[str]:
        return [d.name for d in self.model.deterministics]

    def dims(self, name: str) -> tuple[str | None, ...]:
        return tuple(self.model.named_vars_to_dims.get(name) or ())

    def height(self, draws: Mapping[str, np.ndarray]) -> np.ndarray:
        model = self.model
        with np.errstate(all="ignore"):
            values = unconstrained(model, draws)
            terms = expand(
                model, values, model.logp(vars=[*model.free_RVs, *model.observed_RVs], sum=False, jacobian=False)
            )
            total = sum((term.reshape(len(term), -1).sum(axis=1) for term in terms), start=np.zeros(len(terms[0])))
            if np.isnan(total).any():
                return total
            return np.asarray(
                total + np.concatenate([self.sums.log_evidence(t) for t in tables_at(model, self.sums, draws)])
            )

    def probabilities(self, paths: Sequence[Latent], draws: Mapping[str, np.ndarray]) -> np.ndarray:
        which, out = [k for k, path in enumerate(self.sums.paths) if path.latent in paths], list[np.ndarray]()
        for tables in tables_at(self.model, self.sums, draws):
            parts = self.sums.parts(tables)
            for n in range(len(tables)):
                out.append(_some_cells([self.sums.paths[k].smoothed(parts[k][n]) for k in which]))
        return np.stack(out)

    def computed(self, draws: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        whole = constrained(self.model, unconstrained(self.model, draws))
        return {name: whole[name] for name in self.deterministics if name in whole}


@dataclass(frozen=True, eq=False)
class HiddenInProgram(Hidden):
    """A program of the density machine."""

    machine: MachineModel

    @cached_property
    def _parts(self) -> list[tuple[int, PathSum]]:
        return [(k, part) for k, part in enumerate(self.machine.sums) if isinstance(part, PathSum)]

    @cached_property
    def _without_jacobian(self) -> Program:
        return Program(self.machine.builder, ("prior", "likelihood"))

    @property
    def paths(self) -> Sequence[Latent]:
        return [part.latent for _, part in self._parts]

    @property
    def parameters(self) -> Sequence[str]:
        return [parameter.name for parameter in self.machine.parameters]

    @property
    def deterministics(self) -> Sequence[str]:
        return self.machine.deterministics

    def dims(self, name: str) -> tuple[str | None, ...]:
        return tuple(self.machine.dims.get(name) or ())

    def height(self, draws: Mapping[str, np.ndarray]) -> np.ndarray:
        with np.errstate(all="ignore"):
            points = self.machine.points_at(draws)
        return np.array([self._without_jacobian.value_and_gradient(point)[0] for point in points])

    def probabilities(self, paths: Sequence[Latent], draws: Mapping[str, np.ndarray]) -> np.ndarray:
        which, out = [(k, part) for k, part in self._parts if part.latent in paths], list[np.ndarray]()
        for tables in self.machine.tables_at(self.machine.points_at(draws)):
            for n in range(len(tables[which[0][0]][0])):
                out.append(_some_cells([part.smoothed([table[n] for table in tables[k]]) for k, part in which]))
        return np.stack(out)

    def computed(self, draws: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        whole = self.machine.program.outputs(self.machine.points_at(draws))
        return {name: whole[name] for name in self.deterministics}


def _some_cells(probabilities: Sequence[np.ndarray]) -> np.ndarray:
    whole = np.concatenate(probabilities)
    return np.asarray(whole[np.unique(np.linspace(0, len(whole) - 1, _TELLING).astype(int))])


def relabelled(
    hidden: Hidden, twins: Mapping[str, str], draws: Mapping[str, np.ndarray]
) -> tuple[dict[str, np.ndarray], str] | None:
    """Relabel exchangeable states consistently across draws; with a description of which states.

    Parameters
    ----------
    hidden
        The model that was fitted.
    twins : mapping of str to str
        Dimensions that are twins of other dimensions.
    draws
        All posterior draws by name, shape (draws, ...).

    Returns
    -------
    (dict, str) or None
        Only the values that may change; None if no states are exchangeable.
    """
    parameters = {name: draws[name] for name in hidden.parameters if name in draws}
    if len(parameters) < len(hidden.parameters):
        return None
    moved, named = dict(parameters), []
    states = {path.name: draws[path.name] for path in hidden.paths if path.name in draws}
    for dim, paths in _by_dimension(hidden.paths).items():
        axes = {dim, *(twin for twin, base in twins.items() if base == dim)}
        touched = {name for name in moved if axes & set(hidden.dims(name))}
        if paths[0].states < 2 or not touched or not _exchangeable(hidden, moved, axes):
            continue
        moves = relabel_by_probabilities(hidden.probabilities(paths, moved))
        moves = moves[:, _rule(hidden, _permuted(hidden, moved, moves, axes), dim)]
        moved = _permuted(hidden, moved, moves, axes)
        back = np.argsort(moves, axis=1)
        for path in paths:
            if path.name in states:
                shape = states[path.name].shape
                flat = states[path.name].reshape(len(moves), -1)
                states[path.name] = np.take_along_axis(back, flat, axis=1).reshape(shape)
        named += [path.name for path in paths]
    if not named:
        return None
    out = {name: value for name, value in moved.items() if value is not parameters[name]}
    out |= {name: states[name] for name in named if name in states}
    if any(name in draws for name in hidden.deterministics):
        out |= {name: values for name, values in hidden.computed(moved).items() if name in draws}
    return out, ", ".join(f"'{name}'" for name in named)


def _by_dimension(paths: Sequence[Latent]) -> dict[str, list[Latent]]:
    out: dict[str, list[Latent]] = {}
    for latent in paths:
        if latent.path is not None and latent.path.state is not None:
            out.setdefault(latent.path.state, []).append(latent)
    return out


def _permuted(
    hidden: Hidden, draws: Mapping[str, np.ndarray], moves: np.ndarray, axes: set[str]
) -> dict[str, np.ndarray]:
    """Draws with states permuted by ``moves`` (draws, states)."""
    out = {}
    for name, value in draws.items():
        dims = hidden.dims(name)
        new = value
        for axis, dim in enumerate(dims):
            if dim in axes:
                index = moves.reshape(len(moves), *(-1 if at == axis else 1 for at in range(len(dims))))
                new = np.take_along_axis(new, index, axis=axis + 1)
        out[name] = new
    return out


def _exchangeable(hidden: Hidden, draws: Mapping[str, np.ndarray], axes: set[str]) -> bool:
    """Whether the density is invariant under a permutation of the states."""
    n = next(
        value.shape[1 + hidden.dims(name).index(dim)]
        for name, value in draws.items()
        for dim in hidden.dims(name)
        if dim in axes
    )
    some = np.unique(np.linspace(0, len(next(iter(draws.values()))) - 1, _TRIED).astype(int))
    tried = {name: np.asarray(value)[some] for name, value in draws.items()}
    height = hidden.height(tried)
    swap = np.arange(n)
    swap[:2] = 1, 0
    for order in (swap, np.roll(np.arange(n), 1)):
        other = hidden.height(_permuted(hidden, tried, np.tile(order, (len(some), 1)), axes))
        if not np.allclose(other, height, rtol=1e-8, atol=1e-6):
            return False
    return True


def _rule(hidden: Hidden, draws: Mapping[str, np.ndarray], dim: str) -> np.ndarray:
    """The order of the states by the mean of the first parameter with one number for each."""
    for name, value in draws.items():
        if hidden.dims(name) == (dim,):
            return np.argsort(value.mean(axis=0), kind="stable")
    value, axis = next(
        (value, hidden.dims(name).index(dim)) for name, value in draws.items() if dim in hidden.dims(name)
    )
    return np.argsort(np.moveaxis(value, axis + 1, 0).reshape(value.shape[axis + 1], -1).mean(axis=1), kind="stable")
