"""``fit``: from a model and data to a trusted posterior; ``open``: an earlier run again."""

from __future__ import annotations

import math
import os
import secrets
import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Unpack

from bayeslab import registry
from bayeslab.dataset import Data, Dataset, Memory, bind
from bayeslab.engines import auto
from bayeslab.engines._job import Job, MemoryStore, Outcome, options_of
from bayeslab.errors import (
    BayeslabError,
    DataError,
    EngineRefusal,
    ModelError,
    NothingToFit,
    OptionError,
    RunError,
    Stopped,
    hint,
    listed,
)
from bayeslab.io import modelfile
from bayeslab.io.run_folder import FORMAT, RunFolder
from bayeslab.io.tables import read_dataset
from bayeslab.memory import count, require_memory, total_memory
from bayeslab.options import FitOptions
from bayeslab.progress import reporter
from bayeslab.results.checks import Finding, Verdict
from bayeslab.results.finite import with_finite
from bayeslab.results.fit import Fit
from bayeslab.spec import Model

__all__ = ["Prepared", "bound", "check", "checked", "evidence", "fit", "open_run", "prepare", "resume", "to_pymc"]

type ModelLike = Model | str | os.PathLike[str]


# Options about where the work is done, which may be another place the next time.
_ELSEWHERE = {"cores", "scheduler"}


class _Source:
    """A model, and the file it came from, if it did."""

    def __init__(self, model: ModelLike) -> None:
        self.file: modelfile.Source | None = None
        if isinstance(model, Model):
            self.model = model
        elif isinstance(model, str | os.PathLike):
            self.file = modelfile.read(model)
            self.model = self.file.model
        else:
            raise ModelError(f"a model is a bl.Model or the path of a model file, not {type(model).__name__}")

    def bound(self, given: Any) -> Data:
        """The model's data, bound and checked; errors point into the file."""
        family = registry.load("families", self.model.model.family)
        dataset = read_dataset(self.model.data, self.file.folder if self.file else None, given)
        data = bind(self.model, dataset, family.factors(self.model))
        family.check(self.model, data.names())
        return data

    def located(self) -> Any:
        return self.file.located() if self.file else nullcontext()


def check(model: ModelLike, data: Any = None, method: str | None = None, **options: Any) -> Data:
    """Check a model, its data and its inference: whatever :func:`fit` refuses before its work begins is refused here.

    Parameters
    ----------
    model, data, method, **options
        As for :func:`fit`. Without data, what can be said without is checked.

    Returns
    -------
    Data
        The data bound to the model.

    Raises
    ------
    BayeslabError
        The first thing that is wrong, with its place. A model with nothing to fit, which another command is for, is
        not wrong.
    """
    return checked(model, data, method, **options).data


def checked(model: ModelLike, data: Any = None, method: str | None = None, **options: Any) -> Prepared:
    """What :func:`check` has found: what a fit would begin with.

    The engine is '' where there are no data, and where there is nothing to fit; then ``reason`` says why.
    """
    source = _Source(model)
    with source.located():
        bound = source.bound(data)
        if not bound.dataset.columns and not evidence(source.model, bound):
            _check_inference(source.model, method, options)
            return Prepared(source.model, bound, None, "", "", None, 0)
        try:
            return _prepared(source.model, bound, method, options, 0)
        except NothingToFit as error:
            return Prepared(source.model, bound, None, "", error.message, None, 0)


def bound(model: ModelLike, data: Any = None) -> Data:
    """A model's data bound to it; nothing is built."""
    source = _Source(model)
    with source.located():
        return source.bound(data)


