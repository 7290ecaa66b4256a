"""A formula and data as arrays: response, design matrix, groups.

formulae [1]_ makes the matrix of the common terms and remembers what they learnt from the data of
the fit (means, knots, levels), so that new rows are coded the same way. Group terms
``(x | g)`` are taken apart here: a grouping factor is an index, not a matrix.

References
----------
.. [1] Capretto et al. formulae: formulas for mixed-effects models in Python. https://bambinos.github.io/formulae
.. [2] Bates, Mächler, Bolker, Walker (2015). Fitting linear mixed-effects models using lme4. JSS 67(1).
"""

from __future__ import annotations

import contextlib
import io
import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from bayeslab.dataset import Data
from bayeslab.digits import two_means
from bayeslab.errors import DataError, ModelError, hint, listed
from bayeslab.expressions import parse as parse_expression

__all__ = ["Design", "Formula", "Group", "GroupTerm", "parse_formula"]

# What a formula may call; formulae would look other names up in the calling module.
_FUNCTIONS = {
    "log": np.log, "log1p": np.log1p, "log2": np.log2, "log10": np.log10, "exp": np.exp, "expm1": np.expm1,
    "sqrt": np.sqrt, "abs": np.abs, "sin": np.sin, "cos": np.cos, "tanh": np.tanh, "minimum": np.minimum,
    "maximum": np.maximum,
}  # fmt: skip
_KNOWN = {*_FUNCTIONS, "C", "I", "S", "T", "Sum", "Treatment", "bs", "poly", "center", "scale", "standardize", "offset"}
_PROPORTION = re.compile(r"(?:p|prop|proportion)\(\s*([^\W\d]\w*)\s*,\s*([^\W\d]\w*|\d+)\s*\)\Z")
_GROUP = re.compile(r"\(((?:[^()|]|\([^()]*\))*)(\|\|?)\s*([\w\s:/]+)\)")
_MAX_LENGTH, _MAX_NUMBER, _MAX_COLUMNS = 2_000, 1_000, 5_000


@dataclass(frozen=True, slots=True)
class GroupTerm:
    """``(effects | factor)``: the right-hand side of its effects, the columns that make the factor."""

    effects: str
    factors: tuple[str, ...]
    correlated: bool

    @property
    def name(self) -> str:
        return "_".join(self.factors)


@dataclass(frozen=True, slots=True)
class Formula:
    """A formula taken apart; nothing is evaluated yet.

    Attributes
    ----------
    response : str
        Left-hand side: a column, an expression, or the successes of ``p(successes, trials)``.
    trials : str or None
    common : str
        Right-hand side without the group terms.
    groups : tuple of GroupTerm
    """

    text: str
    response: str
    trials: str | None
    common: str
    groups: tuple[GroupTerm, ...]

    @property
    def outcome(self) -> str:
        """The response as a name."""
        return re.sub(r"\W+", "_", self.response).strip("_") or "response"

    def response_columns(self) -> set[str]:
        names = set(_parsed(self.response).names)
        return names | ({self.trials} if self.trials and not self.trials.isdigit() else set())

    def predictor_columns(self) -> set[str]:
        """Columns the right-hand side reads."""
        names = _names(self.common)
        for group in self.groups:
            names |= {*_names(group.effects), *group.factors}
        return names


def _parsed(text: str) -> Any:
    try:
        return parse_expression(text)
    except ModelError as error:
        raise ModelError(f"left-hand side '{text}': {error.message}", path=("model", "formula")) from None


def _bad(message: str) -> ModelError:
    return ModelError(message, path=("model", "formula"))


