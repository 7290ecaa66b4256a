"""Can the draws be believed? The verdict: one finding a check, with where, how bad, and what to do.

A sampler always returns numbers. Whether they describe the posterior shows in a few symptoms.
Chains that started apart and did not meet disagree about the distribution (R-hat). Draws that
resemble their predecessors carry less information than their number says (effective sample size,
ESS). Hamiltonian Monte Carlo has symptoms of its own: trajectories that diverge where the density
bends too sharply for the step size, tails in which steps are refused (:mod:`bayeslab.results._tails`),
energies that change too slowly to reach the tails (E-BFMI), and trajectories cut off at the largest
tree depth. None of these proves the draws right; each can show them wrong.

Judged are the free parameters and what was written to be read. What the model computes on the way, such as the mean of
each of a thousand rows, follows from the parameters; the worst of a thousand honest R-hats is no news of the chains.

References
----------
.. [1] Vehtari, Gelman, Simpson, Carpenter, Bürkner (2021). Rank-normalization, folding, and
   localization: an improved R-hat for assessing convergence of MCMC. Bayesian Analysis 16(2),
   667-718. arXiv:1903.08008
.. [2] Geyer (1992). Practical Markov chain Monte Carlo. Statistical Science 7(4), 473-483.
.. [3] Betancourt (2016). Diagnosing suboptimal cotangent disintegrations in Hamiltonian Monte
   Carlo. arXiv:1604.00695
.. [4] Betancourt (2018). A conceptual introduction to Hamiltonian Monte Carlo. arXiv:1701.02434
.. [5] Yao, Vehtari, Simpson, Gelman (2018). Yes, but did it work?: Evaluating variational
   inference. ICML, PMLR 80, 5581-5590. arXiv:1802.02538
.. [6] Vehtari, Simpson, Gelman, Yao, Gabry (2024). Pareto smoothed importance sampling. Journal of
   Machine Learning Research 25(72). arXiv:1507.02646
.. [7] Zhang, Stephens (2009). A new and efficient estimation method for the generalized Pareto
   distribution. Technometrics 51(3), 316-325.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from bayeslab.errors import printable

if TYPE_CHECKING:
    import xarray as xr

__all__ = [
    "Block",
    "Finding",
    "Remedies",
    "Verdict",
    "blocks",
    "judge_approximation",
    "judge_mcmc",
    "pareto_smoothed",
    "point_verdict",
    "steps_too_long",
]

Array = NDArray[np.float64]
Status = Literal["pass", "warn", "fail"]

# [1], section 4.1: use the draws only if R-hat < 1.01. 1.05 is ours: between that and the 1.1 of
# Gelman and Rubin (1992), which [1] shows to be too lax.
R_HAT_WARN, R_HAT_FAIL = 1.01, 1.05
# [1], section 4.1: 50 for each half of a chain, so that R-hat and the ESS can themselves be trusted.
# A quarter of that leaves four chains with a Monte Carlo error of a tenth of the posterior's sd.
ESS_WARN, ESS_FAIL = 100, 25  # for each chain
# A divergence ends a trajectory early and leaves the posterior invariant; what it can do is keep chains out of a region
# [4, section 6.2], so what counts is where they are. Up to the first share they are too few to keep chains out of
# anything, and above the second the integrator does not follow the density (both ours).
DIVERGENT_WARN, DIVERGENT_FAIL = 0.001, 0.1
# An acceptance in a tail, as a share of that of all steps, and a worth of its draws, as a share of all draws, below
# which the tail is as good as closed (ours).
CLOSED, CLOSED_WORTH = 0.3, 0.1
# [4], section 6.1: below 0.3 is trouble. RStan, following [3], called it at 0.2.
E_BFMI_WARN, E_BFMI_FAIL = 0.3, 0.2
# [5], section 3.1: good below 0.5, usable (after reweighting) below 0.7.
PARETO_WARN, PARETO_FAIL = 0.5, 0.7
# k is the shape of the weights' tail, whatever its size: of weights that hardly differ it says nothing (ours).
_ALIKE = 0.99
# Cut-off trajectories cost time, not correctness; a few during a run are harmless (ours).
SATURATED_WARN = 0.01
# Dual averaging ends within a few hundredths of its target; farther off, tuning was too short (ours).
ACCEPTANCE_GAP = 0.2
# R-hat above which chains are apart, not just slow (Gelman and Rubin 1992).
APART = 1.1
# A range smaller than this, relative to the value, is rounding: the diagonal of a correlation matrix.
CONSTANT = 1e-12

MIN_DRAWS = 4  # halves of two draws
_BATCH = 1 << 20  # draws worked on at a time: 8 MB, which a cache nearly holds


@dataclass(frozen=True)
class Finding:
    """What one check found.

    Parameters
    ----------
    status
        ``pass``, ``warn`` (usable with care) or ``fail`` (do not use).
    check
        The name of the check, such as ``R-hat``.
    where
        The quantity or chain concerned (the worst one), such as ``a[AITKIN]``; may be empty.
    value
        How bad, on the scale of the check; None when there is no finite number for it.
    message, advice
        One line each; a passed check has no advice.
    """

    status: Status
    check: str
    where: str
    value: float | None
    message: str
    advice: str = ""

    def __post_init__(self) -> None:
        value = None if self.value is None or not math.isfinite(self.value) else float(self.value)
        object.__setattr__(self, "value", value)
        for name in ("check", "where", "message", "advice"):
            # They name columns and levels, which come from files.
            object.__setattr__(self, name, printable(getattr(self, name)))


@dataclass(frozen=True)
class Verdict:
    """All findings about a fit; ``status`` is the worst of them."""

    findings: tuple[Finding, ...]

    @property
    def status(self) -> Status:
        """``pass``, ``warn`` or ``fail``; with nothing checked, ``warn``."""
        return max((f.status for f in self.findings), key=_severity, default="warn")

    def to_dict(self) -> dict[str, Any]:
        """Plain data that JSON can hold; :meth:`from_dict` gives the verdict back."""
        return {"status": self.status, "findings": [asdict(finding) for finding in self.findings]}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Verdict:
        return cls(tuple(Finding(**finding) for finding in content["findings"]))

    def __str__(self) -> str:
        width = max((len(f.check) for f in self.findings), default=0)
        lines = [f"{f.status.upper():4}  {f.check:{width}}  {f.message}" for f in self.findings]
        advice = dict.fromkeys(f"→ {f.check}: {f.advice}" for f in self.findings if f.advice)
        return "\n".join([*lines, *advice])

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # IPython in a terminal
        printer.text(str(self))

    def _repr_html_(self) -> str:
        from bayeslab.results.render import verdict_html

        return verdict_html(self)


def _severity(status: Status) -> int:
    return ("pass", "warn", "fail").index(status)


@dataclass(frozen=True)
class Remedies:
    """What can be changed about a model, for advice that is about this one.

    Parameters
    ----------
    rewritable
        Whether its nodes are written by the user, who can write them otherwise.
    centred
        Nodes whose scale is unknown too, so that they would better be that scale times a standard normal.
    """

    rewritable: bool = True
    centred: tuple[str, ...] = ()

    def __call__(self, *others: str) -> str:
        """These remedies, those of hierarchies among them if there are any; one line."""
        return ", or ".join(filter(None, (self.hierarchy, *others)))

    @property
    def hierarchy(self) -> str:
        """How to write a hierarchy that is centred; empty where none is."""
        if not self.centred:
            return ""
        first, more = self.centred[0], len(self.centred) - 1
        others = f" (and {more} more)" if more else ""
        return f"write '{first}'{others} non-centred: its location plus its scale times z, with z: Normal(0, 1)"

    @property
    def otherwise(self) -> str:
        """How to make a posterior easier to walk through."""
        return "reparametrise, or give tighter priors" if self.rewritable else "give tighter priors"


def judge_mcmc(
    data_tree: xr.DataTree,
    *,
    max_treedepth: int = 10,
    target_accept: float | None = None,
    notes: Sequence[Finding] = (),
    rejects: bool = True,
    aside: Collection[str] = (),
    remedies: Remedies | None = None,
) -> Verdict:
    """The verdict on draws of a Markov chain.

    Parameters
    ----------
    data_tree
        With the group ``posterior`` (dimensions ``chain``, ``draw``, ...) and, where the sampler has
        them, the statistics ``diverging``, ``energy``, ``tree_depth``, ``reached_max_treedepth``,
        ``acceptance_rate`` and ``lp`` in ``sample_stats``. Checks without their statistic are left out.
        ``unconstrained_posterior``, if there, are the coordinates in which tails are looked at.
    max_treedepth, target_accept
        The sampler's settings.
    notes
        Findings of others to append, such as that the run was interrupted.
    rejects
        Whether steps are proposals that may be rejected, so that chains in which nothing varies are stuck; draws from
        conditional distributions are then as they should be, if all chains agree.
    aside
        Variables of the posterior that follow from the others and are on the way to the data: their R-hat and ESS are
        not judged.
    remedies
        What can be changed about the model.
    """
    posterior = blocks(data_tree["posterior"].to_dataset())
    judged = [block for block in posterior if block.name not in aside] or posterior
    remedies = remedies or Remedies()
    stats = _stats(data_tree)
    n_chains, n_draws = posterior[0].values.shape[:2] if posterior else (0, 0)
    chains = _chain_names(data_tree)
    findings = [_chains(n_chains, n_draws)]
    if n_draws >= MIN_DRAWS:
        findings += _finite(posterior)
        findings += _convergence_findings(judged, chains, rejects, remedies)
        findings += _heavy(posterior)
    moved = blocks(data_tree["unconstrained_posterior"].to_dataset()) if _has_coordinates(data_tree) else judged
    findings += _hamiltonian_findings(moved, stats, chains, max_treedepth, target_accept, remedies)
    return Verdict((*findings, *notes))


def steps_too_long(coordinates: Sequence[Block], stats: Mapping[str, NDArray[Any]]) -> str | None:
    """Why draws should be drawn again with shorter steps; None where there is no reason.

    Parameters
    ----------
    coordinates
        Draws of the free parameters on the scale on which they were moved.
    stats
        ``diverging`` and ``acceptance_rate``, shape (chain, draw).
    """
    findings = _step_findings(coordinates, stats, _numbered(len(stats["diverging"])), None, Remedies())
    return next((finding.message for finding in findings if finding.status != "pass"), None)


def point_verdict(
    converged: bool, gradient_norm: float, message: str = "", restarts_agree: bool | None = None
) -> Verdict:
    """The verdict on a single best point (MAP).

    Parameters
    ----------
    converged, message
        What the optimiser says about itself.
    gradient_norm
        Norm of the gradient of the log density at the point.
    restarts_agree
        Whether optimisations from other starting points ended at the same point; None if there were none.
    """
    said = f"; the optimiser says: {message}" if message else ""
    if converged and math.isfinite(gradient_norm):
        text = f"a point, not a posterior: no uncertainty is reported (gradient norm {gradient_norm:.2g})"
        findings = [Finding("pass", "optimum", "", gradient_norm, text)]
    else:
        text = f"no optimum was reached (gradient norm {gradient_norm:.2g}){said}"
        advice = "standardise the predictors, give tighter priors, or sample with method nuts"
        findings = [Finding("fail", "optimum", "", gradient_norm, text, advice)]
    if restarts_agree is not None:
        text = "all starting points led to the same optimum"
        if restarts_agree:
            findings.append(Finding("pass", "restarts", "", None, text))
        else:
            text = "other starting points led to other optima; this is the highest one found"
            advice = "sample with method smc, or order interchangeable components with Ordered(...)"
            findings.append(Finding("warn", "restarts", "", None, text, advice))
    return Verdict(tuple(findings))


def judge_approximation(
    log_ratios: Array,
    *,
    resampled: bool = False,
    log_evidence: float | None = None,
    notes: Sequence[Finding] = (),
    advice: str = "sample with method nuts",
) -> Verdict:
    """The verdict on independent draws from an approximation of the posterior.

    Parameters
    ----------
    log_ratios
        Log density of the posterior (up to a constant) minus that of the approximation, at draws of
        the approximation.
    resampled
        Whether the draws reported were chosen from these by their importance weights.
    log_evidence
        The approximation's value of it: worth as much as the approximation.
    notes
        Findings of others to append, such as whether the optimiser converged.
    advice
        What to do where the approximation misses part of the posterior.
    """
    log_weights, k = pareto_smoothed(log_ratios)
    size = 1 / float((np.exp(log_weights) ** 2).sum())
    findings = [_pareto(k, size, log_ratios.size, resampled, advice)]
    nowhere = int((~np.isfinite(log_ratios)).sum())
    if nowhere:
        text = f"{nowhere:,} of {log_ratios.size:,} draws of the approximation lie where the posterior is zero"
        status: Status = "warn" if nowhere < 0.01 * log_ratios.size else "fail"
        findings.append(Finding(status, "support", "", nowhere, text, "" if resampled else "sample with method nuts"))
    if log_evidence is not None:
        usable = k < PARETO_FAIL
        text = f"log evidence {log_evidence:.4f} by the approximation's normaliser"
        text = text if usable else f"{text}: no better than the approximation"
        findings.append(Finding("pass" if usable else "fail", "evidence", "", log_evidence, text))
    return Verdict((*findings, *notes))


def _pareto(k: float, size: float, n: int, resampled: bool, advice: str) -> Finding:
    worth = f"{size:,.0f} of {n:,} draws' worth after reweighting"
    if size > _ALIKE * n:
        text = f"the importance weights are all but equal: the approximation is close to the posterior ({worth})"
        return Finding("pass", "Pareto k", "", k, text)
    if k < PARETO_WARN:
        text = f"{k:.3g} < {PARETO_WARN}: the approximation is close to the posterior ({worth})"
        return Finding("pass", "Pareto k", "", k, text)
    if k < PARETO_FAIL:
        mended = "the draws were reweighted for it" if resampled else "means are usable, tails and sds less so"
        text = f"{k:.3g}, between {PARETO_WARN} and {PARETO_FAIL}: the approximation is rough; {mended} ({worth})"
        return Finding("warn", "Pareto k", "", k, text, "compare with method nuts before relying on intervals")
    text = f"{k:.3g} ≥ {PARETO_FAIL}: the approximation misses part of the posterior ({worth})"
    return Finding("fail", "Pareto k", "", k, text, advice)


def pareto_smoothed(log_ratios: Array) -> tuple[Array, float]:
    """Pareto-smoothed importance weights [6]_.

    Parameters
    ----------
    log_ratios
        Log importance ratios, shape (draw,); -inf for no weight.

    Returns
    -------
    log_weights : ndarray
        Normalised: their exponentials sum to 1.
    k : float
        Shape of the generalised Pareto distribution of the largest ratios: how many moments they
        have is 1/k. 0 when all ratios are equal; inf when there is nothing to fit it to.
    """
    shifted = np.where(np.isnan(log_ratios), -np.inf, log_ratios)
    if not np.isfinite(shifted.max(initial=-np.inf)):
        return np.full(shifted.size, -math.log(max(shifted.size, 1))), math.inf
    shifted = shifted - shifted.max()
    n_tail = min(shifted.size // 5, math.ceil(3 * math.sqrt(shifted.size)))  # [6], algorithm 1
    order = np.argsort(shifted, kind="stable")
    tail = order[shifted.size - n_tail :]
    cutoff = max(float(shifted[order[shifted.size - n_tail - 1]]), math.log(np.finfo(float).tiny))
    excess = np.exp(shifted[tail]) - math.exp(cutoff)
    if -shifted.min() < 1e-9:
        k = 0.0
    elif n_tail < 5 or not excess[0] > 0:
        k = math.inf
    else:
        k, scale = _generalised_pareto(excess)
        p = (np.arange(n_tail) + 0.5) / n_tail
        quantiles = -np.log1p(-p) if k == 0 else np.expm1(-k * np.log1p(-p)) / k
        shifted[tail] = np.minimum(np.log(math.exp(cutoff) + scale * quantiles), 0.0)
    return shifted - np.logaddexp.reduce(shifted), k


def _generalised_pareto(excess: Array) -> tuple[float, float]:
    """Shape and scale for sorted positive values: [7]_, and the prior of [6]_ (appendix C) for the shape.

    [7]_ has the shape with the opposite sign.
    """
    n = excess.size
    m = 30 + int(math.sqrt(n))
    quartile = excess[int(n / 4 + 0.5) - 1]
    theta = 1 / excess[-1] + (1 - np.sqrt(m / (np.arange(1, m + 1) - 0.5))) / (3 * quartile)
    shapes = np.log1p(-theta[:, None] * excess).mean(axis=1)
    log_likelihood = n * (np.log(-theta / shapes) - shapes - 1)
    weights = np.exp(log_likelihood - log_likelihood.max())
    best = float((theta * weights).sum() / weights.sum())
    k = float(np.log1p(-best * excess).mean())
    return (n * k + 10 * 0.5) / (n + 10), -k / best


# The posterior as blocks of plain numbers


@dataclass(frozen=True)
class Block:
    """One variable of a posterior: its draws, and the labels of its elements."""

    name: str
    values: NDArray[Any]  # (chain, draw, *shape)
    levels: tuple[tuple[str, ...], ...]  # for each further dimension

    @property
    def size(self) -> int:
        return math.prod(self.values.shape[2:])

    def label(self, position: int) -> str:
        """Such as ``sigma`` or ``a[AITKIN]``, as ArviZ writes it."""
        if not self.levels:
            return self.name
        index = np.unravel_index(position, self.values.shape[2:])
        return f"{self.name}[{', '.join(names[i] for names, i in zip(self.levels, index, strict=True))}]"


def blocks(dataset: xr.Dataset) -> list[Block]:
    """The numeric variables of a dataset with dimensions ``chain`` and ``draw``, loaded.

    A dimension without labels counts from 0.
    """
    out = []
    for name, variable in dataset.data_vars.items():
        if variable.dtype.kind in "biuf" and {"chain", "draw"} <= set(variable.dims):
            variable = variable.transpose("chain", "draw", ...)
            levels = tuple(tuple(_level(x) for x in variable[dim].values) for dim in variable.dims[2:])
            out.append(Block(str(name), variable.values, levels))
    return [block for block in out if block.size]


def _level(value: Any) -> str:
    if isinstance(value, np.datetime64):
        return str(value).removesuffix(".000000000").removesuffix("T00:00:00")
    return str(value)


def _stats(data_tree: xr.DataTree) -> dict[str, NDArray[Any]]:
    """Sampler statistics as (chain, draw) arrays."""
    if "sample_stats" not in data_tree.children:
        return {}
    dataset = data_tree["sample_stats"].to_dataset()
    return {
        str(name): variable.transpose("chain", "draw").values
        for name, variable in dataset.data_vars.items()
        if set(variable.dims) == {"chain", "draw"} and variable.dtype.kind in "biuf"
    }


def _chain_names(data_tree: xr.DataTree) -> list[str]:
    return [f"chain {_level(x)}" for x in data_tree["posterior"].to_dataset()["chain"].values]


# Statistics of draws; arrays are (quantity, chain, draw) unless said otherwise


@dataclass(frozen=True)
class Convergence:
    """Per quantity; statistics are NaN where ``constant`` or not finite."""

    r_hat: Array
    ess_bulk: Array
    ess_tail: Array
    constant: NDArray[np.bool_]
    all_finite: NDArray[np.bool_]
    still: NDArray[np.bool_]  # (quantity, chain): never moves within the chain

    @property
    def judged(self) -> NDArray[np.bool_]:
        return self.all_finite & ~self.constant


def in_batches(variables: Sequence[Block], statistic: Callable[[Array], Array]) -> Array:
    """Apply ``statistic`` ((quantity, chain, draw) → (quantity, ...)) to all quantities, in threads."""

    def one(pieces: list[NDArray[Any]]) -> Array:
        draws = np.concatenate(pieces, axis=-1).astype(np.float64, copy=False)
        with np.errstate(all="ignore"):
            return statistic(np.ascontiguousarray(np.moveaxis(draws, -1, 0)))

    batches = list(_batches(variables))
    if len(batches) == 1:
        return one(batches[0])
    with ThreadPoolExecutor(min(len(batches), os.cpu_count() or 1)) as pool:
        return np.concatenate(list(pool.map(one, batches)))


def _batches(variables: Sequence[Block]) -> Iterator[list[NDArray[Any]]]:
    n_chains, n_draws = variables[0].values.shape[:2]
    whole = max(1, _BATCH // (n_chains * n_draws))
    batch: list[NDArray[Any]] = []
    room = whole
    for block in variables:
        flat = block.values.reshape(n_chains, n_draws, -1)
        start = 0
        while start < block.size:
            piece = flat[:, :, start : start + room]
            batch.append(piece)
            start, room = start + piece.shape[-1], room - piece.shape[-1]
            if room == 0:
                yield batch
                batch, room = [], whole
    if batch:
        yield batch


def convergence(variables: Sequence[Block]) -> Convergence:
    """R-hat and ESS of every quantity, and whether it varies and is finite."""
    columns = in_batches(variables, _converged)
    r_hat, bulk, tail, constant, every = columns.T[:5]
    return Convergence(r_hat, bulk, tail, constant > 0, every > 0, columns[:, 5:] > 0)


def _converged(draws: Array) -> Array:
    finite = np.isfinite(draws)
    every = finite.all(axis=(1, 2))
    constant = every & is_constant(draws)
    still = draws.max(axis=2) == draws.min(axis=2)
    out = np.full((3, len(draws)), np.nan)
    judged = every & ~constant
    if judged.any():
        kept = draws if judged.all() else draws[judged]
        out[:, judged] = r_hat_and_ess(kept)
    return np.column_stack((*out, constant, every, still))


def is_constant(draws: Array) -> NDArray[np.bool_]:
    """Whether a quantity has the same value in all draws, up to rounding."""
    low, high = draws.min(axis=(1, 2)), draws.max(axis=(1, 2))
    return np.asarray(high - low <= CONSTANT * np.maximum(abs(low), abs(high)))


def r_hat_and_ess(draws: Array) -> tuple[Array, Array, Array]:
    """Rank-normalised split R-hat, bulk ESS and tail ESS of quantities that vary.

    Equal to ArviZ's, with two departures: one chain has an R-hat too (of its halves), and the tail
    ESS is that of the 5 % and 95 % quantiles, as in [1]_ (ArviZ 1.3 takes 11 % and 89 %).
    """
    halves = split(draws)
    flat = halves.reshape(len(halves), -1)
    order = _argsort(flat)
    ordered = flat.take(order)
    bulk = _scores(ordered, order).reshape(halves.shape)

    middle = flat.shape[-1] // 2  # halves of whole chains: the number is even
    median = (ordered[:, middle - 1] + ordered[:, middle]) / 2
    folded = abs(ordered - median[:, None])
    nearest = _argsort(folded, kind="stable")  # two runs to merge
    tails = _scores(folded.take(nearest), order.take(nearest)).reshape(halves.shape)
    # A quantity with two values is constant when folded; fmax passes over the NaN.
    r_hat = np.fmax(_r_hat(bulk), _r_hat(tails))

    if draws.shape[-1] % 2:
        ordered = np.sort(draws.reshape(len(draws), -1), axis=-1)
    tail = [ess(halves <= quantile(ordered, p)[:, None, None]) for p in (0.05, 0.95)]
    return r_hat, ess(bulk), np.minimum(*tail)


def split(draws: Array) -> Array:
    """Every chain as its two halves; a middle draw is left out."""
    half = draws.shape[-1] // 2
    return np.concatenate((draws[..., :half], draws[..., -half:]), axis=1)


def _argsort(rows: Array, kind: Literal["stable"] | None = None) -> NDArray[np.intp]:
    """Places of each row's sorted values in the flattened array (faster to take than along an axis)."""
    return np.argsort(rows, axis=-1, kind=kind) + np.arange(len(rows))[:, None] * rows.shape[-1]


