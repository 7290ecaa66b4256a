"""Areas that have neighbours: which pairs border on each other, and normal effects with that structure.

The intrinsic conditional autoregression has a density proportional to ``exp(-sum (x[i] - x[j])^2 / 2)``, the sum over
pairs of neighbours, on vectors that sum to zero [1]_. Its covariance is the pseudo-inverse of the Laplacian Q of the
graph, ``C - 1/J`` with ``C = inv(Q + 1/J)``. With L the lower Cholesky factor of C and z standard normal, ``L z`` less
its mean has this covariance. It is scaled so that the geometric mean of the variances is 1 [2]_ [3]_, and its standard
deviation means the same on every map. If the map has parts without a border between them, each part sums to zero and
has a separate scale, and an area without neighbours has the variance 1 [4]_.

References
----------
.. [1] Besag, Kooperberg (1995). On conditional and intrinsic autoregressions. Biometrika 82(4), 733-746.
.. [2] Sørbye, Rue (2014). Scaling intrinsic Gaussian Markov random field priors in spatial modelling. Spatial
   Statistics 8, 39-51.
.. [3] Riebler, Sørbye, Simpson, Rue (2016). An intuitive Bayesian spatial model for disease mapping that accounts for
   scaling. Statistical Methods in Medical Research 25(4), 1145-1165.
.. [4] Freni-Sterrantino, Ventrucci, Rue (2018). A note on intrinsic conditional autoregressive models for disconnected
   graphs. Spatial and Spatio-temporal Epidemiology 26, 25-34.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bayeslab.data.bound import Data
from bayeslab.data.dataset import Column
from bayeslab.errors import DataError, hint, listed
from bayeslab.language.terms import AreaTerm

__all__ = ["MOST_AREAS", "Areas", "Neighbours", "areas_of"]

#: Most areas: their covariance is dense.
MOST_AREAS = 3_000


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Pairs of neighbouring areas.

    Attributes
    ----------
    count : int
        Number of areas, J.
    ends : ndarray of int (pairs, 2)
        Positions of the two areas of each pair, each pair once.
    """

    count: int
    ends: np.ndarray

    @cached_property
    def matrix(self) -> np.ndarray:
        """1 for neighbours, else 0, shape (J, J)."""
        out = np.zeros((self.count, self.count))
        out[self.ends[:, 0], self.ends[:, 1]] = out[self.ends[:, 1], self.ends[:, 0]] = 1.0
        return out

    @cached_property
    def parts(self) -> np.ndarray:
        """The number of the connected part of each area, from 0, shape (J,)."""
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        pairs = coo_array((np.ones(len(self.ends)), tuple(self.ends.T)), shape=(self.count, self.count))
        return np.asarray(connected_components(pairs, directed=False)[1], np.int64)

    @cached_property
    def factor(self) -> np.ndarray:
        """The matrix that makes standard normals the scaled intrinsic autoregression, shape (J, J)."""
        sizes = np.bincount(self.parts)[self.parts].astype(float)
        same = self.parts[:, None] == self.parts
        covariance = np.linalg.inv(np.diag(self.matrix.sum(axis=1)) - self.matrix + same / sizes)
        centre = (sizes > 1) / sizes
        logs = np.log(np.diagonal(covariance) - centre)
        scale = np.exp(same @ logs / sizes)
        whole = np.linalg.cholesky(covariance)
        out: np.ndarray = (whole - centre[:, None] * (same @ whole)) / np.sqrt(scale)[:, None]
        return out


@dataclass(frozen=True, eq=False)
class Areas:
    """Effects of areas at rows: ``u[codes]``.

    Attributes
    ----------
    name : str
        The term in names of parameters, such as ``icar_g``.
    title : str
        The term as text.
    kind : {"car", "icar", "bym2"}
    factor : str
        The column of areas.
    codes : ndarray of int (n,)
        The area of each row.
    labels : ndarray (J,)
    neighbours : Neighbours
        Those of the fit.
    """

    name: str
    title: str
    kind: str
    factor: str
    codes: np.ndarray
    labels: np.ndarray
    neighbours: Neighbours


