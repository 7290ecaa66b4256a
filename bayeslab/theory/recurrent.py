r"""Recurrent networks, whose outputs are fed back as inputs: :math:`s_{t+1} = g(W s_t + b + u_t)`.

Such a net is a dynamical system: it may converge, oscillate, or be chaotic, and its behaviour depends on its initial
state, so that it has a short-term memory [1]_. The Lyapunov exponent is the rate at which two runs from nearby states
diverge: below 0 they converge, above 0 the run is chaotic.

References
----------
.. [1] Russell, Norvig (2010). Artificial Intelligence: A Modern Approach, 3rd ed., section 18.7.
.. [2] Wang (1991). Period-doublings to chaos in a simple neural network: an analytical proof. Complex Systems 5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from bayeslab.arrays import count, number, real
from bayeslab.errors import OptionError

__all__ = ["Recurrent", "doubling"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Recurrent:
    """A fully recurrent net with a delay of one step.

    Parameters
    ----------
    weights : ndarray, shape (units, units)
        Row i holds the weights into unit i.
    bias : ndarray, shape (units,)
    activation : {"logistic", "tanh", "threshold"}
    """

    weights: Array
    bias: Array
    activation: Literal["logistic", "tanh", "threshold"] = "tanh"

    def __post_init__(self) -> None:
        bias, weights = real(self.bias, "bias", ndim=1), real(self.weights, "weights", ndim=2)
        n = len(bias)
        if weights.shape != (n, n):
            raise OptionError(f"{n} units have weights of the shape {(n, n)}, not {weights.shape}", code="wrong-shape")
        object.__setattr__(self, "bias", bias)
        object.__setattr__(self, "weights", weights)
        if self.activation not in ("logistic", "tanh", "threshold"):
            raise OptionError(
                f"activation is logistic, tanh or threshold, not {self.activation!r}", code="unknown-word"
            )

    def step(self, state: Any, inputs: Any = 0.0) -> Array:
        """Return the next state."""
        at = real(state, "state")
        if at.shape != self.bias.shape:
            raise OptionError(
                f"a state has one number a unit, {len(self.bias)}, not the shape {at.shape}", code="wrong-length"
            )
        z = self.weights @ at + self.bias + inputs
        if self.activation == "threshold":
            return (z >= 0).astype(float)
        return np.asarray(np.tanh(z) if self.activation == "tanh" else expit(z))

    def run(self, start: Any, n: int, inputs: Any = None) -> Array:
        """Return the states from the start on, shape (n + 1, units); ``inputs`` has a row for each step."""
        units = len(self.bias)
        out = np.empty((count(n, "n, the number of steps,") + 1, units))
        first = real(start, "start")
        if first.shape != (units,):
            raise OptionError(f"start has one number a unit, {units}, not the shape {first.shape}", code="wrong-length")
        if inputs is not None and (inputs := real(inputs, "inputs", empty=n == 0)).shape[:1] != (n,):
            raise OptionError(
                f"inputs have a row for each of {n} steps, not the shape {inputs.shape}", code="wrong-shape"
            )
        out[0] = first
        for t in range(n):
            out[t + 1] = self.step(out[t], 0.0 if inputs is None else inputs[t])
        return out

    def period(self, start: Any, n: int = 2000, longest: int = 64, tol: float = 1e-9) -> int | None:
        """Return the period of the state after n steps: 1 for a fixed point, None if no period is found."""
        number(tol, "tol", 0)
        late = self.run(start, count(n, "n") + count(longest, "longest", 1))[n:]
        for k in range(1, longest + 1):
            if np.abs(late[k] - late[0]).max() < tol:
                return k
        return None

    def lyapunov(self, start: Any, n: int = 5000, burn_in: int = 500) -> float:
        """Return the Lyapunov exponent: the mean logarithm of the growth of a small perturbation in a step."""
        if self.activation == "threshold":
            raise OptionError(
                "a threshold has no slope, and a net of thresholds no Lyapunov exponent", code="not-applicable"
            )
        count(n, "n, the number of steps,", 1)
        state = self.run(start, burn_in)[-1]
        # A generic direction, which a hand-made net is unlikely to map to zero.
        along, total = np.cos(np.arange(len(state))), 0.0
        for _ in range(n):
            state = self.step(state)
            slope = 1 - state**2 if self.activation == "tanh" else state * (1 - state)
            along = slope * (self.weights @ along)
            length = float(np.linalg.norm(along))
            if length == 0:
                return -np.inf
            total += np.log(length)
            along = along / length
        return total / n


def doubling(strength: float) -> Recurrent:
    """Return a net of two logistic units, one excitatory and one inhibitory (Wang 1991).

    As the strength increases, a fixed point gives way to cycles of 2, 4, ... steps, and then to chaos.
    """
    weights = number(strength, "strength") * np.array([[-5.0, 5.0], [-25.0, 25.0]])
    return Recurrent(weights, np.zeros(2), "logistic")
