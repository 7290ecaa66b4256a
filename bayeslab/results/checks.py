"""The verdict on draws: one finding per check, with the place, the severity and the advice.

A sampler always returns numbers; a few symptoms show when they do not describe the posterior. Chains
that have not mixed disagree about the distribution (R-hat). Autocorrelated draws carry less
information than their number suggests (effective sample size, ESS). Hamiltonian Monte Carlo has
further symptoms: divergences where the curvature of the density is too large for the step size,
tails in which steps are rejected (:mod:`bayeslab.results.tails`), energies that change too slowly
to reach the tails (E-BFMI), and trajectories cut off at the maximum tree depth. These checks can
show that draws are wrong, never that they are right.

The checks cover the free parameters and the quantities that the user named. Intermediate quantities, such as the means
of a thousand rows, follow from the parameters; the largest of a thousand sound R-hats says nothing about the chains.

References
----------
.. [1] Vehtari, Gelman, Simpson, Carpenter, Bürkner (2021). Rank-normalization, folding, and
   localization: an improved R-hat for assessing convergence of MCMC. Bayesian Analysis 16(2),
   667-718. arXiv:1903.08008
.. [2] Betancourt (2016). Diagnosing suboptimal cotangent disintegrations in Hamiltonian Monte
   Carlo. arXiv:1604.00695
.. [3] Betancourt (2018). A conceptual introduction to Hamiltonian Monte Carlo. arXiv:1701.02434
.. [4] Yao, Vehtari, Simpson, Gelman (2018). Yes, but did it work?: Evaluating variational
   inference. ICML, PMLR 80, 5581-5590. arXiv:1802.02538
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bayeslab.labelled import Group
from bayeslab.results.convergence import (
    Array,
    Block,
    Convergence,
    blocks,
    convergence,
    e_bfmi,
    in_batches,
    level,
    r_hat_and_ess,
)
from bayeslab.results.late_chains import late
from bayeslab.results.psis import pareto_smoothed
from bayeslab.results.tails import concentrated, heavy, least_accepted
from bayeslab.results.verdict import Finding, Status, Verdict

if TYPE_CHECKING:
    pass

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
    "short_tail",
    "steps_too_long",
    "warm_up_too_short",
]

# [1], section 4.1: use the draws only if R-hat < 1.01. Our 1.05 lies between that and the 1.1 of
# Gelman and Rubin (1992), which [1] shows to be too lax.
R_HAT_WARN, R_HAT_FAIL = 1.01, 1.05
# [1], section 4.1: 50 for each half of a chain, so that R-hat and the ESS can themselves be trusted.
# With a quarter of that, four chains have a Monte Carlo error of a tenth of the posterior sd.
ESS_WARN, ESS_FAIL = 100, 25  # for each chain
# A divergence ends a trajectory early, which leaves the posterior invariant but can keep chains out of a region
# [3, section 6.2], so the place of divergences matters. Up to the first share they are too few to do so; above the
# second the integrator does not follow the density (both thresholds are ours).
DIVERGENT_WARN, DIVERGENT_FAIL = 0.001, 0.1
# A tail counts as closed if its acceptance rate is below the first share of the overall rate and its effective sample
# size below the second share of the number of draws (ours).
CLOSED, CLOSED_WORTH = 0.3, 0.1
# Share of the posterior that is missing in a tail from which on the draws must not be used (ours).
SHORT_FAIL = 0.1
_COMPARE = "compare the intervals with those of target_accept 0.99 and more draws"
# [3], section 6.1: below 0.3 is trouble. RStan, following [2], called it at 0.2.
E_BFMI_WARN, E_BFMI_FAIL = 0.3, 0.2
# [4], section 3.1: good below 0.5, usable (after reweighting) below 0.7.
PARETO_WARN, PARETO_FAIL = 0.5, 0.7
# k describes the shape of the weights' tail, not its size, so it is meaningless for nearly equal weights (ours).
_ALIKE = 0.99
# Cut-off trajectories cost time, not correctness; a few during a run are harmless (ours).
SATURATED_WARN = 0.01
# Dual averaging ends within a few hundredths of its target; a larger gap means that warm-up was too short (ours).
ACCEPTANCE_GAP = 0.2
# R-hat above which chains are in different regions, not just slow (Gelman and Rubin 1992).
APART = 1.1

MIN_DRAWS = 4  # halves of two draws


@dataclass(frozen=True)
class Remedies:
    """Possible changes to the model, for advice that fits it.

    Parameters
    ----------
    rewritable
        Whether the user wrote the nodes and so can rewrite them.
    centred
        Nodes with a centred parametrisation and an unknown scale, for which a non-centred one is better.
    tempered
        Whether the method smc, which draws from all modes in proportion to their mass, can fit the model.
    """

    rewritable: bool = True
    centred: tuple[str, ...] = ()
    tempered: bool = False

    def __call__(self, *others: str) -> str:
        """The given remedies in one line, with the remedy for hierarchies if one applies."""
        return ", or ".join(filter(None, (self.hierarchy, *others)))

    @property
    def hierarchy(self) -> str:
        """Advice to use a non-centred parametrisation; empty if no node is centred."""
        if not self.centred:
            return ""
        first, more = self.centred[0], len(self.centred) - 1
        others = f" (and {more} more)" if more else ""
        raw = f"{first}_raw"
        return f"write '{first}'{others} non-centred: its location plus its scale times {raw}, with {raw}: Normal(0, 1)"

    @property
    def otherwise(self) -> str:
        """Advice for a posterior geometry that is easier to sample."""
        return "reparametrise, or give tighter priors" if self.rewritable else "give tighter priors"


def judge_mcmc(
    groups: Mapping[str, Group],
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
    groups
        With the group ``posterior`` (dimensions ``chain``, ``draw``, ...) and, where the sampler has
        them, the statistics ``diverging``, ``energy``, ``tree_depth``, ``reached_max_treedepth``,
        ``acceptance_rate`` and ``lp`` in ``sample_stats``. Checks without their statistic are left out.
        ``unconstrained_posterior``, if present, has the coordinates for the checks of tails and first draws.
    max_treedepth, target_accept
        The sampler's settings.
    notes
        Further findings to append, such as that the run was interrupted.
    rejects
        Whether the sampler can reject proposals. If so, a chain in which nothing varies is stuck; if not (Gibbs), it
        is sound as long as all chains agree.
    aside
        Intermediate variables, computed from the others: their R-hat and ESS are not checked.
    remedies
        Possible changes to the model, for the advice.
    """
    posterior = blocks(groups["posterior"])
    variables = [block for block in posterior if block.name not in aside] or posterior
    remedies = remedies or Remedies()
    stats = _stats(groups)
    n_chains, n_draws = posterior[0].values.shape[:2] if posterior else (0, 0)
    chains = [f"chain {level(x)}" for x in groups["posterior"]["chain"].values]
    findings = [_chains(n_chains, n_draws)]
    moved = blocks(groups["unconstrained_posterior"]) if "unconstrained_posterior" in groups else variables
    if n_draws >= MIN_DRAWS:
        findings += _finite(posterior)
        if moved:
            findings += _late(moved, chains)
        findings += _convergence_findings(variables, chains, rejects, remedies)
        findings += _heavy(posterior)
    findings += _hamiltonian_findings(moved, stats, chains, max_treedepth, target_accept, remedies)
    return Verdict((*findings, *notes))


