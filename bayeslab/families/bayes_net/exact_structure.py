"""Exact posterior of an unknown structure of few variables: sums over all structures, and independent draws.

References
----------
.. [1] Tian, He (2009). Computing posterior probabilities of structural features in Bayesian networks. UAI 25, 538-547.
.. [2] Koivisto, Sood (2004). Exact Bayesian structure discovery in Bayesian networks. JMLR 5, 549-573.
.. [3] Talvitie, Vuoksenmaa, Koivisto (2020). Exact sampling of directed acyclic graphs from modular distributions.
   UAI 35, PMLR 115, 965-974.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, Protocol

import numpy as np

from bayeslab.posterior.answer import Plan
from bayeslab.structure.exact_posterior import DagPosterior, OrderPosterior, dag_posterior, order_posterior
from bayeslab.structure.exact_sampling import Sampler, sampler
from bayeslab.structure.priors import StructurePrior
from bayeslab.structure.score_table import ScoreTable

__all__ = ["MOST_BY_DAGS", "MOST_BY_ORDERS", "StructureAnswer", "plan"]

# Layers take 4 ** n steps (half a minute for 16 variables), orders 2 ** n n; memory is forecast besides.
MOST_BY_DAGS, MOST_BY_ORDERS = 16, 20
# The exponentials of these scores are marginal likelihoods, so that their sums over structures are evidence.
_BAYESIAN = ("bdeu", "bds", "bge", "k2")


class Resolved(Protocol):
    """An unknown structure on its data; :class:`bayeslab.families.bayes_net.unknown_structure.Plan` is one."""

    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def prior(self) -> StructurePrior: ...
    @property
    def score_options(self) -> Mapping[str, Any]: ...

    def table(self, progress: Any = None) -> ScoreTable: ...


def plan(resolved: Resolved, draws_of: Literal["dags", "orders"] = "dags") -> Plan | str:
    """Plan of the exact posterior of structures, or the reason why it is not available.

    Parameters
    ----------
    resolved
        Provides the score table (built when the plan is carried out), its prior over structures and the options of its
        score.
    draws_of
        ``dags``: the prior over DAGs. ``orders``: the prior of order MCMC, under which the weight of a DAG is
        multiplied by the number of orders that it is consistent with.
    """
    n, most = len(resolved.names), MOST_BY_DAGS if draws_of == "dags" else MOST_BY_ORDERS
    if n > most:
        other = "; with sampler order up to 20" if draws_of == "dags" and n <= MOST_BY_ORDERS else ""
        cost = f"about {4.0**n if draws_of == 'dags' else 2.0**n * n:.0e} steps"
        return (
            f"all structures of {n} variables are too many to sum ({cost}); that is done up to {most}{other}; sample"
            f" them: method structure"
        )
    what = "all DAGs" if draws_of == "dags" else "all orders of the variables"
    how = f"{what} of {n} variables are summed by dynamic programming, and drawn from those sums"

    def solve() -> StructureAnswer:
        return StructureAnswer(resolved.table(), draws_of, resolved.prior, dict(resolved.score_options))

    return Plan(how, solve)


@dataclass(frozen=True, eq=False)
class StructureAnswer:
    """The exact posterior of structures.

    Attributes
    ----------
    table : ScoreTable
    draws_of : str
        ``dags`` or ``orders``: the prior over structures.
    prior : StructurePrior
        The weights of parent sets, which the scores of the table include.
    score_options : dict
    """

    table: ScoreTable
    draws_of: Literal["dags", "orders"]
    prior: StructurePrior
    score_options: dict[str, Any]

    @cached_property
    def posterior(self) -> DagPosterior | OrderPosterior:
        """Probabilities of edges, and of paths (DAGs) or precedence (orders)."""
        return dag_posterior(self.table) if self.draws_of == "dags" else order_posterior(self.table)

    @cached_property
    def _sampler(self) -> Sampler:
        return sampler(self.table, self.draws_of)

    @property
    def dims(self) -> dict[str, tuple[str, ...]]:
        return {"edge": ("source", "target")}

    @property
    def labels(self) -> dict[str, np.ndarray]:
        return {dim: np.array(self.table.names) for dim in ("source", "target")}

    @cached_property
    def log_evidence(self) -> float:
        """Log of the mean likelihood of structures under their prior; NaN if the score is not a likelihood.

        The log sum over structures of likelihood times weight, minus the log sum of the weights; with a uniform prior
        the latter is the log number of DAGs that the parent sets allow.
        """
        if self.table.score not in _BAYESIAN:
            return float("nan")
        return self.posterior.log_sum - self._log_weights

    @property
    def _log_weights(self) -> float:
        table, n = self.table, self.table.n
        parts = [slice(a, b) for a, b in zip(table.pointer[:-1], table.pointer[1:], strict=True)]
        weights = [self.prior.log_weights(v, table.sets[part], n) for v, part in enumerate(parts)]
        alone = replace(table, scores=np.concatenate(weights))
        return (dag_posterior(alone) if self.draws_of == "dags" else order_posterior(alone)).log_sum

    def mean(self) -> dict[str, np.ndarray]:
        return {"edge": self.posterior.edges}

    def sd(self) -> dict[str, np.ndarray]:
        p = self.posterior.edges
        return {"edge": np.sqrt(p * (1 - p))}

    def quantile(self, probability: float) -> dict[str, np.ndarray]:
        return {"edge": (self.posterior.edges > 1 - probability).astype(float)}

    def choices(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Draw structures independently: index in the table of each variable's parent set, shape (n, n_variables)."""
        return self._sampler.draws(rng, n)

    def draws(self, rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
        """Indicators of edges [source, target]."""
        sets, u = self.table.sets[self.choices(rng, n)], np.arange(self.table.n)
        bits = sets[..., u // 64] >> (u % 64).astype(np.uint64) & np.uint64(1)
        return {"edge": bits.transpose(0, 2, 1).astype(np.int8)}

    def probabilities(self) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
        """Exact probabilities: of edges, and of directed paths or precedence."""
        posterior, dims = self.posterior, ("source", "target")
        out: dict[str, tuple[tuple[str, ...], np.ndarray]] = {"edge_probability": (dims, posterior.edges)}
        if isinstance(posterior, DagPosterior):
            return out | {"path_probability": (dims, posterior.paths)}
        return out | {"before_probability": (dims, posterior.before)}
