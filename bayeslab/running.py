"""The life of a run: start it, keep it in its folder, resume it after an interruption, open it again."""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from bayeslab import registry
from bayeslab.blas import one_blas_thread
from bayeslab.data.binding import bind
from bayeslab.data.bound import Data, Memory
from bayeslab.data.dataset import Dataset
from bayeslab.data.tables import read_dataset
from bayeslab.engines.toolbox.contract import Engine, engine
from bayeslab.errors import BayeslabError, OptionError, RunError, Stopped, hint, interrupted
from bayeslab.files import shown
from bayeslab.job import MemoryStore, Outcome, options_of
from bayeslab.language.spec import Model
from bayeslab.posterior.contract import Choice, Posterior, posterior_of
from bayeslab.posterior.groups import labelled
from bayeslab.preparation import ModelLike, Prepared, Source, job_of, prepared, ready, seed_of
from bayeslab.progress import reporter
from bayeslab.results.finite import with_finite
from bayeslab.results.fitted import Fitted, joined
from bayeslab.results.verdict import Finding, Verdict
from bayeslab.run_folder.folder import FORMAT, RunFolder

__all__ = ["alone", "begin", "carried_on", "described", "opened", "resumed", "run", "with_advice"]

# Options about where the work is done, which may change when a run is resumed.
_ELSEWHERE = {"cores", "scheduler"}
# Packages whose versions decide about draws.
_OF_DRAWS = {"bayeslab", "pymc", "pytensor", "nutpie", "pymc-extras", "numba", "numpy"}


def alone(folder: RunFolder | None) -> AbstractContextManager[Any]:
    """A context in which no other process works in the folder."""
    return folder.locked() if folder else nullcontext()


def begin(
    source: Source,
    data: Any,
    method: str | None,
    seed: int | None,
    runs: str | os.PathLike[str] | None,
    name: str | None,
    options: Mapping[str, Any],
) -> tuple[Prepared, RunFolder | None]:
    """Prepare a run: check everything and create the run folder."""
    with source.located():
        work = prepared(source.posterior(data), method, options, seed_of(seed, source.model))
    folder = RunFolder.create(runs, name or source.model.name) if runs is not None else None
    work = replace(work, info=described(work.model, work.data, work.engine, work.reason, work.options, work.seed))
    if folder:
        folder.write_inputs(work.model, work.data.dataset)
        folder.write_info(dict(work.info or {}))
    return work, folder


def described(model: Model, data: Data, engine: str, reason: str, options: Any, seed: int) -> dict[str, Any]:
    """The content of ``run.json`` for a run that begins."""
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
        "origins": "sha256",
        "verdict": None,
    }


def _changed_versions(info: Mapping[str, Any]) -> str:
    """The packages that decide about draws and have other versions than when a run began."""
    begun = info.get("versions") or {}
    changed = [
        f"{package} {begun[package]}, now {now}"
        for package, now in _versions().items()
        if package in _OF_DRAWS and begun.get(package, now) != now
    ]
    return " and ".join([", ".join(changed[:-1]), changed[-1]]) if len(changed) > 1 else "".join(changed)


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


def carried_on(
    posterior: Posterior,
    options: Any,
    info: dict[str, Any],
    folder: RunFolder | None,
    chains: Mapping[int, Mapping[str, Any]],
    progress: bool,
) -> Fitted:
    """Run chains from given states, stored like the chains of a run that was stopped."""
    store = folder or MemoryStore()
    work = ready(Prepared(posterior, None, info["method"], info["reason"], options, info["seed"], info))
    with alone(folder):
        for number, state in chains.items():
            store.write(number, state)
        return run(work, folder, progress, store)


def run(work: Prepared, folder: RunFolder | None, progress: bool, store: Any = None) -> Fitted:
    """Do the inference, compute the verdict, and store the result in the run folder.

    Raises
    ------
    KeyboardInterrupt
        Ctrl-C before there was a result; the message says how to resume.
    """
    try:
        return _run(work, folder, progress, store)
    except (KeyboardInterrupt, SystemError) as error:
        if not interrupted(error):
            raise
        text = "interrupted before there was anything to report"
        if folder is None:
            raise KeyboardInterrupt(f"{text}; nothing is kept") from None
        with suppress(RunError):
            folder.write_info(folder.info() | {"status": "interrupted", "error": text})
        raise KeyboardInterrupt(f"{text}; `bayeslab fit --resume {shown(folder.path)}` goes on from here") from None


