"""The page: the sections of one or more runs in a self-contained HTML file."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from bayeslab.decisions.influence import InfluenceDiagram
from bayeslab.errors import BayeslabError
from bayeslab.networks import Network, network
from bayeslab.report import (
    comparison,
    data,
    decisions,
    downloads,
    effects,
    explorer,
    family,
    judgement,
    model,
    posterior,
    predictive,
    reproduce,
    sampler,
    unfinished,
)
from bayeslab.report.contract import Reported
from bayeslab.report.markup import Markup, element, joined, paragraph
from bayeslab.report.priors import priors_of
from bayeslab.report.style import SCRIPT, STYLE
from bayeslab.report.words import headline
from bayeslab.results.rope import Regions

__all__ = ["BrokenRun", "document", "explorer_of", "html_of"]


class BrokenRun:
    """A run that cannot be opened.

    Parameters
    ----------
    path
        The run folder.
    error
        The error that opening it raised.
    """

    def __init__(self, path: Path, error: BayeslabError) -> None:
        self.path, self.error = path, error


def html_of(runs: Mapping[str, Reported | BrokenRun], rope: Regions | None = None) -> str:
    """The report of one or more runs as the text of an HTML file.

    Parameters
    ----------
    runs
        The runs by name, in the order of the page.
    rope
        Regions of practical equivalence, as for :meth:`bayeslab.results.fit.Fit.summary`.
    """
    several = len(runs) > 1
    anchors = {name: f"run-{k}" for k, name in enumerate(runs, 1)}
    fits = {name: run for name, run in runs.items() if not isinstance(run, BrokenRun)}
    parts = []
    if several:
        parts.append(element("header", element("h1", f"{len(runs)} runs")))
        broken = [name for name in runs if name not in fits]
        listed = [element("li", element("a", name, href=f"#{anchors[name]}"), " has no result") for name in broken]
        parts += [element("ul", *listed)] if listed else []
        if fits:
            inside = comparison.section(fits, anchors)
            parts.append(element("section", element("h2", "Comparison"), inside, id="comparison"))
    for name, run in runs.items():
        if isinstance(run, BrokenRun):
            inside = unfinished.article(run.path, run.error)
        else:
            inside = _article(run, name if several else "", anchors[name], len(runs), rope)
        parts.append(element("article", inside, id=anchors[name]))
    title = f"{', '.join(runs)}: report" if len(runs) < 4 else f"{len(runs)} runs: report"
    return document(title, joined(parts, "\n"))


def explorer_of(source: Reported | Network | InfluenceDiagram) -> str:
    """The page to click on of a fit, a network or an influence diagram, as the text of an HTML file.

    Raises
    ------
    OptionError, DataError, EngineRefusal
        The model is no Bayes net and has no expected outcome as a function of columns, or is too large for a page.
    """
    if isinstance(source, InfluenceDiagram):
        title, panel = source.name, decisions.decisions_panel(source)
    elif isinstance(source, Network):
        title, panel = source.name, explorer.network_panel(source)
    elif source.bound_model.view == "network":
        title, panel = source.model.name, explorer.network_panel(network(source))
    else:
        title, panel = source.model.name, effects.explorer(source)
    return document(title, joined([element("h1", title), panel]))


def _article(fit: Reported, name: str, anchor: str, n_runs: int, rope: Regions | None) -> Markup:
    """The sections of a run."""
    quantities = posterior.quantities_of(fit, rope)
    checked = predictive.section(fit)
    heading, picture = family.section(fit)
    intervals = "eti89_lb" in quantities.frame
    files = downloads.section(fit, quantities, n_runs)
    first = "Scores" if fit.model.model.is_learner else "Posterior"
    sections = [
        ("Verdict", judgement.section(fit.verdict)),
        (first, posterior.section(quantities, priors_of(fit), n_runs)),
        (heading, picture),
        ("Effects", effects.section(fit)),
        ("Fit to the data", checked.content),
        ("Model", model.section(fit)),
        ("Data", data.section(fit)),
        ("Sampler", sampler.section(fit, quantities)),
        ("Reproduce", joined([reproduce.section(fit, checked=checked.checked, intervals=intervals), files])),
    ]
    present = [(word, inside) for word, inside in sections if inside]
    status = fit.verdict.status
    shown = f"{name}: {fit.model.name}" if name and name != fit.model.name else fit.model.name
    head = [element("h1", shown, " ", judgement.badge(status.upper(), status))]
    head += [paragraph(fit.model.about)] if fit.model.about else []
    head.append(paragraph(headline(fit, quantities.frame), class_="lead"))
    ids = [f"{anchor}-{word.lower().replace(' ', '-')}" for word, _ in present]
    links = [element("li", element("a", word, href=f"#{at}")) for (word, _), at in zip(present, ids, strict=True)]
    head.append(element("nav", element("ul", *links), aria_label="sections"))
    body = [
        element("section", element("h2", word), inside, id=at) for (word, inside), at in zip(present, ids, strict=True)
    ]
    return joined([element("header", *head), *body], "\n")


def document(title: str, body: Markup) -> str:
    """The HTML file. It loads nothing: its content security policy allows only the embedded script, styles and images.

    Inline styles are allowed because the SVG files of matplotlib have them.
    """
    digest = b64encode(sha256(SCRIPT.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:; base-uri 'none';"
        " form-action 'none'"
    )
    head = [
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", title),
        element("style", Markup(STYLE)),
    ]
    script = element("script", Markup(SCRIPT))
    page = element(
        "html", element("head", *head), "\n", element("body", element("main", body), "\n", script), lang="en"
    )
    return f"<!doctype html>\n{page}\n"
