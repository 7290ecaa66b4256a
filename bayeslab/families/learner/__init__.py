"""Family ``learner``: a classical learner, trained on the columns of a table and scored like any other model.

The word after ``learner:`` is a module of :mod:`bayeslab.learners`; its options stand beside it. Columns of names
become codes or indicators, numbers are standardised where the learner needs it, all of it learned from the rows that
are fitted to. What scores only ranks is turned into probabilities (``calibration``), options can be tuned inside the
training rows (``tune``).

References
----------
.. [1] Platt (2000). Probabilistic outputs for support vector machines. In: Advances in Large Margin Classifiers.
.. [2] Zadrozny, Elkan (2002). Transforming classifier scores into accurate multiclass probability estimates. KDD 8.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self

import networkx as nx
import numpy as np
from pydantic import Field, ModelWrapValidatorHandler, ValidationError, model_serializer, model_validator
from scipy.special import ndtri

from bayeslab import registry
from bayeslab.constants import HALF_LOG_2PI
from bayeslab.data.bound import Data
from bayeslab.errors import (
    Flaw,
    ModelError,
    hint,
    listed,
)
from bayeslab.families import DENSITY, PROBABILITY
from bayeslab.families.learner.trained import prepared, train
from bayeslab.language.spec import ColumnName, Family, Model
from bayeslab.language.spec import Spec as Frozen
from bayeslab.language.wording import code_of, parameter_sentence

if TYPE_CHECKING:
    import pymc

    from bayeslab.families.learner.trained import Learned

__all__ = ["Learner", "Spec", "check", "exact", "factors", "graph", "learned", "network", "outcomes", "summed_out"]


# Combinations of options, each trained in every fold.
_TRIED = 10_000


class Learner(Family):
    """A classical learner; its own options stand beside these."""

    family: Literal["learner"] = "learner"
    learner: str = Field(description="A word: a module of bayeslab.learners.")
    target: ColumnName = Field(description="The column to predict.")
    inputs: list[ColumnName] = Field(
        default_factory=list, description="The columns to predict it from; left out or empty: all others."
    )
    task: Literal["classification", "regression"] | None = Field(
        default=None, description="Left out: classification of names, regression of numbers."
    )
    calibration: Literal["platt", "isotonic", "none"] | None = Field(
        default=None,
        description="How scores become probabilities; left out: platt, where the learner has none of its own.",
    )
    tune: dict[str, list[Any]] = Field(
        default_factory=dict, description="Values of options to choose from, by cross-validation in the training rows."
    )
    tune_folds: int = Field(default=5, ge=2, description="Folds of that cross-validation.")
    options: dict[str, Any] = Field(default_factory=dict, description="The learner's options.")

    @model_validator(mode="wrap")
    @classmethod
    def _flat(cls, content: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Keys that are not the family's are the learner's options."""
        if not isinstance(content, Mapping):
            return handler(content)
        own = {k: v for k, v in content.items() if k in cls.model_fields and k != "options"}
        nested = content.get("options", {})
        rest = {k: v for k, v in content.items() if k not in cls.model_fields}
        return handler(own | {"options": (dict(nested) if isinstance(nested, Mapping) else {}) | rest})

    @model_validator(mode="after")
    def _known(self) -> Self:
        words = registry.names("learners")
        if self.learner not in words:
            raise Flaw(f"unknown learner '{self.learner}'{hint(self.learner, words)}", "learner", code="unknown-word")
        module = registry.load("learners", self.learner)
        if self.task is not None and self.task not in module.TASKS:
            raise Flaw(f"{self.learner} does {listed(module.TASKS)}, not {self.task}", "task", code="unsupported")
        if self.target in self.inputs:
            raise Flaw(f"the target '{self.target}' is among its own inputs", "inputs", code="self-reference")
        if len(set(self.inputs)) < len(self.inputs):
            raise Flaw("each input once", "inputs", code="duplicate")
        known = [*module.Options.model_fields, *(k for k in type(self).model_fields if k not in ("family", "options"))]
        for name in (*self.options, *self.tune):
            if name not in module.Options.model_fields:
                place = (name,) if name in self.options else ("tune", name)
                raise Flaw(
                    f"the learner {self.learner} has no option '{name}'{hint(name, known)}",
                    *place,
                    code="unknown-option",
                )
        _options(module.Options, self.options, ())
        tried = math.prod(len(values) for values in self.tune.values())
        if tried > _TRIED:
            raise Flaw(
                f"{tried:,} combinations of options to choose from: give {_TRIED:,} at most", "tune", code="too-costly"
            )
        for name, values in self.tune.items():
            if not values:
                raise Flaw(f"no values of '{name}' to choose from", "tune", name, code="incomplete")
            if name in self.options:
                raise Flaw(f"'{name}' is given and tuned: leave one of them out", "tune", name, code="conflict")
            for value in values:
                _options(module.Options, self.options | {name: value}, ("tune",))
        task = self.task or (module.TASKS[0] if len(module.TASKS) == 1 else None)
        idle = module.Options.without_effect(self.options, self.tune, task)
        if idle is not None:
            raise Flaw(idle[1], idle[0] if idle[0] in self.options else "tune", code="not-applicable")
        return self

    @model_serializer(mode="wrap")
    def _written(self, handler: Any) -> dict[str, Any]:
        out = dict(handler(self))
        options = out.pop("options", {})
        return out | options

    @property
    def module(self) -> Any:
        """The learner's module."""
        return registry.load("learners", self.learner)


