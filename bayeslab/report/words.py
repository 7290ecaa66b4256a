"""Paragraphs of a report, written from the numbers of a fit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from bayeslab.errors import BayeslabError
from bayeslab.report.checks import VERDICTS
from bayeslab.report.contract import Reported, record
from bayeslab.results.render import More, Row, Table, headings, lines_of
from bayeslab.results.structures import structures_of
from bayeslab.results.topics import topics_of

__all__ = ["REFERENCES", "Size", "headline", "methods", "seconds", "size_of"]

_QUANTITIES, _EDGES, _TOPICS, _WORDS = 3, 3, 3, 4

REFERENCES = {
    "nuts": "Hoffman, Gelman (2014). The No-U-Turn Sampler. Journal of Machine Learning Research 15, 1593-1623.",
    "r_hat": "Vehtari, Gelman, Simpson, Carpenter, Bürkner (2021). Rank-normalization, folding, and localization: an"
    " improved R-hat for assessing convergence of MCMC. Bayesian Analysis 16(2), 667-718.",
    "advi": "Kucukelbir, Tran, Ranganath, Gelman, Blei (2017). Automatic differentiation variational inference."
    " Journal of Machine Learning Research 18(14), 1-45.",
    "pathfinder": "Zhang, Carpenter, Gelman, Vehtari (2022). Pathfinder: parallel quasi-Newton variational inference."
    " Journal of Machine Learning Research 23(306), 1-49.",
    "smc": "Del Moral, Doucet, Jasra (2006). Sequential Monte Carlo samplers. Journal of the Royal Statistical"
    " Society B 68(3), 411-436.",
    "laplace": "Tierney, Kadane (1986). Accurate approximations for posterior moments and marginal densities. Journal"
    " of the American Statistical Association 81, 82-86.",
    "em": "Dempster, Laird, Rubin (1977). Maximum likelihood from incomplete data via the EM algorithm. Journal of"
    " the Royal Statistical Society B 39(1), 1-38.",
    "gibbs": "Gelfand, Smith (1990). Sampling-based approaches to calculating marginal densities. Journal of the"
    " American Statistical Association 85, 398-409.",
    "structure": "Madigan, York (1995). Bayesian graphical models for discrete data. International Statistical Review"
    " 63, 215-232.",
    "predictive": "Gelman, Meng, Stern (1996). Posterior predictive assessment of model fitness via realized"
    " discrepancies. Statistica Sinica 6(4), 733-807.",
    "pymc": "Abril-Pla et al. (2023). PyMC: a modern and comprehensive probabilistic programming framework in Python."
    " PeerJ Computer Science 9, e1516.",
}

_METHODS = {
    "nuts": "sampled by Hamiltonian Monte Carlo with the No-U-Turn sampler",
    "exact": "computed exactly, up to numerical integration where a quantity has no closed form",
    "em": "maximised by the EM algorithm",
    "gibbs": "sampled by Gibbs sampling",
    "map": "maximised; the estimate is the posterior mode",
    "laplace": "approximated by a normal distribution at its mode (Laplace approximation)",
    "advi": "approximated by automatic differentiation variational inference",
    "pathfinder": "approximated by Pathfinder",
    "smc": "sampled by sequential Monte Carlo",
    "grid": "computed on a grid",
    "variational": "approximated by variational inference",
    "loopy": "approximated by loopy belief propagation",
    "structure": "sampled by Markov chain Monte Carlo over directed acyclic graphs",
    "train": "trained",
}


# Methods that use the PyMC graph of a model.
_OF_GRAPHS = ("nuts", "advi", "laplace", "map", "pathfinder", "smc")


@dataclass(frozen=True)
class Size:
    """The size of a fit in words."""

    rows: str
    draws: str


def size_of(fit: Reported) -> Size:
    """The rows of the data, and the chains and draws of the posterior."""
    rows = fit.data.dataset.rows
    n = fit.data.n_rows
    along = "" if rows == "obs_id" else f" ({rows})"
    sizes = fit.posterior.sizes
    chains, draws = sizes["chain"], sizes["draw"]
    made = f"{chains} chain{'s' * (chains > 1)} of {draws:,} draws" if chains * draws > 1 else "one point"
    return Size(f"{n:,} row{'s' * (n != 1)}{along}" if n else "", made)


def headline(fit: Reported, frame: pd.DataFrame) -> str:
    """A paragraph with the model and data, the verdict, and the first results."""
    size, verdict = size_of(fit), fit.verdict
    to = f" to {size.rows}" if size.rows else ""
    what = f"The model {fit.model.name}, of the family {fit.model.model.family},"
    out = [f"{what} was fitted{to} by the method {fit.method}."]
    flawed = [finding.check for finding in verdict.findings if finding.status != "pass"]
    n = len(verdict.findings)
    if not n:
        out.append("There were no checks.")
    elif flawed:
        names = list(dict.fromkeys(flawed))
        shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
        out.append(
            f"The verdict is {verdict.status}: {VERDICTS[verdict.status]}; {len(flawed)} of {n} checks did not pass"
            f" ({shown})."
        )
    else:
        out.append(
            f"The verdict is pass: {VERDICTS['pass']}; {'all ' if n > 1 else ''}{n} check{'s' * (n > 1)} passed."
        )
    if fit.has_group("parent_sets"):
        out.append(_edges(fit))
    else:
        out.append(_largest_topics(fit) if fit.bound_model.view == "topics" else _first_rows(fit, frame))
    return " ".join(part for part in out if part)


def _edges(fit: Reported) -> str:
    try:
        edges = structures_of(record(fit)).edges()
    except BayeslabError:
        return ""
    rows = edges.head(_EDGES).to_dict("records")
    words = [f"{row['source']} → {row['target']} ({row['probability']:.2f})" for row in rows]
    return f"The most probable edges, with their probabilities, are {', '.join(words)}." if words else ""


def _largest_topics(fit: Reported) -> str:
    try:
        topics = topics_of(record(fit)).rows(_WORDS)
    except BayeslabError:
        return ""
    largest = sorted(topics, key=lambda topic: -topic["share"])[:_TOPICS]
    words = [f"{' '.join(word for word, *_ in topic['words'])} ({topic['share']:.0%})" for topic in largest]
    return f"The largest topics, with their shares of all words, are: {'; '.join(words)}."


def _first_rows(fit: Reported, frame: pd.DataFrame) -> str:
    """A sentence with the main parameters of the model, or the first quantities of the summary, scalars first."""
    if not len(frame):
        return ""
    names = [label.partition("[")[0] for label in frame.index.astype(str)]
    main = [i for word in fit.bound_model.main_parameters() for i, name in enumerate(names) if name == word]
    table = Table.of(frame.iloc[main] if main else frame)
    head, out = headings(table), list[str]()
    for line in lines_of(table, 12):
        if isinstance(line, More) or len(out) == _QUANTITIES:
            break
        out.append(_quantity(line, head))
    more = len(frame) - len(out)
    others = f"; {more:,} more {'is' if more == 1 else 'are'} below" if more > 0 else ""
    return f"Results: {'; '.join(out)}{others}."


def _quantity(line: Row, head: list[str]) -> str:
    cells = dict(zip(head, (cell.text for cell in line.cells), strict=True))
    middle = cells.get("mean", "–")
    if middle in ("–", "nan"):
        middle = cells.get("median", cells.get("value", line.cells[0].text))
    if "5.5%" in cells:
        return f"{line.label} is {middle} (89 % credible interval {cells['5.5%']} to {cells['94.5%']})"
    return f"{line.label} is {middle}"


def methods(fit: Reported, *, checked: bool, intervals: bool) -> tuple[str, list[str]]:
    """A paragraph for a methods section, and its references.

    Parameters
    ----------
    checked
        Whether the report has predictive checks.
    intervals
        Whether it has credible intervals.
    """
    size, versions, options = size_of(fit), fit.info.get("versions", {}), fit.info.get("options", {})
    used = [REFERENCES[fit.method]] if fit.method in REFERENCES else []
    to = f" to {size.rows} of data" if size.rows else ""
    family = fit.model.model.family
    out = [f"We fitted the model {fit.model.name} (family {family}){to} with bayeslab {versions.get('bayeslab', '')}."]
    what = "The model" if fit.model.model.is_learner else "The posterior"
    how = _METHODS.get(fit.method, f"obtained by the method {fit.method}")
    tune = options.get("tune")
    warm = f" after {tune:,} warm-up draws each" if isinstance(tune, int) else ""
    out.append(
        f"{what} was {how}{'' if size.draws == 'one point' else f', with {size.draws}{warm}'} (seed {fit.seed})."
    )
    if any(finding.check == "R-hat" for finding in fit.verdict.findings):
        out.append("Convergence was assessed by rank-normalised split R-hat and effective sample sizes.")
        used.append(REFERENCES["r_hat"])
    if checked:
        out.append("The fit was assessed by posterior predictive checks.")
        used.append(REFERENCES["predictive"])
    if intervals:
        out.append("Intervals are equal-tailed credible intervals.")
    flawed = sum(finding.status != "pass" for finding in fit.verdict.findings)
    n = len(fit.verdict.findings)
    out.append(f"The verdict on the computation was {fit.verdict.status} ({n - flawed} of {n} checks passed).")
    if "pymc" in versions and fit.method in _OF_GRAPHS:
        used.append(REFERENCES["pymc"])
    return " ".join(out), used


def seconds(value: float) -> str:
    """A time in words."""
    if not np.isfinite(value):
        return "unknown"
    return f"{value:.2g} s" if value < 10 else f"{value:,.0f} s"
