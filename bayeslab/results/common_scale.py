"""Whether log likelihoods of two models are on one scale, so that their difference means something."""

from __future__ import annotations

import numpy as np

from bayeslab import registry
from bayeslab.dataset import Data
from bayeslab.errors import DataError
from bayeslab.spec import Model

__all__ = ["same_events", "same_weights"]

# The name of a model, the model, and its data.
type Named = tuple[str, Model, Data]


def same_weights(one: Named, other: Named) -> None:
    """Refuse log likelihoods that are multiplied by unlike weights.

    Raises
    ------
    DataError
    """
    given = [_of_family("row_weights", model, data) for _, model, data in (one, other)]
    for outcome in sorted(given[0].keys() | given[1].keys()):
        a, b = (weights.get(outcome, np.ones(1)) for weights in given)
        unlike = len({each.shape for each in (a, b)} - {(1,)}) > 1
        if unlike or not np.all(a == b):
            raise DataError(
                f"'{one[0]}' and '{other[0]}' weigh the rows of '{outcome}' differently: log likelihoods times unlike"
                f" weights have no common scale; compare predictions of single rows instead (cross_validate)"
            )


def same_events(outcome: str, one: Named, other: Named) -> None:
    """Refuse values that have a probability in one model and a density in the other.

    Raises
    ------
    DataError
    """
    found = [_of_family("events", model, data).get(outcome) for _, model, data in (one, other)]
    shape = next((marks.shape for marks in found if marks is not None), ())
    a, b = (np.zeros(shape, dtype=bool) if marks is None else marks for marks in found)
    if a.shape != b.shape or np.array_equal(a, b):
        return
    at = tuple(int(i) for i in np.argwhere(a != b)[0])
    cut, plain = (one[0], other[0]) if a[at] else (other[0], one[0])
    raise DataError(
        f"'{outcome}', row {', '.join(str(i + 1) for i in at)}, is censored or an atom in '{cut}' and an ordinary value"
        f" in '{plain}': a probability and a density have no common scale, and another unit of '{outcome}' would"
        f" change the order of the models"
    )


def _of_family(hook: str, model: Model, data: Data) -> dict[str, np.ndarray]:
    family = registry.load("families", model.model.family)
    return dict(getattr(family, hook)(model, data)) if hasattr(family, hook) else {}
