"""A formula evaluated on data: response, design matrix, groups.

formulae [1]_ computes the design matrix of the common terms and stores what it learns from the data
of the fit (means, knots, levels), so that new rows are coded in the same way. Group terms ``(x | g)``
are evaluated here: a grouping factor is an index, not a matrix.

References
----------
.. [1] Capretto et al. formulae: formulas for mixed-effects models in Python. https://bambinos.github.io/formulae
.. [2] Bates, Mächler, Bolker, Walker (2015). Fitting linear mixed-effects models using lme4. JSS 67(1).
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from bayeslab.data.areas import Areas, areas_of
from bayeslab.data.bound import Data
from bayeslab.data.cells import LARGEST_EXACT
from bayeslab.data.members import Members, members_of
from bayeslab.data.sines import Sines
from bayeslab.data.smooths import Smooth
from bayeslab.digits import two_means
from bayeslab.errors import BayeslabError, DataError, hint, listed
from bayeslab.language.formula import Formula
from bayeslab.language.spec import node_name
from bayeslab.language.terms import GroupTerm, SmoothTerm, Terms
from bayeslab.language.terms import bad_formula as _bad

__all__ = ["Curve", "Design", "Group", "Measured", "Rise"]

_MAX_COLUMNS, _MAX_BYTES = 5_000, 4 << 30
# Errors of formulae, pandas and SciPy for values that do not suit a term.
_UNFIT = (ValueError, TypeError, LookupError, ArithmeticError)


@dataclass(frozen=True, eq=False)
class Group:
    """Group effects: ``u[group, effect]`` times ``columns[row, effect]``.

    Attributes
    ----------
    name : str
    codes : ndarray of int (n,)
    labels : ndarray (J,)
    effects : list of str
        Names of the k effects.
    columns : ndarray (n, k)
    correlated : bool
    common : object
        formulae's matrix of the effects, which can code new rows.
    id : str
        Effects of several formulas with the same id are correlated; "" for none.
    student : bool
        Whether the effects are Student t, and not normal.
    """

    name: str
    codes: np.ndarray
    labels: np.ndarray
    effects: list[str]
    columns: np.ndarray
    correlated: bool
    common: Any
    id: str = ""
    student: bool = False


@dataclass(frozen=True, eq=False)
class Curve:
    """A Gaussian process, or the part of a smooth that bends: ``waves[row] @ u``, or ``waves[row] @ u[level]``.

    Attributes
    ----------
    name : str
        The term in names of parameters, such as ``s_x``.
    title : str
        Its name among the terms, such as ``s(x)``.
    waves : ndarray (n, functions)
    by : str or None
        The column of levels that each have a curve.
    codes : ndarray of int (n,) or None
        The level of each row.
    labels : ndarray
        The levels; empty without ``by``.
    basis : Smooth or Sines
        What it learnt from the rows of the fit.
    """

    name: str
    title: str
    waves: np.ndarray
    by: str | None
    codes: np.ndarray | None
    labels: np.ndarray
    basis: Smooth | Sines

    @property
    def process(self) -> bool:
        """Whether the curve is a Gaussian process."""
        return isinstance(self.basis, Sines)

    def coefficients(self, label: str) -> str:
        """The node of its coefficients; those of a process mean nothing by themselves and have a hidden name."""
        return f"_u_{label}" if self.process else f"u_{label}"

    @property
    def size(self) -> int:
        """Number of coefficients."""
        return self.waves.shape[1] * (len(self.labels) if self.by else 1)


@dataclass(frozen=True, eq=False)
class Rise:
    """A monotonic effect: ``rest * count * (steps @ simplex)`` in place of a column of the matrix.

    The column itself holds ``rest`` times the place of the level, as if all steps were of one size.

    Attributes
    ----------
    name : str
        The column in names of parameters, such as ``mo_x`` or ``mo_x_g_b``.
    text : str
        The effect itself as text, ``mo(x)``.
    of : str
        The effect without what it is multiplied by, ``mo_x``.
    column : int
        The column of the matrix.
    labels : list of str
        The steps from one level to the next.
    steps : ndarray (n, count)
        1 for each step up to the level of a row, else 0.
    rest : ndarray (n,)
        What the effect is multiplied by in an interaction; ones for the effect itself.
    """

    name: str
    text: str
    of: str
    column: int
    labels: list[str]
    steps: np.ndarray
    rest: np.ndarray


@dataclass(frozen=True, eq=False)
class Measured:
    """A predictor measured with error: ``rest * true`` in place of a column of the matrix.

    The true values are normal about a common mean, and the measurements about the true values. Given its measurement x
    with the error's sd e, a true value has the mean ``x + w (mean - x)`` and the sd ``sqrt(w) sd``, where
    ``w = e^2 / (e^2 + sd^2)`` (Carroll, Ruppert, Stefanski, Crainiceanu 2006, Measurement Error in Nonlinear Models).

    Attributes
    ----------
    name : str
        The column in names of parameters, such as ``me_x_e`` or ``me_x_e_g_b``.
    text : str
        The predictor as text, ``me(x, e)``.
    of : str
        The predictor in names of parameters, ``me_x``.
    predictor : str
        The column of measurements.
    column : int
        The column of the matrix.
    x, error : ndarray (n,)
        Measurements, and the sds of their errors.
    rest : ndarray (n,)
        What the true value is multiplied by in an interaction; ones for the predictor itself.
    fitted : bool
        Whether these are the rows of the fit, whose true values are parameters.
    """

    name: str
    text: str
    of: str
    predictor: str
    column: int
    x: np.ndarray
    error: np.ndarray
    rest: np.ndarray
    fitted: bool

    @property
    def alone(self) -> bool:
        """Whether this is the predictor itself, not an interaction."""
        return self.name == _named(self.text)

    def weight(self, sd: np.ndarray) -> np.ndarray:
        """How far true values are drawn to their mean, from 0 to 1, given the sd of true values at draws (draws, n)."""
        return np.asarray(self.error**2 / (self.error**2 + sd[:, None] ** 2))


@dataclass(frozen=True, eq=False)
class Design:
    """A formula on data.

    Attributes
    ----------
    rows : ndarray of int
        Positions of the complete rows.
    names : list of str
        Names of the columns of ``matrix``, without the intercept.
    matrix : ndarray (n, p)
    intercept : bool
    offset : ndarray (n,) or None
    groups : list of Group
    curves : list of Curve
        Gaussian processes, and the bending parts of smooths; their straight parts are columns of ``matrix``.
    rises : list of Rise
        Monotonic effects, each in place of a column of ``matrix``.
    measured : list of Measured
        Predictors measured with error, each in place of a column of ``matrix``.
    areas : list of Areas
        Effects of areas that have neighbours.
    members : list of Members
        Effects of groups of which a row has several.
    terms : dict of str to (int, int)
        Range of the columns of each term of the formula.
    common : object
        formulae's matrix, which can code new rows.
    counts : ndarray (n,) or None
        How many rows of the table each row stands for; None: one.
    """

    rows: np.ndarray
    names: list[str]
    matrix: np.ndarray
    intercept: bool
    offset: np.ndarray | None
    groups: list[Group]
    curves: list[Curve]
    rises: list[Rise]
    measured: list[Measured]
    areas: list[Areas]
    members: list[Members]
    terms: dict[str, tuple[int, int]]
    common: Any
    counts: np.ndarray | None = None

    @classmethod
    def of(cls, formula: Formula, data: Data, complete: np.ndarray, *, without_intercept: bool = False) -> Design:
        """Evaluate the right-hand side at the complete rows of the data of a fit."""
        frame = _frame(formula, data, complete)
        if not (formula.common.terms or formula.common.intercept or formula.factors()):
            raise _bad("the formula has neither an intercept nor a predictor", code="incomplete")
        common = _matrix(formula.common, frame)
        groups = [_group(term, frame, data, complete, None) for term in formula.groups]
        areas = [areas_of(term, data, complete, None) for term in formula.areas]
        members = [members_of(term, data, complete) for term in formula.members]
        return cls._assembled(
            complete,
            common,
            np.asarray(common.design_matrix, float),
            groups,
            areas,
            members,
            frame,
            data,
            without_intercept,
        )

    @classmethod
    def empty(cls, complete: np.ndarray) -> Design:
        """The design without intercept and predictors."""
        import pandas as pd

        from bayeslab.data.term_values import matrix

        common = matrix(Terms("0", (), False), pd.DataFrame(index=complete))
        return cls(complete, [], np.empty((len(complete), 0)), False, None, [], [], [], [], [], [], {}, common)

    def on(self, formula: Formula, data: Data, complete: np.ndarray) -> Design:
        """The design for other data, with the same coding."""
        frame = _frame(formula, data, complete)
        matrix = _coded(self.common, frame)
        known = {group.name: group for group in self.groups}
        groups = [_group(term, frame, data, complete, known[term.name]) for term in formula.groups]
        mapped = {each.name: each for each in self.areas}
        areas = [areas_of(term, data, complete, mapped[term.name]) for term in formula.areas]
        members = [members_of(term, data, complete) for term in formula.members]
        return self._assembled(complete, self.common, matrix, groups, areas, members, frame, data, not self.intercept)

    @classmethod
    def _assembled(
        cls,
        rows: np.ndarray,
        common: Any,
        whole: np.ndarray,
        groups: list[Group],
        areas: list[Areas],
        members: list[Members],
        frame: Any,
        data: Data,
        without_intercept: bool,
    ) -> Design:
        names: list[str] = []
        kept: list[int] = []
        terms: dict[str, tuple[int, int]] = {}
        from bayeslab.data.term_values import smooth_of

        curves = _curves(common, frame, data)
        intercept, offset = False, None
        for name, term in common.terms.items():
            part = common.slices[name]
            if term.kind == "intercept":
                intercept = not without_intercept
            elif (smooth := smooth_of(term)) is not None and smooth.kind == "gp":
                continue
            elif term.kind == "offset":
                offset = whole[:, part].sum(axis=1) + (0.0 if offset is None else offset)
            else:
                terms[smooth.title if smooth else name] = (len(names), len(names) + part.stop - part.start)
                names += _straight_names(smooth, curves) if smooth else [str(label) for label in term.labels]
                kept += range(part.start, part.stop)
        rises, measured = _rises(common, frame, names, data), _measured(common, frame, names, data)
        counts = None if data.dataset.counts is None else data.dataset.counts[rows]
        return cls(
            rows, names, np.ascontiguousarray(whole[:, kept]), intercept, offset, groups, curves, rises, measured,
            areas, members, terms, common, counts,
        )  # fmt: skip

    @cached_property
    def still(self) -> np.ndarray:
        """The matrix with zeros in place of :attr:`latent` columns."""
        if not self.latent:
            return self.matrix
        out = self.matrix.copy()
        out[:, self.latent] = 0.0
        return out

    @property
    def latent(self) -> list[int]:
        """The columns in whose place stand monotonic effects and predictors measured with error."""
        return [rise.column for rise in self.rises] + [each.column for each in self.measured]

    @property
    def n(self) -> int:
        """The number of rows held."""
        return len(self.rows)

    @property
    def total(self) -> float:
        """The number of rows of the table that they stand for."""
        return self.n if self.counts is None else float(self.counts.sum())

    @cached_property
    def means(self) -> tuple[np.ndarray, np.ndarray]:
        """Means of the columns of ``matrix``, each as a sum of two doubles."""
        return two_means(self.matrix, self.counts)

    @cached_property
    def about_means(self) -> np.ndarray:
        """A column of ones and the centred columns of ``matrix``, shape (n, 1 + p)."""
        return self.about(*self.means)

    def about(self, centre: np.ndarray, rest: np.ndarray) -> np.ndarray:
        """A column of ones and the columns of ``matrix`` centred at a point, given as the sum of two doubles."""
        out = np.empty((self.n, 1 + len(self.names)))
        out[:, 0] = 1.0
        # The difference of numbers near each other is exact.
        np.subtract(self.matrix, centre, out=out[:, 1:])
        if rest.any():
            out[:, 1:] -= rest
        return out


def _straight_names(smooth: SmoothTerm, curves: list[Curve]) -> list[str]:
    """Names of the columns of a smooth's straight part."""
    if smooth.by is None:
        return [smooth.title]
    (curve,) = (curve for curve in curves if curve.title == smooth.title)
    return [f"{smooth.title}[{label}]" for label in curve.labels]


