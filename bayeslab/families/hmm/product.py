r"""Several hidden chains: factorial, coupled and switching hidden Markov models.

Computed is one chain on the product of their states (:mod:`bayeslab.exact.product_chain`), exactly. What differs is
how chains depend on each other and what they emit:

factorial
    Chains go their own ways, p(z_t | z_{t-1}) = Π_c A_c[z_{t-1,c}, z_{t,c}], and share one output [1]_.
coupled
    The next state of each chain depends on the last states of all [2]_; each chain has columns of its own.
switching
    The first chain says which of the others is seen; each of these has parameters of its own for all columns.

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
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from bayeslab.errors import ModelError, hint
from bayeslab.exact.forward_backward import KERNEL, Edges, HiddenChain
from bayeslab.exact.product_chain import ProductSpace
from bayeslab.families.hmm import product_labels as labelling
from bayeslab.families.hmm import product_parts as emitting

if TYPE_CHECKING:
    from bayeslab.families.hmm import HMM

__all__ = ["MOST_STATES", "ProductChain", "as_chains", "check_words", "product_of"]

# A transition matrix of 512 × 512 numbers at every time is about what a second a pass over a few thousand rows allows.
MOST_STATES = 512
# Words that go with one chain only; all others of a spec are read here.
_WORDS = frozenset(
    (
        "family",
        "columns",
        "chains",
        "coupling",
        "effects",
        "emits",
        "emission",
        "covariance",
        "trials",
        "dof",
        "parameters",
        "sequence",
        "time",
        "initial",
        "pseudocount",
        "stickiness",
    )
)


@dataclass(frozen=True, eq=False)
class ProductChain:
    """Several chains as one; see :class:`bayeslab.families.hmm.chain.Chain` for what it offers.

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
    expanded = False
    # Of the states of the product: they follow from those of the chains, and never trade places on their own.
    symmetric = False
    initial = "free"
    transition = None
    edges: Edges | None = None
    n_steps = 1

    @property
    def states(self) -> np.ndarray:
        """Names of the states of the product: those of the chains' states."""
        each = [levels[at].astype(str) for levels, at in zip(self.levels, self.space.states.T, strict=True)]
        return np.array([", ".join(names) for names in zip(*each, strict=True)])

    @cached_property
    def space(self) -> ProductSpace:
        return ProductSpace(self.sizes)

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(len(own) for own in self.levels)

    @property
    def n_states(self) -> int:
        return self.space.n_states

    @property
    def last(self) -> np.ndarray:
        return np.arange(self.n_states)

    @property
    def mask(self) -> np.ndarray:
        return np.ones((self.n_states, self.n_states), dtype=bool)

    @property
    def every(self) -> tuple[str, ...]:
        """Names of all initial and transition probabilities."""
        return tuple(f"{word}_{name}" for name in self.names for word in ("initial", "transition"))

    @property
    def learned(self) -> tuple[str, ...]:
        return tuple(name for name in self.every if name not in self.known)

    def owned(self, name: str) -> tuple[str, int] | None:
        """The word and the chain of a parameter's name."""
        at = self.every.index(name) if name in self.every else -1
        return None if at < 0 else (("initial", "transition")[at % 2], at // 2)

    def _owned(self, name: str) -> tuple[str, int]:
        found = self.owned(name)
        assert found is not None
        return found

    def kind(self, name: str) -> str:
        return "simplex"

    def dims(self, name: str) -> tuple[str, ...]:
        word, c = self._owned(name)
        if word == "initial":
            return (self.names[c],)
        before = self.names if self.coupling == "coupled" else (self.names[c],)
        return (*before, f"next_{self.names[c]}")

    def shape(self, name: str) -> tuple[int, ...]:
        word, c = self._owned(name)
        if word == "initial":
            return (self.sizes[c],)
        return (*(self.sizes if self.coupling == "coupled" else (self.sizes[c],)), self.sizes[c])

    @property
    def n_free(self) -> int:
        shapes = [self.shape(name) for name in self.learned]
        return sum(int(np.prod(shape[:-1])) * (shape[-1] - 1) for shape in shapes)

    def labels(self) -> dict[str, np.ndarray]:
        own = dict(zip(self.names, self.levels, strict=True))
        return own | {f"next_{name}": levels for name, levels in own.items()}

    def concentration(self, name: str) -> np.ndarray:
        """Of the Dirichlet prior of a parameter."""
        word, c = self._owned(name)
        out = np.full(self.shape(name), float(self.pseudocount))
        if word == "transition":
            stay = self.stickiness * np.eye(self.sizes[c])
            at = c if self.coupling == "coupled" else 0
            shape = [1] * out.ndim
            shape[at] = shape[-1] = self.sizes[c]
            out = out + stay.reshape(shape)
        return out

    def prior_text(self, name: str) -> str:
        if self.stickiness and self._owned(name)[0] == "transition":
            return "Dirichlet, row by row"
        return f"Dirichlet([{', '.join([f'{self.pseudocount:g}'] * self.shape(name)[-1])}])"

    # ------------------------------------------------------------------ computing

    def complete(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Initial and transition probabilities of all chains, the known ones with the unknown ones' values."""
        return {name: np.asarray(self.known[name] if name in self.known else values[name]) for name in self.every}

    def hidden(self, values: Mapping[str, np.ndarray]) -> HiddenChain:
        with np.errstate(divide="ignore"):
            own = {name: np.log(value) for name, value in self.complete(values).items()}
        moves = [own[f"transition_{name}"] for name in self.names]
        join = self.space.join_coupled if self.coupling == "coupled" else self.space.join_transitions
        return HiddenChain(self.space.join([own[f"initial_{name}"] for name in self.names]), join(moves))

    def fold(self, posterior: np.ndarray) -> np.ndarray:
        return posterior

    def counts(self, start: np.ndarray, transition: np.ndarray) -> dict[str, np.ndarray]:
        """Expected counts of the product as those of each chain."""
        fold = self.space.fold_coupled if self.coupling == "coupled" else self.space.fold
        out = {}
        for c, name in enumerate(self.names):
            out[f"initial_{name}"] = self.space.marginal(start, c)
            out[f"transition_{name}"] = fold(transition, c)
        return out

    def maximise(
        self, counts: Mapping[str, np.ndarray], *, prior: bool, start: Mapping[str, np.ndarray] | None = None
    ) -> dict[str, np.ndarray]:
        out = {}
        for name in self.learned:
            total = np.maximum(counts[name] + (self.concentration(name) - 1 if prior else 0.0), 0.0)
            sums = total.sum(axis=-1, keepdims=True)
            out[name] = np.where(sums > 0, total / np.where(sums > 0, sums, 1.0), 1.0 / total.shape[-1])
        return out

    def log_prior(self, values: Mapping[str, np.ndarray]) -> float:
        total = 0.0
        for name in self.learned:
            exponent = self.concentration(name) - 1
            used = exponent != 0
            with np.errstate(divide="ignore"):
                total += float(np.sum(exponent[used] * np.log(values[name][used])))
        return total

    def calm(self) -> dict[str, np.ndarray]:
        """Transitions that mostly stay."""
        out = {}
        for name in self.learned:
            word, c = self._owned(name)
            a = np.ones(self.shape(name))
            if word == "transition":
                shape = [1] * a.ndim
                shape[c if self.coupling == "coupled" else 0] = shape[-1] = self.sizes[c]
                a = a + 3.0 * self.sizes[c] * np.eye(self.sizes[c]).reshape(shape)
            out[name] = a / a.sum(axis=-1, keepdims=True)
        return out

    def draw(self, rng: np.random.Generator, weight: float = 1.0) -> dict[str, np.ndarray]:
        """Random values of what is unknown."""
        return {name: _dirichlet(rng, np.full(self.shape(name), weight)) for name in self.learned}

    # ------------------------------------------------------------------ several chains

    def begin(self, hidden: Any, rng: np.random.Generator | None) -> dict[str, np.ndarray]:
        """Where a search can begin; random, or (without rng) always the same."""
        own = rng if rng is not None else np.random.default_rng(0)
        out = emitting.begin(hidden, own)
        if rng is None:
            return self.numbered(hidden, out | self.calm())
        return out | {name: 0.5 * value + 0.5 * self.calm()[name] for name, value in self.draw(rng).items()}

    def numbered(self, hidden: Any, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Values with states and chains numbered by the rule."""
        return labelling.numbered(hidden, values)

    def relabelled(self, hidden: Any, draws: Mapping[str, np.ndarray]) -> tuple[dict[str, np.ndarray], str] | None:
        """Draws in which states and chains have names that agree."""
        return labelling.relabelled(hidden, draws)

    def named(self, states: np.ndarray) -> dict[str, np.ndarray]:
        """The state of each chain, by its name."""
        each = self.space.states[states]
        return {name: own[each[..., c]] for c, (name, own) in enumerate(zip(self.names, self.levels, strict=True))}

    def chances(self, joint: np.ndarray) -> dict[str, np.ndarray]:
        """Probabilities (n_times, n_states) as columns: of the states of each chain."""
        out: dict[str, np.ndarray] = {}
        for c, (name, own) in enumerate(zip(self.names, self.levels, strict=True)):
            marginal = self.space.marginal(joint, c)
            out |= {f"P({name}={level})": marginal[:, k] for k, level in enumerate(own)}
        return out

    # ------------------------------------------------------------------ PyMC

    def variables(self, start: Mapping[str, np.ndarray] | None) -> dict[str, Any]:
        """What is unknown, on PyMC's context stack; the rest as constants."""
        import pymc as pm
        import pytensor.tensor as pt

        out: dict[str, Any] = {name: pt.as_tensor_variable(value) for name, value in self.known.items()}
        for name in self.learned:
            begin = {} if start is None else {"initval": start[name]}
            out[name] = pm.Dirichlet(name, self.concentration(name), dims=self.dims(name), **begin)
        return out

    def evidence(self, values: Mapping[str, Any], log_emission: Any, offsets: np.ndarray) -> Any:
        """log p(data) as a PyTensor expression."""
        import pytensor.tensor as pt

        from bayeslab.evidence import log_evidence

        states, n = self.space.states, self.n_states
        log_start, log_transition = 0.0, 0.0
        for c, name in enumerate(self.names):
            log_start = log_start + pt.log(values[f"initial_{name}"])[states[:, c]]
            own = pt.log(values[f"transition_{name}"])
            if self.coupling == "coupled":
                log_transition = log_transition + own.reshape((n, self.sizes[c]))[:, states[:, c]]
            else:
                log_transition = log_transition + own[states[:, c, None], states[:, c]]
        flat = pt.concatenate([log_start, log_transition.ravel(), log_emission.ravel()])  # type: ignore[attr-defined]
        return log_evidence(KERNEL, flat, offsets, np.array([n, 1, 1]))


def _dirichlet(rng: np.random.Generator, a: np.ndarray) -> np.ndarray:
    gammas = rng.standard_gamma(a)
    return gammas / gammas.sum(axis=-1, keepdims=True)


# --------------------------------------------------------------------------------- reading the spec


def as_chains(value: Any) -> Any:
    """Chains as a file has them: names to numbers of states, or to lists of their names."""
    if not isinstance(value, dict):
        raise ValueError("chains are names with numbers of states, such as {season: 2, weather: [dry, wet]}")
    out: dict[str, int | list[str]] = {}
    for name, own in value.items():
        if isinstance(own, bool) or not isinstance(own, int | list):
            raise ValueError(f"chain '{name}': a number of states or a list of their names, not {own!r}")
        if isinstance(own, int):
            if own < 1:
                raise ValueError(f"chain '{name}' has {own} states; at least 1 is needed")
            out[name] = own
            continue
        levels = [("true" if v else "false") if isinstance(v, bool) else str(v) for v in own]
        if not levels or len(set(levels)) < len(levels):
            raise ValueError(f"chain '{name}': at least one state, each name once")
        out[name] = levels
    if len(out) < 2:
        raise ValueError("chains are two or more; of one chain write `states`")
    return out


def check_words(spec: HMM) -> None:
    """Words that contradict each other.

    Raises
    ------
    ValueError
    """
    if spec.chains is None:
        for word in ("coupling", "effects", "emits"):
            if word in spec.model_fields_set:
                raise ValueError(f"{word} goes with chains; there is one chain")
        return
    odd = sorted(spec.model_fields_set - _WORDS)
    if odd:
        raise ValueError(f"{odd[0]} goes with one chain; chains are ergodic, of order 1, and have no inputs")
    if spec.emission == "observed":
        raise ValueError("emission: observed goes with one chain; of several, states are hidden")
    _check_names(spec)
    if spec.coupling != "factorial" and spec.effects is not None:
        raise ValueError(f"effects goes with coupling: factorial; {spec.coupling} chains have outputs of their own")
    if spec.coupling != "coupled" and spec.emits is not None:
        raise ValueError("emits goes with coupling: coupled; else every column is of all chains")
    if spec.coupling == "coupled":
        _check_emits(spec)
    if spec.coupling == "switching":
        _check_switch(spec)
    sizes = [own if isinstance(own, int) else len(own) for own in spec.chains.values()]
    total = int(np.prod(sizes, dtype=object))
    if total > MOST_STATES:
        raise ValueError(
            f"{' × '.join(map(str, sizes))} = {total:,} states of all chains together; at most {MOST_STATES}, for every"
            " row costs their square: take fewer or smaller chains"
        )
    if spec.initial is not None and spec.initial not in ("free", "uniform"):
        what = "stationary" if spec.initial == "stationary" else "a list of probabilities"
        raise ValueError(
            f"initial: {what} goes with one chain; of several: free, uniform, or `initial_<chain>` in parameters"
        )


def _check_names(spec: HMM) -> None:
    assert spec.chains is not None
    taken = {*spec.columns, *(f"{c}_state" for c in spec.columns), "state", "next_state", "feature", "path"}
    taken |= {spec.sequence or "", spec.time or ""} | {f"next_{name}" for name in spec.chains}
    for name in spec.chains:
        if name in taken:
            raise ValueError(f"a chain cannot be called '{name}': the name is taken; choose another")


def _check_emits(spec: HMM) -> None:
    assert spec.chains is not None
    if spec.emits is None:
        raise ValueError("coupled chains need emits: which columns each chain emits, such as {season: [a]}")
    for name in spec.emits:
        if name not in spec.chains:
            raise ValueError(f"emits: there is no chain '{name}'{hint(name, spec.chains)}")
    given = [column for own in spec.emits.values() for column in own]
    for column in given:
        if column not in spec.columns:
            raise ValueError(f"emits: '{column}' is not among the columns{hint(column, spec.columns)}")
        if given.count(column) > 1:
            raise ValueError(f"emits: '{column}' is there twice; each column is of one chain")
    lost = [column for column in spec.columns if column not in given]
    if lost:
        raise ValueError(f"emits: no chain emits '{lost[0]}'; every column is of one chain")


def _check_switch(spec: HMM) -> None:
    assert spec.chains is not None
    (switch, own), *others = spec.chains.items()
    names = [name for name, _ in others]
    if own not in (len(names), names):
        raise ValueError(
            f"the first chain, '{switch}', says which of the others is seen: it has the states [{', '.join(names)}]"
        )


def product_of(spec: HMM) -> ProductChain:
    """The chain of a spec with several.

    Raises
    ------
    ModelError
        Probabilities that do not fit.
    """
    assert spec.chains is not None
    names = tuple(spec.chains)
    levels = [np.arange(1, own + 1) if isinstance(own, int) else np.array(own) for own in spec.chains.values()]
    if spec.coupling == "switching":
        levels[0] = np.array(names[1:])
    chain = ProductChain(
        names, tuple(levels), spec.coupling, {}, float(spec.pseudocount), float(spec.stickiness or 0.0)
    )
    known: dict[str, np.ndarray] = {}
    for name in chain.every:
        word, c = chain._owned(name)
        if chain.sizes[c] == 1:  # nothing to learn of a chain that cannot move
            known[name] = np.ones(chain.shape(name))
        elif word == "initial" and spec.initial == "uniform":
            known[name] = np.full(chain.sizes[c], 1.0 / chain.sizes[c])
        if name in spec.parameters:
            known[name] = _probabilities(spec.parameters[name], chain.shape(name), name)
    return ProductChain(
        names, tuple(levels), spec.coupling, known, float(spec.pseudocount), float(spec.stickiness or 0.0)
    )


def _probabilities(value: Any, shape: tuple[int, ...], name: str) -> np.ndarray:
    path = ("model", "parameters", name)
    try:
        out = np.asarray(value, dtype=float)
    except (ValueError, TypeError):
        raise ModelError(
            "probabilities are numbers, in rows of equal length; their prior is Dirichlet, by pseudocount", path=path
        ) from None
    if out.shape != shape:
        raise ModelError(f"{' × '.join(map(str, shape))} numbers are meant, not {out.shape}", path=path)
    if np.any(out < 0) or np.any(np.abs(out.sum(axis=-1) - 1) > 1e-8):
        raise ModelError("probabilities are at least 0 and sum to 1 in every row", path=path)
    return out
