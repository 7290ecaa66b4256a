"""Checks that every reported quantity is finite, whatever the engine."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from bayeslab.labelled import Group
from bayeslab.results.convergence import Block, blocks
from bayeslab.results.verdict import Finding, Verdict

__all__ = ["with_finite"]

_ADVICE = "check the data and priors for quantities that the data cannot determine, such as the sd of a single row"


def with_finite(verdict: Verdict, groups: Mapping[str, Group], *, undefined: bool = False) -> Verdict:
    """The verdict with findings about NaN and infinite values, unless the engine has already checked for them.

    Parameters
    ----------
    verdict
        The engine's verdict.
    groups
        The groups of the result: draws or points in ``posterior``, moments and quantiles in ``exact_posterior``.
    undefined
        Whether the model may compute undefined quantities on purpose, such as the first rows of a lag. If so,
        quantities that are undefined in every draw only cause a warning.
    """
    out: list[Finding] = []
    if "posterior" in groups and not any(finding.check == "finite" for finding in verdict.findings):
        out += _of_draws(blocks(groups["posterior"]), undefined=undefined)
    if "exact_posterior" in groups:
        out += _of_moments(groups["exact_posterior"])
    return Verdict((*verdict.findings, *out)) if out else verdict


def _of_draws(quantities: list[Block], *, undefined: bool) -> list[Finding]:
    total = 0
    broken: list[str] = []
    never: list[str] = []
    for block in quantities:
        total += block.size
        values = np.asarray(block.values)
        if values.dtype.kind != "f":
            continue
        finite = np.isfinite(values).reshape(*values.shape[:2], -1)
        some, every = finite.any(axis=(0, 1)), finite.all(axis=(0, 1))
        broken += [block.label(int(k)) for k in np.flatnonzero(some & ~every)]
        never += [block.label(int(k)) for k in np.flatnonzero(~some)]
    if broken or (never and not undefined):
        bad = [*broken, *([] if undefined else never)]
        text = f"{len(bad)} of {total} quantities are NaN or infinite (such as {bad[0]})"
        return [Finding("fail", "finite", bad[0], len(bad), text, _ADVICE)]
    if never:
        text = f"{len(never)} of {total} quantities are NaN or infinite in every draw (such as {never[0]})"
        advice = f"unless {never[0]} is undefined by design, check its expression"
        return [Finding("warn", "finite", never[0], len(never), text, advice)]
    return []


def _of_moments(exact: Group) -> list[Finding]:
    """Findings about exact moments: quantiles must be finite; a mean or standard deviation may be infinite."""
    out: list[Finding] = []
    evidence = exact.attrs.get("log_evidence")
    if evidence is not None and not np.isfinite(evidence):
        text = f"the log evidence is {evidence}: the data have probability zero, or a density that is infinite"
        out.append(Finding("fail", "evidence", "", None, text, _ADVICE))
    if "statistic" not in exact.coords:
        return out
    lost, heavy = [], []
    for name, array in exact.data_vars.items():
        if "statistic" not in array.dims or array.dtype.kind != "f":
            continue
        finite = np.isfinite(array.transpose("statistic", ...).to_numpy())
        moments = np.isin(exact["statistic"].to_numpy(), ("mean", "sd"))
        if not finite[~moments].all():
            lost.append(str(name))
        elif not finite[moments].all():
            heavy.append(str(name))
    if lost:
        text = f"quantiles of {', '.join(lost)} are NaN or infinite"
        out.append(Finding("fail", "finite", lost[0], len(lost), text, _ADVICE))
    if heavy:
        text = f"the posterior of {', '.join(heavy)} has no finite mean or standard deviation"
        advice = "use its median and intervals; with more data or tighter priors it has moments"
        out.append(Finding("warn", "moments", heavy[0], len(heavy), text, advice))
    return out