Spec = Learner


def _options(kind: type[Frozen], given: Mapping[str, Any], prefix: tuple[str, ...]) -> None:
    try:
        kind.model_validate(dict(given))
    except ValidationError as error:
        errors = error.errors(include_url=False)
        name = str(errors[0]["loc"][0]) if errors[0]["loc"] else ""
        same = [e for e in errors if e["loc"][:1] == errors[0]["loc"][:1]]
        raise Flaw(
            parameter_sentence(same, given.get(name, errors[0]["input"]), name),
            *prefix,
            *([name] if name else []),
            code=code_of(same),
        ) from None


def _spec(model: Model) -> Learner:
    assert isinstance(model.model, Learner)
    return model.model


# --------------------------------------------------------------------------------- the contract


def check(model: Model, columns: set[str] | None) -> None:
    """The data have the columns that are named."""
    spec = _spec(model)
    if not columns:
        return
    # To predict, the target need not be there.
    for i, name in enumerate(spec.inputs):
        if name not in columns:
            raise ModelError(
                f"the data have no column '{name}'{hint(name, columns)}",
                path=("model", "inputs", i),
                code="unknown-column",
            )


def events(model: Model, data: Data) -> dict[str, np.ndarray]:
    """Of a class the likelihood is a probability, of a number a density."""
    ready, target = prepared(model, data), _spec(model).target
    n_rows = len(data.dataset.columns[target].values) if target in data.dataset.columns else 0
    return {target: np.full(n_rows, DENSITY if ready.classes is None else PROBABILITY)}


def factors(model: Model) -> set[str]:
    """The target of a classification; columns of names are factors anyway."""
    spec = _spec(model)
    classifies = spec.task == "classification" or spec.module.TASKS == ("classification",)
    return ({spec.target} if classifies else set()) | set(model.dims)


def outcomes(model: Model, columns: set[str]) -> tuple[str, ...]:
    """The target."""
    return (_spec(model).target,)


def summed_out(model: Model, columns: set[str]) -> tuple[str, ...]:
    """Nothing."""
    return ()


def derived(model: Model, columns: set[str]) -> tuple[str, ...]:
    """Nothing."""
    return ()


def graph(
    model: Model,
    data: Data,
    *,
    purpose: Literal["fit", "predict", "simulate"] = "fit",
    targets: Collection[str] = (),
) -> pymc.Model:
    """A learner is no probability model of its data."""
    _no_graph(model)


def _no_graph(model: Model) -> NoReturn:
    raise ModelError(
        f"the learner {_spec(model).learner} is no probability model, so that there is no graph, no prior and nothing"
        f" to simulate: it is fitted by method train",
        path=("model", "learner"),
        code="no-graph",
    )


def exact(model: Model, data: Data) -> str:
    """Learners are trained."""
    return "a learner has no posterior"


