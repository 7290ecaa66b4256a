"""What a hidden Markov model asks of the law of its states: abstract methods, and what follows from them.

Parameters that are not said to be otherwise are rows of probabilities with Dirichlet priors: ``concentration`` gives
the prior, and the M-step, the log prior and random values follow from it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from bayeslab.exact.forward_backward import KERNEL, SPARSE_KERNEL, Edges, HiddenChain, simulate_states
from bayeslab.families.hmm.chain_graph import GivenUniforms, chain_variables
from bayeslab.families.hmm.law import Law, MarkovLaw

__all__ = ["ChainOver", "MarkovChain", "StateChain"]

type Values = Mapping[str, np.ndarray]


class StateChain(ABC):
    """How hidden states follow each other.

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
    learned : tuple of str
        Names of what is unknown.
    """

    if TYPE_CHECKING:  # fields of some subclasses, properties of others

        @property
        def n_states(self) -> int: ...
        @property
        def mask(self) -> np.ndarray: ...
        @property
        def order(self) -> int: ...
        @property
        def initial(self) -> Any: ...
        @property
        def transition(self) -> np.ndarray | None: ...

    # ------------------------------------------------------------------ the computed chain

    @property
    def expanded(self) -> bool:
        """Whether the computed chain has other states than the model."""
        return False

    @property
    def full(self) -> bool:
        """Whether the computed chain is dense."""
        return False

    @property
    def n_steps(self) -> int:
        """How many transition matrices there are."""
        return 1

    @property
    def edges(self) -> Edges | None:
        """Possible transitions of the computed chain; None if it is dense."""
        return None

    @property
    def last(self) -> np.ndarray:
        """The state that each state of the computed chain ends in."""
        return np.arange(self.n_states)

    @abstractmethod
    def hidden(self, values: Values) -> HiddenChain:
        """The chain that is computed with, at values of what is unknown."""

    def fold(self, posterior: np.ndarray) -> np.ndarray:
        """Probabilities (..., n_chain_states) of the computed chain as those of the states."""
        return posterior

    @abstractmethod
    def counts(self, start: np.ndarray, transition: np.ndarray) -> dict[str, np.ndarray]:
        """Expected counts of the computed chain as those of the parameters."""

    def law(self, values: Values, log_emission: np.ndarray, offsets: np.ndarray) -> Law:
        """The hidden states at these values, the data seen; ``log_emission`` is (n_times, n_states)."""
        expanded = log_emission[:, self.last] if self.expanded else log_emission
        return MarkovLaw(self, self.hidden(values), expanded, offsets)

    def simulated(self, values: Values, uniform: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """States (n_times,) drawn without data, by one uniform number a time."""
        return np.asarray(self.last[simulate_states(self.hidden(values), offsets, GivenUniforms(uniform))], np.int64)

    def prefix(self, n_times: int) -> Self:
        """The same on the first times."""
        return self

    def of_sequences(self, which: np.ndarray, times: np.ndarray) -> Self:
        """The same on some of the sequences, which hold these times."""
        return self

    # ------------------------------------------------------------------ what is unknown

    @property
    @abstractmethod
    def learned(self) -> tuple[str, ...]: ...

    @abstractmethod
    def complete(self, values: Values) -> dict[str, np.ndarray]:
        """All probabilities, the known ones with the unknown ones' values."""

    @abstractmethod
    def dims(self, name: str) -> tuple[str, ...]: ...

    @abstractmethod
    def concentration(self, name: str) -> np.ndarray:
        """Of the Dirichlet prior of a parameter; zero where there is nothing."""

    def kind(self, name: str) -> str:
        """What values a parameter can have, as EM's coordinates call it."""
        return "simplex"

    def shape(self, name: str) -> tuple[int, ...]:
        return self.concentration(name).shape

    def labels(self) -> dict[str, np.ndarray]:
        """Of dimensions that are not states."""
        return {}

    @property
    def symmetric(self) -> bool:
        """Whether nothing here tells one state from another."""
        return False

    @property
    def n_free(self) -> int:
        """Free parameters."""
        return sum(int(np.maximum((self.concentration(n) > 0).sum(axis=-1) - 1, 0).sum()) for n in self.learned)

    def prior_text(self, name: str) -> str:
        """The prior of a parameter, for people."""
        rows = np.unique(np.atleast_2d(self.concentration(name)), axis=0)
        shown = ", ".join(f"{x:g}" for x in rows[0].ravel())
        return f"Dirichlet([{shown}])" if rows.shape[0] == 1 and rows.ndim == 2 else "Dirichlet, row by row"

    def internal(self, values: Values) -> dict[str, np.ndarray]:
        """Draws of the variables behind parameters, by their names."""
        return {}

    # ------------------------------------------------------------------ learning

    @property
    def how(self) -> str:
        """What EM does, for people."""
        return "Baum-Welch: the hidden states are summed out by forward-backward"

    @property
    def no_em(self) -> str:
        """Why EM does not apply, if it does not."""
        return ""

    @abstractmethod
    def calm(self) -> dict[str, np.ndarray]:
        """Values of what is unknown where a search can begin: transitions that mostly stay."""

    def draw(self, rng: np.random.Generator, weight: float = 1.0) -> dict[str, np.ndarray]:
        """Random values of what is unknown."""
        out = {}
        for name in self.learned:
            gammas = rng.standard_gamma(np.where(self.concentration(name) > 0, weight, 0.0))
            out[name] = gammas / gammas.sum(axis=-1, keepdims=True)
        return out

    def maximise(self, counts: Values, *, prior: bool, start: Values | None = None) -> dict[str, np.ndarray]:
        """The most probable parameters for expected counts."""
        out = {}
        for name in self.learned:
            if name in counts:
                a = self.concentration(name)
                total = self._weighed(counts[name], a, prior=prior)
                sums = total.sum(axis=-1, keepdims=True)
                even = (a > 0) / (a > 0).sum(axis=-1, keepdims=True)
                out[name] = np.where(sums > 0, total / np.where(sums > 0, sums, 1.0), even)
        return out

    @staticmethod
    def _weighed(counts: np.ndarray, a: np.ndarray, *, prior: bool) -> np.ndarray:
        """Expected counts with those of the prior, zero where a transition is impossible."""
        return np.where(a > 0, np.maximum(counts + (a - 1 if prior else 0.0), 0.0), 0.0)

    def expected(self, counts: Values, values: Values) -> float:
        """Expected log density of the states, given expected counts."""
        own = self.complete(values)
        used = [(counts[name] > 0, name) for name in self.learned]
        with np.errstate(divide="ignore"):
            return float(sum(np.sum(counts[name][at] * np.log(own[name][at])) for at, name in used))

    def log_prior(self, values: Values) -> float:
        total = 0.0
        for name in self.learned:
            exponent = np.where(self.concentration(name) > 0, self.concentration(name) - 1, 0.0)
            used = exponent != 0
            with np.errstate(divide="ignore"):
                total += float(np.sum(exponent[used] * np.log(values[name][used])))
        return total

    # ------------------------------------------------------------------ PyMC

    def variables(self, start: Values | None) -> dict[str, Any]:
        """What is unknown as random variables on PyMC's context stack, and what is known as constants."""
        return chain_variables(self, start)

    @abstractmethod
    def evidence(self, values: Mapping[str, Any], log_emission: Any, offsets: np.ndarray) -> Any:
        """log p(rows | parameters) as a PyTensor expression."""


