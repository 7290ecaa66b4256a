"""Transitions that depend on inputs: from each state a multinomial logit.

    log P(z_t = j | z_{t-1} = i, x_t) = a_ij + b_ij · x_t + constant,   a_ii = b_ii = 0

so that a_ij are log odds of moving to j against staying. Internally, inputs are standardised by the data of the fit,
and on that scale a and b are Normal(0, 2.5). If a_ij = g_j - g_i, and b likewise, the next state does not depend on the
current one, and the model is a mixture of experts with the gate g [1]_.

References
----------
.. [1] Meila, Jordan (1996). Learning fine motion by Markov mixtures of experts. NIPS 8, 1003-1009.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.special import log_softmax

from bayeslab.language.writer import Writer
from bayeslab.latents.chains.chain import Chain
from bayeslab.latents.chains.forward_backward import HiddenChain
from bayeslab.latents.chains.state_chain import ChainOver, MarkovChain
from bayeslab.latents.multinomial_logit import fit_gate

__all__ = ["LOG_ODDS", "DrivenChain"]

LOG_ODDS = ("log_odds", "log_odds_slope")

_SD = 2.5


@dataclass(frozen=True, eq=False)
class DrivenChain(ChainOver, MarkovChain):
    """A first-order chain with inputs; see :class:`bayeslab.latents.chains.state_chain.StateChain`.

    Attributes
    ----------
    base : Chain
        The chain without inputs.
    names : tuple of str
        Names of the inputs.
    inputs : ndarray (n_times, n_inputs)
    centre, scale : ndarray (n_inputs,)
        Centre and scale of the inputs in the data of the fit.
    known : mapping of str to ndarray
        Log odds and their slopes, if they are given.
    """

    base: Chain
    names: tuple[str, ...]
    inputs: np.ndarray
    centre: np.ndarray
    scale: np.ndarray
    known: Mapping[str, np.ndarray] = field(default_factory=dict)

    transition = None

    @property
    def n_steps(self) -> int:
        return len(self.inputs)

    @property
    def symmetric(self) -> bool:
        return not self.known and (isinstance(self.initial, str) or bool(np.ptp(self.initial) == 0))

    @property
    def learned(self) -> tuple[str, ...]:
        initial = ("initial",) if isinstance(self.initial, str) else ()
        return initial if self.known else (*initial, *LOG_ODDS)

    def dims(self, name: str) -> tuple[str, ...]:
        dims_of = {"initial": ("state",), "log_odds": ("state", "next_state")}
        return dims_of.get(name, ("state", "next_state", "transition_input"))

    def shape(self, name: str) -> tuple[int, ...]:
        k = self.n_states
        return {"initial": (k,), "log_odds": (k, k)}.get(name, (k, k, len(self.names)))

    def kind(self, name: str) -> str:
        return "simplex" if name == "initial" else "real"

    @property
    def n_free(self) -> int:
        k = self.n_states
        moves = 0 if self.known else k * (k - 1) * (1 + len(self.names))
        return moves + (k - 1 if "initial" in self.learned else 0)

    def labels(self) -> dict[str, np.ndarray]:
        return {"transition_input": np.array(self.names)}

    def prior_text(self, name: str) -> str:
        return self.base.prior_text(name) if name == "initial" else f"Normal(0, {_SD}) for standardised inputs"

    def concentration(self, name: str) -> np.ndarray:
        return self.base.concentration(name) if name == "initial" else np.ones(self.shape(name))

    def of_sequences(self, which: np.ndarray, times: np.ndarray) -> DrivenChain:
        """The same at some times."""
        return replace(self, inputs=self.inputs[times])

    def prefix(self, n_times: int) -> DrivenChain:
        """The same on the first times."""
        return replace(self, inputs=self.inputs[:n_times])

    # ------------------------------------------------------------------ computing

    def _initial(self, values: Mapping[str, np.ndarray]) -> np.ndarray:
        return np.asarray(values["initial"] if isinstance(self.initial, str) else self.initial)

    def complete(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Probabilities at the mean of the inputs."""
        values = {**values, **self.known}
        eta = values["log_odds"] + values["log_odds_slope"] @ self.centre
        return {"initial": self._initial(values), "transition": np.exp(log_softmax(eta, axis=1))}

    def hidden(self, values: Mapping[str, np.ndarray]) -> HiddenChain:
        values = {**values, **self.known}
        eta = values["log_odds"] + np.einsum("tq,ijq->tij", self.inputs, values["log_odds_slope"])
        with np.errstate(divide="ignore"):
            return HiddenChain(np.log(self._initial(values)), log_softmax(eta, axis=2))

    def counts(self, start: np.ndarray, transition: np.ndarray) -> dict[str, np.ndarray]:
        return {"initial": start, "moves": transition}

    def _gates(self, values: Mapping[str, np.ndarray]) -> np.ndarray:
        """(n_states, n_states, 1 + n_inputs) for standardised inputs."""
        level = values["log_odds"] + values["log_odds_slope"] @ self.centre
        return np.concatenate([level[..., None], values["log_odds_slope"] * self.scale], axis=2)

    def _values(self, gates: np.ndarray) -> dict[str, np.ndarray]:
        slope = gates[..., 1:] / self.scale
        return {"log_odds": gates[..., 0] - slope @ self.centre, "log_odds_slope": slope}

    @property
    def _design(self) -> np.ndarray:
        return np.column_stack([np.ones(self.n_steps), (self.inputs - self.centre) / self.scale])

    def maximise(
        self, counts: Mapping[str, np.ndarray], *, prior: bool, start: Mapping[str, np.ndarray] | None = None
    ) -> dict[str, np.ndarray]:
        first = self.base.maximise(counts, prior=prior) if "initial" in self.learned else {}
        out = {n: v for n, v in first.items() if n == "initial"}
        if self.known:
            return out
        k, design = self.n_states, self._design
        before = np.zeros((k, k, design.shape[1])) if start is None else self._gates(start)
        gates = np.zeros_like(before)
        for i in range(k):
            # Staying comes first, as the reference category.
            order = np.concatenate([[i], np.delete(np.arange(k), i)])
            targets = np.ascontiguousarray(counts["moves"][:, i][:, order])
            gates[i, order] = fit_gate(design, targets, before[i, order], _SD**-2 if prior else 1e-9)
        return out | self._values(gates)

    def expected_log_density(self, counts: Mapping[str, np.ndarray], values: Mapping[str, np.ndarray]) -> float:
        """Expected log density of the states, given expected counts."""
        hidden = self.hidden(values)
        first, moves = counts["initial"], counts["moves"]
        out = np.sum(first[first > 0] * hidden.log_start[first > 0]) if "initial" in self.learned else 0.0
        return float(out + np.sum(moves[moves > 0] * hidden.log_transition[moves > 0]))

    def log_prior(self, values: Mapping[str, np.ndarray]) -> float:
        log_p = 0.0 if self.known else -0.5 * float(np.sum(self._gates(values) ** 2)) / _SD**2
        if "initial" not in self.learned:
            return log_p
        exponent = self.base.initial_prior - 1
        used = exponent != 0
        with np.errstate(divide="ignore"):
            return log_p + float(np.sum(exponent[used] * np.log(values["initial"][used])))

    def draw(self, rng: np.random.Generator, weight: float = 1.0) -> dict[str, np.ndarray]:
        k = self.n_states
        gates = 0.3 * rng.standard_normal((k, k, 1 + len(self.names)))
        gates[..., 0] -= 1.5
        gates[np.arange(k), np.arange(k)] = 0.0
        first = {"initial": rng.dirichlet(np.ones(k))} if "initial" in self.learned else {}
        return first if self.known else first | self._values(gates)

    def start_values(self) -> dict[str, np.ndarray]:
        """Transitions that mostly stay."""
        k = self.n_states
        gates = np.zeros((k, k, 1 + len(self.names)))
        gates[..., 0] = np.where(np.eye(k) > 0, 0.0, -2.0)
        first = {"initial": np.full(k, 1 / k)} if "initial" in self.learned else {}
        return first if self.known else first | self._values(gates)

    def constrained(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Log odds against staying, from any of the equivalent coordinates of a search."""
        k = np.arange(self.n_states)
        return {name: values[name] - values[name][k, k][:, None] for name in LOG_ODDS if name in values}

    # ------------------------------------------------------------------ densities of graphs and programs

    def variables(self, writer: Writer, start: Mapping[str, np.ndarray] | None) -> dict[str, Any]:
        """What is unknown as random variables."""
        out: dict[str, Any] = {name: writer.constant(value) for name, value in self.known.items()}
        if self.known:
            out["_gates"] = writer.constant(self._gates(self.known))
        else:
            out |= self._free_gates(writer, start)
        if "initial" in self.learned:
            first, a = None if start is None else start["initial"], self.base.initial_prior
            out["initial"] = writer.random("initial", "Dirichlet", {"a": a}, a.shape, dims=("state",), start=first)
        else:
            out["initial"] = self.initial
        return out

    def _free_gates(self, writer: Writer, start: Mapping[str, np.ndarray] | None) -> dict[str, Any]:
        """Log odds as random variables."""
        k, q = self.n_states, len(self.names)
        rows, columns = np.nonzero(~np.eye(k, dtype=bool))
        first = None if start is None else self._gates(start)[rows, columns]
        shape = len(rows), 1 + q
        free = writer.random("_log_odds", "Normal", {"mu": 0.0, "sigma": _SD}, shape, start=first)
        gates = writer.placed((k, k, 1 + q), (rows[:, None], columns[:, None], np.arange(1 + q)), free)
        slope = writer.computed("log_odds_slope", gates[..., 1:] / self.scale, self.dims("log_odds_slope"))
        level = gates[..., 0] - writer.dot(slope, self.centre)
        level = writer.computed("log_odds", level, self.dims("log_odds"))
        return {"log_odds": level, "log_odds_slope": slope, "_gates": gates}

    def log_probabilities(self, writer: Writer, values: Mapping[str, Any]) -> tuple[Any, Any]:
        return writer.log(values["initial"]), self._log_transition(writer, values)

    def _log_transition(self, writer: Writer, values: Mapping[str, Any]) -> Any:
        """(n_times, n_states, n_states) as an expression."""
        k, design = self.n_states, self._design
        gates = values["_gates"].reshape((k * k, design.shape[1]))
        eta = writer.dot(design, gates.T).reshape((self.n_steps, k, k))
        return eta - writer.log_sum_exp(eta, 2)
