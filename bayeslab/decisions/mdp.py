r"""Markov decision processes: states, actions, rewards, and the policy with the highest expected return.

The value of a policy solves a linear system, :math:`V^\pi = r^\pi + \gamma P^\pi V^\pi`; the value of the optimal
policy solves Bellman's equation [1]_

.. math:: V^*(s) = \max_a \Bigl(r(s, a) + \gamma \sum_{s'} P(s' \mid s, a) V^*(s')\Bigr),

Value iteration reduces the distance to the solution by the factor :math:`\gamma` in each sweep; policy iteration
reaches it in finitely many steps [2]_. In a partially observed process, actions depend on the probabilities of the
states, the belief [3]_; it is filtered as in a hidden Markov model whose transitions depend on the action.

References
----------
.. [1] Bellman (1957). Dynamic Programming. Princeton University Press.
.. [2] Howard (1960). Dynamic Programming and Markov Processes. MIT Press.
.. [3] Kaelbling, Littman, Cassandra (1998). Planning and acting in partially observable stochastic domains.
   Artificial Intelligence 101, 99-134.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayeslab.arrays import count, distributions, number, positions, real
from bayeslab.errors import DataError, OptionError

__all__ = ["MDP", "Solution", "discounted_return", "maze", "policy_iteration", "update_belief", "value_iteration"]

Array = NDArray[np.float64]

# Values that differ by less than this share of the largest value count as equal.
_EQUAL = 1e-10
MOVES = {"north": (-1, 0), "east": (0, 1), "south": (1, 0), "west": (0, -1)}


def discounted_return(rewards: Any, discount: float = 1.0) -> float:
    """Return the discounted sum of rewards."""
    each = real(rewards, "rewards", ndim=1, empty=True)
    return float(each @ number(discount, "discount", 0, 1) ** np.arange(len(each)))


@dataclass(frozen=True, eq=False)
class MDP:
    """A Markov decision process with known dynamics.

    Parameters
    ----------
    transitions : ndarray, shape (actions, states, states)
        Probabilities of the next state.
    rewards : ndarray, shape (states, actions)
        Expected reward of an action in a state.
    discount : float
        Discount factor between 0 and 1; 1 only if policies end in a terminal state.
    terminal : sequence of int
        Absorbing states, with reward zero.
    states, actions : sequence of str
        Names; default: numbers.

    Raises
    ------
    DataError
        The shapes do not match, rows do not sum to one, or a terminal state can be left or has a reward.
    """

    transitions: Array
    rewards: Array
    discount: float = 0.95
    terminal: Sequence[int] = ()
    states: Sequence[str] = ()
    actions: Sequence[str] = ()

    def __post_init__(self) -> None:
        moves = real(self.transitions, "transitions", error=DataError)
        rewards = real(self.rewards, "rewards", error=DataError)
        if moves.ndim != 3 or moves.shape[1] != moves.shape[2]:
            raise DataError(
                f"transitions have the shape (actions, states, states), not {moves.shape}", code="wrong-shape"
            )
        if rewards.shape != (moves.shape[1], moves.shape[0]):
            raise DataError(f"rewards have the shape (states, actions), not {rewards.shape}", code="wrong-shape")
        if np.any(moves < 0) or not np.allclose(moves.sum(axis=2), 1):
            action, state = (int(i) for i in np.argwhere(~np.isclose(moves.sum(axis=2), 1) | (moves < 0).any(2))[0])
            total = moves[action, state].sum()
            raise DataError(
                f"probabilities of the next state add up to {total:g} for action {action}, state {state}",
                code="not-probabilities",
            )
        number(self.discount, "discount", 0, 1)
        positions(list(self.terminal), "terminal", moves.shape[1])
        for names, n, kind in ((self.states, moves.shape[1], "states"), (self.actions, moves.shape[0], "actions")):
            if len(names) not in (0, n):
                raise DataError(
                    f"{kind} are named all or not at all: there are {n}, and {len(names)} names", code="wrong-length"
                )
        for state in self.terminal:
            if not np.allclose(moves[:, state, state], 1) or np.any(rewards[state] != 0):
                raise DataError(f"state {state} is terminal: it is not left, and earns nothing", code="not-allowed")
        # Sums that differ from one by rounding would add to a process, or leave out, as much in every step.
        object.__setattr__(self, "transitions", moves / moves.sum(axis=2, keepdims=True))
        object.__setattr__(self, "rewards", rewards)

    @property
    def n_states(self) -> int:
        return int(self.transitions.shape[1])

    @property
    def n_actions(self) -> int:
        return int(self.transitions.shape[0])

    def action_values(self, value: Array) -> Array:
        """Return the action values Q for these values of the next states, shape (states, actions)."""
        given = real(value, "value", ndim=1, finite=False)
        if len(given) != self.n_states:
            raise OptionError(
                f"value has one number for each of {self.n_states} states, not {len(given)}", code="wrong-length"
            )
        return np.asarray(self.rewards + self.discount * (self.transitions @ given).T)

    def policy_value(self, policy: Any) -> Array:
        """Return the expected return of a policy from every state, by solving a linear system.

        Parameters
        ----------
        policy
            An action for each state, or action probabilities of shape (states, actions).

        Raises
        ------
        OptionError
            An action does not exist, or the probabilities do not sum to one.
        DataError
            Without discounting, the policy never ends from some state.
        """
        chance = self._probabilities(policy)
        reward = (chance * self.rewards).sum(axis=1)
        moves = np.einsum("sa,ast->st", chance, self.transitions)
        going = np.setdiff1d(np.arange(self.n_states), np.asarray(self.terminal, int))
        out = np.zeros(self.n_states)
        if self.discount == 1 and len(endless := np.setdiff1d(going, self._ending(moves))):
            raise DataError(
                f"without discount a policy that never ends has no value, and from state {endless[0]} this one never"
                " reaches a terminal state: take a discount below 1",
                code="not-converged",
            )
        # A chance to leave that is below the precision of 1 is lost in 1 minus the chance to stay, not in the sum of
        # the chances to leave.
        away = moves[going] * (going[:, None] != np.arange(self.n_states))
        system = -self.discount * away[:, going]
        np.fill_diagonal(system, 1 - self.discount + self.discount * away.sum(axis=1))
        with np.errstate(over="ignore", invalid="ignore"), suppress(np.linalg.LinAlgError):
            out[going] = np.linalg.solve(system, reward[going])
            if np.isfinite(out).all():
                return out
        raise DataError("the value of the policy is too large to compute: it ends too seldom", code="not-converged")

    def _ending(self, moves: Array) -> NDArray[np.int64]:
        """States from which a terminal state is reachable; if all are, the policy ends with probability one."""
        reached = np.zeros(self.n_states, bool)
        reached[np.asarray(self.terminal, int)] = True
        while True:
            more = reached | ((moves > 0) @ reached)
            if (more == reached).all():
                return np.flatnonzero(reached)
            reached = more

    def _probabilities(self, policy: Any) -> Array:
        shape = np.shape(policy)
        if len(shape) == 2:
            chance = distributions(policy, "policy")
            if shape != (self.n_states, self.n_actions):
                raise OptionError(
                    f"policy is {self.n_states} states × {self.n_actions} actions, not the shape {shape}",
                    code="wrong-shape",
                )
            return chance
        actions = positions(policy, "policy", self.n_actions)
        if actions.shape != (self.n_states,):
            raise OptionError(
                f"policy has an action for each of {self.n_states} states, not the shape {actions.shape}",
                code="wrong-shape",
            )
        return np.eye(self.n_actions)[actions]

    def simulate(self, policy: Any, start: int, n_steps: int, rng: np.random.Generator) -> tuple[np.ndarray, Array]:
        """Simulate one run; return the states (steps + 1,) and the expected rewards (steps,)."""
        chance = self._probabilities(policy)
        count(start, "start", 0, self.n_states - 1)
        count(n_steps, "n_steps")
        states, rewards = np.empty(n_steps + 1, int), np.empty(n_steps)
        states[0] = start
        for t in range(n_steps):
            action = rng.choice(self.n_actions, p=chance[states[t]])
            rewards[t] = self.rewards[states[t], action]
            states[t + 1] = rng.choice(self.n_states, p=self.transitions[action, states[t]])
        return states, rewards


@dataclass(frozen=True, eq=False)
class Solution:
    """The optimal policy.

    Attributes
    ----------
    value : ndarray
        Expected return of the optimal policy from every state.
    action_values : ndarray, shape (states, actions)
    policy : ndarray of int
        Action in each state; the first on a tie.
    sweeps : int
    trace : list of ndarray
        Values after each sweep.
    """

    value: Array
    action_values: Array
    policy: NDArray[np.int64]
    sweeps: int
    trace: list[Array]


def value_iteration(process: MDP, tolerance: float = 1e-10, max_sweeps: int = 100_000) -> Solution:
    """Value iteration: sweep until no value changes by more than ``tolerance`` times the largest reward.

    Actions whose values differ by less than 1e-10 of the largest value are tied; the first is taken.
    """
    number(tolerance, "tolerance", 0)
    count(max_sweeps, "max_sweeps", 1)
    enough = tolerance * float(np.abs(process.rewards).max())
    value, trace = np.zeros(process.n_states), []
    for _ in range(max_sweeps):
        new = process.action_values(value).max(axis=1)
        change = float(np.abs(new - value).max())
        value = new
        trace.append(value)
        if change <= enough:
            q = process.action_values(value)
            best = (q >= q.max(axis=1, keepdims=True) - _EQUAL * np.abs(q).max()).argmax(axis=1)
            return Solution(value, q, best, len(trace), trace)
    raise DataError(
        f"values still change after {max_sweeps} sweeps: take a discount below 1, or allow more", code="not-converged"
    )


def policy_iteration(process: MDP, start: Any = None) -> Solution:
    """Policy iteration: evaluate and improve until no action is better by more than 1e-10 of the largest value."""
    policy = np.zeros(process.n_states, np.int64) if start is None else positions(start, "start", process.n_actions)
    trace: list[Array] = []
    while True:
        value = process.policy_value(policy)
        trace.append(value)
        q = process.action_values(value)
        margin = _EQUAL * float(np.abs(q).max())
        better = q.max(axis=1) > q[np.arange(len(policy)), policy] + margin
        if not better.any():
            return Solution(value, q, policy, len(trace), trace)
        policy = np.where(better, q.argmax(axis=1), policy)


def maze(plan: str, *, step: float = 0.0, goal: float = 100.0, discount: float = 0.9) -> MDP:
    """Return a maze as a Markov decision process.

    Parameters
    ----------
    plan
        Lines of ``#`` (wall), ``.`` (floor) and ``G`` (exit).
    step, goal
        Reward of a move, and of a move to an exit.
    """
    rows = [line.strip() for line in plan.strip().splitlines()]
    cells = [(r, c) for r, line in enumerate(rows) for c, mark in enumerate(line) if mark != "#"]
    odd = {mark for line in rows for mark in line} - set("#.G")
    if odd or len({len(line) for line in rows}) > 1 or "G" not in plan:
        raise DataError(
            "a maze is lines of equal length of # (wall), . (floor) and at least one G (exit)", code="malformed"
        )
    number = {cell: i for i, cell in enumerate(cells)}
    exits = [number[r, c] for r, c in cells if rows[r][c] == "G"]
    moves = np.zeros((4, len(cells), len(cells)))
    rewards = np.zeros((len(cells), 4))
    for (r, c), i in number.items():
        for a, (down, right) in enumerate(MOVES.values()):
            target = i if i in exits else number.get((r + down, c + right), i)
            moves[a, i, target] = 1
            if i not in exits:
                rewards[i, a] = step + (goal if target in exits else 0.0)
    names = [f"{r},{c}" for r, c in cells]
    return MDP(moves, rewards, discount, exits, names, list(MOVES))


def update_belief(belief: Any, transitions: Array, observation_probabilities: Array, observation: int) -> Array:
    """Return the belief (state probabilities) after an action and an observation.

    Parameters
    ----------
    belief
        Belief before the action, shape (states,).
    transitions
        Transition matrix of the action taken, shape (states, states).
    observation_probabilities
        Probabilities of the observations in the new state, shape (states, observations).

    Raises
    ------
    OptionError
        Probabilities do not sum to one, shapes do not match, or the observation does not exist.
    DataError
        The observation has probability zero.
    """
    before = distributions(belief, "belief", ndim=1)
    moves = distributions(transitions, "transitions", ndim=2)
    sensor = distributions(observation_probabilities, "observation_probabilities", ndim=2)
    n = len(before)
    if moves.shape != (n, n) or len(sensor) != n:
        raise OptionError(
            f"{n} states in all; given transitions of shape {moves.shape}, observations {sensor.shape}",
            code="wrong-shape",
        )
    ahead = before @ moves
    joint = ahead * sensor[:, count(observation, "observation", 0, sensor.shape[1] - 1)]
    if joint.sum() <= 0:
        raise DataError(
            f"observation {observation} is impossible after this action from these states", code="probability-zero"
        )
    return np.asarray(joint / joint.sum())
