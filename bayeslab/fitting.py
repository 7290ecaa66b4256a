"""``fit``: from a model and data to a trusted posterior; ``open``: an earlier run again."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, Unpack

from bayeslab import running
from bayeslab.data.bound import Data
from bayeslab.language.spec import Model
from bayeslab.options import FitOptions
from bayeslab.posterior.contract import posterior_of
from bayeslab.preparation import (
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

__all__ = ["Prepared", "bound", "check", "checked", "fit", "observed", "open_run", "prepare", "resume", "to_pymc"]


def fit(
    model: ModelLike,
    data: Any = None,
    method: str | None = None,
    *,
    seed: int | None = None,
    progress: bool = True,
    runs: str | os.PathLike[str] | None = "runs",
    name: str | None = None,
    **options: Unpack[FitOptions],
) -> Fit:
    """Fit a model to data.

    Parameters
    ----------
    model
        A :class:`~bayeslab.language.spec.Model` or the path of a model file.
    data
        A dataframe (pandas, polars, pyarrow), a mapping of arrays, or a path. None: the data the
        model file names.
    method
        ``auto``, ``exact``, ``nuts``, ... (a module of ``bayeslab.engines``); None: what the model
        file says, else ``auto``.
    seed
        Same seed, same draws, on any number of cores. None: the file's, else a new one (recorded).
    progress
        Report progress (on standard error, or in the notebook).
    runs
        Where the run folder is made; None keeps the result in memory only.
    name
        Name of the run folder; default the model's.
    **options
        The engine's options, named as PyMC names them (``draws``, ``tune``, ``chains``, ``cores``,
        ``target_accept``, ``max_treedepth``, ``initvals``, ...).

    Returns
    -------
    Fit

    Raises
    ------
    ModelError, DataError, OptionError, EngineRefusal
        With the place, what was given and what is allowed.
    """
    begun = time.perf_counter()
    source = Source(model)
    work, folder = running.begin(source, data, method, seed, runs, name, options)
    assert work.info is not None
    work.info["timings"]["build"] = time.perf_counter() - begun
    with source.located(), running.alone(folder):
        return Fit.of(running.run(work, folder, progress))


def fit_bound(
    model: Model,
    data: Data,
    method: str | None = None,
    *,
    seed: int,
    progress: bool = False,
    **options: Unpack[FitOptions],
) -> Fit:
    """Fit a model to data that are bound already, in memory; parameters are those of :func:`fit`."""
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
    """Check everything and make the run folder, for :func:`resume` in another process to do the work.

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
    """Complete an interrupted run: what it lacks is drawn, exactly as it would have been.

    Parameters
    ----------
    folder
        The run folder.
    draws
        Draws of each chain, ``"+10000"`` for so many more: a run of method structure, finished or not, is made longer,
        exactly as if so many had been asked for at once.
    cores, scheduler
        Where the work is done, as for :func:`fit`.
    """
    return Fit.of(running.resumed(folder, draws=draws, progress=progress, cores=cores, scheduler=scheduler))


def open_run(folder: str | os.PathLike[str], model: ModelLike | None = None, data: Any = None) -> Fit:
    """Open a finished run.

    Parameters
    ----------
    folder
        The run folder.
    model, data
        If given, checked to be the ones the run used.

    Raises
    ------
    RunError
        Nothing there, not finished, damaged, or not of this model or these data; the message names
        the field that differs.
    """
    return Fit.of(running.opened(folder, model, data))
