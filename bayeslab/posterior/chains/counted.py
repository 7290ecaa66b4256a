"""Markov chains whose states are observed: Dirichlet rows, updated by counts.

References
----------
.. [1] Strelioff, Crutchfield, Hübler (2007). Inferring Markov chains: Bayesian estimation, model comparison, entropy
   rate, and out-of-class modeling. Physical Review E 76, 011106.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special, stats

from bayeslab.latents.chains import markov_chain
from bayeslab.latents.chains.chain import Chain
from bayeslab.posterior.answer import Plan
from bayeslab.posterior.chains.hidden import Hidden

__all__ = ["CountedChain", "plan"]


@dataclass(frozen=True, eq=False)
class CountedChain:
    """Independent Dirichlet rows.

    Attributes
    ----------
    concentrations : mapping of str to ndarray
        Concentrations of one row on the last axis; zero where a transition is impossible.
    dims, labels : mapping
    log_evidence : float
    """

    concentrations: Mapping[str, np.ndarray]
    dims: Mapping[str, tuple[str, ...]]
    labels: Mapping[str, np.ndarray]
    log_evidence: float

    def _each(self, statistic: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> dict[str, np.ndarray]:
        """A statistic of the beta marginals, with parameters a and (sum of the row) - a."""
        out = {}
        for name, a in self.concentrations.items():
            rest = np.broadcast_to(a.sum(axis=-1, keepdims=True), a.shape) - a
            value = np.where(a > 0, 1.0, 0.0)  # certain, or impossible
            open_ = (a > 0) & (rest > 0)
            value[open_] = statistic(a[open_], rest[open_])
            out[name] = value
        return out

    def mean(self) -> dict[str, np.ndarray]:
        """Posterior means."""
        return self._each(lambda a, b: a / (a + b))

    def sd(self) -> dict[str, np.ndarray]:
        """Posterior standard deviations."""
        spread = self._each(lambda a, b: np.sqrt(a * b / ((a + b) ** 2 * (a + b + 1))))
        certain = {n: (a == 0) | (a == a.sum(axis=-1, keepdims=True)) for n, a in self.concentrations.items()}
        return {name: np.where(certain[name], 0.0, value) for name, value in spread.items()}

    def quantile(self, probability: float) -> dict[str, np.ndarray]:
        """Marginal quantiles."""
        return self._each(lambda a, b: np.asarray(stats.beta.ppf(probability, a, b)))

    def draws(self, rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
        """Independent draws."""
        out = {}
        for name, a in self.concentrations.items():
            gammas = rng.standard_gamma(np.broadcast_to(a, (n, *a.shape)))
            out[name] = gammas / gammas.sum(axis=-1, keepdims=True)
        return out


def plan(hidden: Hidden) -> Plan | str:
    """Plan of the closed form from counts, or the reason why there is none."""
    if not hidden.observed:
        return "the states are hidden"
    if not hidden.chain.learned:
        return "everything is given"
    if not isinstance(hidden.chain, Chain):
        return "only plain chains are counted; this one has inputs or durations"
    if np.isnan(hidden.rows).any():
        return "states are missing, and what they were matters to both neighbours"
    if isinstance(hidden.chain.initial, str) and hidden.chain.initial == "stationary":
        return "a stationary initial state depends on all transitions"
    how, chain = "counted transitions of an observed Markov chain, Dirichlet rows", hidden.chain
    names = ["initial", *(["second_transition"] if chain.order == 2 else []), "transition"]
    dims = {name: chain.dims(name) for name in names if name in chain.learned}
    return Plan(how, lambda: _solved(hidden), dims=dims, labels=hidden.labels)


def _solved(hidden: Hidden) -> CountedChain:
    chain = hidden.chain
    assert isinstance(chain, Chain)
    hidden.check_possible(hidden.guess(None))
    path_counts = markov_chain.count(
        hidden.rows[:, 0].astype(np.int64), hidden.n_states, hidden.sequences.offsets, chain.order
    )
    counts: dict[str, Any] = {"initial": path_counts.starts, "transition": path_counts.transitions}
    if chain.order == 2:
        counts = {
            "initial": path_counts.starts,
            "second_transition": path_counts.transitions,
            "transition": path_counts.triples,
        }
    after, log_evidence = {}, 0.0
    for name in counts:
        if name not in chain.learned:
            known = chain.initial if name == "initial" else chain.given.get(name, chain.transition)
            log_evidence += float(special.xlogy(counts[name], known).sum())
            continue
        before = np.array(chain.concentration(name), dtype=float)
        after[name] = np.where(before > 0, before + counts[name], 0.0)
        log_evidence += _log_normaliser(after[name]) - _log_normaliser(before)
    return CountedChain(after, {n: chain.dims(n) for n in after}, hidden.labels, log_evidence)


def _log_normaliser(a: np.ndarray) -> float:
    """Σ over rows of Σ log Γ(a) - log Γ(Σ a), without cells of zero concentration."""
    return float(
        np.sum(np.where(a > 0, special.gammaln(np.where(a > 0, a, 1.0)), 0.0)) - special.gammaln(a.sum(-1)).sum()
    )
