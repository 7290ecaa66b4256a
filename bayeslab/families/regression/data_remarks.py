"""Remarks on a regression's data: dropped rows, redundant columns, separation."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from bayeslab.data.design import Design
from bayeslab.digits import FEW_STEPS, check_digits, constant, far, power_of_two, remedy
from bayeslab.errors import listed
from bayeslab.families.regression.formulas import Formulas, Names
from bayeslab.families.regression.likelihoods import likelihood
from bayeslab.families.regression.lowered import Remark
from bayeslab.families.regression.rows import Rows
from bayeslab.families.regression.spec import Regression

__all__ = ["remarks_of"]


def remarks_of(spec: Regression, formulas: Formulas, designs: Mapping[str, Design], rows: Rows) -> list[Remark]:
    """Remarks on the rows, the response, and the designs of the formulas by parameter ("": the predicted quantity)."""
    formula, design = formulas.mean, designs[""]
    out: list[Remark] = []
    if rows.dropped:
        share = 1 - design.total / rows.total
        advice = "give the predictor a model of its own in `missing:` to keep the rows, or accept that they are lost"
        out.append(("missing", "rows", share, rows.dropped, advice))
    for parameter, each in designs.items():
        if each.names:
            out += _rank_remarks(each, Names(parameter).of("b"))
    chosen = likelihood(spec.likelihood)
    y = rows.responses
    varies = y is not None and not constant(y)
    if y is not None and varies and chosen.located and (remark := far(formula.response, y)):
        out.append(("digits", formula.outcome, None, remark, remedy(y)))
    size = sum(len(each.names) + each.intercept for each in designs.values())
    if size > design.total:
        message = f"more coefficients ({size}) than rows ({design.total:g}): in some directions the answer is the prior"
        out.append(("size", "b", float(size), message, "use shrinkage: horseshoe or ridge, or fewer predictors"))
    if y is not None and len(y) and np.all(y == y[0]) and not chosen.counts_trials:
        message = f"the response is constant ({y[0]:g})"
        out.append(
            ("response", formula.outcome, float(y[0]), message, "check the column; nothing can be learnt from it")
        )
    if y is not None and chosen.distribution == "Bernoulli" and design.names and _separated(design, rows.present, y):
        message = (
            "the predictors separate the response perfectly: the likelihood has no maximum, and how large the"
            " coefficients are is decided by their priors"
        )
        out.append(("separation", "b", None, message, "report the prior with the result, or drop the predictor"))
    return out


def _rank_remarks(design: Design, b: str) -> list[Remark]:
    """Constant columns, and columns that are combinations of others."""
    matrix = design.about_means[:, 1:] if design.intercept else design.matrix
    low, high = design.matrix.min(axis=0), design.matrix.max(axis=0)
    largest = np.maximum(np.abs(low), np.abs(high))
    moving = high - low > 8 * np.finfo(float).eps * largest
    moving = moving if design.intercept else (largest > 0)
    # Scale by powers of two to near one, so that squares do not overflow or underflow.
    unit = power_of_two(np.maximum(high - low, 1e-300) if design.intercept else largest)
    extreme = np.any((unit > 1e100) | (unit < 1e-100))
    matrix = matrix / unit if extreme else matrix
    matrix = matrix if design.counts is None else matrix * np.sqrt(design.counts)[:, None]
    gram = matrix.T @ matrix
    sizes = np.sqrt(np.maximum(np.diagonal(gram), 0.0))
    out: list[Remark] = []
    if not moving.all():
        names = [name for name, moves in zip(design.names, moving, strict=True) if not moves]
        message = f"{listed(names)} is constant in the data: its coefficient is known from its prior only"
        out.append(("constant", f"{b}[{names[0]}]", None, message, "drop it from the formula"))
    out += _few_digits(design, b, moving, sizes * (unit if extreme else 1.0) / np.sqrt(design.total), largest)
    if moving.any():
        values = np.linalg.eigvalsh(gram[np.ix_(moving, moving)] / np.outer(sizes[moving], sizes[moving]))
        lost = int(np.sum(values < 1e-10 * values[-1]))
        if lost and moving.sum() <= design.total:
            message = (
                f"the predictors are collinear: {lost} combination{'s' * (lost > 1)} of their columns "
                f"{'are' if lost > 1 else 'is'} not in the data, and known from the prior only"
            )
            out.append(
                ("collinear", b, float(values[0]), message, f"drop a predictor, or look at predictions, not at {b}")
            )
    return out


def _few_digits(design: Design, b: str, moving: np.ndarray, spread: np.ndarray, largest: np.ndarray) -> list[Remark]:
    """Columns so far from zero relative to their spread that precision is lost."""
    out: list[Remark] = []
    with np.errstate(divide="ignore", invalid="ignore"):
        few = design.intercept & moving & (spread / largest < FEW_STEPS * np.finfo(float).eps)
    for k in np.flatnonzero(few):
        name, values = design.names[k], design.matrix[:, k]
        check_digits(name, values)
        if remark := far(name, values):
            out.append(("digits", f"{b}[{name}]", None, remark, remedy(values)))
    return out


def _separated(design: Design, present: np.ndarray, y: np.ndarray) -> bool:
    """Whether a hyperplane has all ones on one side and all zeros on the other (Albert and Anderson 1984)."""
    from scipy.optimize import linprog

    x = np.column_stack([np.ones(design.n), design.matrix])[present, (0 if design.intercept else 1) :]
    scale = np.abs(x).max(axis=0)
    signed = (x / np.where(scale > 0, scale, 1)) * np.where(y > 0, 1.0, -1.0)[:, None]
    optimum = linprog(-signed.sum(axis=0), A_ub=-signed, b_ub=np.zeros(len(y)), bounds=(-1, 1), method="highs")
    return bool(optimum.status == 0 and -optimum.fun > 1e-6 * len(y))
