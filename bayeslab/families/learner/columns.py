"""Tables of numbers and codes as the matrices that learners use."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin, check_is_fitted

__all__ = ["Columns"]

Array = NDArray[np.float64]


class Columns(TransformerMixin, BaseEstimator):
    """Transformer of number columns (optionally standardised) and of code columns (codes or indicators of levels).

    Parameters
    ----------
    levels : tuple of int
        Number of levels of each column; 0 for a number column.
    categories : {"codes", "indicators"}
    scale : bool
        Standardise number columns by the mean and the standard deviation of the rows fitted to.
    impute : {"mean", "median"} or None
        Replacement of missing cells, from the training rows; for codes, the most frequent one.
    """

    def __init__(
        self,
        levels: tuple[int, ...] = (),
        categories: Literal["codes", "indicators"] = "indicators",
        scale: bool = False,
        impute: Literal["mean", "median"] | None = None,
    ) -> None:
        self.levels, self.categories, self.scale, self.impute = levels, categories, scale, impute

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn means and standard deviations; a constant column is only centred.

        Parameters
        ----------
        sample_weight : ndarray of shape (rows,), optional
            Weights of rows for all of these.
        """
        table = np.asarray(X, float)
        self.n_features_in_ = table.shape[1]
        if self.impute is not None:
            self.filling_ = np.array([self._filling(table[:, j], n, sample_weight) for j, n in enumerate(self.levels)])
            table = np.where(np.isnan(table), self.filling_, table)
        numbers = np.array([n == 0 for n in self.levels], bool)
        self.centre_, self.spread_ = np.zeros(table.shape[1]), np.ones(table.shape[1])
        if self.scale and numbers.any():
            shown = table if numbers.all() else table[:, numbers]
            # A sum is NaN if any cell is NaN, which is cheaper than checking every cell; mostly there is none.
            gaps = bool(np.isnan(shown.sum()))
            if sample_weight is not None:
                centre, spread = _weighted_moments(shown, np.asarray(sample_weight, float))
            elif gaps:
                centre, spread = np.nanmean(shown, axis=0), np.nanstd(shown, axis=0)
            else:
                centre, spread = shown.mean(axis=0), shown.std(axis=0)
            self.centre_[numbers] = centre
            self.spread_[numbers] = np.where(spread > 0, spread, 1.0)
        return self

    def transform(self, X: Any) -> Array:
        """The matrix; for a missing code all indicators are missing."""
        check_is_fitted(self, "centre_")
        table = np.asarray(X, float)
        if self.impute is not None:
            table = np.where(np.isnan(table), self.filling_, table)
        if self.scale:
            table = table - self.centre_
            table /= self.spread_
        if self.categories == "codes" or not any(self.levels):
            return table
        return np.column_stack([self._column(table[:, j], n) for j, n in enumerate(self.levels)])

    def _filling(self, values: Array, n_levels: int, weights: Any) -> float:
        """Replacement of missing cells of a column."""
        there = ~np.isnan(values)
        if not there.any():
            return 0.0
        share = np.ones(len(values)) if weights is None else np.asarray(weights, float)
        shown, share = values[there], share[there]
        if n_levels:
            return float(np.bincount(shown.astype(int), share, minlength=n_levels).argmax())
        if self.impute == "mean":
            return float(np.average(shown, weights=share)) if share.sum() > 0 else float(shown.mean())
        if weights is None:
            return float(np.median(shown))
        return float(np.quantile(shown, 0.5, weights=share, method="inverted_cdf"))

    def _column(self, values: Array, n_levels: int) -> Array:
        if n_levels == 0:
            return values[:, None]
        # Two levels need only one indicator.
        kept = np.arange(1, 2) if n_levels == 2 else np.arange(n_levels)
        out = (values[:, None] == kept).astype(float)
        out[np.isnan(values)] = np.nan
        return out


def _weighted_moments(table: Array, weights: Array) -> tuple[Array, Array]:
    """Means and standard deviations of columns over their observed cells."""
    share = np.where(np.isnan(table), 0.0, weights[:, None])
    total = share.sum(axis=0)
    total[total <= 0] = 1.0
    values = np.nan_to_num(table)
    centre = (share * values).sum(axis=0) / total
    return centre, np.sqrt((share * (values - centre) ** 2).sum(axis=0) / total)
