"""Tables of numbers and codes as the matrices that learners take."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin, check_is_fitted

__all__ = ["Columns"]

Array = NDArray[np.float64]


class Columns(TransformerMixin, BaseEstimator):
    """Number columns standardised or as they are, columns of codes as codes or as indicators of their levels.

    Parameters
    ----------
    levels : tuple of int
        Number of levels of each column; 0 of a number column.
    categories : {"codes", "indicators"}
    scale : bool
        Standardise number columns by the mean and the standard deviation of the rows fitted to.
    """

    def __init__(
        self,
        levels: tuple[int, ...] = (),
        categories: Literal["codes", "indicators"] = "indicators",
        scale: bool = False,
    ) -> None:
        self.levels, self.categories, self.scale = levels, categories, scale

    def fit(self, X: Any, y: Any = None) -> Self:
        """Means and standard deviations; a column that does not vary is only centred."""
        table = np.asarray(X, float)
        self.n_features_in_ = table.shape[1]
        numbers = np.array([n == 0 for n in self.levels], bool)
        self.centre_, self.spread_ = np.zeros(table.shape[1]), np.ones(table.shape[1])
        if self.scale and numbers.any():
            shown = table if numbers.all() else table[:, numbers]
            # A sum is NaN where any cell is: cheaper than looking at all of them, and mostly there is none.
            gaps = bool(np.isnan(shown.sum()))
            self.centre_[numbers] = np.nanmean(shown, axis=0) if gaps else shown.mean(axis=0)
            spread = np.nanstd(shown, axis=0) if gaps else shown.std(axis=0)
            self.spread_[numbers] = np.where(spread > 0, spread, 1.0)
        return self

    def transform(self, X: Any) -> Array:
        """The matrix; of a missing code all indicators are missing."""
        check_is_fitted(self, "centre_")
        table = np.asarray(X, float)
        if self.scale:
            table = table - self.centre_
            table /= self.spread_
        if self.categories == "codes" or not any(self.levels):
            return table
        return np.column_stack([self._column(table[:, j], n) for j, n in enumerate(self.levels)])

    def _column(self, values: Array, n_levels: int) -> Array:
        if n_levels == 0:
            return values[:, None]
        # One column says all of two levels.
        kept = np.arange(1, 2) if n_levels == 2 else np.arange(n_levels)
        out = (values[:, None] == kept).astype(float)
        out[np.isnan(values)] = np.nan
        return out
