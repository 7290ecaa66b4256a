"""Initial and transition probabilities of a chain as variables, and states drawn from given uniform numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bayeslab.language.writer import Writer
from bayeslab.latents.chains.markov_chain import classes, stationary

__all__ = ["GivenUniforms", "chain_variables"]


def chain_variables(writer: Writer, chain: Any, start: Mapping[str, np.ndarray] | None) -> dict[str, Any]:
    """Initial and transition probabilities; learned ones have Dirichlet priors."""
    out: dict[str, Any] = {}
    if chain.transition is not None:
        out["transition"] = writer.constant(chain.transition)
    for name in chain.learned:
        a = chain.concentration(name)
        first, dims = None if start is None else start[name], chain.dims(name)
        if (a > 0).all():
            out[name] = writer.random(name, "Dirichlet", {"a": a}, a.shape, dims=dims, start=first)
        else:
            out[name] = writer.computed(name, _with_zeros(writer, name, a, first), dims)
    if isinstance(chain.initial, str):
        if chain.initial == "stationary":
            known = chain.transition is not None
            out["initial"] = (
                stationary(chain.transition) if known else _stationary(writer, out["transition"], chain.mask)
            )
    else:
        out["initial"] = chain.initial
    return out


def _with_zeros(writer: Writer, name: str, a: np.ndarray, start: np.ndarray | None) -> Any:
    """Rows with structural zeros, Dirichlet elsewhere; rows with equally many free cells are one variable."""
    cells, values, sizes = list[np.ndarray](), list[Any](), (a > 0).sum(axis=1)
    for n in np.unique(sizes):
        rows = np.flatnonzero(sizes == n)
        at = rows[:, None], np.stack([np.flatnonzero(a[row] > 0) for row in rows])
        if n == 1:
            values.append(np.ones(len(rows)))
        else:
            first = None if start is None else start[at]
            values.append(writer.random(f"_{name}_{n}", "Dirichlet", {"a": a[at]}, a[at].shape, start=first).ravel())
        cells.append(np.ravel_multi_index(np.broadcast_arrays(*at), a.shape).ravel())
    return writer.placed(a.shape, np.unravel_index(np.concatenate(cells), a.shape), writer.joined(values))


def _stationary(writer: Writer, transition: Any, mask: np.ndarray) -> Any:
    """The stationary distribution π, with π A = π and Σ π = 1: the solution of π (I - A + 1) = 1 if π is unique.

    Transient states have probability zero and are left out of the equations: rounding would give them small positive or
    negative values.
    """
    communicating_classes = classes(mask)
    members = np.array(
        next(
            states
            for states, closed in zip(communicating_classes.members, communicating_classes.closed, strict=True)
            if closed
        )
    )
    matrix = np.eye(len(members)) - transition[members[:, None], members] + 1.0
    shares = writer.ops.function("solve")(matrix.T, writer.constant(np.ones(len(members))))
    return writer.placed((len(mask),), (members,), shares)


class GivenUniforms(np.random.Generator):
    """A random generator whose uniform numbers are given."""

    def __init__(self, values: np.ndarray) -> None:
        super().__init__(np.random.PCG64(0))
        self._values = values

    def random(self, n: int) -> np.ndarray:  # type: ignore[override]
        return np.ascontiguousarray(self._values[:n])
