"""The action with the smallest expected loss.

A loss gives the cost of each action in each state. The best action minimises the posterior expectation
of the loss [1]_:

=====================  ==================================  =============================
loss                   L(state y, action a)                best action
=====================  ==================================  =============================
squared                (y − a)²                            mean
absolute               abs(y − a)                          median
zero_one               0 if a = y, else 1                  mode
asymmetric             under · (y − a)⁺ + over · (a − y)⁺  quantile under/(under + over)
matrix                 a table, states by actions          the least row-weighted column
=====================  ==================================  =============================

References
----------
.. [1] Berger (1985). Statistical Decision Theory and Bayesian Analysis, 2nd ed., sections 4.4 and 2.4.
.. [2] Koenker, Bassett (1978). Regression quantiles. Econometrica 46(1), 33-50.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bayeslab.arrays import comparable, number, positions, real
from bayeslab.errors import OptionError, hint

__all__ = ["LOSSES", "Asymmetric", "Decision", "expected_losses", "from_draws", "from_probabilities", "incurred"]

Array = NDArray[np.float64]

LOSSES = ("squared", "absolute", "zero_one")


@dataclass(frozen=True, slots=True)
class Asymmetric:
    """Piecewise linear loss: ``under`` per unit for actions below the state, ``over`` per unit for actions above it.

    ``Asymmetric(9, 1)`` leads to the 90 % quantile.
    """

    under: float
    over: float

    def __post_init__(self) -> None:
        for cost in (self.under, self.over):
            number(cost, "a cost of an asymmetric loss", 0, above=True)

    @property
    def quantile(self) -> float:
        """Probability level of the quantile that is the best action."""
        return 1 / (1 + self.over / self.under)


type Loss = Literal["squared", "absolute", "zero_one"] | Asymmetric


@dataclass(frozen=True, slots=True)
class Decision:
    """Best actions and their expected loss.

    Attributes
    ----------
    action : ndarray
        Numbers, or column indices of a loss matrix.
    expected_loss : ndarray
    """

    action: np.ndarray
    expected_loss: Array


def incurred(states: np.ndarray, actions: np.ndarray, loss: Loss | Array = "squared") -> Array:
    """Return the loss of the actions in the states that occurred; zero for the correct action.

    Parameters
    ----------
    states, actions
        Numbers or names; indices for a loss matrix.
    loss
        ``squared``, ``absolute``, ``zero_one``, an :class:`Asymmetric`, or a matrix (states, actions).

    Raises
    ------
    OptionError
        The loss is unknown, the shapes do not match, or an index is outside the matrix.
    """
    states, actions = np.asarray(states), np.asarray(actions)
    try:
        np.broadcast_shapes(states.shape, actions.shape)
    except ValueError:
        raise OptionError(
            f"one action for each state: given the shapes {states.shape} and {actions.shape}", code="wrong-shape"
        ) from None
    if isinstance(loss, str):
        if loss == "zero_one":
            states, actions = comparable(states, actions, ("states", "actions"))
            return np.asarray(states != actions, float)
        if loss in ("squared", "absolute"):
            gap = _gap(states, actions)
            return np.asarray(gap**2 if loss == "squared" else np.abs(gap))
        raise OptionError(f"unknown loss '{loss}'{hint(loss, LOSSES)}", code="unknown-word")
    if isinstance(loss, Asymmetric):
        gap = _gap(states, actions)
        return np.where(gap > 0, loss.under * gap, -loss.over * gap)
    matrix = real(loss, "a loss matrix", ndim=2)
    return matrix[positions(states, "states", matrix.shape[0]), positions(actions, "actions", matrix.shape[1])]


def _gap(states: np.ndarray, actions: np.ndarray) -> Array:
    named = ((states, "states"), (actions, "actions"))
    return np.subtract(*(real(given, name, finite=False, empty=True) for given, name in named))


def from_draws(draws: np.ndarray, loss: Loss = "squared") -> Decision:
    """Return the best actions for quantities given by posterior draws.

    Parameters
    ----------
    draws
        Shape (draw, ...).
    loss
        ``squared``, ``absolute``, ``zero_one`` (discrete quantities only) or an :class:`Asymmetric`.

    Raises
    ------
    OptionError
        The loss is unknown, or there are no draws.
    """
    draws = np.asarray(draws)
    if not draws.ndim or not len(draws):
        raise OptionError(
            f"draws have the shape (draw, ...), one draw or more; given the shape {draws.shape}", code="wrong-shape"
        )
    if not isinstance(loss, str | Asymmetric):
        raise OptionError("draws are weighed by squared, absolute, zero_one or an Asymmetric loss", code="wrong-type")
    if loss != "zero_one":
        draws = real(draws, "draws", finite=False)
    if isinstance(loss, Asymmetric):
        action = np.quantile(draws, loss.quantile, axis=0, method="inverted_cdf")
        return Decision(action, incurred(draws, action, loss).mean(axis=0))
    if loss == "squared" or loss == "absolute":
        action = draws.mean(axis=0) if loss == "squared" else np.median(draws, axis=0)
        return Decision(action, incurred(draws, action, loss).mean(axis=0))
    if loss == "zero_one":
        return _mode(draws)
    raise OptionError(f"unknown loss '{loss}'{hint(loss, LOSSES)}", code="unknown-word")


def _mode(draws: np.ndarray) -> Decision:
    if draws.dtype.kind not in "iub":
        raise OptionError(
            "under zero_one loss every value of a continuous quantity is wrong almost surely: use absolute or squared",
            code="not-applicable",
        )
    values = np.unique(draws)
    best, share = np.full(draws.shape[1:], values[0]), np.zeros(draws.shape[1:])
    for value in values:
        probability = (draws == value).mean(axis=0)
        best, share = np.where(probability > share, value, best), np.maximum(probability, share)
    return Decision(best, 1 - share)


def expected_losses(probabilities: Array, matrix: Array) -> Array:
    """Return the expected loss of every action.

    Parameters
    ----------
    probabilities
        Shape (..., state).
    matrix
        Shape (state, action).

    Returns
    -------
    ndarray
        Shape (..., action).
    """
    probabilities = real(probabilities, "probabilities", finite=False, empty=True)
    matrix = real(matrix, "a loss matrix", finite=False)
    if not probabilities.ndim:
        raise OptionError("probabilities have the shape (..., state), not a single number", code="wrong-shape")
    if np.isinf(probabilities).any() or (probabilities < 0).any() or not _sums_to_one(probabilities):
        raise OptionError("probabilities of the states are ≥ 0 and add up to 1", code="not-probabilities")
    if matrix.ndim != 2 or probabilities.shape[-1] != matrix.shape[0]:
        raise OptionError(
            f"a loss matrix has one row a state ({probabilities.shape[-1]}) and one column an action, not the shape"
            f" {matrix.shape}",
            code="wrong-shape",
        )
    if not np.all(np.isfinite(matrix)):
        raise OptionError("a loss matrix holds finite numbers", code="not-finite")
    return np.asarray(probabilities @ matrix)


def _sums_to_one(probabilities: Array) -> bool:
    """Whether the probabilities sum to one along the last axis, except in rows of unknown probabilities."""
    total = probabilities.sum(axis=-1)
    return bool((np.isnan(total) | (np.abs(total - 1) <= 1e-6)).all())


def from_probabilities(probabilities: Array, matrix: Array) -> Decision:
    """Return the best actions under a loss matrix; the first action on a tie.

    Parameters
    ----------
    probabilities
        Shape (..., state).
    matrix
        Shape (state, action).
    """
    losses = expected_losses(probabilities, matrix)
    best = losses.argmin(axis=-1)
    return Decision(best, np.take_along_axis(losses, best[..., None], axis=-1)[..., 0])
