"""Base classes of the learners: parameter checks from one declaration, and convergence warnings.

``Options`` of a learner module declares the options of a model file. The estimator class checks its parameters against
the same declaration when it is fitted, so that Python and model files have the same bounds, allowed values and errors.
Parameters that a model file does not have are declared by the annotations of ``__init__``.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping, Sequence
from inspect import isfunction, signature
from typing import Annotated, Any, ClassVar, get_type_hints

import numpy as np
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

from bayeslab.arrays import positions
from bayeslab.errors import OptionError
from bayeslab.language.spec import Spec
from bayeslab.language.wording import (
    code_of,
    parameter_sentence,
)
from bayeslab.training_warnings import convergence_warnings, summary

__all__ = [
    "MANY",
    "Applies",
    "Count",
    "Estimator",
    "LearnerOptions",
    "NonNegative",
    "ParameterError",
    "Passes",
    "Positive",
    "Share",
    "guarded",
    "one_of_two",
    "warn_unless",
]

# Upper limit for members, units and tables: more would take days and all of the memory.
MANY = 100_000

Positive = Annotated[float, Field(gt=0)]
NonNegative = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(gt=0, le=1)]
Count = Annotated[int, Field(ge=1, le=MANY)]
Passes = Annotated[int, Field(ge=1, le=10_000_000)]

_FITS = ("fit", "partial_fit", "fit_predict", "fit_transform")
_STRICT = ConfigDict(strict=True, allow_inf_nan=False)


class ParameterError(OptionError, ValueError):
    """A parameter of a learner is out of range; it is also the ValueError that scikit-learn expects."""


type Applies = Mapping[str, Mapping[str, tuple[Any, ...]]]


class LearnerOptions(Spec):
    """Base class of the options of learners; all numbers must be finite."""

    model_config = ConfigDict(allow_inf_nan=False)
    # Options that have an effect only if other options, or the task, have one of these values.
    applies: ClassVar[Applies] = {}

    @classmethod
    def without_effect(
        cls, given: Mapping[str, Any], tuned: Mapping[str, list[Any]], task: str | None
    ) -> tuple[str, str] | None:
        """Return the first given option that can have no effect, and the reason; None if all have an effect.

        Parameters
        ----------
        given, tuned
            Given values, and candidate values for tuning.
        task
            Classification or regression; None if the data determine it.
        """
        for name, conditions in cls.applies.items():
            if (name not in given or given[name] == cls.model_fields[name].default) and name not in tuned:
                continue
            for other, values in conditions.items():
                if other == "task":
                    possible = list(values) if task is None else [task]
                else:
                    possible = tuned.get(
                        other, [given.get(other, getattr(cls.model_fields.get(other), "default", None))]
                    )
                if not any(value in values for value in possible):
                    what, wanted = (_shown(other, those) for those in (possible, values))
                    return name, f"'{name}' has no effect with {what}, only with {wanted}: leave it out"
        return None


def _shown(option: str, values: Sequence[Any]) -> str:
    words = ["null" if v is None else v if isinstance(v, str | int | float) else "a learner" for v in values]
    return f"{option}: {' or '.join(map(str, words))}"


# ------------------------------------------------------------------------------------ parameters


def _plain(value: Any) -> Any:
    """Convert NumPy numbers to Python numbers, and sequences of them to lists."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray) and value.ndim == 1:
        return value.tolist()
    return [_plain(v) for v in value] if isinstance(value, (tuple, list)) else value


def _is_plain(value: Any) -> bool:
    kinds = (str, int, float, type(None))
    return isinstance(value, kinds) or (isinstance(value, list) and all(isinstance(v, kinds) for v in value))


@functools.cache
def _declared(kind: type[Estimator]) -> dict[str, tuple[TypeAdapter[Any], bool, Any]]:
    """For each parameter: its type, whether objects that a file cannot hold are allowed, and its default."""
    fields = kind._options.model_fields if kind._options is not None else {}
    hints = get_type_hints(kind.__init__, include_extras=True)
    out: dict[str, tuple[TypeAdapter[Any], bool, Any]] = {}
    for name, parameter in signature(kind.__init__).parameters.items():
        annotation = hints.get(name, Any)
        if name in ("self", "random_state", "categorical") or (annotation is Any and name not in fields):
            continue
        field = fields.get(name)
        declared: Any = annotation if field is None else Annotated[field.annotation, field]
        out[name] = TypeAdapter(declared, config=_STRICT), annotation is Any, parameter.default
    return out


