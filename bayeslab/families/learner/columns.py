"""Tables of numbers and codes as the matrices that learners use."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin, check_is_fitted

__all__ = ["Columns"]

Array = NDArray[np.float64]


class Columns(TransformerMixin, BaseEstimator):
    """Transformer of number columns (optionally standardised) and of code columns (codes or indicators of levels).

    A sparse matrix has number columns only, without missing cells; they are divided by their standard deviations and
    not centred, so that zeros remain zeros.

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
        self.n_features_in_ = X.shape[1]
        if sparse.issparse(X):
            return self._fit_sparse(X, sample_weight)
        table = np.asarray(X, float)
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

    def _fit_sparse(self, X: Any, sample_weight: Any) -> Self:
        self.centre_, self.spread_ = np.zeros(X.shape[1]), np.ones(X.shape[1])
        if self.scale:
            weight = np.ones(X.shape[0]) if sample_weight is None else np.asarray(sample_weight, float)
            mean, square = (one.T @ weight / weight.sum() for one in (X, X.multiply(X)))
            spread = np.sqrt(np.maximum(square - mean**2, 0.0))
            # Rounding leaves a constant column about this much.
            self.spread_ = np.where(spread > 1e-7 * np.sqrt(square), spread, 1.0)
        return self

    def transform(self, X: Any) -> Any:
        """The matrix; for a missing code all indicators are missing."""
        check_is_fitted(self, "centre_")
        if sparse.issparse(X):
            # Also where dense rows trained: a centred learner cannot take rows that are not.
            if self.centre_.any():
                X = X.toarray()
            else:
                return X @ sparse.diags_array(1 / self.spread_) if self.scale else X
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
