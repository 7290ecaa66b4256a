"""A column of colours of balls that are drawn from urns without replacement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayeslab.data.sequences import Sequences
from bayeslab.distributions.emissions import EmissionWithoutParameters
from bayeslab.errors import ModelError
from bayeslab.language.writer import Writer
from bayeslab.posterior.observed.part import KnownPart

__all__ = ["UrnColours", "UrnPart"]


@dataclass(frozen=True, eq=False)
class UrnColours(EmissionWithoutParameters):
    """Colours as an emission; the chain computes the likelihood of a colour given the urn."""

    n_colours: int

    def log_density(self, parameters: Mapping[str, Any], rows: np.ndarray) -> np.ndarray:
        return np.zeros((len(rows), 1))

    def sample(self, rng: np.random.Generator, parameters: Mapping[str, Any], states: np.ndarray) -> np.ndarray:
        raise ModelError("colours depend on those drawn before: see UrnPart.replicated", code="not-applicable")

    def features(self, rows: np.ndarray) -> np.ndarray:
        return np.eye(self.n_colours)[rows[:, 0].astype(np.int64)]


@dataclass(frozen=True, eq=False, kw_only=True)
class UrnPart(KnownPart):
    """A column of colours; see :class:`bayeslab.posterior.observed.part.StatePart`.

    Attributes
    ----------
    balls : ndarray (n_urns, n_colours)
    sequences : Sequences
    codes : ndarray (n_times,)
        Codes of the colours, -1 where missing.
    """

    word: str = "urn"
    balls: np.ndarray
    sequences: Sequences
    codes: np.ndarray

    @property
    def discrete(self) -> bool:
        return True

    @property
    def computed(self) -> bool:
        """True: colours are computed from uniform numbers."""
        return True

    # ------------------------------------------------------------------ PyMC

    def density(self, writer: Writer, values: Mapping[str, Any], rows: np.ndarray) -> float:
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
        """Colours (n_rows, 1) given the path, for each sequence from full urns; missing cells are predicted.

        A missing cell is a draw from the balls that remain after all observed draws from its urn, at any time.
        """
        colours = self.codes[self.sequences.at]
        out = self._each(states, np.full(len(states), -1), rng.random(len(states)))
        holes = colours < 0
        if holes.any():
            out[holes] = self._each(states, colours, rng.random(len(states)))[holes]
        return out[:, None].astype(float)

    def _each(self, states: np.ndarray, colours: np.ndarray, uniform: np.ndarray) -> np.ndarray:
        """Colours of rows: the observed ones, and draws from the remaining balls."""
        out, of = colours.copy(), self.sequences.sequence[self.sequences.at]
        for s in range(self.sequences.n_sequences):
            left = self.balls.astype(float)
            mine = np.flatnonzero(of == s)
            for row in mine[colours[mine] >= 0]:
                left[states[row], colours[row]] -= 1
            for row in mine[colours[mine] < 0]:
                contents = left[states[row]]
                out[row] = int(np.searchsorted(np.cumsum(contents), uniform[row] * contents.sum(), side="right"))
                contents[out[row]] -= 1
        return out
