"""Relabelling of latent states: permutations that match states across draws by their probabilities at some rows.

References
----------
.. [1] Stephens (2000). Dealing with label switching in mixture models. JRSS B 62, 795-809.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from bayeslab.latents.labels.clusters import relabel_by_probabilities
from bayeslab.latents.latent import Law

__all__ = ["agreeing", "probabilities_at"]


def probabilities_at(laws: Iterable[Law], rows: np.ndarray) -> np.ndarray:
    """P(state | all rows) of some rows at each draw, (n_draws, len(rows), n_states)."""
    return np.stack([law.expected().posterior[rows] for law in laws])


def agreeing(laws: Iterable[Law], rows: np.ndarray, block: np.ndarray | None = None) -> np.ndarray:
    """Permutations of the states for which P(state | all rows) agrees best across draws [1]_.

    Parameters
    ----------
    laws
        The states given the data, at each draw.
    rows : ndarray of int
        Rows at which probabilities are compared.
    block : ndarray of int, optional
        The exchangeable states; default: all.

    Returns
    -------
    ndarray (n_draws, n_states), or of the block
        For each draw, the indices of its states in the common order.
    """
    chances = probabilities_at(laws, rows)
    if block is None:
        return relabel_by_probabilities(chances)
    if len(block) == 1:
        return np.tile(block, (len(chances), 1))
    within = chances[..., block] + 1e-12  # rows may have none of these states
    return block[relabel_by_probabilities(within / within.sum(axis=-1, keepdims=True))]