def to_pymc(model: ModelLike, data: Any = None) -> Any:
    """The model as a plain ``pymc.Model``: observed nodes hold their data, discrete latents are summed out.

    Parameters
    ----------
    model
        A model or the path of a model file.
    data
        A dataframe, a mapping of arrays, a path; None for the data the file names.
    """
    source = _Source(model)
    with source.located():
        family = registry.load("families", source.model.model.family)
        return family.graph(source.model, source.bound(data))


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
        A :class:`~bayeslab.spec.Model` or the path of a model file.
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
    source = _Source(model)
    work, folder = _begin(source, data, method, seed, runs, name, options)
    assert work.info is not None
    work.info["timings"]["build"] = time.perf_counter() - begun
    with source.located(), _alone(folder):
        return _run(work, folder, progress)


def _alone(folder: RunFolder | None) -> AbstractContextManager[Any]:
    """No other process works in the folder."""
    return folder.locked() if folder else nullcontext()


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
    return _run(_prepared(model, data, method, options, _seed(seed, model)), None, progress)


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
    _, folder = _begin(_Source(model), data, method, seed, runs, name, options)
    assert folder is not None
    return folder.path


@dataclass(frozen=True)
class Prepared:
    """One inference to be done, and everything about it that could be refused before.

    Attributes
    ----------
    graph : pymc.Model or None
        For engines that use one.
    engine, reason : str
        The engine's name, and why it was chosen.
    options : Spec
        The engine's.
    """

    model: Model
    data: Data
    graph: Any
    engine: str
    reason: str
    options: Any
    seed: int
    info: Mapping[str, Any] | None = None


def _begin(
    source: _Source,
    data: Any,
    method: str | None,
    seed: int | None,
    runs: str | os.PathLike[str] | None,
    name: str | None,
    options: Mapping[str, Any],
) -> tuple[Prepared, RunFolder | None]:
    """Everything before the work: what can be wrong is found, and a run folder made."""
    with source.located():
        work = _prepared(source.model, source.bound(data), method, options, _seed(seed, source.model))
    folder = RunFolder.create(runs, name or source.model.name) if runs is not None else None
    work = replace(work, info=_info(work.model, work.data, work.engine, work.reason, work.options, work.seed))
    if folder:
        folder.write_inputs(work.model, work.data.dataset)
        folder.write_info(dict(work.info or {}))
    return work, folder


def _prepared(model: Model, data: Data, method: str | None, options: Mapping[str, Any], seed: int) -> Prepared:
    """An inference that can begin: what ``fit`` refuses, ``check`` refuses, since both come through here."""
    if not evidence(model, data):
        raise DataError(
            "the model has no data to fit: name a table in its data section, or pass data"
            " (to draw from the prior use simulate)"
        )
    family = registry.load("families", model.model.family)
    if hasattr(family, "bound"):
        family.bound(model, data)
    size = family.size(model, data) if hasattr(family, "size") else 1
    engine, reason, chosen = _engine(model, data, method, options)
    module = registry.load("engines", engine)
    _check_draws(engine, chosen, size)
    graph = _graph(model, data, engine)
    if graph is not None and not hasattr(family, "size"):
        _check_draws(engine, chosen, _numbers(graph))
    work = Prepared(model, data, graph, engine, reason, chosen, seed)
    if hasattr(module, "ready"):
        module.ready(_job(work, reporter(False), MemoryStore()))
    return work


def check_draws(draws: int, tune: int, chains: int, size: int, path: tuple[str, ...] = ()) -> None:
    """Refuse draws that do not fit into memory, where each holds ``size`` numbers.

    Raises
    ------
    OptionError
        With how many would fit.
    """
    # As each chain has them, and as the results have them, all chains together.
    each = 2 * 8 * chains * max(size, 1)
    of_chains = f" of each of {chains} chains" if chains > 1 else ""
    require_memory(
        each * (draws + tune),
        f"{count(draws + tune)} draws{of_chains}, {count(size)} numbers a draw,",
        f"ask for {total_memory() // each:,} at most",
        path=(*path, "tune" if tune > draws else "draws") if path else (),
    )


def _check_draws(engine: str, options: Any, size: int) -> None:
    """Of the engine's draws; only NUTS keeps those of tuning until its chains end."""
    draws, chains = getattr(options, "draws", 1) or 1, getattr(options, "chains", 1) or 1
    tune = (getattr(options, "tune", 0) or 0) if engine == "nuts" else 0
    check_draws(draws, tune, chains, size, ("inference",))