def steps_too_long(coordinates: Sequence[Block], stats: Mapping[str, NDArray[Any]]) -> str | None:
    """The reason to sample again with shorter steps; None if there is none.

    Parameters
    ----------
    coordinates
        Draws of the free parameters on the scale on which they were moved.
    stats
        ``diverging`` and ``acceptance_rate``, shape (chain, draw).
    """
    findings = _step_findings(coordinates, stats, _numbered(len(stats["diverging"])), None, Remedies())
    return next((finding.message for finding in findings if finding.status != "pass"), None)


def short_tail(
    coordinates: Sequence[Block], number: int, upper: bool, mass: float, drawn: float, remedies: Remedies
) -> Finding:
    """The finding about a tail in which draws are missing.

    Parameters
    ----------
    coordinates
        Draws of the free parameters on the scale on which they were moved.
    number, upper
        Index of the parameter, and whether it is the upper tail.
    mass, drawn
        Share of the posterior in the tail, and of the draws.
    remedies
        Possible changes to the model, for the advice.
    """
    where, size = _of_model(number, coordinates), "largest" if upper else "smallest"
    beyond = f"the outermost {_percent(drawn)} of the draws" if drawn > 0 else "all draws"
    text = (
        f"where {where} is {size}, draws are missing: by integration {_percent(mass)} of the posterior lies beyond"
        f" {beyond}"
    )
    status: Status = "fail" if mass - drawn > SHORT_FAIL else "warn"
    return Finding(status, "tails", where, mass, text, f"{_COMPARE}; {remedies(remedies.otherwise)}")


