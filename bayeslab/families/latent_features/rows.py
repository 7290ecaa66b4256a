"""Rows under latent features at draws of the parameters: densities, features and reconstructions."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayeslab.constants import LOG_2PI
from bayeslab.digits import Moments
from bayeslab.distributions.emissions.normal_rows import fill_normal
from bayeslab.errors import OptionError
from bayeslab.families.latent_features.model import MOST_SUMMED, Resolved
from bayeslab.latents.features.factor_analysis import scores
from bayeslab.latents.features.factor_kernels import HEYWOOD
from bayeslab.latents.features.feature_kernels import binary_pass, draw_rows

__all__ = ["completed", "features", "log_likelihoods"]

# Number of draws for summaries; Gibbs sweeps over a row's binary features if patterns are too many to enumerate.
_DRAWS = 400
_SWEEPS = 20
# Number of densities of rows under patterns in memory at a time.
_AT_ONCE = 1_000_000


def _patterns(rows: np.ndarray) -> Any:
    """Groups of rows with the same observed cells: (rows, cells) of each."""
    kinds, which = np.unique(~np.isnan(rows), axis=0, return_inverse=True)
    for p, kind in enumerate(kinds):
        yield np.flatnonzero(which.ravel() == p), np.flatnonzero(kind)


def log_likelihoods(
    resolved: Resolved, loading: np.ndarray, mean: np.ndarray, noise: np.ndarray, probability: np.ndarray | None
) -> np.ndarray:
    """Log likelihood of each row at each draw, (S, N)."""
    if resolved.binary and loading.shape[2] > MOST_SUMMED:
        raise OptionError(f"densities of rows need at most {MOST_SUMMED} binary features", code="too-costly")
    out = np.zeros((len(loading), len(resolved.rows)))
    groups = list(_patterns(resolved.rows))
    for i in range(len(out)):
        for mine, cells in groups:
            rows = np.ascontiguousarray(resolved.rows[mine][:, cells])
            if probability is None:
                out[i, mine] = normal(rows, mean[i, cells], loading[i, cells], noise[i, cells])
            else:
                weights = np.ascontiguousarray(loading[i, cells].T)
                chance = np.clip(probability[i], 1e-12, 1 - 1e-12)
                out[i, mine] = binary_pass(chance, weights, mean[i, cells], float(noise[i, 0]), rows)[0]
    return out


def normal(rows: np.ndarray, mean: np.ndarray, loading: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """log N(x; m, W W' + Ψ), by the matrix inversion lemma unless a column has hardly any noise."""
    white, apart = loading / noise[:, None], (rows - mean) / noise
    if (white**2).sum(axis=1).max(initial=0.0) >= HEYWOOD:
        unit = np.sqrt((loading**2).sum(axis=1) + noise**2)
        shares = loading / unit[:, None]
        lower = np.linalg.cholesky(shares @ shares.T + np.diag((noise / unit) ** 2))
        solved = np.linalg.solve(lower, ((rows - mean) / unit).T)
        log_det = 2 * np.log(np.diag(lower)).sum() + 2 * np.log(unit).sum()
        return np.asarray(-0.5 * (len(mean) * LOG_2PI + log_det + (solved**2).sum(axis=0)))
    lower = np.linalg.cholesky(np.eye(loading.shape[1]) + white.T @ white)
    inner = np.linalg.solve(lower, white.T @ apart.T)
    log_det = 2 * np.log(np.diag(lower)).sum() + 2 * np.log(noise).sum()
    squares = (apart**2).sum(axis=1) - (inner**2).sum(axis=0)
    return np.asarray(-0.5 * (len(mean) * LOG_2PI + log_det + squares))


def completed(
    resolved: Resolved,
    loading: np.ndarray,
    mean: np.ndarray,
    noise: np.ndarray,
    probability: np.ndarray | None,
    rng: np.random.Generator,
) -> np.ndarray:
    """The rows at each draw, (S, N, D), with missing cells drawn given the observed ones."""
    lacking = np.isnan(resolved.rows)
    out = np.repeat(resolved.rows[None], len(loading), axis=0)
    z = np.zeros((len(resolved.rows), loading.shape[2]), np.int8)
    for i, (w, m, s) in enumerate(zip(loading, mean, noise, strict=True)):
        if probability is None:
            whole = w @ w.T + np.diag(s**2)
            fill_normal(out[i], np.zeros(len(lacking), int), m[None], whole[None], None, rng)
            continue
        chance = np.clip(probability[i], 1e-12, 1 - 1e-12)
        if w.shape[1] <= MOST_SUMMED:
            _draw_patterns(resolved.rows, m, w, float(s[0]), chance, z, rng)
        else:
            draw_rows(rng, resolved.rows, chance, np.ascontiguousarray(w.T), m, float(s[0]), z, _SWEEPS)
        made = m + z @ w.T + s * rng.standard_normal(lacking.shape)
        out[i][lacking] = made[lacking]
    return out


def _draw_patterns(
    rows: np.ndarray,
    mean: np.ndarray,
    loading: np.ndarray,
    noise: float,
    chance: np.ndarray,
    z: np.ndarray,
    rng: np.random.Generator,
) -> None:
    """Draw the binary features of each row given its cells, in place, from the probabilities of all patterns."""
    k = loading.shape[1]
    patterns = (np.arange(2**k)[:, None] >> np.arange(k)) & 1
    prior = patterns @ np.log(chance) + (1 - patterns) @ np.log1p(-chance)
    centres = patterns @ loading.T
    for mine, cells in _patterns(rows):
        step = max(1, _AT_ONCE // (len(patterns) * max(1, len(cells))))
        for first in range(0, len(mine), step):
            here = mine[first : first + step]
            apart = (rows[np.ix_(here, cells)] - mean[cells])[:, None, :] - centres[None, :, cells]
            log_p = prior - 0.5 * (apart**2).sum(axis=2) / noise**2
            # Gumbel-max trick: the largest log probability plus Gumbel noise is a draw by the probabilities.
            z[here] = patterns[(log_p + rng.gumbel(size=log_p.shape)).argmax(axis=1)]


def features(
    resolved: Resolved,
    rows: str,
    loading: np.ndarray,
    mean: np.ndarray,
    noise: np.ndarray,
    probability: np.ndarray | None,
    named: np.ndarray | None,
    rng: np.random.Generator,
) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Averages over draws: dimensions and values by name.

    ``named``: the features that are matched across draws, if their number is not given.
    """
    some = np.unique(np.linspace(0, len(loading) - 1, min(len(loading), _DRAWS)).astype(int))
    if probability is None:
        return _scores(resolved, rows, loading[some], mean[some], noise[some])
    kept = np.arange(loading.shape[2]) if named is None else np.flatnonzero(named[0])
    return _active(resolved, rows, loading[some], mean[some], noise[some], probability[some], kept, rng)


def _scores(
    resolved: Resolved, rows: str, loading: np.ndarray, mean: np.ndarray, noise: np.ndarray
) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    n, (d, k) = len(resolved.rows), loading.shape[1:]
    score, within, rebuilt = Moments((n, k)), np.zeros((n, k)), np.zeros((n, d))
    for w, m, s in zip(loading, mean, noise, strict=True):
        centre, sd = scores(resolved.rows, m, w, s)
        score.add(centre)
        within += sd**2 / len(loading)
        rebuilt += m + centre @ w.T
    squared = loading**2
    whole = squared.sum(axis=2) + noise**2
    common = squared.sum(axis=2) / whole
    # Shares of the variance of the columns, standardised if each has its own noise and thus its own unit.
    separate = len(resolved.noise) > 1
    explained = (
        (squared / whole[:, :, None]).mean(axis=1) if separate else squared.sum(axis=1) / whole.sum(axis=1)[:, None]
    )
    return {
        "score": ((rows, "feature"), score.mean),
        "score_sd": ((rows, "feature"), np.sqrt(score.variance + within)),
        "loading": (("column", "feature"), loading.mean(axis=0)),
        "loading_sd": (("column", "feature"), loading.std(axis=0)),
        "explained": (("feature",), explained.mean(axis=0)),
        "communality": (("column",), common.mean(axis=0)),
        "reconstruction": ((rows, "column"), rebuilt / len(loading)),
    }


def _active(
    resolved: Resolved,
    rows: str,
    loading: np.ndarray,
    mean: np.ndarray,
    noise: np.ndarray,
    probability: np.ndarray,
    kept: np.ndarray,
    rng: np.random.Generator,
) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:

    n, (d, k) = len(resolved.rows), loading.shape[1:]
    active, rebuilt = np.zeros((n, k)), np.zeros((n, d))
    groups = list(_patterns(resolved.rows))
    there = probability > 0  # under an Indian buffet process a draw may lack a feature
    probability = np.clip(probability, 1e-12, 1 - 1e-12)
    z = np.zeros((n, k), np.int8)
    for w, m, s, p in zip(loading, mean, noise, probability, strict=True):
        chance = np.zeros((n, k))
        if k <= MOST_SUMMED:
            for mine, cells in groups:
                weights = np.ascontiguousarray(w[cells].T)
                part = np.ascontiguousarray(resolved.rows[mine][:, cells])
                chance[mine] = binary_pass(p, weights, m[cells], float(s[0]), part)[1]
        else:
            draw_rows(rng, resolved.rows, p, np.ascontiguousarray(w.T), m, float(s[0]), z, _SWEEPS)
            chance = z.astype(float)
        active += chance
        rebuilt += m + chance @ w.T
    active /= len(loading)
    often = np.maximum(there.sum(axis=0)[kept], 1)
    average = loading[:, :, kept].sum(axis=0) / often
    apart = np.where(there[:, None, kept], loading[:, :, kept] - average, 0.0)
    spread = np.sqrt((apart**2).sum(axis=0) / often)
    return {
        "active": ((rows, "feature"), active[:, kept]),
        "z": ((rows, "feature"), (active[:, kept] > 0.5).astype(np.int8)),
        "present": (("feature",), there.mean(axis=0)[kept]),
        "loading": (("column", "feature"), average),
        "loading_sd": (("column", "feature"), spread),
        "reconstruction": ((rows, "column"), rebuilt / len(loading)),
    }