def _numbers(graph: Any) -> int:
    """Numbers in one draw of a PyMC model, as far as its shapes are known before it runs."""
    lengths = {dim: len(levels) for dim, levels in graph.coords.items() if levels is not None}
    total = 0
    for variable in (*graph.free_RVs, *graph.deterministics):
        dims = graph.named_vars_to_dims.get(variable.name) or ()
        known = [lengths.get(dim, 1) for dim in dims] or [n or 1 for n in variable.type.shape]
        total += math.prod(known)
    return total


def evidence(model: Model, data: Data) -> tuple[str, ...]:
    """Names of the columns or nodes through which data enter the density.

    Raises
    ------
    ModelError, DataError
        There are data, but none that the model is about.
    """
    family, columns = registry.load("families", model.model.family), data.names()
    if hasattr(family, "evidence"):
        found: tuple[str, ...] = family.evidence(model, data)
    elif not columns:
        return ()
    else:
        # An outcome that is no column, such as the logarithm of one, is the family's to check.
        found = tuple(n for n in family.outcomes(model, columns) if n not in columns or data.present(n))
    if columns and not found:
        about = family.outcomes(model, columns)
        raise DataError(f"every cell of {listed(about)} is missing: the data say nothing about the model")
    return found


def _check_inference(model: Model, method: str | None, options: Mapping[str, Any]) -> None:
    """Method and options where there are no data to choose an engine by."""
    word, filed, own = _method(model, method)
    modules = [registry.load("engines", w) for w in registry.names("engines") if w != "auto" and word in ("auto", w)]
    for name, value in (own | dict(options)).items():
        _check_option(name, value, modules if word == filed or name in options else _engines())


def _graph(model: Model, data: Data, engine: str) -> Any:
    """The graph, for engines that use one: what is wrong with it shows before a run folder is made."""
    if not getattr(registry.load("engines", engine), "USES_GRAPH", True):
        return None
    return registry.load("families", model.model.family).graph(model, data)


def _seed(seed: int | None, model: Model) -> int:
    if seed is None:
        seed = model.seed if model.seed is not None else secrets.randbits(32)
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise OptionError(f"seed is a whole number ≥ 0, not {seed!r}")
    return seed


def _method(model: Model, method: str | None) -> tuple[str, str, dict[str, Any]]:
    """The method's name, the file's, and the file's options."""
    own = dict(model.inference)
    filed = own.pop("method", "auto")
    if not isinstance(filed, str):
        raise OptionError(f"method is a word, not {filed!r}", path=("inference", "method"))
    word = method or filed
    if word not in registry.names("engines"):
        path = () if method else ("inference", "method")
        raise OptionError(f"unknown method '{word}'{hint(word, registry.names('engines'))}", path=path)
    return word, filed, own


def _engine(model: Model, data: Data, method: str | None, options: Mapping[str, Any]) -> tuple[str, str, Any]:
    """The engine, why it was chosen, and its options: the file's, then those given."""
    word, filed, own = _method(model, method)
    reason = f"{word} was asked for"
    if word == "auto":
        word, reason = auto.choose(model, data)
    module = registry.load("engines", word)
    given = {k: v for k, v in options.items() if v is not None}
    if word != filed:
        # The file's options are meant for the method it names; those this engine knows still hold.
        own = _applicable(own, module)
    if (method or filed) == "auto":
        given = _applicable(given, module)
    chosen = options_of(module.Options, own | given, word)
    refusal = module.refuse(model, data)
    if refusal:
        raise EngineRefusal(f"method {word} does not apply: {refusal}")
    return word, reason, chosen


def _engines() -> list[Any]:
    return [registry.load("engines", word) for word in registry.names("engines") if word != "auto"]