def warm_up_too_short(coordinates: Sequence[Block]) -> str | None:
    """The reason to sample again with a longer warm-up; None if there is none.

    Parameters
    ----------
    coordinates
        Draws of the free parameters on the scale on which they were moved.
    """
    names = _numbered(len(coordinates[0].values))
    return next((finding.message for finding in _late(coordinates, names)), None)


def point_verdict(
    converged: bool, gradient_norm: float, message: str = "", restarts_agree: bool | None = None
) -> Verdict:
    """The verdict on a posterior mode (MAP).

    Parameters
    ----------
    converged, message
        The optimiser's convergence flag and message.
    gradient_norm
        Norm of the gradient of the log density at the point.
    restarts_agree
        Whether optimisations from other start values ended at the same point; None if there were none.
    """
    explanation = f"; the optimiser says: {message}" if message else ""
    if converged and math.isfinite(gradient_norm):
        text = f"a point, not a posterior: no uncertainty is reported (gradient norm {gradient_norm:.2g})"
        findings = [Finding("pass", "optimum", "", gradient_norm, text)]
    else:
        text = f"no optimum was reached (gradient norm {gradient_norm:.2g}){explanation}"
        advice = "standardise predictors where there are any, give tighter priors, or sample with method nuts"
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
        Whether the reported draws were resampled from these by their importance weights.
    log_evidence
        The approximation's estimate of the log evidence, as reliable as the approximation.
    notes
        Further findings to append, such as whether the optimiser converged.
    advice
        Advice for an approximation that misses part of the posterior.
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
    worth = f"{size:,.0f} of {n:,} effective draws after reweighting"
    if size > _ALIKE * n:
        text = f"the importance weights are all but equal: the approximation is close to the posterior ({worth})"
        return Finding("pass", "Pareto k", "", k, text)
    if k < PARETO_WARN:
        text = f"{k:.3g} < {PARETO_WARN}: the approximation is close to the posterior ({worth})"
        return Finding("pass", "Pareto k", "", k, text)
    if k < PARETO_FAIL:
        mended = (
            "the draws were reweighted for it" if resampled else "means are usable; tails and sds are less accurate"
        )
        text = f"{k:.3g}, between {PARETO_WARN} and {PARETO_FAIL}: the approximation is rough; {mended} ({worth})"
        return Finding("warn", "Pareto k", "", k, text, "compare with method nuts before relying on intervals")
    text = f"{k:.3g} ≥ {PARETO_FAIL}: the approximation misses part of the posterior ({worth})"
    return Finding("fail", "Pareto k", "", k, text, advice)


