"""The section with the plot of a family, and the table behind it."""

from __future__ import annotations

import warnings
from base64 import b64encode
from collections.abc import Callable
from io import BytesIO
from typing import Any

import numpy as np
import pandas as pd

from bayeslab.errors import BayeslabError
from bayeslab.networks import network
from bayeslab.report.contract import Reported, record
from bayeslab.report.costs import cost_panel
from bayeslab.report.edge_threshold import edge_panel
from bayeslab.report.explorer import network_panel
from bayeslab.report.markup import EMPTY, Markup, details, element, joined, paragraph, table
from bayeslab.results import pictures
from bayeslab.results.clusters import clusters, listing
from bayeslab.results.field import field_of
from bayeslab.results.fitted import Fitted
from bayeslab.results.learner import learner_of
from bayeslab.results.render import plain_table
from bayeslab.results.states import states_of
from bayeslab.results.structures import structures_of
from bayeslab.results.topics import topics_of

__all__ = ["section"]

# Maximum size of an SVG plot in bytes (larger ones become PNG), of a table in rows, of data with a table of clusters.
_SVG_BYTES, _ROWS, _CLUSTERED, _VARIABLES = 200_000, 200, 1_000, 60
_TITLES = {
    "clusters": "Clusters",
    "states": "Hidden states",
    "function": "Function",
    "features": "Latent features",
    "topics": "Topics",
    "learner": "Predictions of the learner",
    "field": "Field",
}
_SHOWS = {
    "regions": "Predictions as a function of the inputs",
    "components": "The components over the data",
    "terms": "The function and each of its terms",
    "calibration": "Observed frequencies of the class over its predicted probabilities, of held-out rows",
    "path": "The data, coloured by the most probable path, over the probabilities of the states",
    "function": "The function with its 89 % credible interval, and the data",
    "loadings": "The loadings of each column on each feature",
    "words": "The most probable words of each topic",
    "most_probable": "The most probable state of every variable",
    "edges": "The probability of each edge, from row to column",
}


def section(fit: Reported) -> tuple[str, Markup]:
    """The heading and the content; empty for families whose plot is the predictive check."""
    sampled = fit.has_group("parent_sets")
    view = fit.bound_model.view
    if sampled:
        return "Edges", joined([_figure(fit, "edges"), _quietly(edge_panel, fit), _quietly(_edges, fit)])
    # Variables with more dimensions are arrays, such as the pixels of an image.
    image = any(values.ndim > 3 for values in fit.posterior.to_dataset().data_vars.values())
    few = view == "field" and len(fit.posterior.data_vars) <= _VARIABLES and not image
    if few or view == "network":
        return "Network", _quietly(_network, fit)
    if not view:
        return "", EMPTY
    what = pictures.first(fit)
    tables: dict[str, Callable[[Fitted], Markup]] = {
        "clusters": _clusters,
        "states": _states,
        "topics": _topics,
        "learner": _learner,
        "field": _field,
    }
    behind = _quietly(tables[view], fit) if view in tables else EMPTY
    parts = [_figure(fit, what), behind]
    if view == "function":
        # The function and two terms or more.
        parts.append(_figure(fit, "components", least=3))
    if view == "learner" and "calibration" in pictures.kinds(fit):
        parts += [_figure(fit, "calibration"), _quietly(cost_panel, fit)]
    return _TITLES.get(view, view.capitalize()), joined(parts)


def _quietly(make: Callable[[Fitted], Markup], fit: Reported) -> Markup:
    """The content; a sentence with the reason if the fit has none."""
    try:
        return make(record(fit))
    except BayeslabError as error:
        return paragraph(f"There is no table: {error.message}.", class_="mute")


