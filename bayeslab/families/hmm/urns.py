"""States that are urns with known balls, drawn without replacement: emissions change with what is drawn.

Everything is asked of :mod:`bayeslab.exact.urns`; the chain from urn to urn is learned as any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeslab.data.dataset import Data
from bayeslab.errors import DataError, ModelError, OptionError
from bayeslab.exact import urns
from bayeslab.exact.emissions import EmissionWithoutParameters
from bayeslab.exact.forward_backward import HiddenChain, simulate_states
from bayeslab.exact.urns import SmoothedDraws, UrnDraws
from bayeslab.families.hmm.chain import Chain, dense_logs
from bayeslab.families.hmm.chain_graph import GivenUniforms
from bayeslab.families.hmm.law import Expected
from bayeslab.families.hmm.sequences import Sequences, read_columns, spread
from bayeslab.families.hmm.state_chain import ChainOver
from bayeslab.posterior.observed.part import StatePart

if TYPE_CHECKING:
    from bayeslab.families.hmm.spec import HMM

__all__ = ["UrnChain", "UrnPart", "balls_of", "urns_of"]


@dataclass(frozen=True, eq=False)
class UrnChain(ChainOver):
    """From urn to urn; all that is not said here is as of ``base``.

    Attributes
    ----------
    base : Chain
    draws : UrnDraws
    """

    base: Chain
    draws: UrnDraws

    how = "Baum-Welch: the hidden urns and what each has given are summed out"

    def prefix(self, n_times: int) -> UrnChain:
        return replace(self, draws=self.draws.prefix(n_times))

    def of_sequences(self, which: np.ndarray, times: np.ndarray) -> UrnChain:
        raise ModelError("numbers of urns are not chosen: their balls are given", code="not-applicable")

    def hidden(self, values: Mapping[str, np.ndarray]) -> HiddenChain:
        raise ModelError("what urns emit depends on the path: `law` answers for them", code="not-applicable")

    def moves(self, values: Mapping[str, np.ndarray]) -> HiddenChain:
        """Start and transition, dense."""
        own = self.base.complete(values)
        return HiddenChain.of(own["initial"], own["transition"])

    def law(self, values: Mapping[str, np.ndarray], log_emission: np.ndarray, offsets: np.ndarray) -> UrnLaw:
        return UrnLaw(self.draws, self.moves(values))

    def simulated(self, values: Mapping[str, np.ndarray], uniform: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """Urns drawn without data, by one uniform number a time."""
        return simulate_states(self.moves(values), self.draws.offsets, GivenUniforms(uniform))

    def evidence(self, values: Mapping[str, Any], log_emission: Any, offsets: np.ndarray) -> Any:
        """log p(colours | parameters) as a PyTensor expression."""
        import pytensor.tensor as pt

        from bayeslab.evidence import log_evidence

        nothing_else = np.zeros(self.draws.n_rows * self.draws.n_urns)
        flat = pt.concatenate([*dense_logs(self.base, values), nothing_else])
        own = self.draws
        return log_evidence(urns.KERNEL, flat, own.offsets, own.begins, own.targets, own.weights)


@dataclass(frozen=True, eq=False)
class UrnLaw:
    """Urns at given parameters; see :class:`bayeslab.families.hmm.law.Law`."""

    draws: UrnDraws
    chain: HiddenChain

    given = "given the rows before it"

    @cached_property
    def _smoothed(self) -> SmoothedDraws:
        return urns.smooth(self.draws, self.chain)

    def expected(self) -> Expected:
        found = self._smoothed
        counts = {"initial": found.start_counts, "transition": found.transition_counts}
        return Expected(found.log_evidence, found.posterior, counts)

    def impossible(self) -> np.ndarray:
        return self._smoothed.impossible

    def filtered(self, kind: str) -> np.ndarray:
        found = self._smoothed.possible()
        return found.predicted if kind == "predict" else found.filtered

    def terms(self, several: bool) -> np.ndarray:
        found = self._smoothed.possible()
        return found.log_evidence if several else found.log_predictive

    def best(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        if n > 1:
            raise OptionError("of urns the one most likely path is found: leave `best` out", code="not-applicable")
        self._smoothed.possible()
        states, heights = urns.best(self.draws, self.chain)
        return states[None], heights[None]

    def sampled(self, rng: np.random.Generator) -> np.ndarray:
        return np.asarray(urns.sample(self.draws, self.chain, 1, rng)[0])


@dataclass(frozen=True, eq=False)
class _Colours(EmissionWithoutParameters):
    """As an emission: what a colour says of the urn is the chain's business."""

    n_colours: int

    def log_density(self, parameters: Mapping[str, Any], rows: np.ndarray) -> np.ndarray:
        return np.zeros((len(rows), 1))

    def sample(self, rng: np.random.Generator, parameters: Mapping[str, Any], states: np.ndarray) -> np.ndarray:
        raise ModelError("colours depend on those drawn before: see UrnPart.replicated", code="not-applicable")

    def features(self, rows: np.ndarray) -> np.ndarray:
        return np.eye(self.n_colours)[rows[:, 0].astype(np.int64)]