def areas_of(term: AreaTerm, data: Data, complete: np.ndarray, known: Areas | None) -> Areas:
    """The areas of the complete rows, and which are neighbours: of the fit, if there was one.

    Raises
    ------
    DataError
        There is no table of pairs of areas, or it names other areas.
    """
    part = data.term(term.factor, missing=True)
    if part.codes is None:
        raise DataError(f"'{term.factor}' is not a column of areas: it has no levels", code="not-states")
    codes = np.broadcast_to(np.asarray(part.codes), len(data.labels[data.dataset.rows]))[complete]
    labels = data.labels[term.factor]
    neighbours = _neighbours(term, data, labels) if known is None else known.neighbours
    return Areas(term.name, term.title, term.kind, term.factor, codes, labels, neighbours)


def _bad(message: str, *, code: str) -> DataError:
    return DataError(message, path=("model", "formula"), code=code)


def _neighbours(term: AreaTerm, data: Data, labels: np.ndarray) -> Neighbours:
    title, table = term.title, term.table
    columns = {name: column for name, column in data.dataset.columns.items() if column.dims == (table,)}
    if not columns:
        tables = {dims[0] for column in data.dataset.columns.values() if (dims := column.dims) and len(dims) == 1}
        raise _bad(
            f"{title}: the data have no table '{table}'{hint(table, tables - {data.dataset.rows})}; it has a row for"
            f" each pair of neighbours, with the two areas: data: {{tables: {{{table}: {table}.csv}}}}",
            code="unknown-dimension",
        )
    if len(columns) != 2 or table in data.dataset.levels:
        given = [*([table] if table in data.dataset.levels else []), *columns]
        raise _bad(
            f"{title}: the table '{table}' has two columns, the areas of each pair of neighbours, and no others; given:"
            f" {listed(given)}",
            code="wrong-shape",
        )
    if len(labels) > MOST_AREAS:
        raise _bad(
            f"{title}: there are {len(labels):,} areas, and at most {MOST_AREAS:,} can be fitted", code="too-large"
        )
    place = {_word(label): k for k, label in enumerate(labels.tolist())}
    ends = np.column_stack([_places(term, name, column, place) for name, column in columns.items()])
    if np.any(alone := ends[:, 0] == ends[:, 1]):
        row = int(np.flatnonzero(alone)[0])
        raise _bad(
            f"{title}: row {row + 1} of '{table}' pairs '{labels[ends[row, 0]]}' with itself", code="self-reference"
        )
    ends = np.unique(np.sort(ends, axis=1), axis=0)
    out = Neighbours(len(labels), ends)
    lonely = np.flatnonzero(out.matrix.sum(axis=1) == 0)
    if term.kind == "car" and len(lonely):
        raise _bad(
            f"{title}: '{labels[lonely[0]]}' has no neighbour in '{table}', so that its effect has no variance:"
            f" bym2({table}, {term.factor}) has one for areas without neighbours",
            code="incomplete",
        )
    return out


def _places(term: AreaTerm, name: str, column: Column, place: dict[str, int]) -> np.ndarray:
    """The positions of the areas in one column of pairs."""
    gone = column.absent()
    if np.any(gone):
        row = int(np.flatnonzero(gone)[0])
        raise _bad(
            f"{term.title}: column '{name}' has a missing cell (row {row + 1} of '{term.table}')", code="missing"
        )
    words = [_word(value) for value in column.values.tolist()]
    for row, word in enumerate(words):
        if word not in place:
            raise _bad(
                f"{term.title}: column '{name}', row {row + 1} of '{term.table}': '{word}' is not among the areas of"
                f" '{term.factor}'{hint(word, place)}; if it has no rows, list all areas under dims:"
                f" {{{term.factor}: [...]}}",
                code="unknown-level",
            )
    return np.array([place[word] for word in words], np.int64)


def _word(value: object) -> str:
    """A label as text; whole numbers without a point."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