def _figure(fit: Reported, what: str, least: int = 1) -> Markup:
    """A matplotlib figure as an image embedded in the page; empty if it has fewer than ``least`` panels."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            drawn = fit.plot(what)
            if len(drawn.axes) < least:
                return EMPTY
            source = _image(drawn)
    except BayeslabError as error:
        return paragraph(f"There is no picture: {error.message}.", class_="mute")
    says = _SHOWS.get("terms" if least > 1 else what, what)
    alt = f"{says}; a table follows where there is one"
    image = element("img", src=source, alt=alt, class_="picture")
    framed = element("div", image, class_="scroll", tabindex=0, role="group", aria_label=f"picture: {says}")
    return element("figure", framed, element("figcaption", f"{says}."))


def _image(drawn: Any) -> str:
    import matplotlib

    file = BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "bayeslab"}):
        drawn.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    kind = "svg+xml"
    if file.tell() > _SVG_BYTES:
        file, kind = BytesIO(), "png"
        drawn.savefig(file, format="png", dpi=150, metadata={"Software": None})
    return f"data:image/{kind};base64,{b64encode(file.getvalue()).decode()}"


def _of_frame(frame: pd.DataFrame, caption: str, *, index: bool) -> Markup:
    """The first rows of a dataframe as a table."""
    shown = plain_table(frame.head(_ROWS).reset_index() if index else frame.head(_ROWS))
    some = f"the first {_ROWS} of {len(frame):,} rows" if len(frame) > _ROWS else ""
    whole = f"{caption}, {some}" if some else caption
    prose = "words" if "words" in shown else None
    made = table([str(c) for c in shown.columns], shown.to_numpy().tolist(), caption=whole, class_=prose)
    return made if len(shown) <= 20 else details(whole, made)


def _edges(fit: Fitted) -> Markup:
    frame = structures_of(fit).edges()
    return _of_frame(frame[frame["probability"] > 0.01], "Edges with a probability above 0.01", index=False)


def _network(fit: Fitted) -> Markup:
    answer = network(fit).query()
    # The drawing escapes all names.
    drawn = Markup(answer.svg())
    figure = element("div", drawn, class_="graph", tabindex=0, role="group", aria_label="network with probabilities")
    frame = answer.to_frame()
    caption = element(
        "figcaption", "Probabilities of the states without evidence, at the posterior means of the tables."
    )
    try:
        clickable = network_panel(network(fit), share=0.25)
    except BayeslabError as error:
        clickable = paragraph(f"It has no buttons: {error.message}.", class_="mute")
    return joined(
        [element("figure", figure, caption), clickable, _of_frame(frame, "Probabilities without evidence", index=False)]
    )


def _clusters(fit: Fitted) -> Markup:
    if len(fit.data.labels.get(fit.data.dataset.rows, ())) > _CLUSTERED:
        return paragraph(
            f"Clusters of more than {_CLUSTERED:,} rows are listed by bayeslab show --clusters.", class_="mute"
        )
    made = _of_frame(listing(fit), "Clusters of the point estimate of the partition", index=False)
    partition, labels = fit.group("clusters", clusters)["partition"].to_numpy(), fit.data.labels
    names = labels.get(fit.data.dataset.rows, np.arange(1, len(partition) + 1))
    rows = [(str(k + 1), ", ".join(map(str, names[partition == k]))) for k in range(int(partition.max()) + 1)]
    heading = "Rows of each cluster"
    return joined([made, details(heading, table(["cluster", "its rows"], rows, caption=heading, class_="words"))])


def _states(fit: Fitted) -> Markup:
    return _of_frame(states_of(fit).path(), "The most probable path", index=False)


def _topics(fit: Fitted) -> Markup:
    return _of_frame(topics_of(fit).table(10), "Topics: shares and most probable words", index=True)


def _learner(fit: Fitted) -> Markup:
    return _of_frame(learner_of(fit).confusion(), "Confusion matrix of held-out rows: true classes in rows", index=True)


def _field(fit: Fitted) -> Markup:
    group = field_of(fit).probabilities()
    rows = [
        (f"{name}", ", ".join(f"{p:.3g}" for p in values.to_numpy().ravel()[:12]))
        for name, values in list(group.data_vars.items())[:_ROWS]
    ]
    return table(["variable", "probabilities of its states"], rows, caption="Probabilities", class_="words")
