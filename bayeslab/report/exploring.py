"""A page to click on, of whatever can be explored: a network, an influence diagram, a model of one, a fit, or a run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from bayeslab.families.bayes_net.spec import BayesNet
from bayeslab.fitting import open_run
from bayeslab.formats.network_files import is_network_file
from bayeslab.language import model_file
from bayeslab.language.spec import Model
from bayeslab.networks import decisions, network
from bayeslab.report.page import explorer_of
from bayeslab.report.writing import Report

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
        The page: ``html``, ``save(path)``, and the page itself in a trusted notebook.

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
        return Report(explorer_of(source), alive=True)
    return Report(explorer_of(decisions(source) if _decides(source) else network(source)), alive=True)


def _decides(source: Any) -> bool:
    """Whether a model, or the file of one, has decisions."""
    if isinstance(source, str | os.PathLike) and not is_network_file(source):
        source = model_file.read(source).model
    return isinstance(source, Model) and isinstance(source.model, BayesNet) and bool(source.model.decisions)