def _stats(groups: Mapping[str, Group]) -> dict[str, NDArray[Any]]:
    """Sampler statistics as (chain, draw) arrays."""
    if "sample_stats" not in groups:
        return {}
    return {
        name: variable.transpose("chain", "draw").values
        for name, variable in groups["sample_stats"].data_vars.items()
        if set(variable.dims) == {"chain", "draw"} and variable.dtype.kind in "biuf"
    }


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
    diagnostics = convergence(variables)
    label = _Labels(variables)
    if not diagnostics.varying.any():
        if diagnostics.all_finite.any():
            yield _motionless(len(chains), rejects)
        return
    yield from _movement(diagnostics, chains)
    # With an odd number of draws, the middle one is in neither half; only it differs.
    if np.isnan(diagnostics.r_hat).all():
        text = "no quantity varies within halves of chains: there is no R-hat"
        yield Finding("warn", "R-hat", "", None, text, "run longer (tune and draws)")
        return
    yield _r_hat_finding(diagnostics, label, remedies)
    longer = bool(np.nanmax(diagnostics.r_hat) <= APART)  # more draws do not merge chains in different regions
    yield _ess_finding("bulk ESS", diagnostics.ess_bulk, label, len(chains), longer, remedies)
    yield _ess_finding("tail ESS", diagnostics.ess_tail, label, len(chains), longer, remedies)
    if diagnostics.constant.any():
        n, first = int(diagnostics.constant.sum()), label(int(diagnostics.constant.argmax()))
        text = f"{_some(n, len(diagnostics.constant))} are constant and were not checked (such as {first})"
        yield Finding("pass", "constant", first, n, text)


def _late(variables: Sequence[Block], chains: list[str]) -> Iterator[Finding]:
    """Findings about chains that reached the region of the others only after the warm-up."""
    runs = in_batches(variables, late)
    if not np.any(runs > 0):
        return
    number, chain = np.unravel_index(int(np.argmax(runs)), runs.shape)
    length, where = int(runs[number, chain]), _of_model(int(number), variables)
    text = (
        f"the first {length:,} draws of {chains[chain]} lie in a region to which no chain returns (shown by '{where}'):"
        " its warm-up was too short"
    )
    yield Finding("fail", "warm-up", where, length, text, "give chains a longer warm-up (tune)")


class _Labels:
    """Labels of quantities by their index in the order of the blocks; the sampler's coordinates are *internal*."""

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
        advice = "check the model for a logarithm of 0, a division by 0 or an overflow"
        yield Finding("fail", "finite", label(0), total, "no draw of any quantity is finite", advice)
    elif broken.any():
        where = label(int(broken.argmax()))
        text = f"{_some(int(broken.sum()), total)} have draws that are NaN or infinite (such as {where})"
        advice = f"check the expression of {where} for a logarithm of 0, a division by 0 or an overflow"
        yield Finding("fail", "finite", where, int(broken.sum()), text, advice)
    elif undefined.any():
        where = label(int(undefined.argmax()))
        text = f"{_some(int(undefined.sum()), total)} are NaN or infinite in every draw (such as {where})"
        advice = f"unless {where} is undefined by design (such as the first rows of a lag), check its expression"
        yield Finding("warn", "finite", where, int(undefined.sum()), text, advice)


def _share_finite(draws: Array) -> Array:
    return np.asarray(np.isfinite(draws).mean(axis=(1, 2)))


def _movement(diagnostics: Convergence, chains: list[str]) -> Iterator[Finding]:
    stuck = [
        name for name, still in zip(chains, diagnostics.still[diagnostics.varying].all(axis=0), strict=True) if still
    ]
    if stuck:
        text = f"{', '.join(stuck)} never moved from one point"
        advice = "start from other initial values, tune longer, or raise target_accept"
        yield Finding("fail", "movement", stuck[0], len(stuck), text, advice)


def _motionless(n_chains: int, rejects: bool) -> Finding:
    if rejects:
        text, advice = "no quantity varies: the chains never moved", "start from other initial values"
        return Finding("fail", "movement", "", None, text, advice)
    agree = f", and {n_chains} chains agree" if n_chains > 1 else ""
    return Finding("pass", "movement", "", None, f"no quantity varies{agree}: other values have negligible probability")


