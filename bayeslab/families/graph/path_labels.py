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

import numpy as np

from bayeslab.families.graph.discrete_layout import Latent
from bayeslab.families.graph.paths_at_draws import Hidden
from bayeslab.latents.labels.clusters import relabel_by_probabilities

__all__ = ["relabelled"]

# Number of cells used for relabelling, and number of draws at which exchangeability is tested.
_TELLING, _TRIED = 60, 3


def _probabilities(hidden: Hidden, paths: Sequence[Latent], draws: Mapping[str, np.ndarray]) -> np.ndarray:
    """P(state | data) at each draw, of a few cells: (draws, cells, states)."""
    which, out = [k for k, path in enumerate(hidden.paths) if path in paths], list[np.ndarray]()
    for pairs in hidden.at(draws):
        paths_and_pairs = [(hidden.paths[k], pairs[k]) for k in which]
        whole = np.concatenate([path.known_path.law.smoothed(path.name, *pair) for path, pair in paths_and_pairs])
        out.append(whole[np.unique(np.linspace(0, len(whole) - 1, _TELLING).astype(int))])
    return np.stack(out)


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
        moves = relabel_by_probabilities(_probabilities(hidden, paths, moved))
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