def _curves(common: Any, frame: Any, data: Data) -> list[Curve]:
    """The curves of a formula."""
    from bayeslab.data.term_values import smooth_of, smooth_waves

    out = []
    for term in common.terms.values():
        smooth = smooth_of(term)
        if smooth is None:
            continue
        call = term.components[0].call
        waves, codes = smooth_waves(call, frame)
        labels = data.labels[smooth.by] if smooth.by else np.empty(0, object)
        out.append(Curve(smooth.name, smooth.title, waves, smooth.by, codes, labels, call.memory[call.factor.text]))
    return out


def _rises(common: Any, frame: Any, names: list[str], data: Data) -> list[Rise]:
    """The monotonic effects of a formula."""
    from bayeslab.data.term_values import each_one, level_codes

    calls = _latent(common, "mo")
    if not calls:
        return []
    with each_one():
        rest = _coded(common, frame)
    out = []
    for name, call in calls.items():
        (column,) = call.factor.names
        try:
            data.check_order(column, call.factor.text)
        except DataError as error:
            raise DataError(error.message, path=("model", "formula"), code=error.code) from None
        codes, levels = level_codes(call, frame), call.memory["levels"]
        steps = (codes[:, None] > np.arange(len(levels) - 1)).astype(float)
        labels = [f"{a}|{b}" for a, b in pairwise(levels)]
        part = common.slices[name]
        for label, at in zip(common.terms[name].labels, range(part.start, part.stop), strict=True):
            title = str(label)
            out.append(
                Rise(
                    _named(title),
                    call.factor.text,
                    _named(call.factor.text),
                    names.index(title),
                    labels,
                    steps,
                    rest[:, at],
                )
            )
    return out