def _run(work: Prepared, folder: RunFolder | None, progress: bool, store: Any) -> Fitted:
    model, data = work.model, work.data
    info = dict(work.info or described(model, data, work.engine, work.reason, work.options, work.seed))
    chosen = engine(work.engine)
    with reporter(progress) as view:
        view.note(work.reason)
        if work.note:
            view.note(work.note)
        job = job_of(work, view, store or folder or MemoryStore())
        try:
            # Densities work on small matrices and chains run in parallel: threads inside a product would wait for each
            # other, and the split of sums among them would change the last digits of a draw. Exact methods choose
            # threads by size.
            with one_blas_thread() if chosen.uses_graph else nullcontext():
                outcome: Outcome = chosen.run(job)
        except BayeslabError as error:
            if folder:
                ended = {"status": "interrupted" if isinstance(error, Stopped) else "failed", "error": str(error)}
                # The cause may be a full disk.
                with suppress(RunError):
                    folder.write_info(info | ended)
            raise
    finite = with_finite(outcome.verdict, outcome.groups, undefined=chosen.uses_graph)
    outcome = _with_findings(replace(outcome, verdict=finite), work.posterior)
    kept = data.memory()
    info |= {
        "status": "complete" if outcome.complete else "interrupted",
        "memory": {"levels": dict(kept.levels), "frozen": dict(kept.frozen)},
        "timings": info["timings"] | outcome.timings,
        "verdict": outcome.verdict.to_dict(),
    }
    result = Fitted(work.posterior, outcome.groups, outcome.verdict, info, folder.path if folder else None)
    if folder:
        start = time.perf_counter()
        info["result_digests"] = folder.write_result(outcome.groups)
        info["timings"]["save"] = time.perf_counter() - start
        folder.write_info(info)
    return result


def _with_findings(outcome: Outcome, posterior: Posterior) -> Outcome:
    """The outcome with the family's findings about data and draws added to the verdict."""
    if (choice := posterior.model_choice()) is not None:
        outcome = _with_choice(outcome, choice)
    if (text := posterior.advice()) is not None:
        outcome = replace(outcome, verdict=with_advice(outcome.verdict, text))
    findings = [*posterior.data.remarks(), *posterior.data_findings()]
    if "posterior" in outcome.groups:
        findings += posterior.posterior_findings(joined(outcome.groups["posterior"]))
    if not findings:
        return outcome
    warnings_ = tuple(Finding("warn", *finding) for finding in findings)
    return replace(outcome, verdict=Verdict((*outcome.verdict.findings, *warnings_)))


def with_advice(verdict: Verdict, text: str) -> Verdict:
    """The verdict with the family's advice appended to the advice of the first finding that did not pass."""
    bad = next((k for k, finding in enumerate(verdict.findings) if finding.status != "pass" and finding.advice), None)
    if bad is None:
        return verdict
    findings = list(verdict.findings)
    findings[bad] = replace(findings[bad], advice=f"{findings[bad].advice}; {text}")
    return Verdict(tuple(findings))


def _with_choice(outcome: Outcome, choice: Choice) -> Outcome:
    """The outcome with the model choice that preceded the fit, in the verdict and as a group ``choice``."""

    text, table, labels = choice
    arrays, dims = {n: v for n, (_, v) in table.items()}, {n: d for n, (d, _) in table.items()}
    group = labelled(arrays, dims, labels, {}, {"creation_library": "bayeslab", "about": text})
    verdict = Verdict((*outcome.verdict.findings, Finding("pass", "choice", "", None, text)))
    return replace(outcome, groups={**outcome.groups, "choice": group}, verdict=verdict)


def resumed(
    folder: str | os.PathLike[str],
    *,
    draws: int | str | None = None,
    progress: bool = True,
    cores: int | None = None,
    scheduler: str | None = None,
) -> Fitted:
    """Complete an interrupted run; parameters as for :func:`bayeslab.fitting.resume`."""
    run = RunFolder.existing(folder)
    with run.locked():
        return _resumed(run, draws, progress, {"cores": cores, "scheduler": scheduler})


def _resumed(folder: RunFolder, draws: int | str | None, progress: bool, place: Mapping[str, Any]) -> Fitted:
    info, where = folder.info(), str(folder.path)
    model, dataset = folder.model(), folder.dataset()
    _verify(info, model, dataset, where)
    module = engine_named(info, where)
    if draws is not None:
        info["options"]["draws"] = _longer(info, module, draws)
    elif info["status"] == "complete":
        try:
            return opened(folder.path)
        except RunError:
            # The inputs are complete, and everything else can be recomputed from them.
            warnings.warn("the result of the run is lost or damaged: it is made again", stacklevel=5)
    if others := _changed_versions(info):
        warnings.warn(
            f"the run was begun with {others}: its draws need not be those that it would have had without a stop",
            stacklevel=5,
        )
    for chain, why in folder.drop_unusable(info).items():
        warnings.warn(f"chain {chain} {why}: it is drawn again", stacklevel=5)
    elsewhere = {name: value for name, value in place.items() if value is not None}
    options = options_of(module.options, info["options"] | elsewhere, info["method"])
    posterior = posterior_of(model, bind(model, dataset, model.factors()))
    info["reason"] = f"{info['reason'].removesuffix(' (resumed)')} (resumed)"
    work = ready(Prepared(posterior, None, info["method"], info["reason"], options, info["seed"], info))
    info["status"] = "running"
    info.pop("error", None)
    folder.write_info(info)
    return run(work, folder, progress)


