"""Laws of chains of hidden states: abstract methods, and defaults.

States may be functions of the states of a larger computed Markov chain (second order, durations, classes). A law that
is not a chain (a tree, urns) implements a :class:`bayeslab.latents.latent.Law` with the same methods.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeslab.language.writer import Writer
from bayeslab.latents.chains import decoding
from bayeslab.latents.chains.chain_graph import GivenUniforms, chain_variables
from bayeslab.latents.chains.forward_backward import (
    KERNEL,
    SPARSE_KERNEL,
    Edges,
    HiddenChain,
    filter_states,
    predicted_states,
    simulate_states,
    smooth,
)
from bayeslab.latents.chains.hidden_gibbs import draw_path
from bayeslab.latents.latent import Drawn, Expected, Latent, Law, Values

__all__ = ["ChainOver", "ChainStates", "MarkovChain", "MarkovLaw", "StateChain"]


class ChainStates:
    """How a computed Markov chain stands for states: each of its states has a last state of the model."""

    if TYPE_CHECKING:  # a field or a cached property of some subclasses, a property of others

        @property
        def last(self) -> np.ndarray:
            """The last state of each state of the computed chain."""

        @property
        def edges(self) -> Edges | None:
            """Possible transitions of the computed chain; None if it is dense."""

    def fold(self, posterior: np.ndarray) -> np.ndarray:
        """Probabilities (..., n_chain_states) of the computed chain as those of the states."""
        return posterior

    def counts(self, start: np.ndarray, transition: np.ndarray) -> dict[str, np.ndarray]:
        """Expected counts of the computed chain as those of the parameters; default: there are no parameters."""
        return {}


class StateChain(ChainStates, Latent):
    """The law of a chain of hidden states.

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
        Names of the unknown parameters.
    """

    if TYPE_CHECKING:  # fields of some subclasses, properties of others

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
        """Number of transition matrices."""
        return 1

    @property
    def edges(self) -> Edges | None:
        """Possible transitions of the computed chain; None if it is dense."""
        return None

    @property
    def last(self) -> np.ndarray:
        """The last state of each state of the computed chain."""
        return np.arange(self.n_states)

    @abstractmethod
    def hidden(self, values: Values) -> HiddenChain:
        """The computed chain at given values of the unknown parameters."""

    @abstractmethod
    def counts(self, start: np.ndarray, transition: np.ndarray) -> dict[str, np.ndarray]:
        """Expected counts of the computed chain as those of the parameters."""

    def law(self, values: Values, log_density: np.ndarray, offsets: np.ndarray) -> Law:
        """The hidden states at these values, the data seen; ``log_density`` is (n_times, n_states)."""
        expanded = log_density[:, self.last] if self.expanded else log_density
        return MarkovLaw(self, self.hidden(values), expanded, offsets)

    def simulate(self, values: Values, uniform: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        return np.asarray(self.last[simulate_states(self.hidden(values), offsets, GivenUniforms(uniform))], np.int64)

    # ------------------------------------------------------------------ learning, and densities

    @property
    def how(self) -> str:
        return "Baum-Welch: the hidden states are summed out by forward-backward"

    @property
    def no_gibbs(self) -> str:
        return "these transitions have no conjugate prior; use nuts, map or em"

    def variables(self, writer: Writer, start: Values | None) -> dict[str, Any]:
        return chain_variables(writer, self, start)


@dataclass(frozen=True, eq=False)
class MarkovLaw(Law):
    """A Markov chain at given parameters, given the data.

    Attributes
    ----------
    states : ChainStates
        The map of the computed chain to the states.
    chain : HiddenChain
    log_density : ndarray (n_times, n_chain_states)
    offsets : ndarray
    """

    states: ChainStates
    chain: HiddenChain
    log_density: np.ndarray
    offsets: np.ndarray

    condition = "given the rows before it"

    def expected(self) -> Expected:
        smoothed = smooth(self.chain, self.log_density, self.offsets)
        counts = self.states.counts(smoothed.start_counts, smoothed.transition_counts)
        return Expected(smoothed.log_evidence, self.states.fold(smoothed.posterior), counts)

    def impossible(self) -> np.ndarray:
        return smooth(self.chain, self.log_density, self.offsets).impossible

    def filter(self, kind: str) -> np.ndarray:
        filtered = np.exp(filter_states(self.chain, self.log_density, self.offsets).log_filtered)
        if kind == "predict":
            filtered = predicted_states(self.chain, filtered, self.offsets)
        return np.asarray(self.states.fold(filtered))

    def log_likelihoods(self, by_sequence: bool) -> np.ndarray:
        filtered = filter_states(self.chain, self.log_density, self.offsets)
        return filtered.log_evidence if by_sequence else filtered.log_predictive

    def mode(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        if n == 1:
            one = decoding.viterbi(self.chain, self.log_density, self.offsets).possible()
            paths, heights = one.states[None], one.log_probability[None]
        else:
            several = decoding.k_best(self.chain, self.log_density, n, self.offsets)
            paths, heights = several.states, several.log_probability
        return np.where(paths >= 0, self.states.last[paths], -1), heights

    def sample(self, rng: np.random.Generator) -> np.ndarray:
        path = decoding.sample_paths(self.chain, self.log_density, 1, rng, self.offsets)[0]
        return np.asarray(self.states.last[path])

    def draw(self, rng: np.random.Generator) -> Drawn:
        path = draw_path(self.chain, self.log_density, rng, self.offsets)
        edges = self.states.edges
        counts = self.states.counts(path.starts, path.moves if edges is None else edges.take(path.moves))
        return Drawn(self.states.last[path.states], counts, path.log_evidence)


class MarkovChain(StateChain):
    """States that are a Markov chain, of first order once its states are those of the computed chain."""

    @abstractmethod
    def log_probabilities(self, writer: Writer, values: Mapping[str, Any]) -> tuple[Any, Any]:
        """Logarithms of the initial and transition probabilities of the computed chain, as expressions."""

    def evidence(self, writer: Writer, values: Mapping[str, Any], log_density: Any, offsets: np.ndarray) -> Any:
        log_start, log_transition = self.log_probabilities(writer, values)
        if self.expanded:
            log_density = log_density[:, self.last]
        flat = (log_start, log_transition, log_density)
        sizes = np.array([len(self.last), 1, self.n_steps])
        edges = self.edges
        if edges is None:
            return writer.evidence(KERNEL, flat, offsets, sizes)
        return writer.evidence(SPARSE_KERNEL, flat, offsets, sizes, edges.starts, edges.targets)


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

    def start_values(self) -> dict[str, np.ndarray]:
        return self.base.start_values()

    def draw(self, rng: np.random.Generator, weight: float = 1.0) -> dict[str, np.ndarray]:
        return self.base.draw(rng, weight)

    def maximise(self, counts: Values, *, prior: bool, start: Values | None = None) -> dict[str, np.ndarray]:
        return self.base.maximise(counts, prior=prior, start=start)

    def expected_log_density(self, counts: Values, values: Values) -> float:
        return self.base.expected_log_density(counts, values)

    def log_prior(self, values: Values) -> float:
        return self.base.log_prior(values)

    def variables(self, writer: Writer, start: Values | None) -> dict[str, Any]:
        return self.base.variables(writer, start)
