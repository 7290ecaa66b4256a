"""Gibbs draws for hidden Markov models: paths given parameters, parameters given paths.

A path is drawn as a whole, filtered forwards and sampled backwards [1]_ [2]_; given it, everything that is conjugate is
drawn from its posterior in closed form. Zeros of a chain stay: a step that cannot be is never drawn.

References
----------
.. [1] Chib (1996). Calculating posterior distributions and modal estimates in Markov mixture models. J. Econometrics
   75, 79-97.
.. [2] Scott (2002). Bayesian methods for hidden Markov models. JASA 97, 337-351.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayeslab.distributions.toolbox.logarithms import ratio
from bayeslab.errors import EvidenceError
from bayeslab.exact.emissions import Categorical, FullGaussian, OneParameter, Product
from bayeslab.exact.emissions.cells import column_means, observed
from bayeslab.exact.emissions.normal import DiagonalGaussian, inverse_wishart, patterns
from bayeslab.exact.forward_backward import HiddenChain, read_rows, room

__all__ = ["DrawnPath", "completed", "draw_path", "draw_probabilities", "draw_tied", "imputed", "statistics_of"]


@dataclass(frozen=True, eq=False)
class DrawnPath:
    """A path of every sequence from its posterior, counted.

    Attributes
    ----------
    states : ndarray of int, shape (n_rows,)
    starts : ndarray of shape (n_states,)
        How many sequences begin in each state.
    moves : ndarray of shape (n_states, n_states)
        How often one state follows another.
    log_evidence : float
        log p(rows | parameters) of all sequences, the states summed out.
    """

    states: np.ndarray
    starts: np.ndarray
    moves: np.ndarray
    log_evidence: float


def draw_path(chain: HiddenChain, log_emission: Any, rng: np.random.Generator, offsets: Any = None) -> DrawnPath:
    """Draw all paths given the rows and the parameters.

    Parameters
    ----------
    chain : HiddenChain
    log_emission : array of shape (n_rows, n_states)
        log p(row | state), zeros for a missing row.
    rng : numpy.random.Generator
        One uniform number a row is taken.
    offsets : array of shape (n_sequences + 1,), optional

    Raises
    ------
    EvidenceError
        A sequence is impossible.
    """
    from bayeslab.exact.markov_kernels import draw_sequences

    log_emission, offsets = read_rows(chain, log_emission, offsets)
    n_rows, n_states = log_emission.shape
    filtered, log_predictive = room(n_rows, n_states), np.empty(n_rows)
    states = np.empty(n_rows, np.int64)
    starts, moves = np.empty(n_states), np.empty((n_states, n_states))
    impossible = draw_sequences(
        chain.starts, chain.form(np.exp(chain.log_transition)), chain.form(chain.log_transition), log_emission, offsets,
        rng.random(n_rows), filtered, log_predictive, states, starts, moves,
    )  # fmt: skip
    if impossible >= 0:
        raise EvidenceError(f"row {impossible} has probability zero given the rows before it", code="probability-zero")
    return DrawnPath(states, starts, moves, float(log_predictive.sum()))


def draw_probabilities(rng: np.random.Generator, concentration: np.ndarray) -> np.ndarray:
    """Rows from Dirichlet distributions, along the last axis; zeros where the concentration is zero.

    Small concentrations lose nothing: log gamma(a) is drawn as log gamma(a + 1) + log(u) / a, and no row is all zeros.
    """
    used = concentration > 0
    a = np.where(used, concentration, 1.0)
    logs = np.log(rng.standard_gamma(a + 1)) + np.log(1 - rng.random(a.shape)) / a
    logs = np.where(used, logs, -np.inf)
    weights = np.exp(logs - logs.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def statistics_of(emission: Any, rows: np.ndarray, states: np.ndarray, n_states: int) -> dict[str, Any]:
    """The emission's statistics of rows whose states are known: sums by state, without a weight for every state."""
    if isinstance(emission, Product):
        named = (
            (name, statistics_of(part, rows[:, list(columns)], states, n_states))
            for name, (columns, part) in emission.parts.items()
        )
        return {f"{name}.{key}": value for name, values in named for key, value in values.items()}
    if isinstance(emission, DiagonalGaussian):
        return _moments(rows, states, n_states)
    if isinstance(emission, FullGaussian) and not np.isnan(rows).any():
        return _matrix_moments(rows, states, n_states)
    if isinstance(emission, OneParameter):
        won, base = emission.counted(rows)
        return {"won": _sums(won, states, n_states), "base": _sums(base, states, n_states)}
    if isinstance(emission, Categorical):
        size = max(emission.levels)
        counts = np.empty((n_states, emission.n_columns, size))
        for j, column in enumerate(rows.T):
            seen = ~np.isnan(column)
            cells = states[seen] * size + column[seen].astype(np.int64)
            counts[:, j] = np.bincount(cells, minlength=n_states * size).reshape(n_states, size)
        return {"counts": counts}
    return dict(emission.statistics(rows, np.eye(n_states)[states]))


