"""A page to click on, of whatever can be explored: a network, a model of one, a fit, or a run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from bayeslab.fitting import open_run
from bayeslab.networks import network
from bayeslab.report.page import explorer_of
from bayeslab.report.writing import Report

__all__ = ["explore"]


def explore(source: Any) -> Report:
    """A page to click on: evidence and interventions of a Bayes net, sliders for the predictors of a regression.

    The page computes the answers itself: it needs no Python and no network connection.

    Parameters
    ----------
    source
        A run folder or a fit, of a Bayes net or a regression; or anything that :func:`bayeslab.network` takes: the path
        of a network file or of a model file of a Bayes net, a :class:`bayeslab.Network`, a :class:`bayeslab.Model`.

    Returns
    -------
    Report
        The page: ``html``, ``save(path)``, and the page itself in a trusted notebook.

    Raises
    ------
    ModelError
        The file or the model has an error, whose place is given.
    OptionError, DataError
        The model is no Bayes net and has no expected outcome as a function of columns, or is too large for a page.

    Example
    -------
    >>> import bayeslab as bl
    >>> bl.explore("models/asia.yaml").save("asia.html")  # doctest: +SKIP
    """
    if isinstance(source, str | os.PathLike) and Path(source).is_dir():
        source = open_run(source)
    explored = source if hasattr(source, "bound_model") else network(source)
    return Report(explorer_of(explored), alive=True)
