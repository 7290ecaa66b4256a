r"""Hidden Markov chains with an unbounded number of states: the hierarchical Dirichlet process.

Rows of the transition matrix are Dirichlet processes that share their atoms [1]_, here in the weak limit of L states:

    β ~ Dirichlet(γ / L, ..., γ / L),   A_j ~ Dirichlet(α β + κ δ_j),   π ~ Dirichlet(α β)

Most of the L states stay empty; as L grows the distribution of the states in use converges to that of the process. κ
makes states persistent [2]_. α, γ and κ have Gamma priors. Given a path with n_jk steps from j to k and auxiliary table
counts, all conditionals have closed forms: m_jk is the number of the n_jk steps whose target was a new draw from α β +
κ δ_j, and w_j the number of the m_jj that drew κ. With r_j ~ Beta(α + κ, n_j.) the conditionals are

    β | m ~ Dirichlet(γ / L + m̄_.k)
    α | m, r ~ Gamma(a + m̄_.., b - Σ log r_j)
    κ | w, r ~ Gamma(a + w_., b - Σ log r_j)

where m̄ excludes the w_j; γ, with β summed out, is drawn likewise from the tables of the m̄_.k [3]_.

References
----------
.. [1] Teh, Jordan, Beal, Blei (2006). Hierarchical Dirichlet processes. JASA 101, 1566-1581.
.. [2] Fox, Sudderth, Jordan, Willsky (2011). A sticky HDP-HMM with application to speaker diarization. Annals of
   Applied Statistics 5, 1020-1056.
.. [3] Escobar, West (1995). Bayesian density estimation and inference using mixtures. JASA 90, 577-588.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import gammaln

from bayeslab.latents.chains.hidden_gibbs import draw_probabilities

__all__ = ["Limit", "LimitState", "draw_limit", "draw_tables", "log_path_probability", "prior_state"]

# At zero a state could never return; keep at least the smallest positive number.
_LEAST = 1e-250


@dataclass(frozen=True, eq=False)
class Limit:
    """The prior of the weak limit.

    Attributes
    ----------
    most : int
        The number L of states of the weak limit.
    alpha, gamma, kappa : float, or (float, float)
        Numbers if they are known; else shape and rate of their Gamma priors.
    """

    most: int
    alpha: float | tuple[float, float] = (1.0, 1.0)
    gamma: float | tuple[float, float] = (1.0, 1.0)
    kappa: float | tuple[float, float] = 0.0


@dataclass(frozen=True, eq=False)
class LimitState:
    """The state of a Gibbs chain.

    Attributes
    ----------
    alpha, gamma, kappa : float
    beta, initial : ndarray (L,)
    transition : ndarray (L, L)
    """

    alpha: float
    gamma: float
    kappa: float
    beta: np.ndarray
    initial: np.ndarray
    transition: np.ndarray


def prior_state(limit: Limit, rng: np.random.Generator) -> LimitState:
    """A draw from the prior."""
    alpha, gamma, kappa = (
        value if isinstance(value, float | int) else rng.gamma(value[0]) / value[1]
        for value in (limit.alpha, limit.gamma, limit.kappa)
    )
    beta = _shares(rng, np.full(limit.most, gamma / limit.most))
    rows = draw_probabilities(rng, _concentration(alpha, kappa, beta))
    return LimitState(float(alpha), float(gamma), float(kappa), beta, rows[-1], rows[:-1])


def _shares(rng: np.random.Generator, concentration: np.ndarray) -> np.ndarray:
    return np.maximum(draw_probabilities(rng, concentration), _LEAST)


def _concentration(alpha: float, kappa: float, beta: np.ndarray) -> np.ndarray:
    """Concentrations of the rows of the matrix, and last of the first state."""
    out = np.tile(alpha * beta, (len(beta) + 1, 1))
    out[:-1] += kappa * np.eye(len(beta))
    return out


def draw_tables(rng: np.random.Generator, counts: np.ndarray, concentration: np.ndarray) -> np.ndarray:
    """Tables of Chinese restaurants with so many customers each: sums of Bernoulli(c / (c + i)), i = 0 ... n - 1."""
    n = np.asarray(counts).ravel().astype(np.int64)
    cell = np.repeat(np.arange(n.size), n)
    before = np.arange(len(cell)) - np.repeat(np.cumsum(n) - n, n)
    concentrations = np.broadcast_to(concentration, np.shape(counts)).ravel()[cell]
    opened = (before == 0) | (rng.random(len(cell)) * (concentrations + before) < concentrations)
    return np.bincount(cell[opened], minlength=n.size).reshape(np.shape(counts))


def draw_limit(
    limit: Limit, state: LimitState, starts: np.ndarray, moves: np.ndarray, rng: np.random.Generator
) -> LimitState:
    """Draw everything given the counts of a path; rows are integrated out until they are drawn last.

    Parameters
    ----------
    starts : ndarray (L,)
        How many sequences begin in each state.
    moves : ndarray (L, L)
        How often one state follows another.
    """
    most = limit.most
    counts = np.concatenate([moves, starts[None]])
    tables = draw_tables(rng, counts, _concentration(state.alpha, state.kappa, state.beta))
    stays = np.arange(most)
    if state.kappa > 0:
        share = state.kappa / (state.kappa + state.alpha * state.beta)
        kept = rng.binomial(tables[stays, stays], share)
    else:
        kept = np.zeros(most, np.int64)
    fresh = tables.copy()
    fresh[stays, stays] -= kept
    used = counts.sum(axis=1)
    log_r = _log_beta(rng, np.append(np.full(most, state.alpha + state.kappa), state.alpha), used)
    alpha = _concentration_drawn(limit.alpha, int(fresh.sum()), log_r.sum(), rng, state.alpha)
    kappa = _concentration_drawn(limit.kappa, int(kept.sum()), log_r[:-1].sum(), rng, state.kappa)
    gamma, dishes = state.gamma, fresh.sum(axis=0)
    if not isinstance(limit.gamma, float | int):
        named = draw_tables(rng, dishes, np.full(most, gamma / most))
        log_r = _log_beta(rng, np.array([gamma]), np.array([dishes.sum()]))
        gamma = _concentration_drawn(limit.gamma, int(named.sum()), float(log_r[0]), rng, gamma)
    beta = _shares(rng, gamma / most + dishes)
    rows = draw_probabilities(rng, counts + _concentration(alpha, kappa, beta))
    return replace(state, alpha=alpha, gamma=gamma, kappa=kappa, beta=beta, initial=rows[-1], transition=rows[:-1])


def _log_beta(rng: np.random.Generator, a: np.ndarray, n: np.ndarray) -> np.ndarray:
    """log r, r ~ Beta(a, n): Γ(a) / Γ(a + n) is the integral of r^(a - 1) (1 - r)^(n - 1); 0 where n is."""
    logs = np.log(rng.standard_gamma(a + 1)) + np.log(1 - rng.random(a.shape)) / a  # of a gamma(a), which may be tiny
    other = np.log(rng.standard_gamma(np.maximum(n, 1)))
    return np.where(n > 0, logs - np.logaddexp(logs, other), 0.0)


def _concentration_drawn(
    prior: float | tuple[float, float], tables: int, log_r: float, rng: np.random.Generator, now: float
) -> float:
    if isinstance(prior, float | int):
        return now
    return float(np.maximum(rng.gamma(prior[0] + tables) / (prior[1] - log_r), 1e-12))


def log_path_probability(limit: Limit, state: LimitState, starts: np.ndarray, moves: np.ndarray) -> float:
    """log p(path | β, α, κ), the rows summed out: a product of Dirichlet-multinomials."""

    counts = np.concatenate([moves, starts[None]])
    a = _concentration(state.alpha, state.kappa, state.beta)
    rows = gammaln(a.sum(axis=1)) - gammaln(a.sum(axis=1) + counts.sum(axis=1))
    return float(rows.sum() + np.sum(gammaln(a + counts) - gammaln(a)))
