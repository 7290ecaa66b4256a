"""Learners trained on matrices of numbers instead of tables: sparse rows, and rows that come in parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bayeslab import registry
from bayeslab.errors import DataError, ModelError, listed
from bayeslab.families.learner.spec import Learner
from bayeslab.families.learner.trained import Learned, Prepared, fitted
from bayeslab.language.spec import Model
from bayeslab.learners.toolbox.lazy import Lazy

__all__ = ["Parts", "learns_in_parts", "takes_sparse", "trained", "with_part"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Parts:
    """A learner trained on parts of the rows.

    Attributes
    ----------
    learned : Learned
    rows : tuple or None
        All inputs and outcomes so far, if the learner stores its rows.
    """

    learned: Learned
    rows: tuple[Any, NDArray[Any]] | None


def _prepared(model: Model, X: Any, classes: np.ndarray | None) -> Prepared:
    """The learning problem of number columns x1, x2, ...

    Raises
    ------
    DataError
        The learner takes texts; or the rows are sparse, and it needs all cells.
    """
    spec = _spec(model)
    out = Prepared(model, tuple(f"x{j + 1}" for j in range(X.shape[1])), (0,) * X.shape[1], classes)
    if spec.module.CATEGORIES == "texts":
        raise DataError(f"{spec.learner} learns from texts, and X is a matrix of numbers", code="not-states")
    if sparse.issparse(X) and not takes_sparse(model, out.task):
        able = (w for w in registry.names("learners") if _able(registry.load("learners", w), out.task))
        raise DataError(
            f"X is sparse, and {spec.learner} with these options needs every cell: give X.toarray(), or take"
            f" {listed(sorted(able))}",
            code="not-applicable",
        )
    return out


def _sparse_tag(estimator: Any) -> bool:
    return bool(estimator.__sklearn_tags__().input_tags.sparse)


def _able(module: Any, task: str) -> bool:
    """Whether a learner with default options takes sparse rows."""
    fits = task in module.TASKS and module.CATEGORIES != "texts"
    return fits and _sparse_tag(module.build(module.Options(), task, ()))


def learns_in_parts(model: Model, task: str) -> bool:
    """Whether the learner with these options has ``partial_fit``."""
    return hasattr(_built(model, task), "partial_fit")


def takes_sparse(model: Model, task: str) -> bool:
    """Whether the learner with these options takes sparse rows."""
    return _spec(model).module.CATEGORIES != "texts" and _sparse_tag(_built(model, task))


def _spec(model: Model) -> Learner:
    assert isinstance(model.model, Learner)
    return model.model


def _built(model: Model, task: str) -> Any:
    spec = _spec(model)
    options = spec.options | {name: values[0] for name, values in spec.tune.items()}
    return spec.module.build(spec.module.Options.model_validate(options), task, ())


def trained(
    model: Model, X: Any, outcome: NDArray[Any], classes: np.ndarray | None, seed: int, weights: Array | None
) -> Learned:
    """The learner trained on a matrix; tuning and calibration are those of a table.

    Parameters
    ----------
    X : array or CSR matrix, shape (rows, columns)
    outcome
        Positions in ``classes``, or numbers.
    """
    return fitted(_prepared(model, X, classes), X, outcome, seed, weights)


def with_part(
    model: Model,
    before: Parts | None,
    X: Any,
    outcome: NDArray[Any],
    classes: np.ndarray | None,
    seed: int,
    weights: Array | None,
) -> Parts:
    """The learner with more rows, trained further from ``before``; None: this is the first part.

    Columns are standardised, if the learner needs it, by the first part; by all rows so far if the learner stores its
    rows.

    Raises
    ------
    ModelError
        The model tunes options or calibrates probabilities, which needs all rows at once.
    DataError
        The learner refuses the rows.
    """
    ready = _prepared(model, X, classes) if before is None else before.learned.ready
    spec = ready.spec
    for key in ("tune", "calibration"):
        if getattr(spec, key):
            raise ModelError(
                f"{key} needs all rows at once, and partial_fit has a part of them: leave {key} out, or call fit",
                path=("model", key),
                code="not-applicable",
            )
    pipeline = ready.estimator(seed) if before is None else before.learned.estimator
    columns, learner = pipeline.named_steps["columns"], pipeline.named_steps["learner"]
    try:
        if isinstance(learner, Lazy):
            if before is not None and before.rows is not None:
                stack = sparse.vstack if sparse.issparse(X) or sparse.issparse(before.rows[0]) else np.vstack
                X, outcome = stack([before.rows[0], X]), np.append(before.rows[1], outcome)
            pipeline.fit(X, outcome)
            return Parts(Learned(ready, pipeline), (X, outcome))
        if before is None:
            columns.fit(X, sample_weight=weights)
        options: dict[str, Any] = {} if classes is None else {"classes": np.arange(len(classes))}
        if weights is not None:
            options["sample_weight"] = weights
        learner.partial_fit(columns.transform(X), outcome, **options)
    except ValueError as error:
        raise DataError(f"{spec.learner}: {error}", code="failed") from None
    return Parts(Learned(ready, pipeline), None)
