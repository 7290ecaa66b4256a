"""The section with the model: its graph, its equations, its priors and its file."""

from __future__ import annotations

from collections.abc import Mapping

from bayeslab import registry
from bayeslab.errors import BayeslabError
from bayeslab.language.model_file import dump
from bayeslab.language.nodes import nodes_of
from bayeslab.plots.graph_svg import model_svg
from bayeslab.report.contract import Reported, record
from bayeslab.report.markup import EMPTY, Markup, details, element, joined, paragraph, table
from bayeslab.report.priors import priors_of
from bayeslab.results.structures import structures_of

__all__ = ["file_text", "section"]

# Maximum number of nodes in a drawing, of priors, and of characters of the model file.
_NODES, _PRIORS, _LETTERS = 150, 400, 100_000
# Maximum number of equations, and of characters of one: longer ones are tables of numbers.
_EQUATIONS, _LENGTH = 100, 300


def section(fit: Reported) -> Markup:
    """The content of the section."""
    return joined([_graph(fit), _equations(fit), _priors(fit), _file(fit)])


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


def _equations(fit: Reported) -> Markup:
    """The nodes of the model, those of short families as `bayeslab expand` writes them; empty if it cannot."""
    module = registry.part("families", fit.model.model.family, "expand")
    try:
        nodes = getattr(fit.model.model if module is None else module.expand(fit.model, fit.data), "nodes", None)
    except BayeslabError:
        return EMPTY
    if not isinstance(nodes, Mapping):
        return EMPTY
    lines = []
    for name, node in zip(list(nodes)[:_EQUATIONS], nodes_of(nodes).values(), strict=False):
        text = " ".join(node.expression.text.split())
        shown = f"{text[:_LENGTH]} …" if len(text) > _LENGTH else text
        lines.append(f"{name} {'~' if node.kind == 'random' else '='} {shown}")
    left = len(nodes) - len(lines)
    lines += [f"… {left:,} more"] if left > 0 else []
    about = "“~” is read “is distributed as”; names in brackets are dimensions, with a value for each element."
    return joined([element("h3", "Equations"), _code("\n".join(lines)), paragraph(about, class_="mute small")])


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
    """A model file as preformatted text with a button that copies it; a very long one is truncated and has none."""
    if len(content) > _LETTERS:
        return _code(f"{content[:_LETTERS]}\n… {len(content) - _LETTERS:,} more letters")
    button = element("button", "Copy the file", type="button", class_="copy", aria_live="polite", hidden=True)
    return element("div", button, _code(content))


def _code(content: str) -> Markup:
    return element("pre", element("code", content), tabindex=0)