@lru_cache(maxsize=64)
def parse_formula(text: str) -> Formula:
    """Take a formula apart and check that it calls nothing but known functions.

    Raises
    ------
    ModelError
        With the path ``model.formula``.
    """
    if len(text) > _MAX_LENGTH:
        raise _bad(f"the formula is longer than {_MAX_LENGTH} characters")
    if text.count("~") != 1:
        raise _bad(f"a formula is 'response ~ predictors', with one ~; given: {text!r}")
    left, right = (part.strip() for part in text.split("~"))
    if not left:
        raise _bad("the formula has no response: write 'y ~ x'")
    if not right:
        raise _bad("the formula has no right-hand side; 'y ~ 1' has an intercept only")
    bare = re.sub(r"`[^`]*`|'[^']*'|\"[^\"]*\"", "_", right)  # names and levels in quotes hold anything
    odd = re.search(r"[^\w\s+\-*/:()|.,=\[\]{}<>!%^]", bare)
    if odd or "__" in bare or re.search(r"\w\s*\.\s*[^\W\d]", bare):
        raise _bad(f"{odd.group() if odd else '.'!r} has no meaning in a formula")
    for called in re.findall(r"([^\W\d]\w*)\s*\(", right):
        if called not in _KNOWN:
            raise _bad(f"unknown function '{called}'{hint(called, _KNOWN)}")
    if any(float(number) > _MAX_NUMBER for number in re.findall(r"(?<![\w.])\d+(?:\.\d*)?", right)):
        raise _bad(f"a number in a formula is at most {_MAX_NUMBER}; scale the column in data.derive instead")
    groups = [g for found in _GROUP.finditer(right) for g in _group_terms(*found.groups())]
    common = _without_groups(right)
    if "|" in common:
        raise _bad("a group term is written in brackets, '(1 + x | group)', the group being a column or 'a/b', 'a:b'")
    proportion = _PROPORTION.match(left)
    response, trials = proportion.groups() if proportion else (left, None)
    out = Formula(text, response, trials, common, tuple(groups))
    _parsed(response)
    _described(out.common)
    for group in out.groups:
        _described(group.effects)
    return out


def _without_groups(right: str) -> str:
    """The right-hand side with its group terms taken out, and the + signs that led to them."""
    left = _GROUP.sub("", right)
    while (tidied := re.sub(r"\+\s*(?=\+|$)", "", left)) != left:
        left = tidied
    return left.strip().removeprefix("+").strip() or "1"


def _group_terms(effects: str, bars: str, factor: str) -> list[GroupTerm]:
    factor = re.sub(r"\s+", "", factor)
    names = re.split(r"[:/]", factor)
    if not all(re.fullmatch(r"[^\W\d]\w*", name) for name in names):
        raise _bad(f"'{factor}' is not a grouping factor: a column, or 'a/b' (b within a), or 'a:b'")
    nested = [tuple(names[: k + 1]) for k in range(len(names))] if "/" in factor else [tuple(names)]
    return [GroupTerm(effects.strip() or "1", levels, bars == "|") for levels in nested]


def _described(text: str) -> Any:
    from formulae.model_description import model_description

    try:
        with _quiet() as said:
            found = model_description(text)
    except Exception as error:  # noqa: BLE001 - formulae raises its own kinds and bare ones
        raise _bad(f"the formula cannot be read: {str(error).splitlines()[0] if str(error) else text}") from None
    if any("Exponentiation" in line for line in said):
        raise _bad("** of one predictor leaves it as it is, as in R; the power is I(x ** 2), a polynomial poly(x, 2)")
    return found


@contextlib.contextmanager
def _quiet() -> Iterator[list[str]]:
    """What formulae logs or prints, caught instead of shown."""
    said: list[str] = []

    def listen(record: logging.LogRecord) -> bool:
        said.append(record.getMessage())
        return False

    logger = logging.getLogger("formulae")
    logger.addFilter(listen)
    try:
        with contextlib.redirect_stdout(io.StringIO()), np.errstate(all="ignore"):
            yield said
    finally:
        logger.removeFilter(listen)


