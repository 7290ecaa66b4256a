r"""Symmetric networks of units with values -1 and 1: the Hopfield network and the Boltzmann machine.

With symmetric weights and no weight of a unit to itself, the energy

.. math:: E(s) = -\tfrac{1}{2} \sum_{ij} w_{ij} s_i s_j - \sum_i b_i s_i

never increases when one unit after the other takes the sign of its input, so the network converges. With weights from
Hebb's rule, the sum of the patterns' outer products, it converges to the stored patterns as long as there are few:
about 0.138 N patterns can be recalled by N units with few wrong bits; beyond that the memory breaks down [1]_, [2]_.

In a Boltzmann machine a unit with input :math:`h_i = \sum_j w_{ij} s_j + b_i` is 1 with probability
:math:`1/(1 + e^{-2 h_i/T})`. The states then have the Gibbs distribution :math:`P(s) \propto e^{-E(s)/T}`. The gradient
of the log likelihood of the visible units is a difference of two averages of :math:`\langle s_i s_j\rangle`: with the
visible units clamped to the data, and with the machine running freely [3]_. Lowering the temperature gradually finds
states of low energy.

References
----------
.. [1] Hopfield (1982). Neural networks and physical systems with emergent collective computational abilities. PNAS 79.
.. [2] Amit, Gutfreund, Sompolinsky (1985). Storing infinite numbers of patterns in a spin-glass model of neural
   networks. Physical Review Letters 55.
.. [3] Hinton, Sejnowski (1986). Learning and relearning in Boltzmann machines. In: Parallel Distributed Processing.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logsumexp

from bayeslab.arrays import count, number, real
from bayeslab.errors import OptionError

__all__ = ["CAPACITY", "BoltzmannMachine", "Hopfield", "all_states"]

Array = NDArray[np.float64]

CAPACITY = 0.138
"""Patterns for each unit that a Hopfield network can hold (Amit and others 1985)."""

_FEW, _WRITTEN_OUT = 16, 20


def all_states(n: int) -> Array:
    """Return all 2^n states of -1 and 1."""
    n = count(n, "n, the number of units whose states are written out,", 0, _WRITTEN_OUT)
    return np.array(list(itertools.product([-1.0, 1.0], repeat=n))).reshape(2**n, n)


def _signs(given: Any, n: int) -> Array:
    states = np.atleast_2d(real(given, "states", ndim=(1, 2)))
    if states.shape[-1] != n or not np.isin(states, (-1, 1)).all():
        raise OptionError(f"states have {n} units that are -1 or 1; given: shape {states.shape}", code="wrong-shape")
    return states


def _symmetric(weights: Any) -> Array:
    out = real(weights, "weights", empty=True)
    if out.ndim != 2 or not np.array_equal(out, out.T) or np.diag(out).any():
        raise OptionError("weights are a symmetric matrix with nothing on its diagonal", code="not-a-covariance")
    return out


def _check_warm(temperature: float) -> None:
    number(temperature, "temperature", 0, above=True)


@dataclass(frozen=True, eq=False)
class Hopfield:
    """A Hopfield network: an associative memory.

    Parameters
    ----------
    weights : ndarray, shape (units, units)
        Symmetric weights with zero diagonal.
    """

    weights: Array

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", _symmetric(self.weights))

    @classmethod
    def of(cls, patterns: Any) -> Hopfield:
        """Return the network that stores patterns of shape (patterns, units), by Hebb's rule."""
        patterns = np.atleast_2d(real(patterns, "patterns", ndim=(1, 2)))
        n = patterns.shape[1]
        patterns = _signs(patterns, n)
        weights = patterns.T @ patterns / n
        np.fill_diagonal(weights, 0)
        return cls(weights)

    def energy(self, states: Any) -> Array:
        """Return the energy of each state."""
        s = _signs(states, len(self.weights))
        return np.asarray(-0.5 * np.einsum("ni,ij,nj->n", s, self.weights, s))

    def recall(self, start: Any, rng: np.random.Generator, max_passes: int = 100) -> tuple[Array, Array, bool]:
        """Update one unit after the other to the sign of its input, in random order, until none changes.

        A unit with input 0 keeps its value.

        Returns
        -------
        state : ndarray, shape (units,)
        energies : ndarray
            Energy at the start and after every pass.
        settled : bool
        """
        given = _signs(start, len(self.weights))
        if len(given) > 1:
            raise OptionError(f"recall starts from one state, not from {len(given)}", code="wrong-length")
        count(max_passes, "max_passes")
        s = given[0].copy()
        inputs = self.weights @ s
        energies = [float(-0.5 * s @ inputs)]
        for _ in range(max_passes):
            changed = False
            for i in rng.permutation(len(s)):
                if s[i] * inputs[i] < 0:
                    s[i] = -s[i]
                    inputs += 2 * s[i] * self.weights[:, i]
                    changed = True
            energies.append(float(-0.5 * s @ inputs))
            if not changed:
                return s, np.array(energies), True
        return s, np.array(energies), False