def _scores(ordered: Array, order: NDArray[np.intp]) -> Array:
    """Normal scores of ranks ([1], eq. 14; ties share their mean rank), put back where they came from."""
    n = ordered.shape[-1]
    scores = np.empty_like(ordered)
    flat = scores.reshape(-1)
    flat[order] = _score_table(n)[::2]
    same = ordered[:, 1:] == ordered[:, :-1]
    tied = same.any(axis=-1)
    if tied.any():
        begins = np.pad(~same[tied], ((0, 0), (1, 0)), constant_values=True)
        ends = np.pad(~same[tied], ((0, 0), (0, 1)), constant_values=True)
        place = np.arange(n)
        first = np.maximum.accumulate(np.where(begins, place, 0), axis=-1)
        last = np.minimum.accumulate(np.where(ends, place, n)[:, ::-1], axis=-1)[:, ::-1]
        flat[order[tied]] = _score_table(n)[first + last]
    return scores


@lru_cache(maxsize=4)
def _score_table(n: int) -> Array:
    """Normal scores of the ranks 1, 1.5, 2, ..., n among n, with Blom's offset 3/8."""
    ranks = np.arange(2, 2 * n + 1) / 2
    return np.asarray(ndtri((ranks - 3 / 8) / (n + 1 / 4)))


