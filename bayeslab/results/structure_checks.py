"""The verdict on sampled structures: convergence checks of the score and of each edge.

Convergence is assessed by the score and by the indicators of edges. Indicators have two values, so ranks are
meaningless: their R-hat is the plain split R-hat [1]_ [2]_, and the error of an edge's probability is that of a mean.
An edge that is in every draw or in none has neither; the verdict counts these edges. A typical failure of structure
sampling is that chains stay in different modes, each with good diagnostics of its own: graphs of nearly the same score
between which single steps lead through graphs of very low score.

References
----------
.. [1] Gelman, Rubin (1992). Inference from iterative simulation using multiple sequences. Statistical Science 7,
   457-511.
.. [2] Vehtari, Gelman, Simpson, Carpenter, Bürkner (2021). Rank-normalization, folding, and localization: an improved
   R-hat for assessing convergence of MCMC. Bayesian Analysis 16(2), 667-718.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bayeslab.results.checks import APART, MIN_DRAWS, R_HAT_FAIL, R_HAT_WARN
from bayeslab.results.convergence import ess, r_hat_and_ess, split
from bayeslab.results.verdict import Finding, Verdict

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["EdgeDiagnostics", "edge_diagnostics", "indicators", "judge_structures", "mean_error", "score_r_hat"]

Array = NDArray[np.float64]

# Effective draws of all chains together; the Monte Carlo error is then a twentieth of the standard deviation.
ESS_WANTED, ESS_FAIL = 400, 100
# A probability with at most this Monte Carlo error needs no more draws, whatever its autocorrelation (ours).
SMALL_ERROR = 0.005
# Chains disagree on an edge if they differ by more standard errors; high because there are many edges (ours).
ERRORS_APART = 4.0
# Differences of an edge's probability below this are irrelevant in practice (ours).
SMALL_DIFFERENCE, LARGE_DIFFERENCE = 0.05, 0.2
# An edge of middling probability that changes at most this often in a chain jumps between modes (ours).
FEW_JUMPS, OFTEN = 10, 0.1
# Lowest exchange rate between neighbouring temperatures (0.23 is optimal, 0.1 costs little).
EXCHANGES = 0.1
_CELLS = 1 << 22


@dataclass(frozen=True, eq=False)
class EdgeDiagnostics:
    """Diagnostics of each edge, shape (source, target); NaN on the diagonal.

    Attributes
    ----------
    names : tuple of str
    probability : ndarray
        Share of the draws with the edge.
    by_chain : ndarray, shape (chain, source, target)
    r_hat, ess, mcse : ndarray
        NaN (mcse: 0) where ``constant``. R-hat is infinite if the edge never changes in any chain and chains disagree.
    constant : ndarray of bool
        Whether the edge is in every draw or in none.
    jumps : ndarray of int, shape (chain, source, target)
        Number of changes of the edge in each chain.
    apart : ndarray
        Largest difference of the probability between two chains, in standard errors.
    difference : ndarray
        Largest difference of the probability between two chains.
    """

    names: tuple[str, ...]
    probability: Array
    by_chain: Array
    r_hat: Array
    ess: Array
    mcse: Array
    constant: NDArray[np.bool_]
    jumps: NDArray[np.int64]
    apart: Array
    difference: Array

    @property
    def n_edges(self) -> int:
        """Number of possible edges."""
        return len(self.names) * (len(self.names) - 1)

    def worst(self, values: Array, *, least: bool = False) -> tuple[str, float]:
        """The edge with the largest (or smallest) value, and the value; NaN are ignored."""
        filled = np.where(np.isnan(values), np.inf if least else -np.inf, values)
        u, v = np.unravel_index(int(filled.argmin() if least else filled.argmax()), filled.shape)
        return f"{self.names[u]} -> {self.names[v]}", float(values[u, v])


def edge_diagnostics(names: Sequence[str], member: NDArray[np.bool_], parents: NDArray[np.integer]) -> EdgeDiagnostics:
    """Probabilities of all edges with their errors and convergence diagnostics.

    Parameters
    ----------
    names
        The variables.
    member : ndarray of bool, shape (n_sets, n)
        Members of each parent set.
    parents : ndarray of int, shape (chain, draw, n)
        Index of the parent set of each variable.
    """
    n_chains, n_draws, n = parents.shape
    out = {f.name: np.full((n, n), np.nan) for f in fields(EdgeDiagnostics) if f.name != "names"}
    out |= {name: np.full((n_chains, n, n), np.nan) for name in ("by_chain", "jumps")}
    width = max(1, _CELLS // max(1, n_chains * n_draws))
    inside = member.astype(np.float32)
    for target in range(n):
        for first in range(0, n, width):
            sources = slice(first, min(n, first + width))
            draws = np.ascontiguousarray(np.moveaxis(inside[:, sources][parents[:, :, target]], -1, 0))
            for name, values in indicators(draws).items():
                out[name][..., sources, target] = values
    diagonal = np.eye(n, dtype=bool)
    for name, values in out.items():
        values[..., diagonal] = 0.0 if name in ("constant", "jumps") else np.nan
    constant, jumps = out.pop("constant") > 0, out.pop("jumps").astype(np.int64)
    return EdgeDiagnostics(tuple(names), constant=constant, jumps=jumps, **out)


def indicators(draws: NDArray[Any]) -> dict[str, Array]:
    """The diagnostics of :class:`EdgeDiagnostics` for arbitrary indicators, shape (quantity, chain, draw)."""
    by_chain = draws.mean(axis=2, dtype=np.float64)
    probability = by_chain.mean(axis=1)
    constant = (probability == 0) | (probability == 1)
    r_hat, size, mcse, apart = (np.full(len(draws), np.nan) for _ in range(4))
    mcse[constant] = 0.0
    moving = ~constant
    if moving.any() and draws.shape[2] >= MIN_DRAWS:
        kept = draws[moving].astype(np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            r_hat[moving] = _plain_r_hat(split(kept))
            size[moving] = ess(split(kept))
        mcse[moving] = kept.reshape(len(kept), -1).std(axis=1, ddof=1) / np.sqrt(size[moving])
        apart[moving] = _apart(kept, by_chain[moving])
    return {
        "probability": probability,
        "by_chain": by_chain.T,
        "r_hat": r_hat,
        "ess": size,
        "mcse": mcse,
        "constant": constant.astype(float),
        "jumps": (draws[:, :, 1:] != draws[:, :, :-1]).sum(axis=2).T,
        "apart": apart,
        "difference": np.ptp(by_chain, axis=1),
    }


def _plain_r_hat(halves: Array) -> Array:
    n = halves.shape[-1]
    between = n * halves.mean(axis=-1).var(axis=-1, ddof=1)
    within = halves.var(axis=-1, ddof=1).mean(axis=-1)
    return np.asarray(np.sqrt((between / within + n - 1) / n))


def _apart(draws: Array, means: Array) -> Array:
    """Largest difference between two chains in standard errors, for indicators of shape (edge, chain, draw).

    The standard error of a chain uses its effective sample size and the probability of all chains. A chain in which
    the edge never changes is treated as if its draws were as autocorrelated as those of the others.
    """
    n_edges, n_chains, n_draws = draws.shape
    if n_chains == 1:
        return np.full(n_edges, np.nan)
    size = np.full((n_edges, n_chains), np.nan)
    for chain in range(n_chains):
        moves = np.ptp(draws[:, chain], axis=1) > 0
        if moves.any():
            # Halves of short chains may be constant.
            with np.errstate(divide="ignore", invalid="ignore"):
                size[moves, chain] = ess(split(draws[moves, chain][:, None]))
    known = np.isfinite(size).any(axis=1)
    typical = np.full(n_edges, float(n_draws))
    typical[known] = np.nanmin(size[known], axis=1)
    size = np.where(np.isfinite(size), size, typical[:, None])
    p = means.mean(axis=1, keepdims=True)
    variance = p * (1 - p) / size
    difference = np.abs(means[:, :, None] - means[:, None, :])
    error = np.sqrt(variance[:, :, None] + variance[:, None, :])
    return np.asarray((difference / error).max(axis=(1, 2)))


def score_r_hat(scores: Array) -> tuple[float, float]:
    """Rank-normalised split R-hat and bulk ESS of scores, shape (chain, draw); NaN where they never change."""
    if scores.shape[1] < MIN_DRAWS or np.ptp(scores) == 0:
        return math.nan, math.nan
    with np.errstate(divide="ignore", invalid="ignore"):
        r_hat, bulk, _ = r_hat_and_ess(np.asarray(scores, dtype=float)[None])
    return float(r_hat[0]), float(bulk[0])


def mean_error(series: Array) -> tuple[Array, Array]:
    """Monte Carlo standard errors and effective sizes of means; series have the shape (..., chain, draw)."""
    shape = series.shape[:-2]
    flat = np.asarray(series, dtype=float).reshape(-1, *series.shape[-2:])
    sd = flat.reshape(len(flat), -1).std(axis=1, ddof=1) if flat[0].size > 1 else np.zeros(len(flat))
    size = np.full(len(flat), np.nan)
    moving = sd > 1e-13 * np.maximum(1e-300, np.abs(flat).max(axis=(1, 2)))
    if moving.any() and flat.shape[2] >= MIN_DRAWS:
        with np.errstate(divide="ignore", invalid="ignore"):
            size[moving] = ess(split(flat[moving]))
    error = np.where(moving, sd / np.sqrt(size), 0.0)
    return error.reshape(shape), size.reshape(shape)


# The verdict


def judge_structures(
    groups: Mapping[str, xr.Dataset] | xr.DataTree, *, complete: bool = True, notes: Sequence[Finding] = ()
) -> Verdict:
    """The verdict on sampled structures.

    Parameters
    ----------
    groups
        The groups ``posterior``, ``parent_sets`` and ``sample_stats`` of sampled structures.
    complete
        Whether all requested draws were made.
    notes
        Further findings to append.
    """
    posterior, sets, stats = (_group(groups, name) for name in ("posterior", "parent_sets", "sample_stats"))
    scores = posterior["score"].to_numpy()
    n_chains, n_draws = scores.shape
    findings = [_chains(n_chains, n_draws)]
    if not complete:
        text = f"interrupted: {n_draws:,} draws a chain are kept"
        findings.append(Finding("warn", "interrupted", "", n_draws, text, "continue with --resume"))
    if n_draws >= MIN_DRAWS:
        names = [str(v) for v in posterior["target"].to_numpy()]
        diagnostics = edge_diagnostics(names, sets["member"].to_numpy(), posterior["parents"].to_numpy())
        findings += _findings(scores, diagnostics, [f"chain {c}" for c in posterior["chain"].to_numpy()], stats.attrs)
    if posterior.attrs.get("draws_of") == "orders":
        findings.append(_by_orders(posterior.attrs))
    return Verdict((*findings, *notes))


def _by_orders(attrs: Mapping[str, Any]) -> Finding:
    text = f"a graph weighs once for each order that it agrees with, which is not the prior {attrs.get('prior')!r} of"
    text += " graphs: graphs that leave many orders open come more often"
    advice = "for that of graphs: `fit.structures.reweighted()`, or sampler partition"
    return Finding("warn", "prior", "", None, text, advice)


def _group(groups: Mapping[str, xr.Dataset] | xr.DataTree, name: str) -> xr.Dataset:
    group: Any = groups[name]
    return group.to_dataset() if hasattr(group, "to_dataset") else group


def _chains(n_chains: int, n_draws: int) -> Finding:
    text = f"{n_chains} {'chain' if n_chains == 1 else 'chains'} of {n_draws:,} draws"
    if n_draws < MIN_DRAWS:
        return Finding("fail", "chains", "", n_chains, f"{text}: too few to judge", "run at least 1000 draws")
    if n_chains == 1:
        text += ": whether another chain would find other structures cannot be seen"
        return Finding("warn", "chains", "", 1, text, "run 4 chains")
    return Finding("pass", "chains", "", n_chains, text)


def _findings(
    scores: Array, diagnostics: EdgeDiagnostics, chains: list[str], stats: Mapping[str, Any]
) -> Iterator[Finding]:
    moving = ~diagnostics.constant & np.isfinite(diagnostics.by_chain[0])
    settled = _settled_apart(scores, diagnostics)
    yield from _score(scores, settled)
    if moving.any():
        yield _edge_r_hat(diagnostics, int(moving.sum()), settled)
        yield _edge_ess(diagnostics, scores.shape, int(moving.sum()), settled)
        if len(chains) > 1:
            yield _agreement(diagnostics, settled)
    yield from _modes(scores, diagnostics, chains, settled)
    yield _constant(diagnostics, int(moving.sum()), scores, len(chains))
    yield from _exchanges(stats)


def _settled_apart(scores: Array, diagnostics: EdgeDiagnostics) -> bool:
    """Whether chains disagree although each is stationary: several modes, for which more draws do not help."""
    if len(scores) == 1:
        return False
    apart = np.nan_to_num(diagnostics.r_hat, nan=1.0, posinf=np.inf) > APART
    # Within its own chain such an edge hardly changes.
    still = (diagnostics.by_chain < OFTEN) | (diagnostics.by_chain > 1 - OFTEN)
    if bool((apart & still.all(axis=0) & (diagnostics.difference > 1 - 2 * OFTEN)).any()):
        return True
    return score_r_hat(scores)[0] > APART and all(not score_r_hat(trace[None])[0] > R_HAT_FAIL for trace in scores)


_BRIDGE = (
    "let chains cross: parallel tempering with hotter `temperatures`, or sampler partition, which sums over many graphs"
    " at once"
)
_LONGER = "run longer (draws), or with larger steps between draws; if that does not help, temper or take partition"
_FIRST = "a consequence of chains in different modes: correct that first"


def _score(scores: Array, settled: bool) -> Iterator[Finding]:
    r_hat, size = score_r_hat(scores)
    if math.isnan(r_hat):
        if not np.isfinite(scores).all():
            yield Finding("fail", "score", "", None, "some scores are not finite", "build the score table again")
        return
    if r_hat <= R_HAT_WARN:
        text = f"R-hat {r_hat:.3f} ≤ {R_HAT_WARN}, {size:,.0f} effective draws"
        yield Finding("pass", "score", "", r_hat, text)
        return
    means = scores.mean(axis=1)
    shown = f"R-hat {r_hat:.3f} > {R_HAT_WARN}" if r_hat < APART else f"R-hat {r_hat:.2f} > {R_HAT_WARN}"
    text = f"{shown}; means of the chains from {means.min():.2f} to {means.max():.2f}, {size:,.0f} effective draws"
    status = "warn" if r_hat <= R_HAT_FAIL else "fail"
    yield Finding(status, "score", "", r_hat, text, _FIRST if settled else _LONGER)  # type: ignore[arg-type]


def _edge_r_hat(diagnostics: EdgeDiagnostics, n: int, settled: bool) -> Finding:
    where, value = diagnostics.worst(diagnostics.r_hat)
    shown = "infinite" if math.isinf(value) else f"{value:.3f}" if value < APART else f"{value:.2f}"
    if value <= R_HAT_WARN:
        return Finding("pass", "edge R-hat", where, value, f"all {n:,} edges ≤ {R_HAT_WARN} (worst {shown}, {where})")
    bad = int(np.sum(diagnostics.r_hat > R_HAT_WARN))
    text = f"{bad:,} of {n:,} edges > {R_HAT_WARN} (worst {shown}, {where})"
    advice = _FIRST if settled else _LONGER
    return Finding("warn" if value <= R_HAT_FAIL else "fail", "edge R-hat", where, value, text, advice)


def _edge_ess(diagnostics: EdgeDiagnostics, shape: tuple[int, ...], n: int, settled: bool) -> Finding:
    """The finding about effective sample sizes of edges whose error is too large, and the number of draws needed."""
    where, value = diagnostics.worst(diagnostics.ess, least=True)
    unsure = diagnostics.mcse > SMALL_ERROR
    largest = diagnostics.worst(diagnostics.mcse)
    error_text = f"largest Monte Carlo error of a probability {largest[1]:.2g}, {largest[0]}"
    if not unsure.any() or np.nanmin(diagnostics.ess[unsure]) >= ESS_WANTED:
        least = f"all {n:,} edges ≥ {ESS_WANTED}" if value >= ESS_WANTED else "enough where the error is not small"
        return Finding("pass", "edge ESS", where, value, f"{least} (least {value:,.0f}, {where}); {error_text}")
    where, value = diagnostics.worst(np.where(unsure, diagnostics.ess, np.nan), least=True)
    bad = int(np.sum(diagnostics.ess[unsure] < ESS_WANTED))
    more = math.ceil(shape[1] * (ESS_WANTED / value - 1) / 10) * 10
    text = f"{bad:,} of {n:,} edges < {ESS_WANTED} (least {value:,.0f}, {where}); {error_text}"
    advice = _FIRST
    if not settled:
        advice = f"about {more:,} more draws a chain (--resume RUN --draws +{more})"
        if ESS_WANTED / value > 20:
            advice += ", or larger steps between draws, tempering or sampler partition, which mix faster"
    return Finding("warn" if value >= ESS_FAIL else "fail", "edge ESS", where, value, text, advice)


def _agreement(diagnostics: EdgeDiagnostics, settled: bool) -> Finding:
    where, difference = diagnostics.worst(diagnostics.difference)
    errors_where, errors = diagnostics.worst(diagnostics.apart)
    text = f"probabilities of an edge differ by {difference:.3f} at most between chains ({where})"
    text += f", by {errors:.1f} standard errors at most ({errors_where})"
    beyond = (diagnostics.apart > ERRORS_APART) & (diagnostics.difference > SMALL_DIFFERENCE)
    if not beyond.any() and difference <= LARGE_DIFFERENCE:
        return Finding("pass", "agreement", where, difference, text)
    n = int(np.sum(beyond | (diagnostics.difference > LARGE_DIFFERENCE)))
    text += f"; {n:,} {'edge' if n == 1 else 'edges'} apart"
    fails = bool((beyond & (diagnostics.difference > LARGE_DIFFERENCE)).any())
    advice = _FIRST if settled else "a consequence of slow mixing: see edge R-hat and edge ESS"
    return Finding("fail" if fails else "warn", "agreement", where, difference, text, advice)


def _modes(scores: Array, diagnostics: EdgeDiagnostics, chains: list[str], settled: bool) -> Iterator[Finding]:
    """Findings about chains that stay in different modes, and chains that rarely jump between modes."""
    if settled:
        means = scores.mean(axis=1)
        order = np.argsort(-means)
        ranked = ", ".join(f"{chains[c]} {means[c]:.2f}" for c in order[:6])
        text = f"chains are in different modes, and each looks converged by itself (mean scores: {ranked})"
        if np.ptp(means) > 3 * scores.std(axis=1).mean():
            text += "; the lower ones may have missed the best structures"
        yield Finding("fail", "modes", chains[int(order[-1])], float(np.ptp(means)), text, _BRIDGE)
    often = (diagnostics.by_chain > OFTEN) & (diagnostics.by_chain < 1 - OFTEN)
    seldom = often & (diagnostics.jumps <= FEW_JUMPS) & (diagnostics.jumps >= 1)
    if scores.shape[1] >= 20 * FEW_JUMPS and seldom.any():
        chain = int(seldom.sum(axis=(1, 2)).argmax())
        n = int(seldom.any(axis=0).sum())
        where, _ = diagnostics.worst(np.where(seldom[chain], -diagnostics.jumps[chain], np.nan))
        u, v = (diagnostics.names.index(name) for name in where.split(" -> "))
        text = (
            f"{n:,} {'edge comes and goes' if n == 1 else 'edges come and go'} in long stretches: {chains[chain]} jumps"
            f" between modes ({where} {diagnostics.jumps[chain, u, v]} times in {scores.shape[1]:,} draws)"
        )
        yield Finding("warn", "modes", where, float(n), text, _BRIDGE)


def _constant(diagnostics: EdgeDiagnostics, n_moving: int, scores: Array, n_chains: int) -> Finding:
    always = int(np.sum(diagnostics.constant & (diagnostics.probability == 1)))
    never = int(np.sum(diagnostics.constant & (diagnostics.probability == 0)))
    text = (
        f"{always + never:,} of {diagnostics.n_edges:,} edges are constant and were not checked:"
        f" {always:,} always there, {never:,} never"
    )
    if n_moving or diagnostics.n_edges == 0:
        return Finding("pass", "constant", "", float(always + never), text)
    text = f"all draws are one structure ({always:,} edges)"
    if n_chains > 1:
        return Finding("pass", "constant", "", float(always + never), f"{text}, found by each of {n_chains} chains")
    return Finding("warn", "constant", "", float(always + never), text, "run 4 chains to see whether others find it")


def _exchanges(stats: Mapping[str, Any]) -> Iterator[Finding]:
    known = [float(v) for k, v in stats.items() if k.startswith("acceptance_exchange") and isinstance(v, int | float)]
    if known and min(known) < EXCHANGES:
        text = f"temperatures exchange {100 * min(known):.2g}% of the time offered"
        advice = "put more temperatures between 1 and the hottest, closer together"
        yield Finding("warn", "exchanges", "", min(known), text, advice)