@dataclass(frozen=True, eq=False)
class BoltzmannMachine:
    """A Boltzmann machine: stochastic symmetric units, the visible ones first.

    Parameters
    ----------
    weights : ndarray, shape (units, units)
        Symmetric weights with zero diagonal.
    bias : ndarray, shape (units,)
    n_visible : int
    """

    weights: Array
    bias: Array
    n_visible: int

    def __post_init__(self) -> None:
        weights, bias = _symmetric(self.weights), real(self.bias, "bias", ndim=1)
        count(self.n_visible, "n_visible", 1, len(weights))
        if bias.shape != (len(weights),):
            raise OptionError(
                f"a bias for each of {len(weights)} units, not the shape {bias.shape}", code="wrong-length"
            )
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "bias", bias)

    @classmethod
    def random(cls, n_visible: int, n_hidden: int, rng: np.random.Generator, scale: float = 0.1) -> BoltzmannMachine:
        """Return a machine with small random weights."""
        n = count(n_visible, "n_visible", 1) + count(n_hidden, "n_hidden")
        upper = np.triu(rng.normal(0, number(scale, "scale", 0), (n, n)), 1)
        return cls(upper + upper.T, np.zeros(n), n_visible)

    def energy(self, states: Any) -> Array:
        """Return the energy of each state of all units."""
        s = _signs(states, len(self.weights))
        return np.asarray(-0.5 * np.einsum("ni,ij,nj->n", s, self.weights, s) - s @ self.bias)

    def distribution(self, temperature: float = 1.0) -> tuple[Array, Array]:
        """Return all states and their probabilities, by enumeration.

        Raises
        ------
        OptionError
            There are more than 16 units, or the temperature is not above 0.
        """
        self._few()
        _check_warm(temperature)
        states = all_states(len(self.bias))
        logs = -self.energy(states) / temperature
        return states, np.exp(logs - logsumexp(logs))

    def _few(self) -> None:
        if len(self.bias) > _FEW:
            raise OptionError(
                f"{len(self.bias)} units have too many states to go through: at most {_FEW}; take sample",
                code="too-costly",
            )

    def sample(
        self,
        rng: np.random.Generator,
        temperatures: Iterable[float],
        start: Any,
        held: int = 0,
    ) -> Array:
        """Run Gibbs sampling for many machines at once, with one pass over the units for each temperature.

        Parameters
        ----------
        temperatures
            One for each pass; decreasing temperatures give simulated annealing.
        start
            Shape (machines, units).
        held
            Number of leading units that are clamped, that is, not sampled.

        Returns
        -------
        ndarray
            The final states, shape (machines, units).
        """
        s = _signs(start, len(self.bias)).copy()
        count(held, "held", 0, len(self.bias))
        for temperature in temperatures:
            _check_warm(temperature)
            for i in range(held, len(self.bias)):
                up = expit(2 * (s @ self.weights[:, i] + self.bias[i]) / temperature)
                s[:, i] = np.where(rng.random(len(s)) < up, 1.0, -1.0)
        return s

    def log_likelihood(self, visible: Any) -> float:
        """Return the mean log probability of visible states, with hidden units summed out by enumeration."""
        self._few()
        v = _signs(visible, self.n_visible)
        free = logsumexp(-self.energy(all_states(len(self.bias))))
        return float(np.mean([logsumexp(-self.energy(self._completed(row))) for row in v]) - free)

    def _completed(self, visible: Array) -> Array:
        hidden = all_states(len(self.bias) - self.n_visible)
        return np.column_stack([np.tile(visible, (len(hidden), 1)), hidden])

    def statistics(self, visible: Any) -> tuple[Array, Array, Array, Array]:
        """Return averages of s_i s_j and s_i by enumeration, with clamped visible units and of the free machine."""
        self._few()
        v = _signs(visible, self.n_visible)
        states, free = self.distribution()
        held = np.zeros((len(self.bias), len(self.bias)))
        held_mean = np.zeros(len(self.bias))
        for row in v:
            completed = self._completed(row)
            logs = -self.energy(completed)
            p = np.exp(logs - logsumexp(logs))
            held += (completed * p[:, None]).T @ completed / len(v)
            held_mean += p @ completed / len(v)
        return held, held_mean, (states * free[:, None]).T @ states, free @ states

    def learned(self, visible: Any, rate: float = 0.1, steps: int = 100) -> tuple[BoltzmannMachine, Array]:
        """Return the machine after gradient steps of the learning rule, with averages by enumeration.

        Returns
        -------
        machine : BoltzmannMachine
        log_likelihoods : ndarray
            Mean log likelihood before each step and after the last.
        """
        number(rate, "rate", 0, above=True)
        count(steps, "steps")
        machine, curve = self, [self.log_likelihood(visible)]
        for _ in range(steps):
            held, held_mean, free, free_mean = machine.statistics(visible)
            change = rate * (held - free)
            change = (change + change.T) / 2
            np.fill_diagonal(change, 0)
            machine = BoltzmannMachine(
                machine.weights + change, machine.bias + rate * (held_mean - free_mean), machine.n_visible
            )
            curve.append(machine.log_likelihood(visible))
        return machine, np.array(curve)

    def learned_by_sampling(
        self, visible: Any, rng: np.random.Generator, rate: float = 0.05, steps: int = 200, passes: int = 5
    ) -> BoltzmannMachine:
        """Return the machine learned with averages over Gibbs draws; the free chains persist between steps."""
        number(rate, "rate", 0, above=True)
        count(steps, "steps")
        count(passes, "passes", 1)
        v = _signs(visible, self.n_visible)
        machine, n = self, len(self.bias)
        alone = np.asarray(rng.choice([-1.0, 1.0], (len(v), n)), float)
        for _ in range(steps):
            hidden = rng.choice([-1.0, 1.0], (len(v), n - self.n_visible))
            held = machine.sample(rng, [1.0] * passes, np.column_stack([v, hidden]), held=self.n_visible)
            alone = machine.sample(rng, [1.0] * passes, alone)
            change = rate * (held.T @ held - alone.T @ alone) / len(v)
            np.fill_diagonal(change, 0)
            bias = machine.bias + rate * (held.mean(axis=0) - alone.mean(axis=0))
            machine = BoltzmannMachine(machine.weights + change, bias, self.n_visible)
        return machine
