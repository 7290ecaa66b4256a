"""The law of the hidden states: which transitions there can be, what is known of them, and their prior."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bayeslab.exact.forward_backward import Edges, HiddenChain
from bayeslab.exact.markov_chain import stationary
from bayeslab.exact.stationary_transitions import best_transition

__all__ = ["SECOND_ORDER", "Chain", "dense_logs"]

# The transitions of a chain of second order: to the second state, and from two states to the next.
SECOND_ORDER = ("second_transition", "transition")


@dataclass(frozen=True, eq=False)
class Chain:
    """The chain as a file declares it.

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
        Parameters of transitions of second order, or on inputs, that are given, by their names in results.
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
    def n_steps(self) -> int:
        """How many transition matrices there are."""
        return 1

    @property
    def expanded(self) -> bool:
        """Whether the computed chain has other states than the model."""
        return self.order == 2

    @property
    def full(self) -> bool:
        return self.order == 1 and bool(self.mask.all())

    @property
    def symmetric(self) -> bool:
        """Whether nothing here tells one state from another."""
        even = isinstance(self.initial, str) or np.ptp(self.initial) == 0
        free = self.transition is None and not self.given
        return bool(self.mask.all()) and free and even and bool(np.ptp(self.initial_prior) == 0)

    @property
    def learned(self) -> tuple[str, ...]:
        """Names of what is unknown."""
        out = ["initial"] if isinstance(self.initial, str) and self.initial == "free" else []
        if self.order == 2:
            out += [name for name in SECOND_ORDER if name not in self.given]
        elif self.transition is None:
            out.append("transition")
        return tuple(out)

    def kind(self, name: str) -> str:
        """What values a parameter can have, as EM's coordinates call it."""
        return "simplex"

    def shape(self, name: str) -> tuple[int, ...]:
        return (self.n_states,) * len(self.dims(name))

    @property
    def n_free(self) -> int:
        """Free parameters."""
        return sum(int(np.maximum((self.concentration(n) > 0).sum(axis=-1) - 1, 0).sum()) for n in self.learned)

    def labels(self) -> dict[str, np.ndarray]:
        """Of dimensions that are not states."""
        return {}

    def prior_text(self, name: str) -> str:
        """The prior of a parameter, for people."""
        rows = np.unique(np.atleast_2d(self.concentration(name)), axis=0)
        shown = ", ".join(f"{x:g}" for x in rows[0].ravel())
        return f"Dirichlet([{shown}])" if rows.shape[0] == 1 and rows.ndim == 2 else "Dirichlet, row by row"

    def dims(self, name: str) -> tuple[str, ...]:
        if name == "initial":
            return ("state",)
        if name == "second_transition" or self.order == 1:
            return ("state", "next_state")
        return ("state_before", "state", "next_state")

    @property
    def edges(self) -> Edges | None:
        """Of the chain of first order that is computed with."""
        if self.full:
            return None
        if self.order == 1:
            return Edges.of(self.mask)
        k = self.n_states
        pairs = k + np.arange(k * k)
        return Edges(np.arange(k + k * k + 1) * k, np.append(pairs, np.tile(pairs, k)))

    @property
    def last(self) -> np.ndarray:
        """The state that each state of the computed chain ends in."""
        own = np.arange(self.n_states)
        return own if self.order == 1 else np.concatenate([own, np.tile(own, self.n_states)])

    def complete(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Initial and transition probabilities, the known ones with the unknown ones' values."""
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
        """The chain that is computed with, at values of what is unknown."""
        own = self.complete(values)
        if self.full:
            return HiddenChain.of(own["initial"], own["transition"])
        edges = self.edges
        assert edges is not None
        if self.order == 1:
            return HiddenChain.of(own["initial"], edges.take(own["transition"]), edges)
        start = np.append(own["initial"], np.zeros(self.n_states**2))
        both = np.concatenate([own["second_transition"].ravel(), own["transition"].ravel()])
        return HiddenChain.of(start, both, edges)

    def fold(self, posterior: np.ndarray) -> np.ndarray:
        """Probabilities (..., n_chain_states) of the computed chain as those of the states."""
        if self.order == 1:
            return posterior
        k = self.n_states
        return posterior[..., :k] + posterior[..., k:].reshape(*posterior.shape[:-1], k, k).sum(axis=-2)

    def counts(self, start: np.ndarray, transition: np.ndarray) -> dict[str, np.ndarray]:
        """Expected counts of the computed chain as those of the parameters."""
        k = self.n_states
        if self.order == 1:
            return {"initial": start, "transition": transition if self.full else _edges(self).dense(transition)}
        second, rest = transition[: k * k].reshape(k, k), transition[k * k :].reshape(k, k, k)
        return {"initial": start[:k], "second_transition": second, "transition": rest}

    def concentration(self, name: str) -> np.ndarray:
        """Of the Dirichlet prior of a parameter; zero where a transition is impossible."""
        if name == "initial":
            return self.initial_prior
        own = np.where(self.mask, self.prior, 0.0)
        return np.broadcast_to(own, (self.n_states, *own.shape)) if name == "transition" and self.order == 2 else own

    def maximise(
        self, counts: Mapping[str, np.ndarray], *, prior: bool, start: Mapping[str, np.ndarray] | None = None
    ) -> dict[str, np.ndarray]:
        """The most probable parameters for expected counts."""
        out = {}
        for name in self.learned:
            if name not in counts:
                continue
            own = counts[name]
            a = self.concentration(name)
            total = np.where(a > 0, np.maximum(own + (a - 1 if prior else 0.0), 0.0), 0.0)
            sums = total.sum(axis=-1, keepdims=True)
            even = (a > 0) / (a > 0).sum(axis=-1, keepdims=True)
            out[name] = np.where(sums > 0, total / np.where(sums > 0, sums, 1.0), even)
            if name == "transition" and self.settled and start is not None:
                out[name] = best_transition(total, counts["initial"], a > 0, start[name])
        return out

    @property
    def settled(self) -> bool:
        """Whether the chain begins where it settles."""
        return isinstance(self.initial, str) and self.initial == "stationary"

    def expected(self, counts: Mapping[str, np.ndarray], values: Mapping[str, np.ndarray]) -> float:
        """Expected log density of the states, given expected counts."""
        own = self.complete(values)
        names = self.learned + (("initial",) if self.settled else ())
        used = [(counts[name] > 0, name) for name in names]
        with np.errstate(divide="ignore"):
            return float(sum(np.sum(counts[name][at] * np.log(own[name][at])) for at, name in used))

    def log_prior(self, values: Mapping[str, np.ndarray]) -> float:
        total = 0.0
        for name in self.learned:
            exponent = np.where(self.concentration(name) > 0, self.concentration(name) - 1, 0.0)
            used = exponent != 0
            with np.errstate(divide="ignore"):
                total += float(np.sum(exponent[used] * np.log(values[name][used])))
        return total

    def calm(self) -> dict[str, np.ndarray]:
        """Transitions that mostly stay."""
        out = {}
        for name in self.learned:
            a = (self.concentration(name) > 0).astype(float)
            if name == "transition":
                # What the state is and what it will be are the last two axes, whatever the order.
                a = a * (1.0 + 3.0 * self.n_states * np.eye(self.n_states))
            out[name] = a / a.sum(axis=-1, keepdims=True)
        return out

    def draw(self, rng: np.random.Generator, weight: float = 1.0) -> dict[str, np.ndarray]:
        """Random values of what is unknown."""
        out = {}
        for name in self.learned:
            gammas = rng.standard_gamma(np.where(self.concentration(name) > 0, weight, 0.0))
            out[name] = gammas / gammas.sum(axis=-1, keepdims=True)
        return out


def _edges(chain: Chain) -> Edges:
    edges = chain.edges
    assert edges is not None
    return edges


def dense_logs(chain: Chain, values: Mapping[str, Any]) -> tuple[Any, Any]:
    """Logarithms of initial and transition probabilities of order 1 as flat PyTensor expressions, -inf where zero."""
    import pytensor.tensor as pt

    initial, at = values["initial"], np.nonzero(chain.mask)
    if isinstance(initial, np.ndarray):
        with np.errstate(divide="ignore"):
            log_start = pt.as_tensor_variable(np.log(initial))
    else:
        log_start = pt.log(initial)
    # Only what is possible has a logarithm, and so a slope.
    nowhere = pt.as_tensor_variable(np.full(chain.mask.shape, -np.inf))
    return log_start, pt.set_subtensor(nowhere[at], pt.log(values["transition"])[at]).ravel()
