r"""Linear separability: tested by a linear programme, and counts of threshold functions of Boolean inputs.

Labels are linearly separable if some w, b satisfy :math:`y_i (w \cdot x_i + b) \ge 1` for all i. In d dimensions, d + 1
points in general position are separable under every labelling, but d + 2 points never are: the Vapnik-Chervonenkis
dimension of half-spaces is d + 1 [1]_. Few of the Boolean functions of n inputs are threshold functions [2]_.

References
----------
.. [1] Vapnik, Chervonenkis (1971). On the uniform convergence of relative frequencies of events to their
   probabilities. Theory of Probability and its Applications 16(2).
.. [2] Muroga (1971). Threshold Logic and its Applications. Wiley. (Integer weights up to 1, 1, 2, 3, 5 realise all
   threshold functions of 1 to 5 inputs.) OEIS A000609.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from bayeslab.arrays import count, real, two_sides
from bayeslab.errors import BayeslabError, OptionError

__all__ = ["separable", "separating_plane", "shattered", "threshold_functions"]

# Status of scipy's linprog for an infeasible programme.
_INFEASIBLE = 2
# Largest absolute integer weight needed for n inputs [2].
_WEIGHTS = {1: 1, 2: 1, 3: 2, 4: 3, 5: 5}


def separating_plane(points: Any, labels: Any) -> np.ndarray | None:
    """Return bias and weights (d + 1,) with scores of at least 1 on one side and at most -1 on the other, or None.

    Points with different labels that are nearer than about 1e-9 of a column's range count as identical, so that no
    plane separates them.

    Parameters
    ----------
    points
        Shape (points, d).
    labels
        Two values of any kind, one for each point: truth values, 0 and 1, -1 and 1, names. The value last in order
        has the scores of at least 1.

    Raises
    ------
    OptionError
        Points are not finite, there are more than two labels, or the numbers of labels and points differ.
    """
    from scipy.optimize import linprog

    x, side = real(points, "points"), two_sides(labels)
    if x.ndim != 2 or len(x) != len(side):
        raise OptionError(
            f"points have the shape (points, d), with one label each; given {x.shape} and {side.shape}",
            code="wrong-shape",
        )
    # Solvers have absolute tolerances: each column with its middle at 0 and its largest distance from it 1.
    middle = x.mean(axis=0)
    reach = np.abs(x - middle).max(axis=0)
    reach[reach == 0] = 1
    rows = -side[:, None] * np.column_stack([np.ones(len(x)), (x - middle) / reach])
    solution = linprog(np.zeros(x.shape[1] + 1), A_ub=rows, b_ub=-np.ones(len(x)), bounds=(None, None), method="highs")
    if solution.status == _INFEASIBLE:
        return None
    if solution.status != 0:
        raise BayeslabError(
            f"the linear programme of {len(x)} points was not solved: {solution.message}", code="not-converged"
        )
    weights = solution.x[1:] / reach
    return np.concatenate([[solution.x[0] - weights @ middle], weights])


def separable(points: Any, labels: Any) -> bool:
    """Return whether a plane separates the points of the two labels.

    Points nearer than about 1e-9 of a column's range count as identical.
    """
    return separating_plane(points, labels) is not None


def shattered(points: Any) -> bool:
    """Return whether half-spaces shatter the points, that is, realise every labelling."""
    x = real(points, "points", ndim=2)
    if len(x) > x.shape[1] + 1:
        # More than d + 1 points are never shattered [1]_.
        return False
    # A labelling is separable if and only if its opposite is: half of them are enough.
    return all(separable(x, [False, *rest]) for rest in itertools.product([False, True], repeat=len(x) - 1))


def threshold_functions(n: int) -> int:
    """Return the number of Boolean functions of n ≤ 5 inputs that one threshold unit realises.

    All necessary integer weights are tried with every threshold.
    """
    n = count(n, "n, the number of inputs of threshold functions,", 1, max(_WEIGHTS))
    inputs = np.array(list(itertools.product([0, 1], repeat=n)), np.int64)
    largest = _WEIGHTS[n]
    weights = np.array(list(itertools.product(range(-largest, largest + 1), repeat=n)), np.int64)
    bits = np.uint64(1) << np.arange(len(inputs), dtype=np.uint64)
    sums = weights @ inputs.T
    functions: set[int] = {0}
    for threshold in range(-largest * n, largest * n + 1):
        tables = ((sums >= threshold).astype(np.uint64) * bits).sum(axis=1)
        functions |= set(np.unique(tables).tolist())
    return len(functions)
