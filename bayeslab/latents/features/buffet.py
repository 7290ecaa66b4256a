r"""The Indian buffet: binary matrices with no bound on the number of columns.

Customers come to a buffet one after the other [1]_. The first takes Poisson(α) dishes; customer n takes every dish
that m_k of those before have taken with probability m_k / n, and Poisson(α / n) new ones. Rows of Z are customers,
columns are dishes. The number of dishes of n customers is Poisson(α H_n), H_n = 1 + 1/2 + ... + 1/n, and every customer
takes Poisson(α) of them, whatever the order they came in.

The order of the columns means nothing: what has a probability is the class of matrices that are the same up to it,
whose member with columns in falling binary order is the left-ordered form. With K_+ columns, m_k ones in column k, and
K_h columns of each pattern h of ones [1]_ [2]_,

.. math:: P([Z]) = \frac{\alpha^{K_+}}{\prod_h K_h!} e^{-\alpha H_N}
   \prod_{k=1}^{K_+} \frac{(N - m_k)! \, (m_k - 1)!}{N!}.

It is the limit of Bernoulli columns whose probabilities are Beta(α / K, 1), K → ∞; with the probabilities kept it is a
beta process [3]_.

References
----------
.. [1] Griffiths, Ghahramani (2005). Infinite latent feature models and the Indian buffet process. NIPS 18.
.. [2] Griffiths, Ghahramani (2011). The Indian buffet process: an introduction and review. JMLR 12, 1185-1224.
.. [3] Thibaux, Jordan (2007). Hierarchical beta processes and the Indian buffet process. AISTATS 11, 564-571.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from bayeslab.errors import OptionError

__all__ = ["draw_alpha", "expected_dishes", "harmonic", "left_ordered", "log_probability", "simulate"]


def harmonic(n: int) -> float:
    """1 + 1/2 + ... + 1/n."""
    return float(np.sum(1 / np.arange(1, n + 1)))


def expected_dishes(alpha: float, n_customers: int) -> float:
    """Mean number of dishes that anyone takes, α H_n."""
    return alpha * harmonic(n_customers)


def simulate(alpha: float, n_customers: int, rng: np.random.Generator) -> np.ndarray:
    """Who takes which dish: (customers, dishes), dishes in the order they were first taken.

    Raises
    ------
    OptionError
        α is not positive, or there is no customer.
    """
    if not 0 < alpha < np.inf:
        raise OptionError(f"the concentration alpha of a buffet is positive, not {alpha!r}", code="out-of-range")
    if n_customers < 1:
        raise OptionError(f"a buffet has at least one customer, not {n_customers!r}", code="out-of-range")
    dishes = np.zeros((n_customers, 0), np.int8)
    for n in range(n_customers):
        dishes[n] = rng.random(dishes.shape[1]) < dishes[:n].sum(axis=0) / (n + 1)
        new = np.zeros((n_customers, rng.poisson(alpha / (n + 1))), np.int8)
        new[n] = 1
        dishes = np.hstack([dishes, new])
    return dishes


def left_ordered(matrix: np.ndarray) -> np.ndarray:
    """The matrix without empty columns, columns as binary numbers (first row the highest digit) falling."""
    used = matrix[:, matrix.any(axis=0)]
    return np.asarray(used[:, np.lexsort(-used[::-1])]) if used.shape[1] else used


def log_probability(matrix: np.ndarray, alpha: float) -> float:
    """log P([Z]) of the class of matrices with these columns in any order; empty columns do not count."""
    n = len(matrix)
    used = left_ordered(matrix)
    ones = used.sum(axis=0)
    _, alike = np.unique(used, axis=1, return_counts=True)
    terms = gammaln(n - ones + 1) + gammaln(ones) - gammaln(n + 1)
    return float(used.shape[1] * np.log(alpha) - gammaln(alike + 1).sum() - alpha * harmonic(n) + terms.sum())


def draw_alpha(n_dishes: int, n_customers: int, shape: float, rate: float, rng: np.random.Generator) -> float:
    """α given how many dishes were taken: Gamma(shape + K, rate + H_n) under a Gamma(shape, rate) prior."""
    return float(rng.gamma(shape + n_dishes) / (rate + harmonic(n_customers)))
