"""The plots of a fit by name; the first suits the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bayeslab.errors import OptionError

__all__ = ["draw", "first"]

# Plots by the view that the fit has.
_FIRST = {
    "learner": "regions",
    "clusters": "components",
    "states": "path",
    "function": "function",
    "features": "loadings",
    "topics": "words",
    "field": "most_probable",
}


def first(fit: Any) -> str:
    """The name of the default plot."""
    return "edges" if _has_structures(fit) else _FIRST.get(fit.bound_model.view, "density")


def draw(fit: Any, what: str, columns: Sequence[str] | None) -> Any:
    """The figure of a plot: see :meth:`bayeslab.results.fit.Fit.plot`."""
    view = fit.bound_model.view
    if view == "learner":
        return fit.learner.plot(what, inputs=None if columns is None else list(columns))
    if view == "clusters":
        return fit.plot_clusters(what, columns=None if columns is None else list(columns))
    if view in ("states", "function"):
        drawn = fit.plot_states if view == "states" else fit.process.plot
        return drawn(what, column=_one(columns))
    if columns:
        raise OptionError(
            f"columns: pictures of the family {fit.model.model.family} are not over columns of choice",
            code="not-applicable",
        )
    if view == "features":
        return fit.plot_features(what)
    if view == "field":
        return fit.field.plot(what)
    if view == "topics":
        return fit.topics.plot(what)
    return fit.structures.plot(what) if _has_structures(fit) else fit.plot_check(what)


def _has_structures(fit: Any) -> bool:
    return fit.has_group("parent_sets")


def _one(columns: Sequence[str] | None) -> str | None:
    if columns and len(columns) > 1:
        raise OptionError(f"columns: one, not {', '.join(columns)}", code="wrong-length")
    return columns[0] if columns else None
