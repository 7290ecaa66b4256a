r"""Reject option: the share of cases to leave undecided so that the others have few errors.

The cases with the lowest confidence are rejected first. If the confidence ranks the cases correctly, the error among
the remaining cases falls with every rejected case [1]_.

References
----------
.. [1] Chow (1970). On optimum recognition error and reject tradeoff. IEEE Transactions on Information Theory 16, 41-46.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayeslab.arrays import number, real, truths
from bayeslab.errors import OptionError

__all__ = ["margin", "rejection_curve", "share_rejected"]

Array = NDArray[np.float64]


def margin(scores: Any) -> Array:
    """Return the confidence of each case: its best score minus its second best; scores of shape (cases, classes)."""
    given = real(scores, "scores", ndim=2)
    if given.shape[1] < 2:
        raise OptionError(
            "a margin is between two scores: scores have the shape (cases, classes), two classes or more",
            code="wrong-shape",
        )
    two = np.sort(given, axis=1)[:, -2:]
    return np.asarray(two[:, 1] - two[:, 0])


def rejection_curve(confidence: Any, wrong: Any) -> tuple[Array, Array]:
    """Return the shares of rejected cases, starting at zero, and the error rates among the remaining cases.

    Cases with the same confidence are rejected together.

    Parameters
    ----------
    confidence
        One number per case.
    wrong
        Whether the decision of each case is wrong: truth values, or 1 and 0.
    """
    sure, wrong = real(confidence, "confidence"), truths(wrong, "wrong")
    if sure.shape != wrong.shape or sure.ndim != 1:
        raise OptionError(
            f"a confidence and a truth value for each case, not {sure.shape} and {wrong.shape}", code="wrong-shape"
        )
    order = np.argsort(-sure, kind="stable")
    errors = np.cumsum(wrong[order])
    left = np.arange(1, len(sure) + 1)
    last = np.append(np.diff(sure[order]) != 0, True)
    return np.asarray(1 - left[last] / len(sure))[::-1], np.asarray(errors[last] / left[last])[::-1]


def share_rejected(confidence: Any, wrong: Any, error: float = 0.005) -> float:
    """Return the smallest share to reject so that the rest has at most this error rate; 1 if no share is enough."""
    number(error, "error", 0, 1)
    shares, errors = rejection_curve(confidence, wrong)
    enough = np.flatnonzero(errors <= error)
    return float(shares[enough[0]]) if len(enough) else 1.0