class MarkovChain(StateChain):
    """States that are a Markov chain, of first order once its states are those of the computed chain."""

    @abstractmethod
    def log_probabilities(self, values: Mapping[str, Any]) -> tuple[Any, Any]:
        """Logarithms of the initial and transition probabilities of the computed chain, as PyTensor expressions."""

    def evidence(self, values: Mapping[str, Any], log_emission: Any, offsets: np.ndarray) -> Any:
        import pytensor.tensor as pt

        from bayeslab.evidence import log_evidence

        log_start, log_transition = self.log_probabilities(values)
        if self.expanded:
            log_emission = log_emission[:, self.last]
        flat = pt.concatenate([log_start.ravel(), log_transition.ravel(), log_emission.ravel()])
        sizes = np.array([len(self.last), 1, self.n_steps])
        edges = self.edges
        if edges is None:
            return log_evidence(KERNEL, flat, offsets, sizes)
        return log_evidence(SPARSE_KERNEL, flat, offsets, sizes, edges.starts, edges.targets)


class ChainOver(StateChain):
    """A law of states that asks the chain ``base`` for all that it does not say itself."""

    if TYPE_CHECKING:

        @property
        def base(self) -> StateChain: ...

    @property
    def n_states(self) -> int:
        return self.base.n_states

    @property
    def mask(self) -> np.ndarray:
        return self.base.mask

    @property
    def order(self) -> int:
        return self.base.order

    @property
    def initial(self) -> Any:
        return self.base.initial

    @property
    def transition(self) -> np.ndarray | None:
        return self.base.transition

    @property
    def full(self) -> bool:
        return self.base.full

    @property
    def edges(self) -> Edges | None:
        return self.base.edges

    @property
    def symmetric(self) -> bool:
        return self.base.symmetric

    @property
    def learned(self) -> tuple[str, ...]:
        return self.base.learned

    @property
    def n_free(self) -> int:
        return self.base.n_free

    def hidden(self, values: Values) -> HiddenChain:
        return self.base.hidden(values)

    def counts(self, start: np.ndarray, transition: np.ndarray) -> dict[str, np.ndarray]:
        return self.base.counts(start, transition)

    def complete(self, values: Values) -> dict[str, np.ndarray]:
        return self.base.complete(values)

    def dims(self, name: str) -> tuple[str, ...]:
        return self.base.dims(name)

    def kind(self, name: str) -> str:
        return self.base.kind(name)

    def concentration(self, name: str) -> np.ndarray:
        return self.base.concentration(name)

    def prior_text(self, name: str) -> str:
        return self.base.prior_text(name)

    def labels(self) -> dict[str, np.ndarray]:
        return self.base.labels()

    def calm(self) -> dict[str, np.ndarray]:
        return self.base.calm()

    def draw(self, rng: np.random.Generator, weight: float = 1.0) -> dict[str, np.ndarray]:
        return self.base.draw(rng, weight)

    def maximise(self, counts: Values, *, prior: bool, start: Values | None = None) -> dict[str, np.ndarray]:
        return self.base.maximise(counts, prior=prior, start=start)

    def expected(self, counts: Values, values: Values) -> float:
        return self.base.expected(counts, values)

    def log_prior(self, values: Values) -> float:
        return self.base.log_prior(values)

    def variables(self, start: Values | None) -> dict[str, Any]:
        return self.base.variables(start)
