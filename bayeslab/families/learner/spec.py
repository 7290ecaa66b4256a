"""Keys of the ``learner`` family in a model file."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Set
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import Field, ModelWrapValidatorHandler, ValidationError, model_serializer, model_validator

from bayeslab import registry
from bayeslab.errors import (
    Flaw,
    hint,
    listed,
)
from bayeslab.language.spec import ColumnName, Family
from bayeslab.language.spec import Spec as Frozen
from bayeslab.language.wording import code_of, parameter_sentence

__all__ = ["Learner"]

# Largest number of option combinations to tune; each is trained in every fold.
_TRIED = 10_000


class Learner(Family):
    """A classical learner; its options stand beside the keys below."""

    is_learner: ClassVar[bool] = True
    family: Literal["learner"] = "learner"
    learner: str = Field(description="Name of a module of bayeslab.learners.")
    target: ColumnName = Field(description="The column to predict.")
    inputs: list[ColumnName] = Field(
        default_factory=list, description="Columns to predict the target from; if left out or empty, all other columns."
    )
    task: Literal["classification", "regression"] | None = Field(
        default=None,
        description="If left out: classification for a target of names, regression for a target of numbers.",
    )
    calibration: Literal["platt", "isotonic", "none"] | None = Field(
        default=None,
        description="How scores become probabilities; if left out, platt where the learner gives no probabilities.",
    )
    sample_weight: ColumnName | None = Field(
        default=None,
        description="Column of non-negative row weights, which is not an input. Scores of held-out rows are not"
        " weighted.",
    )
    impute: Literal["mean", "median"] | None = Field(
        default=None,
        description="Replace missing cells of the inputs by the column's mean or median in the training rows (by"
        " the most frequent value in columns of names); if left out, missing cells are refused unless"
        " the learner accepts them.",
    )
    standardise: bool | None = Field(
        default=None,
        description="Whether numeric columns are scaled to mean 0 and standard deviation 1 in the training rows; if"
        " left out, only where the learner needs it.",
    )
    tune: dict[str, list[Any]] = Field(
        default_factory=dict,
        description="Candidate values of options, selected by cross-validation within the training rows.",
    )
    tune_folds: int = Field(default=5, ge=2, description="Number of folds of the cross-validation for `tune`.")
    options: dict[str, Any] = Field(default_factory=dict, description="Options of the learner.")

    if TYPE_CHECKING:  # what a model file may hold, for type checkers; the fields are what it becomes

        def __init__(
            self,
            *,
            family: Literal["learner"] = ...,
            learner: str,
            target: str,
            inputs: list[str] = ...,
            task: Literal["classification", "regression"] | None = ...,
            calibration: Literal["platt", "isotonic", "none"] | None = ...,
            sample_weight: str | None = ...,
            impute: Literal["mean", "median"] | None = ...,
            standardise: bool | None = ...,
            tune: Mapping[str, list[Any]] = ...,
            tune_folds: int = ...,
            **options: Any,
        ) -> None: ...

    @model_validator(mode="wrap")
    @classmethod
    def _flat(cls, content: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Collect keys that are not the family's as options of the learner."""
        if not isinstance(content, Mapping):
            return handler(content)
        fields = {k: v for k, v in content.items() if k in cls.model_fields and k != "options"}
        nested = content.get("options", {})
        rest = {k: v for k, v in content.items() if k not in cls.model_fields}
        return handler(fields | {"options": (dict(nested) if isinstance(nested, Mapping) else {}) | rest})

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
        if self.sample_weight is not None and self.sample_weight in (self.target, *self.inputs):
            raise Flaw(
                f"'{self.sample_weight}' is a weight of rows, and so neither the target nor an input",
                "sample_weight",
                code="conflict",
            )
        for word in ("impute", "standardise"):
            if getattr(self, word) is not None and module.CATEGORIES == "texts":
                raise Flaw(f"{self.learner} takes texts as they are: leave {word} out", word, code="not-applicable")
        if len(set(self.inputs)) < len(self.inputs):
            raise Flaw("an input is given twice", "inputs", code="duplicate")
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

    def factors(self, dims: Collection[str]) -> set[str]:
        """The target of a classification, and the dimensions that the file declares."""
        classifies = self.task == "classification" or self.module.TASKS == ("classification",)
        return ({self.target} if classifies else set()) | set(dims)

    def chosen_outcome(self) -> str | None:
        """The target."""
        return self.target

    def named_inputs(self) -> list[str]:
        """The inputs."""
        return list(self.inputs)

    def takes_gaps(self) -> bool:
        """Whether inputs may have missing cells: if the learner accepts them, or ``impute`` replaces them."""
        return bool(self.module.MISSING) or self.impute is not None

    def outcomes(self, columns: Set[str]) -> tuple[str, ...]:
        """The target."""
        return (self.target,)

    @property
    def module(self) -> Any:
        """The learner's module."""
        return registry.load("learners", self.learner)


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