def _r_hat_finding(diagnostics: Convergence, label: _Labels, remedies: Remedies) -> Finding:
    n_varying = int(diagnostics.varying.sum())
    worst = int(np.nanargmax(diagnostics.r_hat))
    value, where = float(diagnostics.r_hat[worst]), label(worst)
    if value <= R_HAT_WARN:
        text = f"{_all(n_varying)} ≤ {R_HAT_WARN} (worst {value:.3f}, {where})"
        return Finding("pass", "R-hat", where, value, text)
    n_bad = int((diagnostics.r_hat > R_HAT_WARN).sum())
    shown = f"{value:.3f}" if value < APART else f"{value:.2f}"
    text = f"{_some(n_bad, n_varying)} > {R_HAT_WARN} (worst {shown}, {where})"
    advice = f"run longer (tune and draws); if that does not help, {remedies(remedies.otherwise)}"
    apart = np.flatnonzero(diagnostics.r_hat > APART)
    if apart.size:
        reason, remedy = _why_apart(apart[np.argsort(-diagnostics.r_hat[apart])][:100], label, remedies)
        text, advice = text + reason, remedy or advice
    return Finding("warn" if value <= R_HAT_FAIL else "fail", "R-hat", where, value, text, advice)


def _why_apart(numbers: NDArray[np.intp], label: _Labels, remedies: Remedies) -> tuple[str, str]:
    """Why chains disagree: the reason and the advice, both empty if single chains have not converged either."""
    draws = np.stack([_draws(*label.place(int(number))) for number in numbers])
    n_chains = draws.shape[1]
    if n_chains == 1:
        return "", ""
    with np.errstate(all="ignore"):
        alone = np.stack([r_hat_and_ess(draws[:, [chain]])[0] for chain in range(n_chains)])
    if np.mean(np.fmax.reduce(alone) <= R_HAT_FAIL) < 0.5:
        return "", ""
    apart = "give priors that tell the modes apart"
    blocks = {id(block): block for block, _ in (label.place(int(number)) for number in numbers)}.values()
    # Shares last: another node is easier to put in order.
    for block in sorted(blocks, key=_are_shares):
        if _interchangeable(block):
            reason = f"; label switching: chains hold the same values of {block.name} in another order"
            remedy = f"wrap the distribution of {block.name} in Ordered(...), so that a component has one place"
            return reason, remedy if remedies.rewritable else apart
    reason = "; chains sit in different places: several modes or label switching"
    ways = ["take method smc"] * remedies.tempered
    ways += ["order interchangeable components with Ordered(...)"] * remedies.rewritable
    return reason, ", or ".join(filter(None, (", ".join(ways), apart)))


def _draws(block: Block, position: int) -> Array:
    flat = block.values.reshape(*block.values.shape[:2], -1)
    return np.asarray(flat[:, :, position], dtype=np.float64)


def _are_shares(block: Block) -> bool:
    """Whether every draw sums to one along the last dimension."""
    return block.values.ndim > 2 and bool(np.allclose(block.values.sum(axis=-1), 1))


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
    finite = np.isfinite(values)
    least = int(np.nanargmin(values))
    value, where = float(values[least]), label(least)
    wanted = ESS_WARN * n_chains
    if value >= wanted:
        text = f"{_all(int(finite.sum()))} ≥ {wanted:,} (least {value:,.0f}, {where})"
        return Finding("pass", check, where, value, text)
    error = f"; Monte Carlo error {100 / math.sqrt(value):.0f}% of its sd" if check == "bulk ESS" else ""
    n_bad = int((values[finite] < wanted).sum())
    text = f"{_some(n_bad, int(finite.sum()))} < {wanted:,} (least {value:,.0f}, {where}{error})"
    times = math.ceil(wanted / value)
    slow = "reparametrise what mixes slowly" if remedies.rewritable else "give tighter priors"
    advice = f"run about {times} times as many draws, or {remedies.hierarchy or slow}"
    if times > 20:
        advice = f"more draws alone will not do: {remedies('standardise predictors', remedies.otherwise)}"
    if not longer:
        advice = "a consequence of R-hat: correct that first"
    return Finding("warn" if value >= ESS_FAIL * n_chains else "fail", check, where, value, text, advice)