@dataclass(frozen=True, eq=False, kw_only=True)
class UrnPart(StatePart):
    """A column of colours; see :class:`bayeslab.posterior.observed.part.StatePart`.

    Attributes
    ----------
    balls : ndarray (n_urns, n_colours)
    sequences : Sequences
    codes : ndarray (n_times,)
        Numbers of the colours, -1 where none was seen.
    """

    word: str = "urn"
    balls: np.ndarray
    sequences: Sequences
    codes: np.ndarray

    @property
    def names(self) -> tuple[str, ...]:
        return ()

    @property
    def symmetric(self) -> bool:
        return False

    @property
    def even(self) -> bool:
        return False

    @property
    def computed(self) -> bool:
        """Colours follow from uniform numbers."""
        return True

    def shape(self, name: str) -> tuple[int, ...]:
        raise KeyError(name)

    def dims(self, name: str) -> tuple[str, ...]:
        raise KeyError(name)

    def default_prior(self, name: str) -> str:
        raise KeyError(name)

    def labels(self) -> dict[str, np.ndarray]:
        return {}

    def to_exact(self, values: Mapping[str, Any]) -> dict[str, np.ndarray]:
        return {}

    def from_exact(self, theta: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {}

    # ------------------------------------------------------------------ PyMC

    def variables(self) -> dict[str, Any]:
        return {}

    def density(self, values: Mapping[str, Any], rows: np.ndarray) -> float:
        return 0.0

    def drawn(self, values: Mapping[str, Any], states: Any, rows: np.ndarray) -> dict[str, Any]:
        """Colours drawn urn by urn, as a variable computed from uniform numbers."""
        import pymc as pm
        import pytensor.tensor as pt
        from pytensor.graph.basic import Apply
        from pytensor.graph.op import Op

        longest, smallest = int(np.diff(self.sequences.offsets).max()), int(self.balls.sum(axis=1).min())
        if longest > smallest:
            raise ModelError(
                f"a sequence of {longest} draws can empty an urn of {smallest}: shorter ones can be simulated",
                code="out-of-range",
            )

        class Colours(Op):
            def make_node(self, uniform: Any, states: Any) -> Apply:
                return Apply(self, [uniform, states], [pt.lvector()])

            def perform(self, node: Any, inputs: Any, outputs: Any) -> None:
                outputs[0][0] = colours(*inputs)

        def colours(uniform: np.ndarray, states: np.ndarray) -> np.ndarray:
            return self._each(states, np.full(len(states), -1), uniform)

        return {self.columns[0]: Colours()(pm.Uniform.dist(shape=len(rows)), pt.as_tensor_variable(states))}

    # ------------------------------------------------------------------ predictions

    def replicated(
        self, rng: np.random.Generator, values: Mapping[str, Any], states: np.ndarray, rows: np.ndarray,
        cells: np.ndarray,
    ) -> np.ndarray:  # fmt: skip
        """Colours (n_rows, 1) given the path: of each sequence anew from full urns; cells not seen are predicted.

        A cell that was not seen is one of the balls that all seen draws from its urn leave, whenever they were.
        """
        seen = self.codes[self.sequences.at]
        out = self._each(states, np.full(len(states), -1), rng.random(len(states)))
        holes = seen < 0
        if holes.any():
            out[holes] = self._each(states, seen, rng.random(len(states)))[holes]
        return out[:, None].astype(float)

    def _each(self, states: np.ndarray, seen: np.ndarray, uniform: np.ndarray) -> np.ndarray:
        """Colours of rows: the seen ones, and draws from what these leave."""
        out, of = seen.copy(), self.sequences.sequence[self.sequences.at]
        for s in range(self.sequences.n_sequences):
            left = self.balls.astype(float)
            mine = np.flatnonzero(of == s)
            for row in mine[seen[mine] >= 0]:
                left[states[row], seen[row]] -= 1
            for row in mine[seen[mine] < 0]:
                own = left[states[row]]
                out[row] = int(np.searchsorted(np.cumsum(own), uniform[row] * own.sum(), side="right"))
                own[out[row]] -= 1
        return out


def balls_of(spec: HMM, n_states: int) -> np.ndarray:
    """The numbers of balls a file gives.

    Raises
    ------
    ModelError
        Anything else.
    """
    path = ("model", "parameters", "balls")
    odd = sorted(spec.parameters.keys() - {"balls"})
    if odd or "balls" not in spec.parameters:
        what = f"'{odd[0]}' is no parameter of urns" if odd else "urns need to be filled"
        raise ModelError(
            f"{what}: `balls` has a row for each urn, a number for each colour", path=path[:2], code="wrong-type"
        )
    try:
        balls = urns.read_balls(spec.parameters["balls"])
    except ModelError as error:
        raise ModelError(error.message, path=path, code=error.code) from None
    if len(balls) != n_states:
        raise ModelError(
            f"balls for {len(balls)} urns, and there are {n_states} states", path=path, code="wrong-length"
        )
    return balls


def urns_of(spec: HMM, data: Data, sequences: Sequences, base: Any) -> tuple[UrnChain, UrnPart, np.ndarray]:
    """The chain, the column of colours and the rows of a model.

    Raises
    ------
    ModelError, DataError
        What does not fit.
    """
    if not isinstance(base, Chain) or base.order != 1:
        raise ModelError("urns go with a plain chain of order 1", path=("model", "emission"), code="unsupported")
    column, balls = spec.columns[0], balls_of(spec, base.n_states)
    levels = np.asarray(data.labels.get(column, ()))
    if len(levels) != balls.shape[1]:
        raise DataError(
            f"column '{column}' has {len(levels)} colours, balls are given for {balls.shape[1]}: name them in order in"
            " `dims`",
            code="wrong-length",
        )
    rows = spread(sequences, read_columns(data, [column], frozenset([column]), len(sequences.at)))
    codes = np.where(np.isnan(rows[:, 0]), -1, rows[:, 0]).astype(np.int64)
    draws = UrnDraws.of(balls, codes, sequences.offsets)
    part = UrnPart(
        columns=(column,), at=(0,), n_states=len(balls), emission=_Colours(len(levels)), balls=balls,
        sequences=sequences, codes=codes,
    )  # fmt: skip
    return UrnChain(base, draws), part, rows