def check(estimator: Estimator, X: Any) -> None:
    kind: Any = type(estimator)
    name = kind.__name__
    for parameter, (adapter, wider, default) in _declared(kind).items():
        given = getattr(estimator, parameter)
        value = _plain(given)
        if value is default or (type(value) is type(default) and value == default):
            continue
        if wider and not _is_plain(value):
            continue
        if isinstance(value, str) and value in estimator._words.get(parameter, ()):
            continue
        try:
            adapter.validate_python(value)
        except ValidationError as error:
            if parameter in estimator._single and _accepts(adapter, [value]):
                continue
            raise ParameterError(
                f"{name}: {parameter_sentence(error.errors(include_url=False), given, parameter)}",
                code=code_of(error.errors(include_url=False)),
            ) from None
    params = vars(estimator)
    if "random_state" in params:
        _check_seed(name, params["random_state"])
    if len(params.get("categorical", ()) or ()) and len(np.shape(X)) == 2:
        positions(list(params["categorical"]), f"{name}: 'categorical'", np.shape(X)[1], error=ParameterError)


def _accepts(adapter: TypeAdapter[Any], value: Any) -> bool:
    try:
        adapter.validate_python(value)
    except ValidationError:
        return False
    return True


def _check_seed(name: str, seed: Any) -> None:
    if seed is None or seed is np.random or isinstance(seed, np.random.RandomState):
        return
    whole = isinstance(seed, (int, np.integer)) and not isinstance(seed, (bool, np.bool_))
    if not whole or not 0 <= seed < 1 << 32:
        allowed = "a whole number from 0 to 4294967295, a RandomState or None"
        raise ParameterError(f"{name}: 'random_state' is {allowed}; given: {seed!r}", code="out-of-range")


class Estimator(BaseEstimator):
    """Base class of the learners: ``fit`` checks the parameters and collects convergence warnings.

    Parameters
    ----------
    options : type of Spec, optional
        Class keyword: the declaration of the parameters with the same names.
    words : mapping of str to tuple of str, optional
        Class keyword: values of a parameter that are allowed in Python only.
    single : tuple of str, optional
        Class keyword: parameters that are lists in a file but for which Python also accepts a single entry.
    """

    _options: ClassVar[type[Spec] | None] = None
    _words: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    _single: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(
        cls,
        options: type[Spec] | None = None,
        words: Mapping[str, tuple[str, ...]] | None = None,
        single: tuple[str, ...] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init_subclass__(**kwargs)
        if options is not None:
            cls._options = options
        if words is not None:
            cls._words = words
        if single is not None:
            cls._single = single
        for method in _FITS:
            if isfunction(vars(cls).get(method)):  # what is available for some parameters only is guarded there
                setattr(cls, method, guarded(vars(cls)[method]))

    def suits(self, n_rows: int, n_columns: int, n_classes: int) -> None:
        """Raise :class:`ValueError` if the parameters do not suit the data; regression has 0 classes."""


def guarded[F: Callable[..., Any]](method: F) -> F:
    """Wrap a method: check the parameters first, and issue one warning for all that did not converge."""

    @functools.wraps(method)
    def fit(self: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
        check(self, X)
        with convergence_warnings() as caught:
            out = method(self, X, *args, **kwargs)
        if caught:
            warnings.warn(summary(caught, f"{type(self).__name__}: "), ConvergenceWarning, stacklevel=2)
        return out

    return fit  # type: ignore[return-value]


# ----------------------------------------------------------------------------------- convergence


def warn_unless(converged: bool, estimator: Any, text: str) -> bool:
    """Issue scikit-learn's ConvergenceWarning unless converged; return ``converged``.

    Parameters
    ----------
    text
        What has not converged, and what to do.
    """
    if not converged:
        warnings.warn(f"{type(estimator).__name__}: {text}", ConvergenceWarning, stacklevel=3)
    return bool(converged)


# --------------------------------------------------------------------------------------- classes


def one_of_two(n_classes: int, positive: int | None) -> None:
    """Raise :class:`ValueError` unless there are at most two classes and ``positive`` is the index of one of them."""
    if n_classes > 2:
        raise ValueError(f"Only binary classification is supported; there are {n_classes} classes")
    if positive is not None and not 0 <= positive < n_classes:
        raise ValueError(f"positive is 0 or 1, the position of one of the {n_classes} classes; given: {positive}")