def _heavy(variables: Sequence[Block]) -> Iterator[Finding]:
    """Findings about quantities with tails too heavy for a Monte Carlo estimate of the mean."""
    shown = [block for block in variables if not block.name.startswith("_") and block.values.dtype.kind == "f"]
    if not shown:
        return
    label, shapes = _Labels(shown), in_batches(shown, heavy)
    if np.isnan(shapes).all():
        return
    worst, n = int(np.nanargmax(shapes)), int(np.isfinite(shapes).sum())
    text = f"{_some(n, len(shapes))} have tails without a variance (Pareto k {shapes[worst]:.2f}, {label(worst)})"
    text += ": they have no mean and sd; medians and intervals are valid"
    advice = "report the median and the interval, or give a prior with lighter tails"
    yield Finding("warn", "heavy tails", label(worst), float(shapes[worst]), text, advice)


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
        yield Finding("fail", "log density", "", n, text, "check the model for overflow; give tighter priors")
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
    """Findings about steps that are too long: divergences, and tails in which proposals are rejected."""
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
                f"where {where} is {place}, {_percent(1 - edge.share)} of steps are rejected"
                f" ({_percent(1 - edge.everywhere)} overall) and chains stay long: steps are too long there, and the"
                " posterior may extend beyond the draws"
            )
            closed = edge.share < CLOSED * edge.everywhere and edge.worth < CLOSED_WORTH
            status: Status = "fail" if closed else "warn"
            yield Finding(status, "tails", where, 1 - edge.share, text, f"{_COMPARE}; {mend}")


def _tail_name(edge: Any, coordinates: Sequence[Block]) -> tuple[str, str]:
    """The model quantity that belongs to a tail, and which tail it is; empty if there is none."""
    if edge is None:
        return "", ""
    return _of_model(edge.number, coordinates), "largest" if edge.upper else "smallest"


def _of_model(number: int, coordinates: Sequence[Block]) -> str:
    """The label of the model quantity that belongs to a coordinate of the sampler."""
    labels = _Labels(coordinates)
    block, position = labels.place(number)
    name, kind = re.fullmatch(
        r"(.+?)(?:_(log|interval|logodds|circular|simplex|ordered|[a-z-]+)__)?", block.name
    ).groups()  # type: ignore[union-attr]
    if kind is None:
        return labels(number)
    # Other transforms mix the elements of a vector.
    label = block.label(position) if kind in ("log", "interval", "logodds") else block.name
    return label.replace(block.name, name, 1)


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
            text += ", a region that chains enter and leave freely; posterior mass beyond it may be missing"
            return Finding("warn", "divergences", tail[0], n, text, advice)
        return Finding("fail", "divergences", tail[0], n, f"{text}: posterior mass beyond it may be missing", advice)
    if n / total <= DIVERGENT_WARN:
        return Finding(
            "pass", "divergences", where, n, f"{text}, not concentrated in a tail: too few to change the answer"
        )
    text += f", most in {where}"
    if n / total > DIVERGENT_FAIL:
        return Finding("fail", "divergences", where, n, text, advice)
    return Finding("warn", "divergences", where, n, f"{text}; not concentrated in a tail", advice)


def _energy(energy: NDArray[Any], chains: list[str], remedies: Remedies) -> Finding:
    if not np.isfinite(energy).all():
        text = "some energies are not finite"
        return Finding("fail", "E-BFMI", "", None, text, "check the model for overflow; give tighter priors")
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
    advice = f"standardise predictors where there are any, tune longer, or raise max_treedepth to {max_treedepth + 2}"
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