def engine_named(info: Mapping[str, Any], where: str) -> Engine:
    """The engine named in the description of a run."""
    known = [name for name in registry.names("engines") if name != "auto"]
    if info["method"] not in known:
        raise RunError(
            f"run.json names the method '{info['method']:.40}'{hint(info['method'], known)}",
            where=where,
            code="unknown-word",
        )
    return engine(info["method"])


def _longer(info: Mapping[str, Any], module: Engine, draws: int | str) -> int:
    """The number of draws per chain of an extended run."""
    if not module.extends:
        raise OptionError(
            f"a run of method {info['method']} cannot be made longer: fit the model again with more draws",
            code="not-applicable",
        )
    present, word = int(info["options"]["draws"]), str(draws).strip()
    try:
        wanted = present + int(word[1:]) if word.startswith("+") else int(word)
    except ValueError:
        raise OptionError(f"draws is a number, or +N for so many more, not '{draws}'", code="wrong-type") from None
    if wanted < present:
        raise OptionError(
            f"the run has {present:,} draws a chain already; a run is not made shorter", code="out-of-range"
        )
    return wanted


def opened(folder: str | os.PathLike[str], model: ModelLike | None = None, data: Any = None) -> Fitted:
    """Open a finished run; parameters and errors as for :func:`bayeslab.fitting.open_run`."""
    run = RunFolder.existing(folder)
    info = run.info()
    try:
        return _opened(folder, run, info, model, data)
    except RunError as error:
        if error.code not in ("run.damaged", "run.no-result"):
            raise
        # A run that is being written looks damaged: its result and its description are two files.
        after = run.info()
        if after["status"] == "running" and run.status(after) != "killed":
            raise RunError("the run is going on; wait for it", where=shown(run.path), code="no-result") from None
        if after["status"] == "failed" and after.get("error"):
            raise RunError(f"the run failed: {after['error']}", where=shown(run.path), code="no-result") from None
        if after == info:
            raise
        return _opened(folder, run, after, model, data)


def _opened(
    folder: str | os.PathLike[str], run: RunFolder, info: dict[str, Any], model: ModelLike | None, data: Any
) -> Fitted:
    filed, dataset = run.model(), run.dataset()
    _verify(info, filed, dataset, str(folder))
    engine_named(info, str(folder))
    if model is not None:
        _same_model(filed, Source(model).model, str(folder))
    if data is not None:
        given = read_dataset(filed.data, None, data, filed.declared())
        given = given if filed.model.any_names else given.plain()
        _same_digests(info["data_digests"], given.digests(), str(folder))
    kept = Memory(**info["memory"]) if info["memory"] else None
    posterior = posterior_of(filed, bind(filed, dataset, filed.factors(), kept))
    verdict = Verdict.from_dict(info["verdict"]) if info["verdict"] else None
    tree = run.result(info.get("result_digests"))
    if verdict is None:
        raise RunError(
            "the run has no verdict: it was killed; complete it with `bayeslab fit --resume`",
            where=str(folder),
            code="no-result",
        )
    return Fitted(posterior, tree, verdict, info, run.path)


def _verify(info: Mapping[str, Any], model: Model, dataset: Dataset, where: str) -> None:
    if info["model_digest"] != model.digest():
        raise RunError(
            "model.yaml is not the model of this run (its digest differs from run.json)", where=where, code="damaged"
        )
    _same_digests(info["data_digests"], dataset.digests(), where)


def _same_digests(stored: Mapping[str, str], given: Mapping[str, str], where: str) -> None:
    for name in stored:
        if name not in given:
            raise RunError(f"the data have no column '{name}', which the run used", where=where, code="other-run")
        if stored[name] != given[name]:
            raise RunError(
                f"column '{name}' of the data differs from the one the run used", where=where, code="other-run"
            )
    for name in given.keys() - stored.keys():
        raise RunError(f"the data have a column '{name}', which the run did not have", where=where, code="other-run")


def _same_model(filed: Model, given: Model, where: str) -> None:
    difference = _difference(filed.to_dict(), given.to_dict(), ())
    skipped = {("name",), ("about",), ("seed",), ("data", "table"), ("data", "arrays"), ("data", "tables")}
    if difference and filed.digest() != given.digest():
        path, ours, theirs = next(
            (d for d in difference if d[0][:1] not in skipped and d[0][:2] not in skipped), difference[0]
        )
        raise RunError(
            f"{'.'.join(path)} differs: the run has {ours!r}, the model given has {theirs!r}",
            where=where,
            code="other-run",
        )


def _difference(a: Any, b: Any, path: tuple[str, ...]) -> list[tuple[tuple[str, ...], Any, Any]]:
    if isinstance(a, dict) and isinstance(b, dict):
        keys = [*a, *(k for k in b if k not in a)]
        return [d for k in keys for d in _difference(a.get(k), b.get(k), (*path, str(k)))]
    return [] if a == b else [(path, a, b)]
