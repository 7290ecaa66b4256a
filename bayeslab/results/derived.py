"""Quantities computed from posterior draws: expressions of the language, hypotheses, and Bayesian R².

References
----------
.. [1] Gelman, Goodrich, Gabry, Vehtari (2019). R-squared for Bayesian regression models. The American Statistician 73,
   307-309.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeslab.errors import ModelError, OptionError, hint
from bayeslab.language.algebra import Term
from bayeslab.language.evaluator import Evaluator
from bayeslab.language.expressions import Expression, parse
from bayeslab.language.functions import SUMS, as_float, numpy_reduction
from bayeslab.results.effects.averages import groups_of
from bayeslab.results.effects.estimates import Effects, check_interval, check_rope, draws_array
from bayeslab.results.effects.predictors import expectation_of
from bayeslab.results.effects.rows import sample
from bayeslab.results.fitted import Fitted, posterior_values
from bayeslab.results.predict import prior_groups
from bayeslab.results.render import summary

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

__all__ = ["derive", "hypothesis", "r2"]

# The axis of draws, which expressions cannot name.
_DRAWS = "(draws)"
# Draws from the prior for its probability of a hypothesis.
_PRIOR_DRAWS = 4_000
# Columns of numbers in the table of hypotheses.
_OF_STATEMENTS = ("probability", "mcse", "odds", "prior_probability", "bayes_factor")
# Cells (draws × rows) of expected outcomes that are held at once.
_BATCH = 4_000_000


class _OfDraws(Evaluator):
    """Evaluates expressions at all draws at once; reductions without a dimension are over all but the draws."""

    batch = _DRAWS

    def reduce(self, name: str, node: ast.Call) -> Term:
        """A reduction, such as ``sum(x)`` or ``mean(x, dim)``, at each draw."""
        if len(node.args) > 1:
            return super().reduce(name, node)
        term = self.eval(node.args[0])
        if term.value is None:
            raise ModelError(f"'{ast.unparse(node.args[0])}' is text; {name}() needs numbers", code="not-numbers")
        value = as_float(term.value) if name in SUMS else np.asarray(term.value)
        axes = tuple(k for k, dim in enumerate(term.dims) if dim != _DRAWS)
        return Term(numpy_reduction(name, value, axes), tuple(dim for dim in term.dims if dim == _DRAWS))


def _values(fit: Fitted, text: str, group: xr.Dataset) -> tuple[Expression, np.ndarray, list[str], dict[str, Any]]:
    """An expression at the draws of a group: its tree, values (chain, draw, ...), dimensions and their labels."""
    if not isinstance(text, str):
        raise OptionError(f"an expression is text, such as 'b[x] / sigma', not {text!r}", code="wrong-type")
    expression = parse(_with_labels(text, group))
    labels = {str(dim): np.asarray(values) for dim, values in fit.data.labels.items()}
    labels |= {str(dim): coordinate.to_numpy() for dim, coordinate in group.coords.items()}

    def lookup(name: str) -> Term:
        if name in group.data_vars:
            draws = group[name].transpose("chain", "draw", ...)
            dims = tuple(map(str, draws.dims[2:]))
            return Term(draws.to_numpy().reshape(-1, *draws.shape[2:]), (_DRAWS, *dims))
        if name in group.coords:
            return Term(None, (name,), np.arange(len(labels[name])), name, column=name)
        if fit.data.has(name):
            return fit.data.term(name)
        known = [str(n) for n in group.data_vars if not str(n).startswith("_")]
        raise ModelError(
            f"'{name}' is neither a quantity of the posterior nor a column of the data"
            f"{hint(name, [*known, *fit.data.names()])}",
            code="unknown-name",
        )

    term = _OfDraws(lookup, labels, rows=_DRAWS).term(expression)
    if term.value is None or None in term.dims:
        raise ModelError(f"'{text}' is not a number at each draw", code="not-numbers")
    dims = [str(dim) for dim in term.dims if dim != _DRAWS]
    shape = group.sizes["chain"], group.sizes["draw"]
    value = np.asarray(term.value, float)
    if _DRAWS in term.dims:
        value = np.moveaxis(value, term.dims.index(_DRAWS), 0)
    else:
        value = np.broadcast_to(value, (shape[0] * shape[1], *value.shape))
    return expression, value.reshape(*shape, *value.shape[1:]), dims, labels


def _with_labels(text: str, group: xr.Dataset) -> str:
    """The expression with labels, as tables print them, in quotes: ``b[log(x)]`` becomes ``b["log(x)"]``."""
    out, at = "", 0
    for match in re.finditer(r"(?<![\w.])([^\W\d]\w*)\[", text):
        if match.start() < at or match[1] not in group.data_vars:
            continue
        end = _closing(text, match.end())
        inner = text[match.end() : end]
        out += text[at : match.end()] + _indices(match[1], inner, group)
        at = end
    return out + text[at:]


def _closing(text: str, start: int) -> int:
    """The position of the bracket that closes one opened before ``start``."""
    depth, quote = 1, ""
    for at in range(start, len(text)):
        letter = text[at]
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        else:
            depth += (letter in "[(") - (letter in "])")
            if depth == 0:
                return at
    return len(text)


def _indices(name: str, inner: str, group: xr.Dataset) -> str:
    dims = [str(dim) for dim in group[name].dims if dim not in ("chain", "draw")]
    levels = [list(map(str, group[dim].to_numpy().tolist())) if dim in group.coords else [] for dim in dims]
    if len(dims) == 1 and inner.strip() in levels[0]:
        return repr(inner.strip())
    parts, anywhere = [part.strip() for part in _parts(inner)], list(itertools.chain(*levels))
    out = []
    for place, part in enumerate(parts):
        known = levels[place] if len(parts) == len(dims) else anywhere
        if part in known:
            out.append(repr(part))
        elif part.isidentifier() and part not in group and part not in group.coords:
            raise ModelError(f"'{name}' has no level '{part}'{hint(part, anywhere)}", code="unknown-level")
        else:
            out.append(part)
    return ", ".join(out)


def _parts(inner: str) -> list[str]:
    """The text between the commas that stand outside brackets and quotes."""
    parts, depth, quote = [""], 0, ""
    for letter in inner:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        else:
            depth += (letter in "[(") - (letter in "])")
        if letter == "," and not depth and not quote:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _texts(given: Any) -> dict[str, str]:
    """Expressions by the names of their results."""
    if isinstance(given, str):
        return {given: given}
    if isinstance(given, Mapping):
        return {str(name): text for name, text in given.items()}
    if isinstance(given, Sequence):
        return {str(text): text for text in given}
    raise OptionError(f"an expression is text, such as 'b[x] / sigma', not {given!r}", code="wrong-type")


def derive(
    fit: Fitted, expressions: str | Sequence[str] | Mapping[str, str], *, ci_prob: float = 0.89, rope: Any = None
) -> Effects:
    """See :meth:`bayeslab.results.fit.Fit.derive`."""
    ci_prob, rope = check_interval(ci_prob), check_rope(rope)
    group, columns, parts = fit.posterior.to_dataset(), dict[str, list[Any]](), []
    texts = _texts(expressions)
    if not texts:
        raise OptionError("give an expression, such as 'b[x] / sigma'", code="incomplete")
    for name, text in texts.items():
        _, values, dims, labels = _values(fit, text, group)
        _extend(columns, "term", name, values, dims, labels)
        parts.append(values.reshape(*values.shape[:2], -1))
    made = draws_array(np.concatenate(parts, axis=2), fit.posterior, columns)
    return Effects("posterior of expressions", made, 0.0, ci_prob, rope, ratios=True)


def _extend(
    columns: dict[str, list[Any]], key: str, name: str, values: np.ndarray, dims: list[str], labels: Mapping[str, Any]
) -> None:
    """Append what each value of an expression is: its name, and its label along each dimension."""
    shape = values.shape[2:]
    n = int(np.prod(shape, dtype=int))
    before = len(columns.get(key, []))
    columns.setdefault(key, []).extend([name] * n)
    for dim in dims:
        columns.setdefault(dim, [""] * before)
    for column, cells in columns.items():
        if column == key:
            continue
        if column in dims:
            axis = dims.index(column)
            index = np.broadcast_to(
                np.arange(shape[axis]).reshape([-1 if k == axis else 1 for k in range(len(shape))]), shape
            )
            names = labels.get(column, np.arange(shape[axis]))
            cells.extend(np.asarray(names)[index.ravel()].astype(str).tolist())
        else:
            cells.extend([""] * n)


def hypothesis(
    fit: Fitted, statements: str | Sequence[str] | Mapping[str, str], *, prior: bool = False, seed: int | None = None
) -> pd.DataFrame:
    """See :meth:`bayeslab.results.fit.Fit.hypothesis`."""
    import pandas as pd
    import xarray as xr

    group = fit.posterior.to_dataset()
    if group.sizes["chain"] * group.sizes["draw"] == 1:
        raise OptionError(
            f"the method {fit.method} gives a point, and hypotheses have no probability there", code="not-applicable"
        )
    drawn = None
    if prior:
        drawn = prior_groups(fit.bound_model, _PRIOR_DRAWS, fit.seed if seed is None else seed)["prior"]
    frames = []
    for name, text in _texts(statements).items():
        tree, values, dims, labels = _values(fit, text, group)
        continuous = any(name in group.data_vars and group[name].dtype.kind == "f" for name in tree.names)
        _check_statement(text, tree.tree, continuous)
        columns: dict[str, list[Any]] = {}
        _extend(columns, "hypothesis", name, values, dims, labels)
        flat = values.reshape(*values.shape[:2], -1)
        p = flat.mean(axis=(0, 1))
        error = summary(xr.Dataset({"p": (("chain", "draw", "statement"), flat)})).get("mcse_mean")
        frame = pd.DataFrame(columns).assign(probability=p)
        frame["mcse"] = np.where((p == 0) | (p == 1), 0.0, np.nan if error is None else error.to_numpy())
        with np.errstate(divide="ignore"):
            frame["odds"] = p / (1 - p)
            if drawn is not None:
                before = _values(fit, text, drawn)[1].reshape(drawn.sizes["draw"], -1).mean(axis=0)
                frame["prior_probability"] = before
                with np.errstate(invalid="ignore"):
                    frame["bayes_factor"] = frame["odds"] / (before / (1 - before))
        frames.append(frame)
    if not frames:
        raise OptionError("give a hypothesis, such as 'b[x] > 0'", code="incomplete")
    out = pd.concat(frames, ignore_index=True)
    numbers = [name for name in _OF_STATEMENTS if name in out]
    named = [name for name in out if name not in numbers]
    return out[[*named, *numbers]].fillna(dict.fromkeys(named, ""))


def _check_statement(text: str, tree: ast.expr, continuous: bool) -> None:
    """Refuse what is neither true nor false, and what has probability zero."""
    match tree:
        case ast.BoolOp(values=parts):
            for part in parts:
                _check_statement(text, part, continuous)
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            _check_statement(text, inner, continuous)
        case ast.Compare(ops=[ast.Eq() | ast.NotEq()]) if continuous:
            raise OptionError(
                f"'{text}': that two continuous quantities are equal has probability 0; ask whether they are near,"
                " abs(b[x]) < 0.1",
                code="not-applicable",
            )
        case ast.Compare():
            pass
        case _:
            raise OptionError(
                f"'{text}' is neither true nor false: a hypothesis compares, as 'b[x] > 0' does", code="wrong-type"
            )


def r2(fit: Fitted, *, by: str | Sequence[str] | None = None, ci_prob: float = 0.89) -> Effects:
    """See :meth:`bayeslab.results.fit.Fit.r2`."""
    ci_prob, expectation, rows = check_interval(ci_prob), expectation_of(fit), sample(fit)
    groups = groups_of(rows, True if by is None else by)
    situation, draws = rows.at({}), posterior_values(fit)
    n_draws = len(next(iter(draws.values())))
    step, parts = max(1, _BATCH // max(rows.n, 1)), []
    counts = groups.sizes()
    if np.any(counts < 2):
        raise OptionError("R² needs two or more rows, and a group has one", code="not-applicable")
    for start in range(0, n_draws, step):
        batch = {name: value[start : start + step] for name, value in draws.items()}
        mean = situation.values(batch, "response")
        residual = groups.of(situation.expectation.variances(batch))
        # The variance of the expected outcomes over the rows.
        centred = mean - mean.mean(axis=1, keepdims=True)
        fitted = (groups.of(centred**2) - groups.of(centred) ** 2) * counts / (counts - 1)
        parts.append(fitted / (fitted + residual))
    sizes = fit.posterior.sizes
    values = np.concatenate(parts).reshape(sizes["chain"], sizes["draw"], -1)
    columns: dict[str, Any] = {"term": ["R2"] * groups.n} | dict(groups.columns)
    title = f"Bayesian R² of {expectation.outcome}, {rows.about}"
    return Effects(title, draws_array(values, fit.posterior, columns), None, ci_prob)
