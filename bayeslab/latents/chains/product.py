r"""Several hidden chains: factorial, coupled and switching hidden Markov models.

The computation is exact, with one chain on the product of their states
(:mod:`bayeslab.latents.chains.product_chain`). The models differ in the dependence between chains and in the emissions:

factorial
    Chains are independent, p(z_t | z_{t-1}) = Π_c A_c[z_{t-1,c}, z_{t,c}], and share one output [1]_.
coupled
    The next state of each chain depends on the previous states of all chains [2]_; each chain has its own columns.
switching
    The first chain selects which of the others is observed; each of these has its own parameters for all columns.

A pass costs O(T S²) for S = Π_c K_c states of the product, however simple the chains.

References
----------
.. [1] Ghahramani, Jordan (1997). Factorial hidden Markov models. Machine Learning 29, 245-273.
.. [2] Brand, Oliver, Pentland (1997). Coupled hidden Markov models for complex action recognition. CVPR, 994-999.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from bayeslab.language.writer import Writer
from bayeslab.latents.chains.forward_backward import KERNEL, HiddenChain
from bayeslab.latents.chains.product_chain import ProductSpace
from bayeslab.latents.chains.state_chain import StateChain

__all__ = ["ProductChain"]


@dataclass(frozen=True, eq=False)
class ProductChain(StateChain):
    """Several chains as one.

    Attributes
    ----------
    names : tuple of str
        Of the chains.
    levels : tuple of ndarray
        Names of the states of each.
    coupling : {"factorial", "coupled", "switching"}
    known : mapping of str to ndarray
        Initial and transition probabilities that are given, by posterior name.
    pseudocount, stickiness : float
        Of the Dirichlet priors.
    """

    names: tuple[str, ...]
    levels: tuple[np.ndarray, ...]
    coupling: Literal["factorial", "coupled", "switching"]
    known: Mapping[str, np.ndarray]
    pseudocount: float
    stickiness: float

    order = 1
    full = True
    # Properties of product states follow from those of the chains; product states are not exchangeable by themselves.
    symmetric = False
    initial = "free"
    transition = None

    @cached_property
    def space(self) -> ProductSpace:
        return ProductSpace(self.sizes)

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(len(states) for states in self.levels)

    @property
    def n_states(self) -> int:
        return self.space.n_states

    @property
    def every(self) -> tuple[str, ...]:
        """Names of all initial and transition probabilities."""
        return tuple(f"{word}_{name}" for name in self.names for word in ("initial", "transition"))

    @property
    def states(self) -> np.ndarray:
        """Names of the states of the product: those of the chains' states."""
        each = [levels[at].astype(str) for levels, at in zip(self.levels, self.space.states.T, strict=True)]
        return np.array([", ".join(names) for names in zip(*each, strict=True)])

    @property
    def mask(self) -> np.ndarray:
        return np.ones((self.n_states, self.n_states), dtype=bool)

    @property
    def learned(self) -> tuple[str, ...]:
        return tuple(name for name in self.every if name not in self.known)

    def owned(self, name: str) -> tuple[str, int] | None:
        """The word and the chain of a parameter's name."""
        at = self.every.index(name) if name in self.every else -1
        return None if at < 0 else (("initial", "transition")[at % 2], at // 2)

    def owner(self, name: str) -> tuple[str, int]:
        """As :meth:`owned`, of a parameter of the chains."""
        owner = self.owned(name)
        assert owner is not None
        return owner

    def dims(self, name: str) -> tuple[str, ...]:
        word, c = self.owner(name)
        if word == "initial":
            return (self.names[c],)
        before = self.names if self.coupling == "coupled" else (self.names[c],)
        return (*before, f"next_{self.names[c]}")

    def shape(self, name: str) -> tuple[int, ...]:
        word, c = self.owner(name)
        if word == "initial":
            return (self.sizes[c],)
        return (*(self.sizes if self.coupling == "coupled" else (self.sizes[c],)), self.sizes[c])

    def labels(self) -> dict[str, np.ndarray]:
        levels_of = dict(zip(self.names, self.levels, strict=True))
        return levels_of | {f"next_{name}": levels for name, levels in levels_of.items()}

    def concentration(self, name: str) -> np.ndarray:
        """Of the Dirichlet prior of a parameter."""
        word, c = self.owner(name)
        out = np.full(self.shape(name), float(self.pseudocount))
        if word == "transition":
            stay = self.stickiness * np.eye(self.sizes[c])
            at = c if self.coupling == "coupled" else 0
            shape = [1] * out.ndim
            shape[at] = shape[-1] = self.sizes[c]
            out = out + stay.reshape(shape)
        return out

    def prior_text(self, name: str) -> str:
        if self.stickiness and self.owner(name)[0] == "transition":
            return "Dirichlet, row by row"
        return f"Dirichlet([{', '.join([f'{self.pseudocount:g}'] * self.shape(name)[-1])}])"

    # ------------------------------------------------------------------ computing

    def complete(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Initial and transition probabilities of all chains, the known ones with the unknown ones' values."""
        return {name: np.asarray(self.known[name] if name in self.known else values[name]) for name in self.every}

    def hidden(self, values: Mapping[str, np.ndarray]) -> HiddenChain:
        with np.errstate(divide="ignore"):
            logs = {name: np.log(value) for name, value in self.complete(values).items()}
        moves = [logs[f"transition_{name}"] for name in self.names]
        join = self.space.join_coupled if self.coupling == "coupled" else self.space.join_transitions
        return HiddenChain(self.space.join([logs[f"initial_{name}"] for name in self.names]), join(moves))

    def counts(self, start: np.ndarray, transition: np.ndarray) -> dict[str, np.ndarray]:
        """Expected counts of the product as those of each chain."""
        fold = self.space.fold_coupled if self.coupling == "coupled" else self.space.fold
        out = {}
        for c, name in enumerate(self.names):
            out[f"initial_{name}"] = self.space.marginal(start, c)
            out[f"transition_{name}"] = fold(transition, c)
        return out

    def start_values(self) -> dict[str, np.ndarray]:
        """Transitions that mostly stay."""
        out = {}
        for name in self.learned:
            word, c = self.owner(name)
            a = np.ones(self.shape(name))
            if word == "transition":
                shape = [1] * a.ndim
                shape[c if self.coupling == "coupled" else 0] = shape[-1] = self.sizes[c]
                a = a + 3.0 * self.sizes[c] * np.eye(self.sizes[c]).reshape(shape)
            out[name] = a / a.sum(axis=-1, keepdims=True)
        return out

    # ------------------------------------------------------------------ several chains

    @property
    def no_gibbs(self) -> str:
        return "several chains are not drawn by Gibbs steps; use nuts, map or em"

    def named(self, states: np.ndarray) -> dict[str, np.ndarray]:
        """The state of each chain, by its name."""
        each = self.space.states[states]
        return {
            name: levels[each[..., c]] for c, (name, levels) in enumerate(zip(self.names, self.levels, strict=True))
        }

    def chances(self, joint: np.ndarray) -> dict[str, np.ndarray]:
        """Probabilities (n_times, n_states) as columns: of the states of each chain."""
        out: dict[str, np.ndarray] = {}
        for c, (name, states) in enumerate(zip(self.names, self.levels, strict=True)):
            marginal = self.space.marginal(joint, c)
            out |= {f"P({name}={level})": marginal[:, k] for k, level in enumerate(states)}
        return out

    # ------------------------------------------------------------------ PyMC

    def variables(self, writer: Writer, start: Mapping[str, np.ndarray] | None) -> dict[str, Any]:
        """What is unknown as random variables; the rest as constants."""
        out: dict[str, Any] = {name: writer.constant(value) for name, value in self.known.items()}
        for name in self.learned:
            first, a = None if start is None else start[name], self.concentration(name)
            out[name] = writer.random(name, "Dirichlet", {"a": a}, a.shape, dims=self.dims(name), start=first)
        return out

    def evidence(self, writer: Writer, values: Mapping[str, Any], log_density: Any, offsets: np.ndarray) -> Any:
        """log p(data) as an expression."""
        states, n = self.space.states, self.n_states
        log_start: Any = 0.0
        log_transition: Any = 0.0
        for c, name in enumerate(self.names):
            log_start = log_start + writer.log(values[f"initial_{name}"])[states[:, c]]
            logs = writer.log(values[f"transition_{name}"])
            if self.coupling == "coupled":
                log_transition = log_transition + logs.reshape((n, self.sizes[c]))[:, states[:, c]]
            else:
                log_transition = log_transition + logs[states[:, c, None], states[:, c]]
        return writer.evidence(KERNEL, (log_start, log_transition, log_density), offsets, np.array([n, 1, 1]))