def _measured(common: Any, frame: Any, names: list[str], data: Data) -> list[Measured]:
    """The predictors of a formula that are measured with error."""
    from bayeslab.data.term_values import each_one, measurements

    calls = _latent(common, "me")
    if not calls:
        return []
    with each_one():
        rest = _coded(common, frame)
    out, errors = list[Measured](), dict[str, str]()
    for name, call in calls.items():
        text = call.factor.text
        predictor, x, error = measurements(call, frame)
        if errors.setdefault(predictor, text) != text:
            raise _bad(
                f"{text} and {errors[predictor]} have the same measurements with different errors", code="conflict"
            )
        part = common.slices[name]
        for label, at in zip(common.terms[name].labels, range(part.start, part.stop), strict=True):
            title, column = str(label), names.index(str(label))
            of = f"me_{node_name(predictor)}"
            out.append(Measured(_named(title), text, of, predictor, column, x, error, rest[:, at], data.fitted))
    return out


def _latent(common: Any, called: str) -> dict[str, Any]:
    """The terms with a call of this name, each with the call."""

    def named(term: Any) -> Any:
        calls = [getattr(part, "call", None) for part in getattr(term, "components", ())]
        return next((call for call in calls if call is not None and call.factor.called == called), None)

    return {name: call for name, term in common.terms.items() if (call := named(term)) is not None}


