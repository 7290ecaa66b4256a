"""The section with the model: its graph, its priors and its file."""

from __future__ import annotations

from bayeslab.errors import BayeslabError
from bayeslab.language.model_file import dump
from bayeslab.plots.graph_svg import model_svg
from bayeslab.report.contract import Reported, record
from bayeslab.report.markup import EMPTY, Markup, details, element, joined, paragraph, table
from bayeslab.report.priors import priors_of
from bayeslab.results.structures import structures_of

__all__ = ["file_text", "section"]

# Maximum number of nodes in a drawing, of priors, and of characters of the model file.
_NODES, _PRIORS, _LETTERS = 150, 400, 100_000


def section(fit: Reported) -> Markup:
    """The content of the section."""
    return joined([_graph(fit), _priors(fit), _file(fit)])


def _graph(fit: Reported) -> Markup:
    try:
        network = fit.bound_model.network()
        if fit.has_group("parent_sets"):
            network.add_edges_from(structures_of(record(fit)).consensus().edges)
        if len(network) > _NODES:
            return paragraph(f"The graph has {len(network):,} nodes, too many to draw.", class_="mute")
        # The drawing escapes all names.
        drawn = Markup(model_svg(network, title=fit.model.name))
    except (BayeslabError, ValueError):
        return paragraph("The graph of this model cannot be drawn.", class_="mute")
    shapes = "Ellipses are random, shaded ones observed; dashed boxes are computed; frames repeat along a dimension."
    return element(
        "figure",
        element("div", drawn, class_="graph", tabindex=0, role="group", aria_label="graph of the model"),
        element("figcaption", shapes),
    )


def _priors(fit: Reported) -> Markup:
    priors = priors_of(fit).texts
    if fit.model.model.is_learner or not fit.data.dataset.columns:
        return EMPTY
    if not priors:
        return paragraph("Priors that the model file does not state are the defaults of its family.", class_="mute")
    some = list(priors.items())[:_PRIORS]
    made = table(["parameter", "prior"], some, caption="Priors of the fit", class_="words")
    left = len(priors) - len(some)
    return joined([made, *([paragraph(f"{left:,} more are not shown.", class_="mute")] if left else [])])


def _file(fit: Reported) -> Markup:
    return details("the model file", file_text(dump(fit.model)))


def file_text(content: str) -> Markup:
    """A model file as preformatted text; a very long one is truncated."""
    note = f"\n… {len(content) - _LETTERS:,} more letters" if len(content) > _LETTERS else ""
    return element("pre", element("code", content[:_LETTERS] + note), tabindex=0)