def _r_hat(halves: Array) -> Array:
    n = halves.shape[-1]
    between = n * halves.mean(axis=-1).var(axis=-1, ddof=1)
    within = halves.var(axis=-1, ddof=1).mean(axis=-1)
    return np.asarray(np.sqrt((between / within + n - 1) / n))


def quantile(ordered: Array, p: float) -> Array:
    place = p * (ordered.shape[-1] - 1)
    low = int(place)
    below, above = ordered[:, low], ordered[:, min(low + 1, ordered.shape[-1] - 1)]
    return np.asarray(below + (above - below) * (place - low))


def ess(series: NDArray[Any]) -> Array:
    """Effective sample size of the mean of each series, over its (split) chains.

    Autocorrelations of all chains together ([1], eq. 10), summed while sums of neighbouring pairs
    stay positive and made monotone [2]_. The details at the end of the sum are those of ArviZ.
    """
    n_chains, n = series.shape[1:]
    size = 1 << (2 * n - 1).bit_length()
    # Measured from one of the draws, lest the rounding of means far from zero be taken for differences of chains.
    series = np.subtract(series, series[:, :1, :1], dtype=float)
    mean = series.mean(axis=-1)
    spectrum = np.fft.rfft(series - mean[:, :, None], n=size)
    power = (spectrum.real**2 + spectrum.imag**2).mean(axis=1)
    covariance = np.fft.irfft(power, n=size)[:, :n] / n
    variance = covariance[:, 0] + (mean.var(axis=-1, ddof=1) if n_chains > 1 else 0.0)
    rho = 1 - (covariance[:, :1] * n / (n - 1) - covariance) / variance[:, None]
    rho[:, 0] = 1

    last_pair = max(0, (n - 1) // 2 - 1)
    pairs = rho[:, 0 : 2 * last_pair + 2 : 2] + rho[:, 1 : 2 * last_pair + 2 : 2]
    ended = pairs <= 0
    stop = np.where(ended.any(axis=-1), ended.argmax(axis=-1), last_pair)
    kept = np.arange(last_pair + 1) < stop[:, None]
    total = np.where(kept, np.minimum.accumulate(pairs, axis=-1), 0).sum(axis=-1)
    rest = np.take_along_axis(rho, 2 * stop[:, None], axis=-1)[:, 0]
    rest = np.where((pairs[:, last_pair] < 0) | (stop < last_pair), np.maximum(rest, 0), rest)
    tau = np.maximum(-1 + 2 * total + rest, 1 / math.log10(n_chains * n))
    return np.asarray(np.where(variance > 0, n_chains * n / tau, n_chains * n))


def e_bfmi(energy: Array) -> Array:
    """Energy Bayesian fraction of missing information of each chain [3]_; ``energy`` is (chain, draw)."""
    return np.asarray((np.diff(energy, axis=1) ** 2).mean(axis=1) / energy.var(axis=1, ddof=1))


# The checks


def _chains(n_chains: int, n_draws: int) -> Finding:
    text = f"{n_chains} {'chain' if n_chains == 1 else 'chains'} of {n_draws:,} draws"
    if n_draws < MIN_DRAWS:
        return Finding("fail", "chains", "", n_chains, f"{text}: too few to judge", "run at least 1000 draws")
    if n_chains == 1:
        text += ": whether another chain would agree cannot be seen"
        return Finding("warn", "chains", "", 1, text, "run 4 chains")
    return Finding("pass", "chains", "", n_chains, text)


def _convergence_findings(
    variables: Sequence[Block], chains: list[str], rejects: bool, remedies: Remedies
) -> Iterator[Finding]:
    found = convergence(variables)
    label = _Labels(variables)
    if not found.judged.any():
        if found.all_finite.any():
            yield _motionless(len(chains), rejects)
        return
    yield from _movement(found, chains)
    yield _r_hat_finding(found, label, remedies)
    longer = bool(np.nanmax(found.r_hat) <= APART)  # more draws do not bring together chains that are apart
    yield _ess_finding("bulk ESS", found.ess_bulk, label, len(chains), longer, remedies)
    yield _ess_finding("tail ESS", found.ess_tail, label, len(chains), longer, remedies)
    if found.constant.any():
        n, first = int(found.constant.sum()), label(int(found.constant.argmax()))
        text = f"{_some(n, len(found.constant))} never vary and are not judged (such as {first})"
        yield Finding("pass", "constant", first, n, text)


class _Labels:
    """Labels of quantities by their number in the order of the blocks; a coordinate of the sampler is *internal*."""

    def __init__(self, variables: Sequence[Block]) -> None:
        self.variables = variables
        self.ends = np.cumsum([block.size for block in variables])

    def place(self, number: int) -> tuple[Block, int]:
        i = int(np.searchsorted(self.ends, number, side="right"))
        block = self.variables[i]
        return block, number - int(self.ends[i]) + block.size

    def __call__(self, number: int) -> str:
        block, position = self.place(number)
        label = block.label(position)
        return f"internal {label.lstrip('_')}" if label.startswith("_") else label


def _finite(variables: Sequence[Block]) -> Iterator[Finding]:
    if not variables:
        return
    label = _Labels(variables)
    finite = in_batches(variables, _share_finite)
    total = len(finite)
    broken, undefined = (finite > 0) & (finite < 1), finite == 0
    if undefined.all():
        advice = "look for a logarithm of 0, a division by 0 or an overflow in the model"
        yield Finding("fail", "finite", label(0), total, "no draw of any quantity is finite", advice)
    elif broken.any():
        where = label(int(broken.argmax()))
        text = f"{_some(int(broken.sum()), total)} have draws that are NaN or infinite (such as {where})"
        advice = f"look at the expression of {where}: a logarithm of 0, a division by 0, an overflow"
        yield Finding("fail", "finite", where, int(broken.sum()), text, advice)
    elif undefined.any():
        where = label(int(undefined.argmax()))
        text = f"{_some(int(undefined.sum()), total)} are NaN or infinite in every draw (such as {where})"
        advice = f"if {where} is not meant to be undefined (as first rows of a lag are), look at its expression"
        yield Finding("warn", "finite", where, int(undefined.sum()), text, advice)


def _share_finite(draws: Array) -> Array:
    return np.asarray(np.isfinite(draws).mean(axis=(1, 2)))


def _movement(found: Convergence, chains: list[str]) -> Iterator[Finding]:
    stuck = [name for name, still in zip(chains, found.still[found.judged].all(axis=0), strict=True) if still]
    if stuck:
        text = f"{', '.join(stuck)} never moved from one point"
        advice = "start from other initial values, tune longer, or raise target_accept"
        yield Finding("fail", "movement", stuck[0], len(stuck), text, advice)


def _motionless(n_chains: int, rejects: bool) -> Finding:
    if rejects:
        text, advice = "no quantity varies: the chains never moved", "start from other initial values"
        return Finding("fail", "movement", "", None, text, advice)
    agree = f", and {n_chains} chains agree" if n_chains > 1 else ""
    return Finding("pass", "movement", "", None, f"no quantity varies{agree}: all else has next to no probability")


def _r_hat_finding(found: Convergence, label: _Labels, remedies: Remedies) -> Finding:
    n_judged = int(found.judged.sum())
    worst = int(np.nanargmax(found.r_hat))
    value, where = float(found.r_hat[worst]), label(worst)
    if value <= R_HAT_WARN:
        text = f"{_all(n_judged)} ≤ {R_HAT_WARN} (worst {value:.3f}, {where})"
        return Finding("pass", "R-hat", where, value, text)
    n_bad = int((found.r_hat > R_HAT_WARN).sum())
    shown = f"{value:.3f}" if value < APART else f"{value:.2f}"
    text = f"{_some(n_bad, n_judged)} > {R_HAT_WARN} (worst {shown}, {where})"
    advice = f"run longer (tune and draws); if that does not help, {remedies(remedies.otherwise)}"
    apart = np.flatnonzero(found.r_hat > APART)
    if apart.size:
        reason, remedy = _why_apart(apart[np.argsort(-found.r_hat[apart])][:100], label, remedies)
        text, advice = text + reason, remedy or advice
    return Finding("warn" if value <= R_HAT_FAIL else "fail", "R-hat", where, value, text, advice)


def _why_apart(numbers: NDArray[np.intp], label: _Labels, remedies: Remedies) -> tuple[str, str]:
    """Why chains disagree: a reason to append and the advice, both empty when each chain is restless too."""
    draws = np.stack([_draws(*label.place(int(number))) for number in numbers])
    n_chains = draws.shape[1]
    if n_chains == 1:
        return "", ""
    with np.errstate(all="ignore"):
        alone = np.stack([r_hat_and_ess(draws[:, [chain]])[0] for chain in range(n_chains)])
    if np.mean(np.fmax.reduce(alone) <= R_HAT_FAIL) < 0.5:
        return "", ""
    apart = "give priors that tell the modes apart"
    for block in {id(b): b for b, _ in (label.place(int(n)) for n in numbers)}.values():
        if _interchangeable(block):
            reason = f"; label switching: chains hold the same values of {block.name} in another order"
            remedy = f"wrap the distribution of {block.name} (or what else tells components apart) in Ordered(...)"
            return reason, remedy if remedies.rewritable else apart
    reason = "; chains sit in different places: several modes or label switching"
    return reason, f"order interchangeable components with Ordered(...), or {apart}" if remedies.rewritable else apart


def _draws(block: Block, position: int) -> Array:
    flat = block.values.reshape(*block.values.shape[:2], -1)
    return np.asarray(flat[:, :, position], dtype=np.float64)


def _interchangeable(block: Block) -> bool:
    """Whether the chains agree once the elements along one dimension are sorted in every draw."""
    shape = block.values.shape
    if not np.isfinite(block.values).all() or block.size > 1000:
        return False
    for axis in range(2, len(shape)):
        if 2 <= shape[axis] <= 20:
            ordered = Block(block.name, np.sort(block.values, axis=axis), ())
            r_hat = convergence([ordered]).r_hat
            if np.isfinite(r_hat).any() and np.nanmax(r_hat) <= R_HAT_FAIL:
                return True
    return False


def _ess_finding(check: str, values: Array, label: _Labels, n_chains: int, longer: bool, remedies: Remedies) -> Finding:
    judged = np.isfinite(values)
    least = int(np.nanargmin(values))
    value, where = float(values[least]), label(least)
    wanted = ESS_WARN * n_chains
    if value >= wanted:
        text = f"{_all(int(judged.sum()))} ≥ {wanted:,} (least {value:,.0f}, {where})"
        return Finding("pass", check, where, value, text)
    error = f"; Monte Carlo error {100 / math.sqrt(value):.0f}% of its sd" if check == "bulk ESS" else ""
    n_bad = int((values[judged] < wanted).sum())
    text = f"{_some(n_bad, int(judged.sum()))} < {wanted:,} (least {value:,.0f}, {where}{error})"
    times = math.ceil(wanted / value)
    slow = "reparametrise what mixes slowly" if remedies.rewritable else "give tighter priors"
    advice = f"run about {times} times as many draws, or {remedies.hierarchy or slow}"
    if times > 20:
        advice = f"more draws alone will not do: {remedies('standardise predictors', remedies.otherwise)}"
    if not longer:
        advice = "follows from R-hat: mend that first"
    return Finding("warn" if value >= ESS_FAIL * n_chains else "fail", check, where, value, text, advice)


def _heavy(variables: Sequence[Block]) -> Iterator[Finding]:
    """Quantities whose mean no number of draws gives."""
    from bayeslab.results._tails import heavy

    shown = [block for block in variables if not block.name.startswith("_") and block.values.dtype.kind == "f"]
    if not shown:
        return
    label, shapes = _Labels(shown), in_batches(shown, heavy)
    if np.isnan(shapes).all():
        return
    worst, n = int(np.nanargmax(shapes)), int(np.isfinite(shapes).sum())
    text = f"{_some(n, len(shapes))} have tails without a variance (Pareto k {shapes[worst]:.2f}, {label(worst)})"
    text += ": their means and sds are not given; medians and intervals are right"
    advice = "report the median and the interval, or give a prior with lighter tails"
    yield Finding("warn", "heavy tails", label(worst), float(shapes[worst]), text, advice)


def _has_coordinates(data_tree: xr.DataTree) -> bool:
    return "unconstrained_posterior" in data_tree.children


def _numbered(n: int) -> list[str]:
    return [f"chain {k}" for k in range(n)]


def _hamiltonian_findings(
    coordinates: Sequence[Block],
    stats: Mapping[str, NDArray[Any]],
    chains: list[str],
    max_treedepth: int,
    target_accept: float | None,
    remedies: Remedies,
) -> Iterator[Finding]:
    if "lp" in stats and not np.isfinite(stats["lp"]).all():
        n = int((~np.isfinite(stats["lp"])).sum())
        text = f"the log density of {n:,} draws is not finite"
        yield Finding("fail", "log density", "", n, text, "look for overflow in the model; give tighter priors")
    yield from _step_findings(coordinates, stats, chains, target_accept, remedies)
    if "energy" in stats and stats["energy"].shape[1] >= MIN_DRAWS:
        yield _energy(stats["energy"], chains, remedies)
    if "reached_max_treedepth" in stats:
        yield _tree_depth(stats["reached_max_treedepth"].astype(bool), chains, max_treedepth)
    elif "tree_depth" in stats:
        yield _tree_depth(stats["tree_depth"] >= max_treedepth, chains, max_treedepth)
    if "acceptance_rate" in stats and target_accept is not None:
        yield from _acceptance(stats["acceptance_rate"], chains, target_accept)


def _step_findings(
    coordinates: Sequence[Block],
    stats: Mapping[str, NDArray[Any]],
    chains: list[str],
    target_accept: float | None,
    remedies: Remedies,
) -> Iterator[Finding]:
    """Whether steps were short enough: divergences, and tails in which they are refused."""
    from bayeslab.results._tails import concentrated, least_accepted

    higher = next((x for x in (0.95, 0.99) if target_accept is None or target_accept < x), None)
    mend = remedies("" if remedies.hierarchy else remedies.otherwise)
    advice = f"raise target_accept to {higher}; if that does not help, {mend}" if higher else mend
    if "diverging" in stats:
        diverging = stats["diverging"].astype(bool)
        edge = concentrated(coordinates, diverging)
        yield _divergences(diverging, chains, _tail_name(edge, coordinates), edge is not None and edge.free, advice)
    if "acceptance_rate" in stats:
        edge = least_accepted(coordinates, np.asarray(stats["acceptance_rate"], dtype=np.float64))
        if edge is not None:
            where, place = _tail_name(edge, coordinates)
            text = (
                f"where {where} is {place}, {_percent(1 - edge.share)} of steps are refused"
                f" ({_percent(1 - edge.everywhere)} of all) and chains stay: the draws may end where steps get too"
                " long, not where the posterior does"
            )
            compared = "compare the intervals with those of target_accept 0.99 and more draws"
            closed = edge.share < CLOSED * edge.everywhere and edge.worth < CLOSED_WORTH
            status: Status = "fail" if closed else "warn"
            yield Finding(status, "tails", where, 1 - edge.share, text, f"{compared}; {mend}")


def _tail_name(edge: Any, coordinates: Sequence[Block]) -> tuple[str, str]:
    """The quantity of a tail on the scale of the model, and which tail; empty if there is none."""
    if edge is None:
        return "", ""
    block, position = _Labels(coordinates).place(edge.number)
    name, kind = re.fullmatch(
        r"(.+?)(?:_(log|interval|logodds|circular|simplex|ordered|[a-z-]+)__)?", block.name
    ).groups()  # type: ignore[union-attr]
    # Other transforms mix the elements of a vector.
    label = block.label(position) if kind in (None, "log", "interval", "logodds") else block.name
    return label.replace(block.name, name, 1), "largest" if edge.upper else "smallest"


def _divergences(
    diverging: NDArray[np.bool_], chains: list[str], tail: tuple[str, str], free: bool, advice: str
) -> Finding:
    n, total = int(diverging.sum()), diverging.size
    if n == 0:
        return Finding("pass", "divergences", "", 0, f"none in {total:,} draws")
    where = chains[int(diverging.sum(axis=1).argmax())]
    text = f"{n:,} of {total:,} draws ({_percent(n / total)})"
    if tail[0]:
        text += f", most where {tail[0]} is {tail[1]}"
        if free and n / total <= DIVERGENT_FAIL:
            text += ", which chains leave and enter freely: what lies beyond may be missing, if it is much"
            return Finding("warn", "divergences", tail[0], n, text, advice)
        return Finding("fail", "divergences", tail[0], n, f"{text}: what lies beyond may be missing", advice)
    if n / total <= DIVERGENT_WARN:
        return Finding("pass", "divergences", where, n, f"{text}, in no one tail: too few to change the answer")
    text += f", most in {where}"
    if n / total > DIVERGENT_FAIL:
        return Finding("fail", "divergences", where, n, text, advice)
    return Finding("warn", "divergences", where, n, f"{text}; in no one tail", advice)


def _energy(energy: NDArray[Any], chains: list[str], remedies: Remedies) -> Finding:
    if not np.isfinite(energy).all():
        text = "some energies are not finite"
        return Finding("fail", "E-BFMI", "", None, text, "look for overflow in the model; give tighter priors")
    with np.errstate(all="ignore"):
        values = e_bfmi(energy.astype(np.float64))
    if not np.isfinite(values).all():
        where = chains[int(np.isnan(values).argmax())]
        return Finding("fail", "E-BFMI", where, None, f"the energy of {where} never changes", "tune longer")
    worst = int(values.argmin())
    value, where = float(values[worst]), chains[worst]
    if value >= E_BFMI_WARN:
        return Finding("pass", "E-BFMI", where, value, f"all chains ≥ {E_BFMI_WARN} (least {value:.2f}, {where})")
    n = int((values < E_BFMI_WARN).sum())
    text = f"{n} of {len(chains)} chains < {E_BFMI_WARN} (least {value:.2f}, {where}): tails may be missed"
    advice = remedies("give scales lighter-tailed priors", "tune longer")
    return Finding("warn" if value >= E_BFMI_FAIL else "fail", "E-BFMI", where, value, text, advice)


def _tree_depth(saturated: NDArray[np.bool_], chains: list[str], max_treedepth: int) -> Finding:
    share = float(saturated.mean())
    if share == 0:
        return Finding("pass", "tree depth", "", 0, f"no trajectory was cut off at depth {max_treedepth}")
    where = chains[int(saturated.sum(axis=1).argmax())]
    text = f"{_percent(share)} of trajectories were cut off at depth {max_treedepth}"
    if share <= SATURATED_WARN:
        return Finding("pass", "tree depth", where, share, text)
    advice = f"standardise the predictors, tune longer, or raise max_treedepth to {max_treedepth + 2}"
    return Finding("warn", "tree depth", where, share, f"{text}, most in {where}: slow, not wrong", advice)


def _acceptance(rates: NDArray[Any], chains: list[str], target_accept: float) -> Iterator[Finding]:
    means = rates.mean(axis=1)
    worst = int(np.argmin(means))
    if not means[worst] >= target_accept - ACCEPTANCE_GAP:
        text = f"{means[worst]:.2f} in {chains[worst]}, far from target_accept {target_accept}"
        yield Finding("warn", "acceptance", chains[worst], float(means[worst]), text, "tune longer")


def _all(n: int) -> str:
    return "the only quantity" if n == 1 else f"all {n:,} quantities"


def _some(n: int, total: int) -> str:
    return f"{n:,} of {total:,} quantities" if total > 1 else "the only quantity"


def _percent(share: float) -> str:
    return f"{100 * share:.2g}%" if share < 0.995 else f"{100 * share:.0f}%"
