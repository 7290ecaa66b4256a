"""A page to click on, of whatever can be explored: a network, an influence diagram, a model of one, a fit, or a run."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

from bayeslab.decisions.influence import InfluenceDiagram, solve
from bayeslab.fitting import open_run
from bayeslab.networks import Network, network_or_decisions
from bayeslab.plots.network_svg import influence_svg
from bayeslab.report.page import explorer_of
from bayeslab.report.writing import Report
from bayeslab.results.render import image

__all__ = ["explore"]


def explore(source: Any) -> Report:
    """A page to click on: evidence and interventions of a Bayes net, sliders for the predictors of a regression.

    The page computes the answers itself, or holds them: it needs no Python and no network connection. That of a network
    too large to compute in a page holds single findings. That of an influence diagram shows the best decisions, given
    nothing and each single finding.

    Parameters
    ----------
    source
        A run folder or a fit, of a Bayes net or a regression; or anything that :func:`bayeslab.network` takes: the path
        of a network file or of a model file of a Bayes net, a :class:`bayeslab.Network`, a :class:`bayeslab.Model`. The
        Bayes net may have decisions and utilities.

    Returns
    -------
    Report
        The page: ``html``, ``save(path)``, and the page itself in a trusted notebook; others show a picture or a table.

    Raises
    ------
    ModelError
        The file or the model has an error, whose place is given.
    OptionError, DataError, EngineRefusal
        The model is no Bayes net and has no expected outcome as a function of columns, or is too large for a page.

    Example
    -------
    >>> import bayeslab as bl
    >>> bl.explore("models/asia.yaml").save("asia.html")  # doctest: +SKIP
    """
    if isinstance(source, str | os.PathLike) and Path(source).is_dir():
        source = open_run(source)
    if hasattr(source, "bound_model"):
        return Report(explorer_of(source), alive=True, static=source._repr_html_)
    shown = network_or_decisions(source)
    static = shown._repr_html_ if isinstance(shown, Network) else partial(_drawn, shown)
    return Report(explorer_of(shown), alive=True, static=static)


def _drawn(diagram: InfluenceDiagram) -> str:
    return image(influence_svg(diagram, solve(diagram)), f"influence diagram {diagram.name}")
