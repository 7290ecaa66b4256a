"""Checks that log likelihoods of two models are on the same scale, so that their difference is meaningful."""

from __future__ import annotations

import numpy as np

from bayeslab.errors import DataError
from bayeslab.posterior.contract import Posterior
from bayeslab.posterior.event_kinds import ATOM, DENSITY, GIVEN, LEFT, PROBABILITY, RIGHT, UNREAD

__all__ = ["Named", "conditioned", "kinds", "same_events", "same_weights", "unlike_kinds"]

# The name of a model, and the model on its data.
type Named = tuple[str, Posterior]

_WORDS = {
    DENSITY: "a value with a density",
    PROBABILITY: "a value with a probability",
    LEFT: "censored on the left",
    RIGHT: "censored on the right",
    ATOM: "a bound or another value with a probability of its own",
    UNREAD: "perhaps beyond a bound, which depends on parameters",
    GIVEN: "conditioned on, and not predicted,",
}


def same_weights(one: Named, other: Named) -> None:
    """Refuse log likelihoods that are multiplied by different weights.

    Raises
    ------
    DataError
    """
    given = [posterior.row_weights() for _, posterior in (one, other)]
    for outcome in sorted(given[0].keys() | given[1].keys()):
        a, b = (weights.get(outcome, np.ones(1)) for weights in given)
        unlike = len({each.shape for each in (a, b)} - {(1,)}) > 1
        if unlike or not np.all(a == b):
            raise DataError(
                f"'{one[0]}' and '{other[0]}' weigh the rows of '{outcome}' differently: log likelihoods times unlike"
                f" weights have no common scale; compare predictions of single rows instead (cross_validate)",
                code="different-data",
            )


def kinds(outcome: str, posterior: Posterior) -> np.ndarray | None:
    """The kind of the likelihood term of each value of an outcome; None if the family does not provide it."""
    return posterior.event_kinds().get(outcome)


def conditioned(outcome: str, posterior: Posterior, n_values: int) -> np.ndarray:
    """A mask (n_values,) of the values that the model conditions on: their likelihood is one and must not count."""
    marks = kinds(outcome, posterior)
    return np.zeros(n_values, bool) if marks is None or marks.size != n_values else np.ravel(marks == GIVEN)


def unlike_kinds(a: np.ndarray | None, b: np.ndarray | None) -> bool:
    """Whether an outcome is discrete in one model and continuous in the other, from both results of :func:`kinds`."""
    if a is None or b is None:
        return False
    return len({bool(np.all(marks[marks != GIVEN] == PROBABILITY)) for marks in (a, b)}) > 1


def same_events(outcome: str, one: tuple[str, np.ndarray | None], other: tuple[str, np.ndarray | None]) -> None:
    """Refuse values with a probability in one model and a density in the other, or with different events.

    Parameters
    ----------
    one, other
        The name of a model, and the result of :func:`kinds` for the outcome in it.

    Raises
    ------
    DataError
    """
    (_, a), (_, b) = one, other
    # A family without kinds has no censoring; whether the outcome is discrete is unknown.
    a, b = _uncensored(b) if a is None else a, _uncensored(a) if b is None else b
    if a.shape != b.shape or np.array_equal(a, b):
        return
    at = tuple(int(i) for i in np.argwhere(a != b)[0])
    advice = f"another unit of '{outcome}' could change the order of the models"
    if GIVEN in (a[at], b[at]):
        advice = "a value that is not predicted is no merit: give each model the rows with which it predicts the same"
    raise DataError(
        f"'{outcome}', row {', '.join(str(i + 1) for i in at)}, is {_WORDS[int(a[at])]} in '{one[0]}' and"
        f" {_WORDS[int(b[at])]} in '{other[0]}': their likelihoods have no common scale, and {advice}",
        code="different-data",
    )


def _uncensored(marks: np.ndarray | None) -> np.ndarray:
    if marks is None:
        return np.zeros(0)
    return np.where(np.isin(marks, (DENSITY, PROBABILITY)), marks, DENSITY)