def _applicable(options: Mapping[str, Any], module: Any) -> dict[str, Any]:
    """Options without those that only other engines have, whose values are checked by theirs."""
    dropped = {k for k in options if k not in module.Options.model_fields and _known_option(k)}
    for name in dropped:
        _check_option(name, options[name], _engines())
    return {k: v for k, v in options.items() if k not in dropped}


def _known_option(name: str) -> bool:
    return any(name in module.Options.model_fields for module in _engines())


def _check_option(name: str, value: Any, modules: Sequence[Any]) -> None:
    """An option must be one that an engine among these has, with a value that one of them takes."""
    having = [module for module in modules if name in module.Options.model_fields]
    if not having and len(modules) > 1:
        known = sorted({field for module in modules for field in module.Options.model_fields})
        raise OptionError(f"no method has an option '{name}'{hint(name, known)}", path=("inference", name))
    refused = []
    for module in having or modules:
        try:
            options_of(module.Options, {name: value}, module.__name__.rpartition(".")[2])
        except OptionError as error:
            refused.append(error)
    if len(refused) == len(having or modules):
        raise refused[0]


def _info(model: Model, data: Data, engine: str, reason: str, options: Any, seed: int) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "status": "running",
        "name": model.name,
        "method": engine,
        "reason": reason,
        "options": options.model_dump(mode="json", exclude=_ELSEWHERE),
        "seed": seed,
        "model_digest": model.digest(),
        "data_digests": data.dataset.digests(),
        "memory": {},
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": dict(_versions()),
        "timings": {},
        "digests": "sha256",
        "verdict": None,
    }


@cache
def _versions() -> dict[str, str]:
    out = {"python": sys.version.split()[0]}
    for package in (
        "bayeslab",
        "pymc",
        "pytensor",
        "nutpie",
        "pymc-extras",
        "arviz",
        "numba",
        "numpy",
        "xarray",
        "zarr",
    ):
        try:
            out[package] = version(package)
        except PackageNotFoundError:
            continue
    return out


def described(model: Model, data: Data, engine: str, reason: str, options: Any, seed: int) -> dict[str, Any]:
    """What ``run.json`` says of a run that begins."""
    return _info(model, data, engine, reason, options, seed)


def carried_on(
    model: Model,
    data: Data,
    options: Any,
    info: dict[str, Any],
    folder: RunFolder | None,
    chains: Mapping[int, Mapping[str, Any]],
    progress: bool,
) -> Fit:
    """A run whose chains begin where they are told to, kept like those of a run that was stopped."""
    store = folder or MemoryStore()
    work = Prepared(model, data, None, info["method"], info["reason"], options, info["seed"], info)
    with _alone(folder):
        for number, state in chains.items():
            store.write(number, state)
        return _run(work, folder, progress, store)


def _job(work: Prepared, view: Any, store: Any) -> Job:
    return Job(work.model, work.data, work.options, work.seed, view, store, work.graph)


def _run(work: Prepared, folder: RunFolder | None, progress: bool, store: Any = None) -> Fit:
    model, data = work.model, work.data
    info = dict(work.info or _info(model, data, work.engine, work.reason, work.options, work.seed))
    engine = registry.load("engines", work.engine)
    with reporter(progress) as view:
        view.note(work.reason)
        job = _job(work, view, store or folder or MemoryStore())
        try:
            outcome: Outcome = engine.run(job)
        except BayeslabError as error:
            if folder:
                ended = {"status": "interrupted" if isinstance(error, Stopped) else "failed", "error": str(error)}
                # A full disk may be what went wrong.
                with suppress(RunError):
                    folder.write_info(info | ended)
            raise
    finite = with_finite(outcome.verdict, outcome.groups, undefined=getattr(engine, "USES_GRAPH", True))
    outcome = _with_remarks(replace(outcome, verdict=finite), model, data)
    kept = data.memory()
    info |= {
        "status": "complete" if outcome.complete else "interrupted",
        "memory": {"levels": dict(kept.levels), "frozen": dict(kept.frozen)},
        "timings": info["timings"] | outcome.timings,
        "verdict": outcome.verdict.to_dict(),
    }
    result = Fit(model, data, _tree(outcome), outcome.verdict, info, folder.path if folder else None)
    if folder:
        start = time.perf_counter()
        info["result_digests"] = folder.write_result(result.data_tree)
        info["timings"]["save"] = time.perf_counter() - start
        folder.write_info(info)
    return result


