"""Partial fits of lazy learners, which store their rows."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.utils.validation import validate_data

__all__ = ["Lazy"]


class Lazy:
    """Mixin of learners that store their rows: partial fits give the same as one fit to all rows.

    ``fit`` of the learner sets ``_rows`` to the rows and their outcomes.
    """

    _rows: tuple[np.ndarray, np.ndarray]

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Add rows; the result is that of ``fit`` on all rows so far.

        Parameters
        ----------
        classes
            Accepted as in scikit-learn; the classes are those of the rows so far.

        Raises
        ------
        ValueError
            The columns are not those of the rows before, or a class is not among ``classes``.
        """
        if classes is not None and len(other := np.setdiff1d(y, classes)):
            raise ValueError(f"y has the class {other[0]!r}, which is not among classes")
        learner: Any = self
        if not hasattr(self, "_rows"):
            learner.fit(X, y)
            return self
        takes_sparse = "csr" if learner.__sklearn_tags__().input_tags.sparse else False
        X, y = validate_data(learner, X, y, reset=False, dtype=np.float64, accept_sparse=takes_sparse)
        before, outcomes = self._rows
        names = getattr(learner, "feature_names_in_", None)
        stack = sparse.vstack if sparse.issparse(X) or sparse.issparse(before) else np.vstack
        learner.fit(stack([before, X]), np.concatenate([outcomes, y]))
        if names is not None:
            learner.feature_names_in_ = names
        return self
