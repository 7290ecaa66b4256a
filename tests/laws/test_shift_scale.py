"""A law: shifting and scaling data shifts and scales answers.

The numbers are dyadic, so that data moved by a power of two up to 2^40 are stored without rounding, and what the answer
should be is known exactly: the answer of the data as they were, moved. Intercepts so far from zero are themselves
stored to a few digits of their sd only; everything else agrees to 1e-6 of an sd.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import bayeslab as bl
from bayeslab.dataset import Dataset, bind
from bayeslab.errors import DataError
from bayeslab.families import graph as graphs
from bayeslab.families import regression as regressions
from bayeslab.spec import Model

RNG = np.random.default_rng(1)
N = 48


def dyadic(values, bits=8):
    """Rounded to a few binary places: exact beside 2^40."""
    return np.round(np.asarray(values) * 2**bits) / 2**bits


X, Z = dyadic(RNG.normal(size=N)), dyadic(RNG.normal(size=N))
G = np.array(list("abcdef"))[np.arange(N) % 6]
Y = dyadic(1 + 2 * X - Z + RNG.normal(size=N))
GROUPED = dyadic(Y + 1.5 * RNG.normal(size=6)[np.arange(N) % 6])
OFFSETS = [2.0**20, 2.0**30, 2.0**40]
SCALES = [1e-150, 1e-9, 1e9, 1e150]


def answer(spec, columns):
    family = regressions if isinstance(spec, bl.Regression) else graphs
    model = Model(model=spec)
    plan = family.exact(model, bind(model, Dataset.from_table(columns, "obs_id"), family.factors(model)))
    assert not isinstance(plan, str), plan
    return plan.solve()


def agree(before, after, names, shift=0.0, scale=1.0, tolerance=1e-6):
    """Means, sds and quantiles of quantities that are ``scale`` times as large, and ``shift`` further on."""
    spread = before.sd()
    for statistic in ("mean", "q"):
        old, new = (a.mean() if statistic == "mean" else a.quantile(0.1) for a in (before, after))
        for name in names:
            moved = old[name] * scale + shift
            unit = np.abs(spread[name] * scale)
            np.testing.assert_array_less(np.abs(new[name] - moved), tolerance * unit + 4 * np.spacing(np.abs(moved)))
    for name in names:
        np.testing.assert_allclose(after.sd()[name], np.abs(scale) * spread[name], rtol=tolerance)


def line(at=0.0, name="a"):
    return bl.Graph(
        nodes={name: f"Normal({at!r}, 4)", "b": "Normal(0, 2)", "s": "HalfNormal(5)",
               "y[obs_id]": f"Normal({name} + b * x, s)"}
    )  # fmt: skip


def levels(at=0.0):
    return bl.Graph(
        nodes={"mu": f"Normal({at!r}, 10)", "tau": "HalfNormal(3)", "s": "HalfNormal(5)", "u[g]": "Normal(mu, tau)",
               "b": "Normal(0, 2)", "y[obs_id]": "Normal(u[g] + b * x, s)"}
    )  # fmt: skip


FLAT = bl.Graph(nodes={"a": "Flat()", "b": "Flat()", "s": "HalfNormal(5)", "y[obs_id]": "Normal(a + b * x, s)"})
SLOPES = bl.Graph(
    nodes={"tau": "HalfNormal(3)", "s": "HalfNormal(5)", "u[g]": "Flat()", "m": "Flat()", "b[g]": "Normal(m, tau)",
           "y[obs_id]": "Normal(u[g] + b[g] * x, s)"}
)  # fmt: skip
FORMULAS = {
    "line": bl.Regression(formula="y ~ x + z"),
    "groups": bl.Regression(formula="y ~ x + (1 | g)"),
    "ridge": bl.Regression(formula="y ~ x + z", shrinkage="ridge"),
    "weights": bl.Regression(formula="y ~ x + z", weights="w"),
}
FREE = {
    "line": ("b", "sigma"), "groups": ("b", "sigma", "u_g", "sd_g"), "ridge": ("b", "sigma", "tau"),
    "weights": ("b", "sigma"),
}  # fmt: skip


def columns(kind, y=0.0, x=0.0, by=1.0, x_by=1.0):
    own = GROUPED if kind == "groups" else Y
    return {"y": (own + y) * by, "x": (X + x) * x_by, "z": Z, "g": G, "w": 1.0 + (np.arange(N) % 3)}


@pytest.mark.parametrize("offset", [OFFSETS[0], OFFSETS[-1]])
@pytest.mark.parametrize("kind", FORMULAS)
def test_regression_shifted(kind, offset):
    before = answer(FORMULAS[kind], columns(kind))
    after = answer(FORMULAS[kind], columns(kind, y=offset))
    # The centre of the intercept's prior is a double as well, and at 2^40 they are 2^-12 apart.
    near = 1e-6 if offset < 2**40 else 1e-5
    agree(before, after, FREE[kind], tolerance=near)
    agree(before, after, ("Intercept", "Intercept_centred"), shift=offset, tolerance=near)
    assert after.log_evidence == pytest.approx(before.log_evidence, abs=1e-6)
    after = answer(FORMULAS[kind], columns(kind, x=offset))
    agree(before, after, ("Intercept_centred", *FREE[kind]))
    assert after.log_evidence == pytest.approx(before.log_evidence, abs=1e-6)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("kind", ["line", "groups"])
def test_regression_scaled(kind, scale):
    before = answer(FORMULAS[kind], columns(kind))
    after = answer(FORMULAS[kind], columns(kind, by=scale))
    agree(before, after, ("Intercept", "Intercept_centred", *FREE[kind]), scale=scale)
    assert after.log_evidence == pytest.approx(before.log_evidence - N * np.log(scale), rel=1e-6)
    after = answer(FORMULAS[kind], columns(kind, x_by=scale))
    agree(before, after, ("Intercept", *(name for name in FREE[kind] if name != "b")))
    assert after.mean()["b"][0] * scale == pytest.approx(before.mean()["b"][0], rel=1e-6)
    assert after.sd()["b"][0] * scale == pytest.approx(before.sd()["b"][0], rel=1e-6)


def test_an_intercept_with_a_prior_of_its_own_needs_no_centred_predictors():
    spec = bl.Regression(
        formula="y ~ x + z", priors={"Intercept": "Normal(0, 1e30)", "b": "Normal(0, 2)", "sigma": "HalfNormal(5)"}
    )
    before, after = answer(spec, columns("line")), answer(spec, columns("line", x=2.0**30))
    agree(before, after, ("b", "sigma"))


@pytest.mark.parametrize("offset", OFFSETS)
def test_graph_shifted(offset):
    before = answer(line(), {"x": X, "y": Y})
    after = answer(line(offset), {"x": X, "y": Y + offset})
    agree(before, after, ("b", "s"))
    agree(before, after, ("a",), shift=offset)
    assert after.log_evidence == pytest.approx(before.log_evidence, abs=1e-6)
    before = answer(FLAT, {"x": X, "y": Y})
    agree(before, answer(FLAT, {"x": X + offset, "y": Y}), ("b", "s"))


@pytest.mark.parametrize("offset", [2.0**40])
def test_graph_of_groups_shifted(offset):
    before = answer(levels(), {"x": X, "y": GROUPED, "g": G})
    after = answer(levels(offset), {"x": X, "y": GROUPED + offset, "g": G})
    agree(before, after, ("b", "s", "tau"))
    agree(before, after, ("mu", "u"), shift=offset)
    assert after.log_evidence == pytest.approx(before.log_evidence, abs=1e-6)
    before = answer(SLOPES, {"x": X, "y": GROUPED, "g": G})
    agree(before, answer(SLOPES, {"x": X + offset, "y": GROUPED, "g": G}), ("b", "s", "tau", "m"))


def least_squares(columns, y):
    """Exact rational coefficients and unscaled variances."""
    size = len(columns)
    rows = [[Fraction(float(c[i])) for c in columns] for i in range(len(y))]
    gram = [[sum(r[i] * r[j] for r in rows) for j in range(size)] for i in range(size)]
    cross = [sum(r[i] * Fraction(float(t)) for r, t in zip(rows, y, strict=True)) for i in range(size)]
    left = [
        [*row, *(Fraction(int(i == k)) for k in range(size)), c]
        for i, (row, c) in enumerate(zip(gram, cross, strict=True))
    ]
    for i in range(size):
        left[i] = [value / left[i][i] for value in left[i]]
        for k in range(size):
            if k != i:
                left[k] = [a - left[k][i] * b for a, b in zip(left[k], left[i], strict=True)]
    return np.array([float(row[-1]) for row in left]), np.array([float(left[i][size + i]) for i in range(size)])


@pytest.mark.parametrize("offset", [0.0, 2.0**12, 2.0**20])
def test_nearly_collinear_powers_against_rational_arithmetic(offset):
    """A column and its square, far from zero: their sums of squares and products are singular in double precision."""
    x = dyadic(X[:12], 4) + offset
    y = dyadic(Y[:12], 4) + 2.0**20
    spec = bl.Graph(nodes={"a": "Flat()", "b": "Flat()", "c": "Flat()", "y[obs_id]": "Normal(a + b * x + c * x2, 1)"})
    found = answer(spec, {"x": x, "x2": x**2, "y": y})
    mean, variance = least_squares([np.ones(12), x, x**2], y)
    # (The answer's own condition is what is left: a is the value of a parabola far outside the data.)
    for name, truth, spread in zip("abc", mean, np.sqrt(variance), strict=True):
        assert found.sd()[name] == pytest.approx(spread, rel=1e-6)
        assert abs(found.mean()[name] - truth) < 1e-6 * spread


def test_lost_digits_are_refused():
    y = dyadic(Y, 4) + 2.0**50
    with pytest.raises(DataError, match="subtract a reference value"):
        answer(FORMULAS["line"], {"y": y, "x": X, "z": Z})
    with pytest.raises(DataError, match="'x' varies by"):
        answer(FORMULAS["line"], {"y": Y, "x": dyadic(X, 2) + 2.0**51, "z": Z})


def test_few_digits_are_a_remark():
    model = Model(model=FORMULAS["line"])

    def remarks(y):
        data = bind(model, Dataset.from_table({"y": y, "x": X, "z": Z}, "obs_id"), set())
        return [r for r in regressions.remarks(model, data) if r[0] == "digits"]

    assert not remarks(Y + 2.0**30)
    (found,) = remarks(Y + 2.0**41)
    assert "'y' varies by" in found[3] and "subtract a reference value" in found[4]