def _names(text: str) -> set[str]:
    return {str(name) for name in _described(text).var_names if name}


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
        formulae's matrix of the effects, which knows how to code new rows.
    """

    name: str
    codes: np.ndarray
    labels: np.ndarray
    effects: list[str]
    columns: np.ndarray
    correlated: bool
    common: Any


@dataclass(frozen=True, eq=False)
class Design:
    """A formula on data.

    Attributes
    ----------
    rows : ndarray of int
        Positions of the complete rows.
    names : list of str
        Names of the columns of ``matrix``, the intercept not among them.
    matrix : ndarray (n, p)
    intercept : bool
    offset : ndarray (n,) or None
    groups : list of Group
    terms : dict of str to (int, int)
        Which columns each term of the formula made.
    common : object
        formulae's matrix, which knows how to code new rows.
    """

    rows: np.ndarray
    names: list[str]
    matrix: np.ndarray
    intercept: bool
    offset: np.ndarray | None
    groups: list[Group]
    terms: dict[str, tuple[int, int]]
    common: Any

    @classmethod
    def of(cls, formula: Formula, data: Data, complete: np.ndarray, *, without_intercept: bool = False) -> Design:
        """Evaluate the right-hand side at the complete rows of the data of a fit."""
        frame = _frame(formula, data).iloc[complete]
        common = _matrix(formula.common, frame)
        groups = [_group(term, frame, data, complete, None) for term in formula.groups]
        return cls._assembled(complete, common, np.asarray(common.design_matrix, float), groups, without_intercept)

    def on(self, formula: Formula, data: Data, complete: np.ndarray) -> Design:
        """The same coding for other data."""
        frame = _frame(formula, data).iloc[complete]
        matrix = _coded(self.common, frame)
        known = {group.name: group for group in self.groups}
        groups = [_group(term, frame, data, complete, known[term.name]) for term in formula.groups]
        return self._assembled(complete, self.common, matrix, groups, not self.intercept)

    @classmethod
    def _assembled(
        cls, rows: np.ndarray, common: Any, whole: np.ndarray, groups: list[Group], without_intercept: bool
    ) -> Design:
        names: list[str] = []
        kept: list[int] = []
        terms: dict[str, tuple[int, int]] = {}
        intercept, offset = False, None
        for name, term in common.terms.items():
            part = common.slices[name]
            if term.kind == "intercept":
                intercept = not without_intercept
            elif term.kind == "offset":
                offset = whole[:, part].sum(axis=1)
            else:
                terms[name] = (len(names), len(names) + part.stop - part.start)
                names += [_label(label) for label in term.labels]
                kept += range(part.start, part.stop)
        return cls(
            rows, names, np.ascontiguousarray(whole[:, kept]), intercept, offset, groups, terms, common
        )  # fmt: skip

    @property
    def n(self) -> int:
        return len(self.rows)

    @cached_property
    def means(self) -> tuple[np.ndarray, np.ndarray]:
        """Means of the columns of ``matrix``, each as a sum of two doubles."""
        return two_means(self.matrix)

    @cached_property
    def about_means(self) -> np.ndarray:
        """A column of ones, and the columns of ``matrix`` about their means: shape (n, 1 + p)."""
        return self.about(*self.means)

    def about(self, centre: np.ndarray, rest: np.ndarray) -> np.ndarray:
        """A column of ones, and the columns of ``matrix`` about a point, the sum of two doubles."""
        out = np.empty((self.n, 1 + len(self.names)))
        out[:, 0] = 1.0
        # Numbers near each other subtract without rounding.
        np.subtract(self.matrix, centre, out=out[:, 1:])
        if rest.any():
            out[:, 1:] -= rest
        return out


def _frame(formula: Formula, data: Data) -> Any:
    """The predictors as formulae wants them: numbers, or categories in the order of their levels."""
    import pandas as pd

    columns = {}
    for name in sorted(formula.predictor_columns()):
        columns[name] = _column(data, name)
    length = len(data.labels[data.dataset.rows]) if data.dataset.rows in data.labels else 1
    return pd.DataFrame(columns, index=range(length))


def _column(data: Data, name: str) -> Any:
    import pandas as pd

    term = data.term(name, missing=True)
    if term.dims not in ((data.dataset.rows,), ()):
        raise DataError(
            f"'{name}' is not a column of the table: it has the dimensions {', '.join(map(str, term.dims))}"
        )
    if term.codes is not None:
        categories = [str(label) for label in data.labels[name]]
        return pd.Categorical.from_codes(np.asarray(term.codes), pd.Index(categories), ordered=True)
    # Products and powers of whole numbers would leave their range without a word.
    return np.asarray(term.value, float)


def _label(label: Any) -> str:
    """The name of a column; levels that are whole numbers are written as such."""
    return re.sub(r"(?<=\[)(-?\d+)\.0(?=[\],])", r"\1", str(label))


def _matrix(text: str, frame: Any) -> Any:
    from formulae import design_matrices

    try:
        with _quiet():
            made = design_matrices(text, frame, na_action="error", extra_namespace=_FUNCTIONS).common
    except Exception as error:
        raise _bad(f"the formula cannot be evaluated: {_first_line(error)}") from error
    if made is None:
        raise _bad("the formula has neither an intercept nor a predictor")
    if made.design_matrix.shape[1] > _MAX_COLUMNS:
        raise _bad(f"the formula makes {made.design_matrix.shape[1]:,} columns; at most {_MAX_COLUMNS:,} are allowed")
    _finite(made, np.asarray(made.design_matrix, float), frame)
    return made


def _coded(common: Any, frame: Any) -> np.ndarray:
    try:
        with _quiet():
            matrix = np.asarray(common.evaluate_new_data(frame).design_matrix, float)
    except Exception as error:
        named = [name for name in frame if frame[name].dtype == "category"]
        hold = f" (columns of names there: {listed(named)})" if named else ""
        raise DataError(f"the formula cannot be evaluated on the new data: {_first_line(error)}{hold}") from error
    _finite(common, matrix, frame)
    return matrix


def _finite(common: Any, matrix: np.ndarray, frame: Any) -> None:
    bad = ~np.isfinite(matrix)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        name = next(name for name, part in common.slices.items() if part.start <= column < part.stop)
        raise DataError(f"'{name}' is {matrix[row, column]:g} in row {frame.index[row] + 1}")


def _first_line(error: Exception) -> str:
    if "dtype category" in str(error):
        return "a function of numbers is applied to a column of text"
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def _group(term: GroupTerm, frame: Any, data: Data, complete: np.ndarray, known: Group | None) -> Group:
    codes, labels = _factor(term, data, complete, known)
    if known is not None:
        return Group(
            known.name, codes, labels, known.effects, _coded(known.common, frame), known.correlated, known.common
        )
    common = _matrix(term.effects, frame)
    effects = [_label(x) for t in common.terms.values() for x in (["1"] if t.kind == "intercept" else t.labels)]
    columns = np.asarray(common.design_matrix, float)
    return Group(term.name, codes, labels, effects, columns, term.correlated and len(effects) > 1, common)


def _factor(term: GroupTerm, data: Data, complete: np.ndarray, known: Group | None) -> tuple[np.ndarray, np.ndarray]:
    """Group of each row; combinations of several columns are numbered as they occur in the fit."""
    parts = [data.term(name, missing=True) for name in term.factors]
    for name, part in zip(term.factors, parts, strict=True):
        if part.codes is None:
            raise DataError(f"'{name}' is not a grouping factor: it has no levels")
    codes = [np.asarray(part.codes)[complete] for part in parts]
    labels = [data.labels[name] for name in term.factors]
    if len(parts) == 1:
        return codes[0], labels[0]
    words = np.array(
        [":".join(str(level[c]) for level, c in zip(labels, row, strict=True)) for row in zip(*codes, strict=True)]
    )
    if known is None:
        levels, index = np.unique(words, return_inverse=True)
        return index, levels
    place = {word: k for k, word in enumerate(known.labels)}
    for row, word in enumerate(words):
        if word not in place:
            raise DataError(
                f"row {complete[row] + 1}: '{word}' is not a level of {term.name}, which the fit has not seen"
            )
    return np.array([place[word] for word in words]), known.labels
