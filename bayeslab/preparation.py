"""From a model and data to an inference that is ready to run; everything that can be refused is refused here."""

from __future__ import annotations

import math
import os
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bayeslab import registry
from bayeslab.data.binding import bind
from bayeslab.data.bound import Data
from bayeslab.data.dataset import Column, Dataset
from bayeslab.data.folding import read_model_data
from bayeslab.engines import auto
from bayeslab.engines.toolbox.contract import Engine, engine, engines
from bayeslab.errors import BayeslabError, DataError, EngineRefusal, ModelError, NothingToFit, OptionError, hint, listed
from bayeslab.families.graph.domains import check_written
from bayeslab.job import Job, MemoryStore, options_of
from bayeslab.language import model_file
from bayeslab.language.spec import Family, Model
from bayeslab.memory import check_draws
from bayeslab.posterior.contract import Posterior, posterior_of
from bayeslab.posterior.machine.arrays import NotLowered
from bayeslab.posterior.machine.model import MachineModel
from bayeslab.progress import reporter

__all__ = [
    "Declaring",
    "ModelLike",
    "Prepared",
    "Source",
    "bound",
    "check",
    "checked",
    "engine_of",
    "graph_of",
    "job_of",
    "observed",
    "prepared",
    "ready",
    "seed_of",
    "to_pymc",
]

type ModelLike = Model | str | os.PathLike[str]


class Declaring(ABC):
    """An object that declares a model and is none itself, such as a network whose tables data determine."""

    @abstractmethod
    def unfitted(self) -> Model:
        """The model that is fitted to data."""


def _no_model(given: object) -> str:
    advice = "; write bl.Model(model=...)" if isinstance(given, Family) else ""
    return f"a model is a bl.Model or the path of a model file, not {type(given).__name__}{advice}"


class Source:
    """A model, and the file it was read from, if any."""

    def __init__(self, model: ModelLike) -> None:
        self.file: model_file.Source | None = None
        if isinstance(model, Model):
            # The model's mappings are mutable; the copy keeps the fitted model unchanged.
            self.model = model.model_copy(deep=True)
        elif isinstance(model, str | os.PathLike):
            self.file = model_file.read(model)
            self.model = self.file.model
        else:
            raise ModelError(_no_model(model), code="wrong-type")

    def bound(self, given: Any) -> Data:
        """The model's data, bound and checked; errors point into the file."""
        dataset = read_model_data(self.model, self.file.folder if self.file else None, given)
        if dataset.left_out:
            self._refuse_used(dataset if self.model.model.any_names else dataset.plain())
        return self._checked(dataset)

    def posterior(self, given: Any) -> Posterior:
        """The model on its data."""
        return posterior_of(self.model, self.bound(given))

    def _refuse_used(self, dataset: Dataset) -> None:
        """Refuse columns that no model can use, such as dates, if this one uses them; unused ones are ignored."""
        left_out = dataset.left_out
        for name in self.model.outcomes(dataset.columns.keys() | left_out.keys()):
            if name in left_out:
                raise DataError(left_out[name], code=left_out[name].code)
        complaint = _message(self._checked, dataset)
        for name, reason in left_out.items() if complaint is not None else ():
            # Is this column the cause of the error?
            with_it = replace(dataset, columns={**dataset.columns, name: Column(np.array(np.nan), ())}, left_out={})
            if _message(self._checked, with_it) != complaint:
                raise DataError(reason, code=reason.code)

    def _checked(self, dataset: Dataset) -> Data:
        data = bind(self.model, dataset, self.model.factors())
        registry.load("families", self.model.model.family).check(self.model, data.names())
        if data.digits:
            data.digits -= set(self.model.outcomes(data.names()))
        if not self.model.model.is_language:  # nodes of the language are checked when data are bound
            check_written(self.model.model, data)
        return data

    def located(self) -> Any:
        return self.file.located() if self.file else nullcontext()


def _message(work: Callable[[Dataset], object], dataset: Dataset) -> str | None:
    """The message of the error that ``work`` raises; None if it raises none."""
    try:
        work(dataset)
    except BayeslabError as error:
        return str(error)
    return None


def check(model: ModelLike, data: Any = None, method: str | None = None, **options: Any) -> Data:
    """Check a model, its data and its inference, without sampling; refuses whatever :func:`fit` refuses beforehand.

    Parameters
    ----------
    model, data, method, **options
        As for :func:`bayeslab.fitting.fit`. Without data, the parts that need no data are checked.

    Returns
    -------
    Data
        The data bound to the model.

    Raises
    ------
    BayeslabError
        The first error found, with its place. A model with nothing to fit, which is for another command, is no error.
    """
    return checked(model, data, method, **options).data


