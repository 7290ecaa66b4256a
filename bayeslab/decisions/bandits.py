r"""Multi-armed bandits: choose one of K actions at a time; only the reward of the chosen action is observed.

Action values are learned by :math:`Q(a) \leftarrow Q(a) + \eta\,(r - Q(a))`. With :math:`\eta = 1/n` they are means;
with a constant :math:`\eta` they track changing rewards. A policy has to explore: by occasional random actions, by
optimism [1]_, or by drawing from the posterior [2]_.

References
----------
.. [1] Auer, Cesa-Bianchi, Fischer (2002). Finite-time analysis of the multiarmed bandit problem. Machine Learning 47.
.. [2] Thompson (1933). On the likelihood that one unknown probability exceeds another. Biometrika 25, 285-294.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bayeslab.arrays import count, number
from bayeslab.errors import DataError, OptionError, hint

__all__ = ["POLICIES", "Played", "play", "updated"]

Array = NDArray[np.float64]
POLICIES = ("greedy", "epsilon_greedy", "ucb", "thompson")
type Reward = Callable[[int, np.random.Generator], float]


def updated(value: float, reward: float, rate: float) -> float:
    """Return the value after moving it towards the reward by the share ``rate`` of the difference."""
    return value + rate * (reward - value)


@dataclass(frozen=True, eq=False)
class Played:
    """The actions taken in a bandit, and the values learned.

    Attributes
    ----------
    actions : ndarray of int
    rewards : ndarray
    values : ndarray, shape (actions,)
        Final action values.
    counts : ndarray of int
        Number of times each action was taken.
    """

    actions: NDArray[np.int64]
    rewards: Array
    values: Array
    counts: NDArray[np.int64]


def play(
    reward: Reward,
    n_actions: int,
    n_steps: int,
    rng: np.random.Generator,
    *,
    policy: Literal["greedy", "epsilon_greedy", "ucb", "thompson"] = "thompson",
    epsilon: float = 0.1,
    rate: float | None = None,
) -> Played:
    """Play a bandit; first every action is tried once, or twice for ``thompson``, which needs a variance.

    Parameters
    ----------
    reward
        Function that returns the reward of an action, given its number and a random generator.
    policy
        ``greedy``, ``epsilon_greedy``, ``ucb`` (upper confidence bound, rewards in [0, 1]) or ``thompson`` (normal
        posteriors of the means under a flat prior, with the pooled variance of the rewards).
    epsilon
        Probability of a random action for ``epsilon_greedy``.
    rate
        Constant step size of the values; None: means.
    """
    if policy not in POLICIES:
        raise OptionError(f"unknown policy '{policy}'{hint(policy, POLICIES)}", code="unknown-word")
    if rate is not None:
        number(rate, "rate", 0, 1, above=True)
    number(epsilon, "epsilon", 0, 1)
    count(n_actions, "n_actions", 1)
    count(n_steps, "n_steps")
    values, counts, squares = np.zeros(n_actions), np.zeros(n_actions, np.int64), 0.0
    actions, rewards = np.empty(n_steps, np.int64), np.empty(n_steps)
    tries = n_actions * (2 if policy == "thompson" else 1)
    for t in range(n_steps):
        spread = squares / max(t - n_actions, 1)
        action = t % n_actions if t < tries else _chosen(policy, values, counts, t, epsilon, spread, rng)
        got = number(reward(action, rng), f"the reward of action {action}", error=DataError)
        counts[action] += 1
        before = values[action]
        step = 1 / counts[action] if rate is None or counts[action] == 1 else rate
        values[action] = updated(before, got, step)
        squares += (got - before) * (got - values[action]) if counts[action] > 1 else 0.0
        actions[t], rewards[t] = action, got
    return Played(actions, rewards, values, counts)


def _chosen(
    policy: str,
    values: Array,
    counts: NDArray[np.int64],
    t: int,
    epsilon: float,
    spread: float,
    rng: np.random.Generator,
) -> int:
    if policy == "epsilon_greedy" and rng.random() < epsilon:
        return int(rng.integers(len(values)))
    if policy == "ucb":
        return int((values + np.sqrt(2 * np.log(t) / counts)).argmax())
    if policy == "thompson":
        return int((values + np.sqrt(spread / counts) * rng.standard_normal(len(values))).argmax())
    return int(values.argmax())