def _sums(values: np.ndarray, states: np.ndarray, n_states: int) -> np.ndarray:
    """Sums of columns by state, (n_states, n_columns)."""
    return np.stack([np.bincount(states, column, n_states) for column in values.T], axis=1)


def _moments(rows: np.ndarray, states: np.ndarray, n_states: int) -> dict[str, np.ndarray]:
    """As :meth:`DiagonalGaussian.statistics`: sums about the columns' means lose no digits far from zero."""
    filled, seen = observed(rows)
    about = column_means(rows)
    apart = (filled - about) * seen
    weight = _sums(seen, states, n_states)
    shift = ratio(_sums(apart, states, n_states), weight, 0.0)
    scatter = _sums((apart - shift[states]) ** 2 * seen, states, n_states)
    return {"weight": weight, "mean": about + shift, "scatter": scatter}


def _matrix_moments(rows: np.ndarray, states: np.ndarray, n_states: int) -> dict[str, np.ndarray]:
    """As :meth:`FullGaussian.statistics` of complete rows, the sums about the columns' means."""
    about = rows.mean(axis=0)
    apart = rows - about
    weight = np.bincount(states, minlength=n_states).astype(float)
    shift = ratio(_sums(apart, states, n_states), weight[:, None], 0.0)
    scatter = np.empty((n_states, rows.shape[1], rows.shape[1]))
    for k in range(n_states):
        within = apart[states == k] - shift[k]
        scatter[k] = within.T @ within
    return {"weight": weight, "mean": about + shift, "scatter": scatter}


def draw_tied(rng: np.random.Generator, emission: Any, statistics: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Means and the one covariance matrix of all states from their posterior.

    With means m_k given Σ normal about the prior's with covariance Σ / κ, and Σ inverse Wishart, the scatter of all
    states adds up: Σ has the posterior IW(ν + Σ n_k, Ψ + Σ S_k + Σ κ n_k / (κ + n_k) d_k d_k').
    """
    prior, n, mean = emission.prior, statistics["weight"], statistics["mean"]
    kappa, apart = prior.kappa + n, mean - prior.mean
    between = np.einsum("k,ki,kj->ij", prior.kappa * n / kappa, apart, apart)
    covariance = inverse_wishart(rng, prior.nu + n.sum(), prior.scale + statistics["scatter"].sum(axis=0) + between)
    noise = rng.standard_normal(mean.shape) @ np.linalg.cholesky(covariance).T
    centre = prior.mean + apart * (n / kappa)[:, None]
    return {"mean": centre + noise / np.sqrt(kappa)[:, None], "covariance": covariance}


def imputed(
    rng: np.random.Generator, rows: np.ndarray, states: np.ndarray, mean: np.ndarray, covariances: np.ndarray
) -> np.ndarray:
    """Normal rows (n_rows, d) with missing cells drawn given the observed ones, the states and the parameters.

    A covariance matrix is conjugate only to whole rows: their expectation would make the draws too narrow.
    """
    out = rows.copy()
    if not np.isnan(rows).any():
        return out
    for at, seen in patterns(rows):
        lost = np.setdiff1d(np.arange(rows.shape[1]), seen)
        if not len(lost):
            continue
        for k in np.unique(states[at]):
            own = at[states[at] == k]
            centre, within = np.tile(mean[k, lost], (len(own), 1)), covariances[k][np.ix_(lost, lost)]
            if len(seen):
                slope = np.linalg.solve(covariances[k][np.ix_(seen, seen)], covariances[k][np.ix_(seen, lost)])
                centre = centre + (rows[np.ix_(own, seen)] - mean[k, seen]) @ slope
                within = within - covariances[k][np.ix_(lost, seen)] @ slope
            noise = rng.standard_normal((len(own), len(lost))) @ np.linalg.cholesky(0.5 * (within + within.T)).T
            out[np.ix_(own, lost)] = centre + noise
    return out


def completed(
    rng: np.random.Generator, emission: Any, rows: np.ndarray, states: np.ndarray, parameters: Mapping[str, Any]
) -> np.ndarray:
    """Rows with the missing cells drawn that the emission's conjugate step needs: those under a covariance matrix."""
    if isinstance(emission, FullGaussian):
        return imputed(rng, rows, states, parameters["mean"], emission.covariances(parameters))
    if not isinstance(emission, Product) or not np.isnan(rows).any():
        return rows
    out = rows.copy()
    for name, (columns, part) in emission.parts.items():
        own = {key.removeprefix(f"{name}."): v for key, v in parameters.items() if key.startswith(f"{name}.")}
        out[:, list(columns)] = completed(rng, part, rows[:, list(columns)], states, own)
    return out