def checked(model: ModelLike, data: Any = None, method: str | None = None, **options: Any) -> Prepared:
    """The prepared inference behind :func:`check`.

    Without data, or with nothing to fit, the engine is '' and ``reason`` says why.
    """
    source = Source(model)
    with source.located():
        posterior = source.posterior(data)
        if not posterior.data.dataset.columns and not observed(posterior):
            _check_inference(source.model, method, options)
            posterior.draw_size()
            return Prepared(posterior, None, "", "", None, 0)
        try:
            return prepared(posterior, method, options, 0, begin=False)
        except NothingToFit as error:
            return Prepared(posterior, None, "", error.message, None, 0)


def bound(model: ModelLike, data: Any = None) -> Data:
    """The data bound to a model, without building its graph."""
    source = Source(model)
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
    source = Source(model)
    with source.located():
        return source.posterior(data).graph()


@dataclass(frozen=True)
class Prepared:
    """One inference that is ready to run, fully checked.

    Attributes
    ----------
    posterior : Posterior
        The model on its data.
    graph : pymc.Model or None
        The PyMC graph, for engines that use one.
    engine, reason : str
        The engine's name, and why it was chosen.
    options : Spec
        The engine's options.
    machine : MachineModel or None
        The program of the density machine, for engines that use it if it knows the model.
    note : str
        Why the density machine is not used, or "".
    """

    posterior: Posterior
    graph: Any
    engine: str
    reason: str
    options: Any
    seed: int
    info: Mapping[str, Any] | None = None
    machine: MachineModel | None = None
    note: str = ""

    @property
    def model(self) -> Model:
        return self.posterior.model

    @property
    def data(self) -> Data:
        return self.posterior.data


def prepared(
    posterior: Posterior, method: str | None, options: Mapping[str, Any], seed: int, *, begin: bool = True
) -> Prepared:
    """Choose the engine and check the inference; ``fit`` and ``check`` share this function, so they refuse the same.

    ``begin`` says whether sampling will follow: a mere check needs no start values of chains.
    """
    if not observed(posterior):
        raise DataError(
            "the model has no data to fit: name a table in its data section, or pass data"
            " (to draw from the prior use simulate)",
            code="no-data",
        )
    posterior.bound_data()
    engine, reason, chosen = engine_of(posterior, method, options)
    return ready(Prepared(posterior, None, engine, reason, chosen, seed), begin=begin)


def ready(work: Prepared, *, begin: bool = True) -> Prepared:
    """The inference with its graph, after checks that its draws fit into memory and that its engine accepts it.

    Raises
    ------
    BayeslabError
        The draws do not fit into memory, or the engine refuses the model.
    """
    module, known = engine(work.engine), work.posterior.draw_size()
    _check_draws(work.engine, work.options, max(1 if known is None else known, module.draw_size(work.posterior)))
    machine, note = machine_of(work.posterior, work.options, begin=begin)
    graph = None if machine is not None else graph_of(work.posterior, work.engine, begin=begin)
    if graph is not None and known is None:
        _check_draws(work.engine, work.options, _numbers(graph))
    work = replace(work, graph=graph, machine=machine, note=note)
    module.ready(job_of(work, reporter(False), MemoryStore()))
    return work


def _check_draws(engine: str, options: Any, size: int) -> None:
    """Check that the engine's draws fit into memory; only NUTS also holds the warm-up draws until its chains end."""
    draws, chains = getattr(options, "draws", 1) or 1, getattr(options, "chains", 1) or 1
    tune = (getattr(options, "tune", 0) or 0) if engine == "nuts" else 0
    check_draws(draws, tune, chains, size, ("inference",))


def _numbers(graph: Any) -> int:
    """Count of numbers in one draw of a PyMC model, from the shapes that are known before it runs."""
    lengths = {dim: len(levels) for dim, levels in graph.coords.items() if levels is not None}
    total = 0
    for variable in (*graph.free_RVs, *graph.deterministics):
        dims = graph.named_vars_to_dims.get(variable.name) or ()
        known = [lengths.get(dim, 1) for dim in dims] or [n or 1 for n in variable.type.shape]
        total += math.prod(known)
    return total


def observed(posterior: Posterior) -> tuple[str, ...]:
    """Names of the columns or nodes through which data enter the density.

    Raises
    ------
    ModelError, DataError
        There are data, but no observed node uses them.
    """
    names = posterior.observed()
    if posterior.data.names() and not names:
        raise DataError(
            f"every cell of {listed(posterior.outcomes())} is missing: the data carry no information about the model",
            code="nothing-observed",
        )
    return names


def _check_inference(model: Model, method: str | None, options: Mapping[str, Any]) -> None:
    """Check method and options without data, when no engine can be chosen yet."""
    word, filed, file_options = _method(model, method)
    known = {w: each for w, each in engines().items() if word in ("auto", w)}
    for name, value in (file_options | dict(options)).items():
        _check_option(name, value, known if word == filed or name in options else engines())


