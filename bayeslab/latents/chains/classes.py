"""Sequences of several classes: a chain for each, and Bayes' rule.

The chains form one chain on the union of their states, without transitions between classes:

    P(z_1 = k) = P(class of k) P(first state k | class),    transitions block by block.

A known class is evidence: the sequence starts in its block and stays there. Forward-backward over the blocks gives
log p(sequence, class) if the class is known and log p(sequence) otherwise, so that unlabelled sequences are used too;
the posterior mass of a block is P(class | sequence) [1]_.

``training: discriminative`` takes

    log p(class | sequence) = log p(sequence, class) - log p(sequence)

as the likelihood instead: the same evidence twice, with classes fixed and with classes free; its gradient is the
difference of the two expected counts [2]_, [3]_.

References
----------
.. [1] Rabiner (1989). A tutorial on hidden Markov models and selected applications in speech recognition.
   Proceedings of the IEEE 77, 257-286.
.. [2] Bahl, Brown, de Souza, Mercer (1986). Maximum mutual information estimation of hidden Markov model
   parameters for speech recognition. ICASSP 11, 49-52.
.. [3] Krogh (1994). Hidden Markov models for labeled sequences. ICPR 12, 140-144.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bayeslab.language.writer import Writer
from bayeslab.latents.chains.chain import Chain
from bayeslab.latents.chains.forward_backward import SPARSE_KERNEL, Edges, HiddenChain
from bayeslab.latents.chains.state_chain import StateChain

__all__ = ["ClassChain"]


@dataclass(frozen=True, eq=False)
class ClassChain(StateChain):
    """First-order chains for several classes; see :class:`bayeslab.latents.chains.state_chain.StateChain`.

    Attributes
    ----------
    base : Chain
        Chain on the union of the states; its initial distribution is not used.
    classes : ndarray (n_classes,)
        Names of the classes.
    states : ndarray (n_states,)
        Names of the states: the class, a dot, the state.
    of_state : ndarray (n_states,)
        The class of each state.
    known : ndarray (n_sequences,)
        The class of each sequence, -1 where it is not known.
    first : ndarray (n_classes, n_states), or None
        P(first state | class), if it is known.
    probability : ndarray (n_classes,), or None
        P(class), if it is known.
    discriminative : bool
    """

    base: Chain
    classes: np.ndarray
    states: np.ndarray
    of_state: np.ndarray
    known: np.ndarray
    first: np.ndarray | None
    probability: np.ndarray | None
    discriminative: bool = False

    order = 1

    @property
    def n_states(self) -> int:
        return self.base.n_states

    @property
    def n_classes(self) -> int:
        return len(self.classes)

    @property
    def mask(self) -> np.ndarray:
        return self.base.mask

    @property
    def transition(self) -> np.ndarray | None:
        return self.base.transition

    @property
    def initial(self) -> Any:
        return "free" if self.first is None else self.first

    @property
    def edges(self) -> Edges:
        return Edges.of(self.mask)

    @property
    def labelled(self) -> bool:
        """Whether the class of any sequence is known."""
        return bool((self.known >= 0).any())

    @property
    def learned(self) -> tuple[str, ...]:
        given = {"class_probability": self.probability, "initial": self.first, "transition": self.transition}
        return tuple(name for name, value in given.items() if value is None)

    @property
    def blocks(self) -> tuple[np.ndarray, ...]:
        """The exchangeable states of each class."""
        class_blocks = tuple(np.flatnonzero(self.of_state == c) for c in range(self.n_classes))
        alike = (
            self.transition is None
            and all(self.mask[np.ix_(block, block)].all() for block in class_blocks)
            and (self.first is None or all(np.ptp(self.first[c, block]) == 0 for c, block in enumerate(class_blocks)))
        )
        return class_blocks if alike else ()

    @property
    def no_em(self) -> str:
        """Reason why EM does not apply; empty if it does."""
        if not self.discriminative:
            return ""
        return "the M-step of discriminative training has no closed form; use method map, or nuts"

    def dims(self, name: str) -> tuple[str, ...]:
        class_dims = {"class_probability": ("class",), "initial": ("class", "state")}
        return class_dims.get(name, ("state", "next_state"))

    def labels(self) -> dict[str, np.ndarray]:
        """Of dimensions that are not states."""
        return {"class": self.classes}

    def concentration(self, name: str) -> np.ndarray:
        """Of the Dirichlet prior of a parameter; zero where there is nothing."""
        if name == "class_probability":
            return np.full(self.n_classes, float(self.base.initial_prior[0]))
        if name == "initial":
            return np.where(self._inside, self.base.initial_prior, 0.0)
        return self.base.concentration(name)

    @property
    def _inside(self) -> np.ndarray:
        return np.arange(self.n_classes)[:, None] == self.of_state

    def prior_text(self, name: str) -> str:
        """The prior of a parameter, for people."""
        rows = {tuple(row[row > 0]) for row in np.atleast_2d(self.concentration(name))}
        shown = ", ".join(f"{x:g}" for x in next(iter(rows)))
        return f"Dirichlet([{shown}])" if len(rows) == 1 else "Dirichlet, row by row"

    # ------------------------------------------------------------------ computing

    def of_sequences(self, which: np.ndarray, times: np.ndarray) -> ClassChain:
        """The same latent on some of the sequences."""
        return replace(self, known=self.known[which])

    def freed(self) -> ClassChain:
        """The same latent with all classes unknown."""
        return replace(self, known=np.full(len(self.known), -1))

    def complete(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """All probabilities, the known ones with the unknown ones' values."""
        given = {"class_probability": self.probability, "initial": self.first, "transition": self.transition}
        return {name: np.asarray(values[name] if value is None else value) for name, value in given.items()}

    @property
    def held(self) -> np.ndarray:
        """0 for states in which a sequence can start, -inf in other classes: (1 or n_sequences, n_states)."""
        known = self.known if self.labelled else np.full(1, -1)
        return np.where((known[:, None] < 0) | (known[:, None] == self.of_state), 0.0, -np.inf)

    def hidden(self, values: Mapping[str, np.ndarray]) -> HiddenChain:
        parameters, k = self.complete(values), np.arange(self.n_states)
        with np.errstate(divide="ignore"):
            start = np.log(parameters["class_probability"])[self.of_state] + np.log(
                parameters["initial"][self.of_state, k]
            )
            edges = self.edges
            return HiddenChain(start + self.held, np.log(edges.take(parameters["transition"])), edges)

    def counts(self, start: np.ndarray, transition: np.ndarray) -> dict[str, np.ndarray]:
        """Expected counts of the computed chain as those of the parameters."""
        begun = start.reshape(-1, self.n_states).sum(axis=0)
        return {
            "class_probability": np.bincount(self.of_state, begun, self.n_classes),
            "initial": np.where(self._inside, begun, 0.0),
            "transition": self.edges.dense(transition),
        }

    def start_values(self) -> dict[str, np.ndarray]:
        """Start values: class frequencies of the known sequences, and transitions that mostly stay."""
        out = {}
        for name in self.learned:
            a = (self.concentration(name) > 0).astype(float)
            if name == "class_probability":
                a += np.bincount(self.known[self.known >= 0], minlength=self.n_classes)
            if name == "transition":
                sizes = np.bincount(self.of_state)[self.of_state]
                a = a * (1.0 + 3.0 * sizes[:, None] * np.eye(self.n_states))
            out[name] = a / a.sum(axis=-1, keepdims=True)
        return out

    # ------------------------------------------------------------------ densities of graphs and programs

    def evidence(self, writer: Writer, values: Mapping[str, Any], log_density: Any, offsets: np.ndarray) -> Any:
        """log p(sequences, known classes); for discriminative training log P(known classes | sequences)."""
        edges, free = self.edges, self.log_free(writer, values)
        transition = values["transition"][edges.sources, edges.targets]

        def summed(log_start: Any, n_starts: int) -> Any:
            flat = (log_start, writer.log(transition), log_density)
            sizes = np.array([self.n_states, n_starts, 1])
            return writer.evidence(SPARSE_KERNEL, flat, offsets, sizes, edges.starts, edges.targets)

        both = summed(free + self.held, len(self.held))
        return both - summed(free, 1) if self.discriminative else both

    def internal(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Draws of the variables behind rows with zeros: those of rows with equally many places are one variable."""
        out: dict[str, np.ndarray] = {}
        for name in set(self.learned) - {"class_probability"}:
            used = self.concentration(name) > 0
            sizes = used.sum(axis=1)
            for n in np.unique(sizes[sizes > 1]):
                rows = np.flatnonzero(sizes == n)
                places = np.stack([np.flatnonzero(used[row]) for row in rows])
                out[f"_{name}_{n}"] = np.asarray(values[name])[:, rows[:, None], places]
        return out

    def log_free(self, writer: Writer, values: Mapping[str, Any]) -> Any:
        """Log probabilities of the first state for an unknown class: (1, n_states)."""
        if self.probability is None:
            share = writer.log(values["class_probability"])[self.of_state]
        else:
            share = writer.constant(writer.log(self.probability)[self.of_state])
        k = np.arange(self.n_states)
        if self.first is None:
            return (share + writer.log(values["initial"][self.of_state, k]))[None]
        with np.errstate(divide="ignore"):
            return (share + np.log(self.first[self.of_state, k]))[None]