def _named(title: str) -> str:
    """A column of the matrix in names of parameters."""
    return re.sub(r"_+", "_", node_name(title)).strip("_")


def _frame(formula: Formula, data: Data, rows: np.ndarray) -> Any:
    """The predictors in formulae's format: floats, or categories in the order of their levels.

    For a numeric column ``x`` there is also ``_as_given(x)``, with the levels of ``C(x)``.
    """
    import pandas as pd

    columns: dict[str, Any] = {}
    quantities = formula.quantities()
    for name in sorted(formula.predictor_columns()):
        values = _column(data, name)
        if isinstance(values, pd.Categorical):
            columns[name] = values[rows]
            gone = columns[name].codes < 0
        else:
            columns[_as_given(name)] = values[rows]
            if name in quantities:
                _check_whole(name, values[rows], rows)
            columns[name] = values[rows].astype(float)
            gone = np.isnan(columns[name])
        if np.any(gone):
            raise DataError(
                f"column '{name}' has a missing cell (row {rows[np.flatnonzero(gone)[0]] + 1})", code="missing"
            )
    return pd.DataFrame(columns, index=rows)


def _check_whole(name: str, values: np.ndarray, rows: np.ndarray) -> None:
    """Refuse integers that floats cannot represent, because different ones would become equal."""
    if values.dtype.kind not in "iu":
        return
    lost = (values > LARGEST_EXACT) | (values < -LARGEST_EXACT)
    lost[lost] = [int(float(value)) != value for value in values[lost].tolist()]
    if np.any(lost):
        at = int(np.flatnonzero(lost)[0])
        raise DataError(
            f"column '{name}', row {rows[at] + 1}: {values[at]} has more digits than a number with a point can keep"
            f" (2⁵³): subtract a constant from the column, or write C({name}) if these are names",
            code="too-many-digits",
        )


def _as_given(name: str) -> str:
    return f"\0{name}"  # no column has such a name


def _column(data: Data, name: str) -> Any:
    import pandas as pd

    if not data.has(name):
        raise DataError(
            f"the data have no column '{name}', a predictor{hint(name, data.names())}", code="unknown-column"
        )
    term = data.term(name, missing=True)
    if term.dims not in ((data.dataset.rows,), ()):
        raise DataError(
            f"'{name}' is not a column of the table: it has the dimensions {', '.join(map(str, term.dims))}",
            code="not-a-column",
        )
    if term.codes is not None:
        categories = [str(label) for label in data.labels[name]]
        return pd.Categorical.from_codes(_each_row(term.codes, data), pd.Index(categories), ordered=True)
    return _each_row(term.value, data)


