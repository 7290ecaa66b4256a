"""Exchangeable states of hidden paths: detection, and consistent relabelling across draws.

States are exchangeable if permuting them does not change the model's density. This is tested at draws of the parameters
for two permutations that generate all others. Then each draw's states are relabelled so that the posteriors of the path
agree (Stephens's algorithm [1]_), and numbered by the mean of a parameter with one number for each state.

References
----------
.. [1] Stephens (2000). Dealing with label switching in mixture models. JRSS B 62, 795-809.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from bayeslab.families.graph.path_sums import PathSum, Sums
from bayeslab.latents.labels.clusters import relabel_by_probabilities
from bayeslab.posterior.evaluation import expand
from bayeslab.posterior.transforms import constrained, tables_at, unconstrained

if TYPE_CHECKING:
    import pymc

__all__ = ["relabelled"]

# Number of cells used for relabelling, and number of draws at which exchangeability is tested.
_TELLING, _TRIED = 60, 3


def relabelled(
    model: pymc.Model, sums: Sums, twins: Mapping[str, str], draws: Mapping[str, np.ndarray]
) -> tuple[dict[str, np.ndarray], str] | None:
    """Relabel exchangeable states consistently across draws; with a description of which states.

    Parameters
    ----------
    model, sums
        The graph that was fitted.
    twins : mapping of str to str
        Dimensions that are twins of other dimensions.
    draws
        All posterior draws by name, shape (draws, ...).

    Returns
    -------
    (dict, str) or None
        Only the values that may change; None if no states are exchangeable.
    """
    parameters = {rv.name: draws[rv.name] for rv in model.free_RVs if rv.name in draws}
    if len(parameters) < len(model.free_RVs):
        return None
    moved, named = dict(parameters), []
    states = {path.latent.name: draws[path.latent.name] for path in sums.paths if path.latent.name in draws}
    for dim, paths in _by_dimension(sums.paths).items():
        axes = {dim, *(twin for twin, base in twins.items() if base == dim)}
        touched = {name for name in moved if axes & set(model.named_vars_to_dims.get(name) or ())}
        if paths[0].law.n_states < 2 or not touched or not _exchangeable(model, sums, moved, axes):
            continue
        moves = relabel_by_probabilities(_probabilities(model, sums, paths, moved))
        moves = moves[:, _rule(model, _permuted(model, moved, moves, axes), dim)]
        moved = _permuted(model, moved, moves, axes)
        back = np.argsort(moves, axis=1)
        for path in paths:
            if (name := path.latent.name) in states:
                shape = states[name].shape
                states[name] = np.take_along_axis(back, states[name].reshape(len(moves), -1), axis=1).reshape(shape)
        named += [path.latent.name for path in paths]
    if not named:
        return None
    out = {name: value for name, value in moved.items() if value is not parameters[name]}
    out |= {name: states[name] for name in named if name in states}
    computed = [d.name for d in model.deterministics if d.name in draws]
    if computed:
        whole = constrained(model, unconstrained(model, moved))
        out |= {name: whole[name] for name in computed}
    return out, ", ".join(f"'{name}'" for name in named)


def _by_dimension(paths: Sequence[PathSum]) -> dict[str, list[PathSum]]:
    out: dict[str, list[PathSum]] = {}
    for path in paths:
        if path.path.state is not None:
            out.setdefault(path.path.state, []).append(path)
    return out


def _permuted(
    model: pymc.Model, draws: Mapping[str, np.ndarray], moves: np.ndarray, axes: set[str]
) -> dict[str, np.ndarray]:
    """Draws with states permuted by ``moves`` (draws, states)."""
    out = {}
    for name, value in draws.items():
        dims = model.named_vars_to_dims.get(name) or ()
        new = value
        for axis, dim in enumerate(dims):
            if dim in axes:
                index = moves.reshape(len(moves), *(-1 if at == axis else 1 for at in range(len(dims))))
                new = np.take_along_axis(new, index, axis=axis + 1)
        out[name] = new
    return out


def _exchangeable(model: pymc.Model, sums: Sums, draws: Mapping[str, np.ndarray], axes: set[str]) -> bool:
    """Whether the density is invariant under a permutation of the states."""
    n = next(
        value.shape[1 + (model.named_vars_to_dims[name].index(dim))]
        for name, value in draws.items()
        for dim in model.named_vars_to_dims.get(name) or ()
        if dim in axes
    )
    some = np.unique(np.linspace(0, len(next(iter(draws.values()))) - 1, _TRIED).astype(int))
    tried = {name: np.asarray(value)[some] for name, value in draws.items()}
    height = _height(model, sums, tried)
    swap = np.arange(n)
    swap[:2] = 1, 0
    for order in (swap, np.roll(np.arange(n), 1)):
        other = _height(model, sums, _permuted(model, tried, np.tile(order, (len(some), 1)), axes))
        if not np.allclose(other, height, rtol=1e-8, atol=1e-6):
            return False
    return True


def _height(model: pymc.Model, sums: Sums, draws: Mapping[str, np.ndarray]) -> np.ndarray:
    """Log density (draws,) of parameters and data, without Jacobians."""
    with np.errstate(all="ignore"):
        values = unconstrained(model, draws)
        terms = expand(
            model, values, model.logp(vars=[*model.free_RVs, *model.observed_RVs], sum=False, jacobian=False)
        )
        total = sum((term.reshape(len(term), -1).sum(axis=1) for term in terms), start=np.zeros(len(terms[0])))
        if np.isnan(total).any():
            return total
        return np.asarray(total + np.concatenate([sums.log_evidence(t) for t in tables_at(model, sums, draws)]))


def _probabilities(
    model: pymc.Model, sums: Sums, paths: Sequence[PathSum], draws: Mapping[str, np.ndarray]
) -> np.ndarray:
    """P(state | data) at each draw, of a few cells: (draws, cells, states)."""
    which = [sums.paths.index(path) for path in paths]
    out = []
    for tables in tables_at(model, sums, draws):
        parts = sums.parts(tables)
        for n in range(len(tables)):
            each = [sums.paths[k].smoothed(parts[k][n]) for k in which]
            whole = np.concatenate(each)
            out.append(whole[np.unique(np.linspace(0, len(whole) - 1, _TELLING).astype(int))])
    return np.stack(out)


def _rule(model: pymc.Model, draws: Mapping[str, np.ndarray], dim: str) -> np.ndarray:
    """The order of the states by the mean of the first parameter with one number for each."""
    for name, value in draws.items():
        if tuple(model.named_vars_to_dims.get(name) or ()) == (dim,):
            return np.argsort(value.mean(axis=0), kind="stable")
    first = next(
        (value, model.named_vars_to_dims[name].index(dim))
        for name, value in draws.items()
        if dim in (model.named_vars_to_dims.get(name) or ())
    )
    value, axis = first
    return np.argsort(np.moveaxis(value, axis + 1, 0).reshape(value.shape[axis + 1], -1).mean(axis=1), kind="stable")