def preferred(model: Model, data: Data) -> tuple[str, str]:
    """The one engine for learners."""
    ready = prepared(model, data)
    what = f"{len(ready.classes)} classes" if ready.classes is not None else "numbers"
    return "train", f"train: {_spec(model).learner} of {len(ready.names)} inputs, {ready.task} ({what})"


def learned(model: Model, data: Data, seed: int) -> Learned:
    """The learner trained on the data; remembered on them."""
    key = f"learned {seed}"
    if key not in data.memo:
        data.memo[key] = train(model, data, seed)
    found: Learned = data.memo[key]
    return found


def network(model: Model, data: Data) -> nx.DiGraph:
    """Inputs, the learner, the target."""
    spec = _spec(model)
    names = spec.inputs or sorted(data.names() - {spec.target})
    shown = names if len(names) <= 12 else [*names[:11], f"and {len(names) - 11} more"]
    out = nx.DiGraph(dims={model.data.rows: len(data.labels.get(model.data.rows, ()))})
    for name in shown:
        out.add_node(name, kind="data", text="", dims=(model.data.rows,))
    out.add_node(spec.target, kind="observed", text=spec.learner, dims=(model.data.rows,))
    out.add_edges_from((name, spec.target) for name in shown)
    return out


# --------------------------------------------------------------------------------- predictions


def _of_fit(model: Model, data: Data, draws: Mapping[str, np.ndarray]) -> Learned:
    return learned(model, data.origin or data, int(np.ravel(draws["_seed"])[0]))


def predictive(
    model: Model, data: Data, draws: Mapping[str, np.ndarray], rng: np.random.Generator
) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Outcomes drawn from predicted probabilities; of numbers the prediction with the error it has left out."""
    found = _of_fit(model, data, draws)
    n = len(draws["_seed"])
    predicted = found.predicted(data)
    if found.classes is None:
        values = predicted + draws["sigma"][:, None] * rng.standard_normal((n, len(predicted)))
    else:
        # Inverse cumulative probabilities: one uniform number for each draw and row.
        up_to = np.cumsum(predicted, axis=1)
        u = rng.random((n, len(predicted)))
        values = np.minimum((u[:, :, None] > up_to).sum(axis=2), len(found.classes) - 1)
    return {_spec(model).target: ((model.data.rows,), values)}


def tables(
    model: Model, data: Data, draws: Mapping[str, np.ndarray], kind: str, ci_prob: float
) -> dict[str, dict[str, np.ndarray]] | None:
    """Predicted numbers, with the error left out as their spread; None for classes, which have probabilities."""
    found = _of_fit(model, data, draws)
    if kind != "mean" or found.classes is not None:
        return None
    predicted, sigma = found.predicted(data), float(draws["sigma"][0])
    reach, percent = sigma * ndtri((1 + ci_prob) / 2), f"{100 * ci_prob:g}"
    interval = {f"eti{percent}_lb": predicted - reach, f"eti{percent}_ub": predicted + reach}
    return {"": {"mean": predicted, "sd": np.full(len(predicted), sigma)} | interval}


def probabilities(model: Model, seen: Data, new: Data, draws: Mapping[str, np.ndarray]) -> dict[str, np.ndarray] | None:
    """Probability of each class, for every new row; None where numbers are predicted."""
    found = learned(model, seen, int(np.ravel(draws["_seed"])[0]))
    if found.classes is None:
        return None
    predicted = found.predicted(new)
    rows = new.labels.get(model.data.rows, np.arange(len(predicted)))
    target = _spec(model).target
    return {model.data.rows: rows} | {f"P({target}={c})": predicted[:, k] for k, c in enumerate(found.classes)}


def log_likelihoods(
    model: Model, data: Data, draws: Mapping[str, np.ndarray]
) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Log probability, or normal log density, of each row's outcome."""
    found = _of_fit(model, data, draws)
    truth, predicted = found.outcome(data), found.predicted(data)
    if found.classes is not None:
        with np.errstate(divide="ignore"):
            one = np.log(predicted[np.arange(len(truth)), truth.astype(int)])[None]
        values = np.repeat(one, len(draws["_seed"]), axis=0)
    else:
        sigma = draws["sigma"][:, None]
        values = -0.5 * ((truth - predicted) / sigma) ** 2 - np.log(sigma) - HALF_LOG_2PI
    return {_spec(model).target: ((model.data.rows,), values)}
