"""Expand latent features in the model language: loadings, and jointly normal rows given them."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayeslab.data.bound import Data
from bayeslab.families.latent_features.density import axes_of, first_values
from bayeslab.families.latent_features.model import Resolved, Written, refused_patterns, resolved
from bayeslab.families.latent_features.spec import LatentFeatures
from bayeslab.language.expansion import Expansion, check_columns, listed_numbers, nested, number, numbers, unsupported
from bayeslab.language.spec import Model, node_name

__all__ = ["expand"]

_CELLS = "cells"
# Loadings with more elements are too long to edit as text.
_MOST_LOADINGS = 400


def expand(model: Model, data: Data) -> Expansion:
    """Write the model as nodes of the language.

    Raises
    ------
    ModelError
        Some part of the model has no form in the language; the message names it and the reason.
    """
    assert isinstance(model.model, LatentFeatures)
    resolution = resolved(model, data)
    if resolution.features is None:
        raise unsupported("a graph has a fixed number of features, and a buffet brings any number", "features")
    if resolution.binary and (why := refused_patterns(resolution)) is not None:
        raise unsupported(str(why), "features")
    if np.isnan(resolution.rows).any():
        raise unsupported(
            "cells are missing, and rows that are jointly normal are whole: leave these rows out", "columns"
        )
    if len(resolution.columns) * resolution.features > _MOST_LOADINGS:
        raise unsupported(
            f"{len(resolution.columns) * resolution.features:,} loadings are too many to write", "features"
        )
    return _Written(resolution, data).expansion()


class _Written:
    def __init__(self, resolved: Resolved, data: Data) -> None:
        assert resolved.features is not None
        self.resolved, self.data, self.row, self.k = resolved, data, data.dataset.rows, resolved.features
        self.dims: dict[str, Any] = {"column": list(resolved.columns), "feature": resolved.features}
        self.nodes: dict[str, str] = {}
        self.comments: dict[str, str] = {}

    def expansion(self) -> Expansion:
        resolved = self.resolved
        if resolved.offset:
            wide = np.where(resolved.offset_scale > 0, resolved.offset_scale, 1.0)
            self._add(
                "mean[column]", f"Normal({listed_numbers(resolved.centre)}, {numbers(wide)})", "Means of the columns."
            )
        self._noise()
        size = self._scale()
        key = f"{_CELLS}[{self.row}, column]"
        if resolved.binary:
            a, b = resolved.probability
            self._add("probability[feature]", f"Beta({number(a)}, {number(b)})", "How many rows have a feature.")
            self._add("loading[column, feature]", f"Normal(0, {size})", "What a feature adds to a column.")
            for j in range(self.k):
                self._add(f"z_{j}[{self.row}]", f"Bernoulli(probability[{j}])")
            self.comments[f"z_0[{self.row}]"] = (
                "Whether a row has a feature. There are no data: fits sum it out exactly, and give it back afterwards."
            )
            parts = ["mean"] if resolved.offset else []
            parts += [f"z_{j} * loading[column, {j}]" for j in range(self.k)]
            self._add(key, f"Normal({' + '.join(parts)}, noise)", "The data, row by row.")
        else:
            self._loadings(size)
            self.dims["column2"] = "column"
            self._add(
                "covariance[column, column2]",
                "dot(loading, rename(loading, column, column2), feature) + noise ** 2 * eye(column, column2)",
                "What columns share through the features, whose scores are integrated out, and noise.",
            )
            centre = "mean" if resolved.offset else listed_numbers(np.zeros(len(resolved.columns)))
            self._add(key, f"MvNormal({centre}, cov=covariance)", "The data, row by row.")
        self._check_names()
        kind = "binary features" if resolved.binary else "factors"
        derive = {_CELLS: f"stack([{', '.join(node_name(c) for c in resolved.columns)}], column)"}
        comments = self.comments | {_CELLS: "The columns side by side."}
        about = (
            f"{len(resolved.columns)} columns by {self.k} {kind}, written out in the model language. Features are"
            " exchangeable, and the signs of loadings of normal ones mean nothing."
        )
        return Expansion(self.nodes, derive, self.dims, comments, about)

    def _add(self, key: str, text: str, comment: str = "") -> None:
        self.nodes[key] = text
        if comment:
            self.comments[key] = comment

    def _noise(self) -> None:
        first, many = self.resolved.noise[0], len(self.resolved.noise) > 1
        key, comment = f"noise{'[column]' if many else ''}", "Standard deviation of what no feature explains."
        if isinstance(first, float):
            self._add(key, numbers(np.array([float(s) for s in self.resolved.noise if isinstance(s, float)])), comment)
            return
        written = [w for w in self.resolved.noise if isinstance(w, Written)]
        arguments = [f"{name}={numbers(np.array([w.arguments[name] for w in written]))}" for name in first.arguments]
        self._add(key, f"{first.word}({', '.join(arguments)})", comment)

    def _scale(self) -> str:
        """The standard deviation of the loadings."""
        first = self.resolved.scale[0]
        if isinstance(first, Written):
            arguments = ", ".join(f"{name}={number(value)}" for name, value in first.arguments.items())
            self._add("scale", f"{first.word}({arguments})", "Standard deviation of the loadings.")
            return "scale"
        values = np.array([s for s in self.resolved.scale if isinstance(s, float)])
        if len(values) == 1:
            return number(values[0])
        self._add(
            "loading_sd[column]", listed_numbers(values), "Standard deviations of the loadings: those of the columns."
        )
        return "loading_sd"

    def _loadings(self, size: str) -> None:
        """A triangular factor W of normals such that W W' is distributed as for independent normal loadings."""
        k, d = self.k, len(self.resolved.columns)
        if k > 1:
            self.dims["earlier"] = k - 1
            self._add(
                "squares[earlier]", f"ChiSquared({listed_numbers(np.arange(k, 1, -1))})",
                "Loadings can be turned without changing the model, so that only a triangle of them is free: squares of"
                " its diagonal but the last,",
            )  # fmt: skip
        self._add(
            "last", "Normal(0, 1)", "the last of its diagonal, up to its sign," if k > 1 else "The first loading."
        )
        if d > 1:
            self.dims["below_diagonal"] = len(np.tril_indices(d, -1, k)[0])
            self._add("below[below_diagonal]", "Normal(0, 1)", "and what is below, row by row.")
        place = {cell: m for m, cell in enumerate(zip(*(i.tolist() for i in np.tril_indices(d, -1, k)), strict=True))}

        def element(i: int, j: int) -> str:
            if j < i:
                return f"below[{place[i, j]}]"
            return "0" if j > i else "last" if j == k - 1 else f"sqrt(squares[{j}])"

        rows = [f"stack([{', '.join(element(i, j) for j in range(k))}], feature)" for i in range(d)]
        axes = axes_of(self.resolved, first_values(self.resolved))
        if self.resolved.offset:
            order = np.argmax(axes, axis=1)
            self._add("triangle[column, feature]", f"stack([{', '.join(rows[i] for i in order)}], column)")
            turned = "triangle"
        else:
            self.dims["direction"] = d
            self._add(
                "axes[column, direction]", nested(axes), "Axes in which the triangle lies: the first is the level."
            )
            self._add("triangle[direction, feature]", f"stack([{', '.join(rows)}], direction)")
            turned = "dot(axes, triangle, direction)"
        self._add("loading[column, feature]", f"{size} * {turned}", "What a unit of a factor adds to a column.")

    def _check_names(self) -> None:
        check_columns(self.nodes, self.dims, self.data.dataset.columns, (), "columns")