def _with_remarks(outcome: Outcome, model: Model, data: Data) -> Outcome:
    """The outcome with what the family has to say about the data added to the verdict."""
    family = registry.load("families", model.model.family)
    if hasattr(family, "chosen") and (choice := family.chosen(model, data)) is not None:
        outcome = _with_choice(outcome, choice)
    if hasattr(family, "helps") and (text := family.helps(model, data)) is not None:
        outcome = replace(outcome, verdict=_helped(outcome.verdict, text))
    said = family.remarks(model, data) if hasattr(family, "remarks") else ()
    if hasattr(family, "judged") and "posterior" in outcome.groups:
        group = outcome.groups["posterior"].transpose("chain", "draw", ...)
        draws = {str(n): v.to_numpy().reshape(-1, *v.shape[2:]) for n, v in group.data_vars.items()}
        said = (*said, *family.judged(model, data, draws))
    if not said:
        return outcome
    found = tuple(Finding("warn", *remark) for remark in said)
    return replace(outcome, verdict=Verdict((*outcome.verdict.findings, *found)))


def _helped(verdict: Verdict, text: str) -> Verdict:
    """The verdict with the family's advice after that of the first finding that is bad."""
    bad = next((k for k, finding in enumerate(verdict.findings) if finding.status != "pass" and finding.advice), None)
    if bad is None:
        return verdict
    findings = list(verdict.findings)
    findings[bad] = replace(findings[bad], advice=f"{findings[bad].advice}; {text}")
    return Verdict(tuple(findings))


def _with_choice(outcome: Outcome, choice: Any) -> Outcome:
    """The outcome with what the family chose before the fit, in the verdict and as a group ``choice``."""
    from bayeslab.engines._groups import labelled

    text, table, labels = choice
    arrays, dims = {n: v for n, (_, v) in table.items()}, {n: d for n, (d, _) in table.items()}
    group = labelled(arrays, dims, labels, {}, {"creation_library": "bayeslab", "about": text})
    verdict = Verdict((*outcome.verdict.findings, Finding("pass", "choice", "", None, text)))
    return replace(outcome, groups={**outcome.groups, "choice": group}, verdict=verdict)


def _tree(outcome: Outcome) -> Any:
    import xarray as xr

    return xr.DataTree.from_dict(outcome.groups)


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
    run = RunFolder.existing(folder)
    with run.locked():
        return _resumed(run, draws, progress, {"cores": cores, "scheduler": scheduler})


def _resumed(run: RunFolder, draws: int | str | None, progress: bool, place: Mapping[str, Any]) -> Fit:
    info, where = run.info(), str(run.path)
    model, dataset = run.model(), run.dataset()
    _verify(info, model, dataset, where)
    module = _engine_of(info, where)
    if draws is not None:
        info["options"]["draws"] = _longer(info, module, draws)
    elif info["status"] == "complete":
        try:
            return open_run(run.path)
        except RunError:
            # The inputs are whole; what follows from them can be made again.
            warnings.warn("the result of the run is lost or damaged: it is made again", stacklevel=4)
    for chain in run.drop_damaged(digests="digests" in info):
        warnings.warn(f"chain {chain} is damaged: it is drawn again", stacklevel=4)
    family = registry.load("families", model.model.family)
    elsewhere = {name: value for name, value in place.items() if value is not None}
    options = options_of(module.Options, info["options"] | elsewhere, info["method"])
    data = bind(model, dataset, family.factors(model))
    info["reason"] = f"{info['reason'].removesuffix(' (resumed)')} (resumed)"
    info["status"] = "running"
    info.pop("error", None)
    run.write_info(info)
    graph = _graph(model, data, info["method"])
    work = Prepared(model, data, graph, info["method"], info["reason"], options, info["seed"], info)
    return _run(work, run, progress)


