"""Drawn structures as ArviZ's groups: edges by name, and each parent set stored once instead of in every draw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from bayeslab.structure.score_table import ScoreTable

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["MOST_CELLS", "edges_of", "members_of_sets", "structure_groups"]

# With more edge indicators than this, they are computed from `parents` when needed.
MOST_CELLS = 200_000_000


def structure_groups(
    table: ScoreTable,
    draws: NDArray[np.integer],
    scores: NDArray[np.float64] | None = None,
    *,
    prior: Literal["dags", "orders"] = "dags",
    attrs: Mapping[str, Any] | None = None,
    stats: Mapping[str, Any] | None = None,
    chains: Sequence[int] | None = None,
) -> dict[str, xr.Dataset]:
    """The groups ``posterior``, ``parent_sets`` and ``sample_stats``.

    Parameters
    ----------
    table
        The score table that was sampled from.
    draws : ndarray of int, shape (chain, draw, n)
        Index of each variable's parent set in the table.
    scores : ndarray, shape (chain, draw), optional
        Scores of the drawn DAGs; None: computed.
    prior
        Whether the chain samples ``dags`` or ``orders`` (its ``PRIOR``).
    attrs
        Attributes of all groups: provenance, and ``score_options``, the options of the score by name.
    stats
        Attributes of ``sample_stats``: sampler, temperatures, steps per draw, warm-up, seconds. Mappings here and in
        ``attrs``, such as ``{"acceptance": {"edge": 0.2}}``, become one attribute per number: ``acceptance_edge``.
    chains
        Numbers of the chains; default: 0, 1, ...
    """
    import xarray as xr

    draws = np.asarray(draws)
    n_chains, n_draws, _ = draws.shape
    used, parents = np.unique(draws, return_inverse=True)
    parents = parents.reshape(draws.shape).astype(np.int32)
    member = members_of_sets(table, used)
    if scores is None:
        scores = table.scores[draws].sum(axis=-1)
    sizes = member.sum(axis=1)
    names = np.array(table.names)
    coords = {"chain": np.arange(n_chains) if chains is None else np.asarray(chains), "draw": np.arange(n_draws)}
    variables: dict[str, tuple[tuple[str, ...], NDArray[Any]]] = {
        "score": (("chain", "draw"), np.asarray(scores, dtype=float)),
        "n_edges": (("chain", "draw"), sizes[parents].sum(axis=-1, dtype=np.int32)),
        "parents": (("chain", "draw", "target"), parents),
    }
    if draws.size * table.n <= MOST_CELLS:
        variables["edge"] = (("chain", "draw", "source", "target"), edges_of(member, parents))
    attributes = {"score": table.score, "prior": table.prior, "draws_of": prior}
    shared = _flat(attrs or {})
    sets = {
        "member": (("parent_set", "source"), member),
        "local_score": (("parent_set",), table.scores[used]),
        "child": (("parent_set",), np.searchsorted(table.pointer, used, side="right").astype(np.int32) - 1),
        "possible": (("source", "target"), _possible(table)),
    }
    return {
        "posterior": xr.Dataset(variables, {**coords, "source": names, "target": names}, shared | attributes),
        "parent_sets": xr.Dataset(sets, {"source": names, "target": names}, shared),
        "sample_stats": xr.Dataset(
            {"lp": (("chain", "draw"), variables["score"][1])}, coords, shared | attributes | _flat(stats or {})
        ),
    }


def members_of_sets(table: ScoreTable, numbers: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Members of the given parent sets of a table, as a mask of shape (n_numbers, n)."""
    return _bits(table.sets[numbers], table.n)


def edges_of(member: NDArray[np.bool_], parents: NDArray[np.integer]) -> NDArray[np.int8]:
    """Edge indicators, shape (..., source, target), from drawn parent sets, shape (..., target)."""
    return np.ascontiguousarray(np.swapaxes(member.astype(np.int8)[parents], -1, -2))


def _bits(sets: NDArray[np.uint64], n: int) -> NDArray[np.bool_]:
    u = np.arange(n)
    return (sets[:, u // 64] >> (u % 64).astype(np.uint64) & np.uint64(1)).astype(bool)


def _possible(table: ScoreTable) -> NDArray[np.bool_]:
    """A mask [source, target] of the possible edges: those in some parent set of the table."""
    out = np.zeros((table.n, table.n), dtype=bool)
    for v in range(table.n):
        sets = table.sets[table.pointer[v] : table.pointer[v + 1]]
        out[:, v] = _bits(np.bitwise_or.reduce(sets, axis=0)[None], table.n)[0] if len(sets) else False
    return out


def _flat(stats: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes in a form that files can store: plain numbers, words and lists."""
    out: dict[str, Any] = {}
    for name, value in stats.items():
        if isinstance(value, Mapping):
            out |= _flat({f"{name}_{kind}": part for kind, part in value.items()})
        else:
            out[name] = list(value) if isinstance(value, tuple) else value
    return out
