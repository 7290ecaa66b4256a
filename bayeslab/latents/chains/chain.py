"""A Markov chain of hidden states: possible transitions, known probabilities, and priors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bayeslab.language.writer import Writer
from bayeslab.latents.chains.forward_backward import Edges, HiddenChain
from bayeslab.latents.chains.markov_chain import stationary
from bayeslab.latents.chains.state_chain import MarkovChain
from bayeslab.latents.chains.stationary_transitions import best_transition

__all__ = ["SECOND_ORDER", "Chain", "dense_logs"]

# The transitions of a chain of second order: to the second state, and from two states to the next.
SECOND_ORDER = ("second_transition", "transition")


@dataclass(frozen=True, eq=False)
class Chain(MarkovChain):
    """The chain as a model file declares it.

    Attributes
    ----------
    n_states : int
    mask : ndarray (n_states, n_states) of bool
        Possible transitions.
    order : int
        1, or 2: the next state depends on the last two.
    initial : ndarray (n_states,), or "free" or "stationary"
        Numbers if it is known.
    transition : ndarray or None
        Numbers if it is known.
    prior : ndarray (n_states, n_states)
        Dirichlet concentrations of the rows.
    initial_prior : ndarray (n_states,)
    given : mapping of str to ndarray
        Known parameters of second-order transitions, or of transitions on inputs, by their names in results.
    """

    n_states: int
    mask: np.ndarray
    order: int
    initial: Any
    transition: np.ndarray | None
    prior: np.ndarray
    initial_prior: np.ndarray
    given: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def expanded(self) -> bool:
        return self.order == 2

    @property
    def full(self) -> bool:
        return self.order == 1 and bool(self.mask.all())

    @property
    def symmetric(self) -> bool:
        even = isinstance(self.initial, str) or np.ptp(self.initial) == 0
        free = self.transition is None and not self.given
        return bool(self.mask.all()) and free and even and bool(np.ptp(self.initial_prior) == 0)

    @property
    def learned(self) -> tuple[str, ...]:
        out = ["initial"] if isinstance(self.initial, str) and self.initial == "free" else []
        if self.order == 2:
            out += [name for name in SECOND_ORDER if name not in self.given]
        elif self.transition is None:
            out.append("transition")
        return tuple(out)

    def shape(self, name: str) -> tuple[int, ...]:
        return (self.n_states,) * len(self.dims(name))

    def dims(self, name: str) -> tuple[str, ...]:
        if name == "initial":
            return ("state",)
        if name == "second_transition" or self.order == 1:
            return ("state", "next_state")
        return ("state_before", "state", "next_state")

    @property
    def edges(self) -> Edges | None:
        if self.full:
            return None
        if self.order == 1:
            return Edges.of(self.mask)
        k = self.n_states
        pairs = k + np.arange(k * k)
        return Edges(np.arange(k + k * k + 1) * k, np.append(pairs, np.tile(pairs, k)))

    @property
    def last(self) -> np.ndarray:
        states = np.arange(self.n_states)
        return states if self.order == 1 else np.concatenate([states, np.tile(states, self.n_states)])

    def complete(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        if self.order == 2:
            out = {n: np.asarray(self.given[n] if n in self.given else values[n]) for n in SECOND_ORDER}
        else:
            out = {"transition": np.asarray(values["transition"] if self.transition is None else self.transition)}
        if not isinstance(self.initial, str):
            out["initial"] = self.initial
        elif self.initial == "free":
            out["initial"] = np.asarray(values["initial"])
        else:
            out["initial"] = stationary(out["transition"])
        return out

    def hidden(self, values: Mapping[str, np.ndarray]) -> HiddenChain:
        parameters = self.complete(values)
        if self.full:
            return HiddenChain.of(parameters["initial"], parameters["transition"])
        edges = self.edges
        assert edges is not None
        if self.order == 1:
            return HiddenChain.of(parameters["initial"], edges.take(parameters["transition"]), edges)
        start = np.append(parameters["initial"], np.zeros(self.n_states**2))
        both = np.concatenate([parameters["second_transition"].ravel(), parameters["transition"].ravel()])
        return HiddenChain.of(start, both, edges)

    def fold(self, posterior: np.ndarray) -> np.ndarray:
        if self.order == 1:
            return posterior
        k = self.n_states
        return posterior[..., :k] + posterior[..., k:].reshape(*posterior.shape[:-1], k, k).sum(axis=-2)

    def counts(self, start: np.ndarray, transition: np.ndarray) -> dict[str, np.ndarray]:
        k = self.n_states
        if self.order == 1:
            return {"initial": start, "transition": transition if self.full else _edges(self).dense(transition)}
        second, rest = transition[: k * k].reshape(k, k), transition[k * k :].reshape(k, k, k)
        return {"initial": start[:k], "second_transition": second, "transition": rest}

    def concentration(self, name: str) -> np.ndarray:
        if name == "initial":
            return self.initial_prior
        prior = np.where(self.mask, self.prior, 0.0)
        return (
            np.broadcast_to(prior, (self.n_states, *prior.shape)) if name == "transition" and self.order == 2 else prior
        )

    def maximise(
        self, counts: Mapping[str, np.ndarray], *, prior: bool, start: Mapping[str, np.ndarray] | None = None
    ) -> dict[str, np.ndarray]:
        out = super().maximise(counts, prior=prior)
        if self.settled and start is not None and "transition" in out:
            a = self.concentration("transition")
            total = self._weighed(counts["transition"], a, prior=prior)
            out["transition"] = best_transition(total, counts["initial"], a > 0, start["transition"])
        return out

    @property
    def no_gibbs(self) -> str:
        return ""

    def draw_given(
        self, rng: np.random.Generator, counts: Mapping[str, np.ndarray], values: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        """Draw from Dirichlet posteriors; with a stationary first state, as proposals of a Metropolis step."""
        out = super().draw_given(rng, counts, values)
        if self.settled and "transition" in out:
            starts = counts["initial"]
            with np.errstate(divide="ignore", invalid="ignore"):
                new, old = np.log(stationary(out["transition"])), np.log(stationary(values["transition"]))
                log_ratio = np.sum(np.where(starts > 0, starts * (new - old), 0.0))
            if not np.log(1 - rng.random()) < log_ratio:
                out["transition"] = values["transition"]
        return out

    @property
    def settled(self) -> bool:
        """Whether the chain starts in its stationary distribution."""
        return isinstance(self.initial, str) and self.initial == "stationary"

    def expected_log_density(self, counts: Mapping[str, np.ndarray], values: Mapping[str, np.ndarray]) -> float:
        out = super().expected_log_density(counts, values)
        if not self.settled:
            return out
        at, initial = counts["initial"] > 0, self.complete(values)["initial"]
        with np.errstate(divide="ignore"):
            return out + float(np.sum(counts["initial"][at] * np.log(initial[at])))

    def start_values(self) -> dict[str, np.ndarray]:
        out = {}
        for name in self.learned:
            a = (self.concentration(name) > 0).astype(float)
            if name == "transition":
                # The current and the next state are the last two axes for any order.
                a = a * (1.0 + 3.0 * self.n_states * np.eye(self.n_states))
            out[name] = a / a.sum(axis=-1, keepdims=True)
        return out

    def variables(self, writer: Writer, start: Mapping[str, np.ndarray] | None) -> dict[str, Any]:
        return {name: writer.constant(value) for name, value in self.given.items()} | super().variables(writer, start)

    def log_probabilities(self, writer: Writer, values: Mapping[str, Any]) -> tuple[Any, Any]:
        log_start = writer.log(values["initial"])
        if self.order == 2:
            both = [writer.log(values[name]).ravel() for name in SECOND_ORDER]
            return writer.joined([log_start, np.full(self.n_states**2, -np.inf)]), writer.joined(both)
        edges, transition = self.edges, values["transition"]
        return log_start, writer.log(transition if edges is None else transition[edges.sources, edges.targets])


def _edges(chain: Chain) -> Edges:
    edges = chain.edges
    assert edges is not None
    return edges


def dense_logs(writer: Writer, chain: Chain, values: Mapping[str, Any]) -> tuple[Any, Any]:
    """Logarithms of initial and transition probabilities of order 1 as expressions, -inf where zero."""
    at = np.nonzero(chain.mask)
    # Take logarithms of possible transitions only, so that derivatives are finite.
    moves = writer.placed(chain.mask.shape, at, writer.log(values["transition"][at]), rest=-np.inf)
    return writer.log(values["initial"]), moves
