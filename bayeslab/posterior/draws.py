"""Posterior draws one by one, and evenly spaced subsets of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import numpy as np

from bayeslab.errors import ModelError

__all__ = ["each_draw", "evenly"]


def evenly(n: int, most: int) -> np.ndarray:
    """Indices of at most ``most`` evenly spaced elements of n."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).astype(int))


def each_draw(
    draws: Mapping[str, np.ndarray], names: Collection[str], most: int | None = None
) -> Iterator[dict[str, np.ndarray]]:
    """Values of the parameters at each draw, or at ``most`` of them, evenly spaced; once if there are no parameters.

    Parameters
    ----------
    draws : mapping of str to ndarray
        Draws by name, shape (draws, ...).
    names : collection of str
        The parameters.

    Raises
    ------
    ModelError
        A parameter has no draws.
    """
    if lacking := [name for name in names if name not in draws]:
        raise ModelError(f"'{lacking[0]}' is unknown: fit the model, or give it as numbers", code="not-learned")
    n = len(draws[next(iter(names))]) if names else 1
    for i in range(n) if most is None else evenly(n, most):
        yield {name: draws[name][i] for name in names}
