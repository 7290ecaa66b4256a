"""``fit``: a posterior and a verdict from a model and data; ``resume`` and ``open``: continue or reopen a run."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, Literal, Unpack

from bayeslab import running
from bayeslab.data.bound import Data
from bayeslab.language.spec import Model
from bayeslab.options import FitOptions
from bayeslab.posterior.contract import posterior_of
from bayeslab.preparation import (
    Declaring,
    ModelLike,
    Prepared,
    Source,
    bound,
    check,
    checked,
    observed,
    prepared,
    seed_of,
    to_pymc,
)
from bayeslab.results.fit import Fit
from bayeslab.results.tracking import check_tracker, log_to_mlflow

__all__ = ["Prepared", "bound", "check", "checked", "fit", "observed", "open_run", "prepare", "resume", "to_pymc"]


def fit(
    model: ModelLike | Declaring,
    data: Any = None,
    method: str | None = None,
    *,
    seed: int | None = None,
    progress: bool = True,
    runs: str | os.PathLike[str] | None = "runs",
    name: str | None = None,
    log_to: Literal["mlflow"] | None = None,
    **options: Unpack[FitOptions],
) -> Fit:
    """Fit a model to data.

    Parameters
    ----------
    model
        A :class:`~bayeslab.language.spec.Model` or the path of a model file; or a :class:`~bayeslab.Network`, whose
        tables are learned from the data given its structure.
    data
        A dataframe (pandas, polars, pyarrow), a mapping of arrays, or a path. None: the data the
        model file names.
    method
        ``auto``, ``exact``, ``nuts``, ... (a module of ``bayeslab.engines``); None: the model file's
        method, else ``auto``.
    seed
        The same seed gives the same draws on any number of cores. None: the seed of the model file,
        else a new one, which the run records.
    progress
        Report progress (on standard error, or in the notebook).
    runs
        Folder in which the run folder is created; None keeps the result in memory only.
    name
        Name of the run folder; default: the model's name.
    log_to
        ``mlflow``: write parameters, verdict, metrics, report and run folder to the store of MLflow too (extra
        ``mlflow``).
    **options
        The engine's options, named as PyMC names them (``draws``, ``tune``, ``chains``, ``cores``,
        ``target_accept``, ``max_treedepth``, ``initvals``, ...).

    Returns
    -------
    Fit

    Raises
    ------
    ModelError, DataError, OptionError, EngineRefusal
        The model, the data or the options are wrong, or the engine does not apply; the message has the
        place, what was given and what is allowed.
    """
    begun = time.perf_counter()
    check_tracker(log_to)
    source = Source(model.unfitted() if isinstance(model, Declaring) else model)
    work, folder = running.begin(source, data, method, seed, runs, name, options)
    assert work.info is not None
    work.info["timings"]["build"] = time.perf_counter() - begun
    with source.located(), running.alone(folder):
        made = Fit.of(running.run(work, folder, progress))
    if log_to is not None:
        log_to_mlflow(made)
    return made


def fit_bound(
    model: Model,
    data: Data,
    method: str | None = None,
    *,
    seed: int,
    progress: bool = False,
    **options: Unpack[FitOptions],
) -> Fit:
    """Fit a model to data that are already bound to it, without a run folder; parameters as for :func:`fit`."""
    return Fit.of(
        running.run(prepared(posterior_of(model, data), method, options, seed_of(seed, model)), None, progress)
    )


def prepare(
    model: ModelLike,
    data: Any = None,
    method: str | None = None,
    *,
    seed: int | None = None,
    runs: str | os.PathLike[str] = "runs",
    name: str | None = None,
    **options: Unpack[FitOptions],
) -> Path:
    """Check everything and create the run folder; :func:`resume`, in another process, then does the sampling.

    Parameters are those of :func:`fit`.

    Returns
    -------
    Path
        The run folder.
    """
    _, folder = running.begin(Source(model), data, method, seed, runs, name, options)
    assert folder is not None
    return folder.path


def resume(
    folder: str | os.PathLike[str],
    *,
    draws: int | str | None = None,
    progress: bool = True,
    cores: int | None = None,
    scheduler: str | None = None,
) -> Fit:
    """Complete an interrupted run; its draws are exactly those of an uninterrupted one.

    Parameters
    ----------
    folder
        The run folder.
    draws
        Draws of each chain, or ``"+10000"`` for so many more. Extends a run of the method ``structure``, finished or
        not; the draws are exactly those of a run that asked for this number at once.
    cores, scheduler
        Where the chains run, as for :func:`fit`.
    """
    return Fit.of(running.resumed(folder, draws=draws, progress=progress, cores=cores, scheduler=scheduler))


def open_run(folder: str | os.PathLike[str], model: ModelLike | None = None, data: Any = None) -> Fit:
    """Open a finished run.

    Parameters
    ----------
    folder
        The run folder.
    model, data
        If given, they must be the model and data of the run.

    Raises
    ------
    RunError
        There is no run, it is not finished or damaged, or it has another model or other data; the
        message names the field that differs.
    """
    return Fit.of(running.opened(folder, model, data))
