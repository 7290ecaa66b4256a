"""Densities in PyTensor graphs as tables over the values of the discrete cells that occur in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.replace import graph_replace, vectorize_graph
from pytensor.graph.traversal import ancestors

from bayeslab.families.graph.discrete_layout import Latent, tables_of
from bayeslab.latents.networks.elimination import Factor

__all__ = ["density_table"]


def density_table(
    name: str,
    value: Any,
    scopes: list[np.ndarray],
    latents: Sequence[Latent],
    cells: Mapping[Any, np.ndarray],
    number: int,
    length: int,
) -> tuple[Any, tuple[list[Factor], int]]:
    """Flat vector of a density at every value of its cells, and the start of each element's table."""
    above = set(ancestors([value]))
    used = [latent for latent in latents if latent.symbol in above]
    layout, factors, size = tables_of(name, scopes, used, [cells[each.symbol] for each in used], number, length)
    if not any(len(scope) for scope in scopes):
        return value.ravel() if value.ndim else value[None], (factors, size)
    tables = [
        _batched(value, dict(zip(used, table.values, strict=True)))[:, table.elements].ravel() for table in layout
    ]
    return pt.concatenate(tables) if len(tables) > 1 else tables[0], (factors, size)


def _batched(value: Any, values: Mapping[Latent, np.ndarray]) -> Any:
    """A density at some joint values of the discrete nodes: (values, elements)."""
    changes = {latent.symbol: pt.constant(some) for latent, some in values.items()}
    # A parameter whose prior depends on another would be copied: placeholders are replaced afterwards.
    drawn = [v for v in ancestors([value]) if v.owner is not None and hasattr(v.owner.op, "dist_params")]
    held = {v: v.type() for v in drawn}
    batched = vectorize_graph(graph_replace([value], held, strict=False)[0], changes)
    batched = graph_replace([batched], {symbol: v for v, symbol in held.items()}, strict=False)[0]
    return batched.reshape((len(next(iter(values.values()))), -1))
