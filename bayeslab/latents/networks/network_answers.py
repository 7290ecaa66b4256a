"""Results of exact inference in a network: marginals of one or many queries, and explanations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["BatchMarginals", "Explanation", "Marginals"]


@dataclass(frozen=True, eq=False)
class Marginals:
    """The result of a query.

    Parameters
    ----------
    log_evidence : float
        Log probability of the evidence (for a factor graph: log of the sum of the product).
    marginals : dict of str to ndarray
        Posterior probabilities of the states of each target.
    """

    log_evidence: float
    marginals: dict[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class BatchMarginals:
    """The results of many queries.

    Parameters
    ----------
    log_evidence : ndarray, shape (n_rows,)
        -inf for rows of probability zero.
    marginals : dict of str to ndarray, shape (n_rows, n_states)
        NaN for rows of probability zero.
    """

    log_evidence: np.ndarray
    marginals: dict[str, np.ndarray]


@dataclass(frozen=True)
class Explanation:
    """States of variables, and their log probability given the evidence."""

    assignment: dict[str, str]
    log_probability: float
