"""What exact inference in a network answers: marginals, one row or many, and explanations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["BatchMarginals", "Explanation", "Marginals"]


@dataclass(frozen=True, eq=False)
class Marginals:
    """The answer to one query.

    Parameters
    ----------
    log_evidence : float
        Log probability of what was given (of a factor graph: log of the sum of the product).
    marginals : dict of str to ndarray
        Posterior probabilities of each target's states.
    """

    log_evidence: float
    marginals: dict[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class BatchMarginals:
    """The answer to many queries.

    Parameters
    ----------
    log_evidence : ndarray, shape (n_rows,)
        -inf where the row has probability zero.
    marginals : dict of str to ndarray, shape (n_rows, n_states)
        nan in rows of probability zero.
    """

    log_evidence: np.ndarray
    marginals: dict[str, np.ndarray]


@dataclass(frozen=True)
class Explanation:
    """States of variables, and the log of their probability given the evidence."""

    assignment: dict[str, str]
    log_probability: float
