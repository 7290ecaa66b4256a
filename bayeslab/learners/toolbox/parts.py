"""Classes of learners that are fitted in parts."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["classes_of_parts"]


def classes_of_parts(learner: Any, y: Any, classes: Any = None) -> np.ndarray:
    """The sorted classes of all parts, set by the first part and checked by the later ones.

    Parameters
    ----------
    learner
        Has ``classes_`` after the first part.
    y
        Classes of the rows of this part.
    classes
        All classes; None: those of the first part.

    Raises
    ------
    ValueError
        There is one class only; a row has another class; or ``classes`` are not those of the first part.
    """
    known = getattr(learner, "classes_", None)
    if known is None:
        known = np.unique(y if classes is None else classes)
        if len(known) < 2:
            raise ValueError(
                f"the first part has one class, {known[0]!r}: give all classes in the first call, as classes=[...]"
            )
    elif classes is not None and not np.array_equal(known, np.unique(classes)):
        raise ValueError(f"classes are those of the first part, {known.tolist()}; given: {np.unique(classes).tolist()}")
    other = np.setdiff1d(y, known)
    if len(other):
        raise ValueError(
            f"y has the class {other[0]!r}, and the classes are {known.tolist()}: give all classes in the first call,"
            " as classes=[...]"
        )
    return np.asarray(known)