def _engine_of(info: Mapping[str, Any], where: str) -> Any:
    """The engine that a run names."""
    known = [name for name in registry.names("engines") if name != "auto"]
    if info["method"] not in known:
        raise RunError(f"run.json names the method '{info['method']:.40}'{hint(info['method'], known)}", where=where)
    return registry.load("engines", info["method"])


def _longer(info: Mapping[str, Any], module: Any, draws: int | str) -> int:
    """Draws of each chain of a run that is made longer."""
    if not getattr(module, "EXTENDS", False):
        raise OptionError(
            f"a run of method {info['method']} cannot be made longer: fit the model again with more draws"
        )
    present, word = int(info["options"]["draws"]), str(draws).strip()
    try:
        wanted = present + int(word[1:]) if word.startswith("+") else int(word)
    except ValueError:
        raise OptionError(f"draws is a number, or +N for so many more, not '{draws}'") from None
    if wanted < present:
        raise OptionError(f"the run has {present:,} draws a chain already; a run is not made shorter")
    return wanted


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
    run = RunFolder.existing(folder)
    info = run.info()
    own, dataset = run.model(), run.dataset()
    _verify(info, own, dataset, str(folder))
    _engine_of(info, str(folder))
    if model is not None:
        _same_model(own, _Source(model).model, str(folder))
    if data is not None:
        given = read_dataset(own.data, None, data)
        given = given if own.model.any_names else given.plain()
        _same_digests(info["data_digests"], given.digests(), str(folder))
    kept = Memory(**info["memory"]) if info["memory"] else None
    family = registry.load("families", own.model.family)
    bound = bind(own, dataset, family.factors(own), kept)
    verdict = Verdict.from_dict(info["verdict"]) if info["verdict"] else None
    tree = run.result(info.get("result_digests"))
    if verdict is None:
        raise RunError(
            "the run has no verdict: it was killed; complete it with `bayeslab fit --resume`",
            where=str(folder),
        )
    return Fit(own, bound, tree, verdict, info, run.path)


def _verify(info: Mapping[str, Any], model: Model, dataset: Dataset, where: str) -> None:
    if info["model_digest"] != model.digest():
        raise RunError("model.yaml is not the model of this run (its digest differs from run.json)", where=where)
    _same_digests(info["data_digests"], dataset.digests(), where)


def _same_digests(stored: Mapping[str, str], given: Mapping[str, str], where: str) -> None:
    for name in stored:
        if name not in given:
            raise RunError(f"the data have no column '{name}', which the run used", where=where)
        if stored[name] != given[name]:
            raise RunError(f"column '{name}' of the data differs from the one the run used", where=where)
    for name in given.keys() - stored.keys():
        raise RunError(f"the data have a column '{name}', which the run did not have", where=where)


def _same_model(own: Model, given: Model, where: str) -> None:
    difference = _difference(own.to_dict(), given.to_dict(), ())
    skipped = {("name",), ("about",), ("seed",), ("data", "table"), ("data", "arrays"), ("data", "tables")}
    if difference and own.digest() != given.digest():
        path, ours, theirs = next(
            (d for d in difference if d[0][:1] not in skipped and d[0][:2] not in skipped), difference[0]
        )
        raise RunError(f"{'.'.join(path)} differs: the run has {ours!r}, the model given has {theirs!r}", where=where)


def _difference(a: Any, b: Any, path: tuple[str, ...]) -> list[tuple[tuple[str, ...], Any, Any]]:
    if isinstance(a, dict) and isinstance(b, dict):
        keys = [*a, *(k for k in b if k not in a)]
        return [d for k in keys for d in _difference(a.get(k), b.get(k), (*path, str(k)))]
    return [] if a == b else [(path, a, b)]