def graph_of(posterior: Posterior, method: str, *, begin: bool = True) -> Any:
    """The PyMC graph, for engines that use one. Building it raises its errors before a run folder is created."""
    if not engine(method).uses_graph:
        return None
    return posterior.graph() if begin else posterior.graph_without_start()


def machine_of(posterior: Posterior, options: Any, *, begin: bool = True) -> tuple[MachineModel | None, str]:
    """The program of the density machine, for engines that use it, and otherwise why there is none.

    Raises
    ------
    ModelError
        The options ask for the machine, and it does not know the model.
    """
    backend = getattr(options, "backend", "pytensor")
    if backend == "pytensor":
        return None, ""
    try:
        return (posterior.machine_model() if begin else posterior.machine_without_start()), ""
    except NotLowered as error:
        if backend == "machine":
            raise ModelError(
                f"the density machine does not know a part of this model ({error}): take backend auto or pytensor",
                path=("inference", "backend"),
                code="unsupported",
            ) from None
        return None, f"{error}: not known to the density machine; PyTensor compiles the model"
    except BayeslabError:
        # The same error, or none, comes from the graph.
        return None, ""


def seed_of(seed: int | None, model: Model) -> int:
    """The given seed, else the model's, else a new one."""
    if seed is None:
        seed = model.seed if model.seed is not None else secrets.randbits(32)
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise OptionError(f"seed is a whole number ≥ 0, not {seed!r}", code="out-of-range")
    return seed


def _method(model: Model, method: str | None) -> tuple[str, str, dict[str, Any]]:
    """The method to use, the model file's method, and the model file's options."""
    file_options = dict(model.inference)
    filed = file_options.pop("method", "auto")
    if not isinstance(filed, str):
        raise OptionError(f"method is a word, not {filed!r}", path=("inference", "method"), code="wrong-type")
    word = method or filed
    if word not in registry.names("engines"):
        path = () if method else ("inference", "method")
        raise OptionError(
            f"unknown method '{word}'{hint(word, registry.names('engines'))}", path=path, code="unknown-word"
        )
    return word, filed, file_options


def engine_of(posterior: Posterior, method: str | None, options: Mapping[str, Any]) -> tuple[str, str, Any]:
    """The engine, why it was chosen, and its options: those given override the model file's."""
    word, filed, file_options = _method(posterior.model, method)
    reason = f"{word} was asked for"
    if word == "auto":
        word, reason = auto.choose(posterior)
    module = engine(word)
    given = {k: v for k, v in options.items() if v is not None}
    if word != filed:
        # The file's options belong to the method it names; of them, those that this engine has are kept.
        file_options = _applicable(file_options, module)
    if (method or filed) == "auto":
        given = _applicable(given, module)
    chosen = options_of(module.options, file_options | given, word)
    refusal = module.refuse(posterior)
    if refusal:
        raise EngineRefusal(f"method {word} does not apply: {refusal}", code=refusal.code)
    return word, reason, chosen


def _applicable(options: Mapping[str, Any], module: Engine) -> dict[str, Any]:
    """The options that this engine has; the others are validated by the engines that have them."""
    kept = {}
    for name, value in options.items():
        if name in module.options.model_fields or not _known_option(name, value):
            kept[name] = value
    return kept


def _known_option(name: str, value: Any) -> bool:
    """Whether an engine has the option.

    Raises
    ------
    OptionError
        None of the engines that have it takes the value.
    """
    # Most options of model files are for NUTS; not all engines are loaded then.
    if name in engine("nuts").options.model_fields:
        try:
            options_of(engine("nuts").options, {name: value}, "nuts")
        except OptionError:
            _check_option(name, value, engines())
        return True
    if any(name in each.options.model_fields for each in engines().values()):
        _check_option(name, value, engines())
        return True
    return False


def _check_option(name: str, value: Any, known: Mapping[str, Engine]) -> None:
    """Refuse an option that none of these engines has, or a value that none of them takes."""
    having = {word: each for word, each in known.items() if name in each.options.model_fields}
    if not having and len(known) > 1:
        fields = sorted({field for each in known.values() for field in each.options.model_fields})
        raise OptionError(
            f"no method has an option '{name}'{hint(name, fields)}", path=("inference", name), code="unknown-option"
        )
    refused = []
    for word, each in (having or known).items():
        try:
            options_of(each.options, {name: value}, word)
        except OptionError as error:
            refused.append(error)
    if len(refused) == len(having or known):
        raise refused[0]


def job_of(work: Prepared, view: Any, store: Any) -> Job:
    """The input of the engine."""
    return Job(work.posterior, work.options, work.seed, view, store, work.graph, work.machine)