def _each_row(values: Any, data: Data) -> np.ndarray:
    """One value per row; a single value is repeated."""
    return np.broadcast_to(np.asarray(values), len(data.labels[data.dataset.rows]))


def _matrix(terms: Terms, frame: Any) -> Any:
    from bayeslab.data.term_values import matrix, widths

    count = terms.intercept + sum(widths(terms, frame))
    if count > _MAX_COLUMNS:
        raise _bad(f"the formula makes {count:,} columns; at most {_MAX_COLUMNS:,} are allowed", code="too-costly")
    if (size := 8 * count * len(frame)) > _MAX_BYTES:
        raise _bad(
            f"the formula makes {count:,} columns of {len(frame):,} rows, {size / 2**30:.1f} GiB; at most"
            f" {_MAX_BYTES / 2**30:.0f} GiB are allowed",
            code="too-costly",
        )
    try:
        with _quiet():
            made = matrix(terms, frame)
    except BayeslabError:
        raise
    except _UNFIT as error:
        raise _bad(f"the formula cannot be evaluated: {_first_line(error)}", code="syntax") from error
    _finite(made, np.asarray(made.design_matrix, float), frame)
    return made


def _coded(common: Any, frame: Any) -> np.ndarray:
    try:
        with _quiet():
            matrix = np.asarray(common.evaluate_new_data(frame).design_matrix, float)
    except BayeslabError:
        raise
    except _UNFIT as error:
        named = [name for name in frame if frame[name].dtype == "category"]
        hold = f" (columns of names there: {listed(named)})" if named else ""
        raise DataError(
            f"the formula cannot be evaluated on the new data: {_first_line(error)}{hold}", code="impossible-value"
        ) from error
    _finite(common, matrix, frame)
    return matrix


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """A context that suppresses the output of formulae."""
    with contextlib.redirect_stdout(io.StringIO()), np.errstate(all="ignore"):
        yield


def _finite(common: Any, matrix: np.ndarray, frame: Any) -> None:
    bad = ~np.isfinite(matrix)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        name = next(name for name, part in common.slices.items() if part.start <= column < part.stop)
        raise DataError(f"'{name}' is {matrix[row, column]:g} in row {frame.index[row] + 1}", code="not-finite")


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def _group(term: GroupTerm, frame: Any, data: Data, complete: np.ndarray, known: Group | None) -> Group:
    codes, labels = _factor(term, data, complete, known)
    if known is not None:
        return replace(known, codes=codes, labels=labels, columns=_coded(known.common, frame))
    if not term.effects.terms and not term.effects.intercept:
        raise _bad(
            f"the groups of '{term.name}' have no effect: (1 | g) has one for each level, (0 + x | g) a slope",
            code="incomplete",
        )
    common = _matrix(term.effects, frame)
    effects = [str(x) for t in common.terms.values() for x in (["1"] if t.kind == "intercept" else t.labels)]
    columns = np.asarray(common.design_matrix, float)
    return Group(
        term.name, codes, labels, effects, columns, term.correlated and len(effects) > 1, common, term.id, term.student
    )


def _factor(term: GroupTerm, data: Data, complete: np.ndarray, known: Group | None) -> tuple[np.ndarray, np.ndarray]:
    """The group of each row; combinations of several columns are numbered in the order of the fit."""
    parts = [data.term(name, missing=True) for name in term.factors]
    for name, part in zip(term.factors, parts, strict=True):
        if part.codes is None:
            raise DataError(f"'{name}' is not a grouping factor: it has no levels", code="not-states")
    codes = [_each_row(part.codes, data)[complete] for part in parts]
    labels = [data.labels[name] for name in term.factors]
    if len(parts) == 1:
        return codes[0], labels[0]
    words = np.array(
        [":".join(str(level[c]) for level, c in zip(labels, row, strict=True)) for row in zip(*codes, strict=True)]
    )
    if known is None:
        levels, index = np.unique(words, return_inverse=True)
        if len(levels) < len(set(zip(*codes, strict=True))):
            raise DataError(
                f"two combinations of {listed(term.factors)} have the same name, because their levels have ':' in them;"
                " rename the levels",
                code="name-clash",
            )
        return index, levels
    place = {word: k for k, word in enumerate(known.labels)}
    for row, word in enumerate(words):
        if word not in place:
            raise DataError(
                f"row {complete[row] + 1}: '{word}' is not a level of {term.name} in the fit",
                code="unknown-level",
            )
    return np.array([place[word] for word in words]), known.labels
