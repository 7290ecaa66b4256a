"""States that are urns with known balls, drawn without replacement: emissions depend on previous draws.

The computations are in :mod:`bayeslab.latents.chains.urn_draws`; the chain of urns is learned like any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from bayeslab.errors import ModelError, OptionError
from bayeslab.language.writer import Writer
from bayeslab.latents.chains import urn_draws as urns
from bayeslab.latents.chains.chain import Chain, dense_logs
from bayeslab.latents.chains.chain_graph import GivenUniforms
from bayeslab.latents.chains.forward_backward import HiddenChain, simulate_states
from bayeslab.latents.chains.state_chain import ChainOver
from bayeslab.latents.chains.urn_draws import SmoothedDraws, UrnDraws
from bayeslab.latents.latent import Expected, Law

__all__ = ["UrnChain", "UrnLaw"]


@dataclass(frozen=True, eq=False)
class UrnChain(ChainOver):
    """The chain of urns; everything else is delegated to ``base``.

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
        parameters = self.base.complete(values)
        return HiddenChain.of(parameters["initial"], parameters["transition"])

    def law(self, values: Mapping[str, np.ndarray], log_density: np.ndarray, offsets: np.ndarray) -> UrnLaw:
        return UrnLaw(self.draws, self.moves(values))

    def simulate(self, values: Mapping[str, np.ndarray], uniform: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """Urns drawn without data, by one uniform number a time."""
        return simulate_states(self.moves(values), self.draws.offsets, GivenUniforms(uniform))

    def evidence(self, writer: Writer, values: Mapping[str, Any], log_density: Any, offsets: np.ndarray) -> Any:
        """log p(colours | parameters) as an expression."""
        nothing_else = np.zeros(self.draws.n_rows * self.draws.n_urns)
        flat = [*dense_logs(writer, self.base, values), nothing_else]
        draws = self.draws
        return writer.evidence(urns.KERNEL, flat, draws.offsets, draws.begins, draws.targets, draws.weights)


@dataclass(frozen=True, eq=False)
class UrnLaw(Law):
    """Urns at given parameters; see :class:`bayeslab.latents.latent.Law`."""

    draws: UrnDraws
    chain: HiddenChain

    condition = "given the rows before it"

    @cached_property
    def _smoothed(self) -> SmoothedDraws:
        return urns.smooth(self.draws, self.chain)

    def expected(self) -> Expected:
        smoothed = self._smoothed
        counts = {"initial": smoothed.start_counts, "transition": smoothed.transition_counts}
        return Expected(smoothed.log_evidence, smoothed.posterior, counts)

    def impossible(self) -> np.ndarray:
        return self._smoothed.impossible

    def filter(self, kind: str) -> np.ndarray:
        smoothed = self._smoothed.possible()
        return smoothed.predicted if kind == "predict" else smoothed.filtered

    def log_likelihoods(self, by_sequence: bool) -> np.ndarray:
        smoothed = self._smoothed.possible()
        return smoothed.log_evidence if by_sequence else smoothed.log_predictive

    def mode(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        if n > 1:
            raise OptionError("of urns the one most likely path is found: leave `best` out", code="not-applicable")
        self._smoothed.possible()
        states, heights = urns.best(self.draws, self.chain)
        return states[None], heights[None]

    def sample(self, rng: np.random.Generator) -> np.ndarray:
        return np.asarray(urns.sample(self.draws, self.chain, 1, rng)[0])
