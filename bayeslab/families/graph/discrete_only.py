"""Graphs whose unknowns are all discrete: evidence, probabilities and draws by variable elimination.

Hidden paths with known parameters are smoothed. No Markov chain is needed.

References
----------
.. [1] Dechter (1999). Bucket elimination: a unifying framework for reasoning. Artificial Intelligence 113, 41-85.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeslab.data.bound import Data
from bayeslab.errors import EvidenceError
from bayeslab.families.graph.gaps import leaves_gaps_out
from bayeslab.language.nodes import Node
from bayeslab.posterior.evaluation import evaluate

if TYPE_CHECKING:
    import pymc

    from bayeslab.families.graph.path_sums import Sums

__all__ = ["DiscretePiece", "all_discrete"]


def all_discrete(nodes: Mapping[str, Node], data: Data) -> bool:
    """Whether all unknowns are discrete: at least one unobserved random node, and no imputed continuous cell."""
    random, columns = [node for node in nodes.values() if node.kind == "random"], data.names()
    unknown = [node for node in random if node.name not in columns]
    imputed = any(
        not node.discrete and not data.complete(node.name) and not leaves_gaps_out(nodes, node)
        for node in random
        if node.name in columns
    )
    return bool(unknown) and all(node.discrete for node in unknown) and not imputed


@dataclass(frozen=True, eq=False)
class DiscretePiece:
    """All discrete nodes without data.

    Attributes
    ----------
    names : tuple of str
        In topological order.
    build : callable
        Returns the graph on the data, and the sum over the discrete nodes.
    """

    names: tuple[str, ...]
    build: Callable[[], tuple[pymc.Model, Sums] | None]

    @property
    def how(self) -> str:
        shown = ", ".join(self.names[:5]) + (", …" if len(self.names) > 5 else "")
        return f"all that is unknown is discrete ({shown}) and summed out"

    @cached_property
    def built(self) -> tuple[pymc.Model, Sums]:
        """The graph and the sum.

        Raises
        ------
        ModelError
            A node has too many values, or the sum is too large.
        """
        model_and_sums = self.build()
        assert model_and_sums is not None
        return model_and_sums

    def solve(self) -> SolvedDiscrete:
        """Sum out the discrete nodes without compilation.

        Raises
        ------
        EvidenceError
            The data are impossible.
        """
        from pytensor.graph.replace import clone_replace

        model, sums = self.built
        changes = {rv: model.rvs_to_values[rv].astype(rv.dtype) for rv in model.observed_RVs}
        (tables,) = clone_replace([sums.tables], changes)
        table, total = (np.asarray(part)[0] for part in evaluate({}, [tables, model.logp()], simplify=False))
        if not np.isfinite(total):
            raise EvidenceError(
                "the data have probability zero whatever the discrete nodes are: check the tables for zeros",
                code="probability-zero",
            )
        return SolvedDiscrete(sums, np.ascontiguousarray(table, float), float(total))


@dataclass(frozen=True, eq=False)
class SolvedDiscrete:
    """Probabilities of each value of each cell.

    Attributes
    ----------
    sums : Sums
    table : ndarray
        Flat vector of the tables that are summed.
    log_evidence : float
    """

    sums: Sums
    table: np.ndarray
    log_evidence: float

    @cached_property
    def _values(self) -> dict[str, np.ndarray]:
        return {latent.name: latent.first + np.arange(latent.states) for latent in self.sums.latents}

    @cached_property
    def _probabilities(self) -> dict[str, np.ndarray]:
        """Probabilities by name: the node's shape, then its values."""
        parts = self.sums.parts(self.table[None])
        out: dict[str, np.ndarray] = {}
        for path, part in zip(self.sums.paths, parts, strict=False):
            out[path.latent.name] = path.smoothed(part[0]).reshape(*path.latent.shape, path.latent.states)
        if self.sums.rest is not None:
            out |= self.sums.rest.probabilities(parts[-1][0])
        return out

    def mean(self) -> dict[str, np.ndarray]:
        return {name: p @ self._values[name] for name, p in self._probabilities.items()}

    def sd(self) -> dict[str, np.ndarray]:
        mean = self.mean()
        return {
            name: np.sqrt(np.sum(p * (self._values[name] - mean[name][..., None]) ** 2, axis=-1))
            for name, p in self._probabilities.items()
        }

    def quantile(self, probability: float) -> dict[str, np.ndarray]:
        """Quantile: the smallest value with at least this cumulative probability."""
        out = {}
        for name, p in self._probabilities.items():
            # Rounding must not make a value of probability zero a quantile.
            reached = np.cumsum(p, axis=-1) >= probability - 1e-12
            reached[..., -1] = True
            out[name] = self._values[name][np.argmax(reached, axis=-1)]
        return out

    def draws(self, rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
        drawn: dict[str, Any] = self.sums.drawn(self.table[None], rng, n)
        return drawn
