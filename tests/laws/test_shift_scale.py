"""A law: shifting and scaling data shifts and scales answers.

The numbers are dyadic, so that data moved by a power of two up to 2^40 are stored without rounding, and what the answer
should be is known exactly: the answer of the data as they were, moved. Intercepts so far from zero are themselves
stored to a few digits of their sd only; everything else agrees to 1e-6 of an sd.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import bayeslab as bl
from bayeslab.data.binding import bind
from bayeslab.data.dataset import Dataset
from bayeslab.exact.conjugate import NormalInverseGamma
from bayeslab.families import gaussian_process as processes
from bayeslab.families import graph as graphs
from bayeslab.families import learner as learners
from bayeslab.families import regression as regressions
from bayeslab.language.spec import Model
from bayeslab.posterior.machine.density import MachineDensity
from bayeslab.preparation import Source
from tests.refusals import refused

RNG = np.random.default_rng(1)
N = 48


def dyadic(values, bits=8):
    """Rounded to a few binary places: exact beside 2^40."""
    return np.round(np.asarray(values) * 2**bits) / 2**bits


X, Z = dyadic(RNG.normal(size=N)), dyadic(RNG.normal(size=N))
G = np.array(list("abcdef"))[np.arange(N) % 6]
T = np.arange(N) % 7 / 4
Y = dyadic(1 + 2 * X - Z + RNG.normal(size=N))
GROUPED = dyadic(Y + 1.5 * RNG.normal(size=6)[np.arange(N) % 6])
OFFSETS = [2.0**20, 2.0**30, 2.0**40]
SCALES = [1e-150, 1e-9, 1e9, 1e150]


def answer(spec, columns):
    family = regressions if isinstance(spec, bl.Regression) else graphs
    model = Model(model=spec)
    plan = family.compile(model, bind(model, Dataset.from_table(columns, "obs_id"), model.factors())).exact_plan
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


@pytest.mark.parametrize(("by", "x_by"), [(1e-140, 1e140), (1e-80, 1e90)])
@pytest.mark.parametrize("priors", [{}, {"x": "Flat()"}, {"x": "Normal(0, 1)"}, {"x": "StudentT(3, 0, 1)"}])
def test_regression_of_a_slope_whose_variance_is_no_float(by, x_by, priors):
    model = bl.Regression(formula="y ~ x + z", priors=priors)
    with refused("data.out-of-range", "'x'"):
        bl.check(bl.Model(data={"rows": "obs_id"}, model=model), columns("line", by=by, x_by=x_by))


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
    with refused("data.too-many-digits", "'y'"):
        answer(FORMULAS["line"], {"y": y, "x": X, "z": Z})
    with refused("data.too-many-digits", "'x'"):
        answer(FORMULAS["line"], {"y": Y, "x": dyadic(X, 2) + 2.0**51, "z": Z})


def test_few_digits_are_a_remark():
    model = Model(model=FORMULAS["line"])

    def remarks(y):
        data = bind(model, Dataset.from_table({"y": y, "x": X, "z": Z}, "obs_id"), set())
        return [r for r in regressions.compile(model, data).data_findings() if r[0] == "digits"]

    assert not remarks(Y + 2.0**30)
    (found,) = remarks(Y + 2.0**41)
    assert "'y' varies by" in found[3] and "subtract a reference value" in found[4]
    model = Model(model=line())
    data = bind(model, Dataset.from_table({"y": Y + 2.0**41, "x": X}, "obs_id"), model.factors())
    assert [r[1] for r in graphs.compile(model, data).data_findings()] == ["y"]


# ------------------------------------------------------------------------------------- other families


@pytest.mark.parametrize("offset", OFFSETS)
def test_a_conjugate_regression_shifted(offset):
    """As the regressions of Bayes nets have it: with a prior about the centre of the predictors."""

    def posterior(x, y, at, level):
        prior = NormalInverseGamma.about(np.array([at]), np.array([level, 0.0]), np.diag([0.01, 0.02]), 2.0, 1.0)
        design = np.column_stack([np.ones(N), x])
        return prior.update(design, y), prior.log_evidence(design, y), design

    before, evidence, _ = posterior(X, Y, 0.25, 0.5)
    after, moved, design = posterior(X + offset, Y + offset, 0.25 + offset, 0.5 + offset)
    np.testing.assert_allclose(after.mean()[0][1], before.mean()[0][1], rtol=1e-6)
    np.testing.assert_allclose(after.sd()[0][1], before.sd()[0][1], rtol=1e-6)
    assert after.mean()[1] == pytest.approx(before.mean()[1], rel=1e-6)
    assert moved == pytest.approx(evidence, abs=1e-6)
    # Predictions at the rows: where the level is known, whatever the intercept at zero.
    apart = after.predictive(design[:3]).std() / before.predictive(np.column_stack([np.ones(3), X[:3]])).std()
    np.testing.assert_allclose(apart, 1.0, rtol=1e-5)


@pytest.mark.parametrize("offset", [2.0**20, 2.0**30])
@pytest.mark.parametrize("what", ["y", "x", "t"])
@pytest.mark.slow(why="large")
def test_the_mode_of_a_process_shifted(what, offset):
    def mode(x, y, t):
        spec = bl.GaussianProcess(target="y", kernel="ExpQuad(x)", mean="1 + t" if what == "t" else "1")
        model = Model(model=spec)
        data = bind(model, Dataset.from_table({"x": x, "y": y, "t": t}, "obs_id"), set())
        return processes.compile(model, data).optimum(True, 2, np.random.default_rng(0))

    curve = dyadic(np.sin(2 * X) + 0.1 * Z)
    before = mode(X, curve, T)
    after = mode(X + offset * (what == "x"), curve + offset * (what == "y"), T + offset * (what == "t"))
    assert after.log_density == pytest.approx(before.log_density, abs=1e-6)
    for name, value in before.values.items():
        if name == "Intercept" and what == "t":
            continue  # that of predictors at zero
        shift = offset if name == "Intercept" and what == "y" else 0.0
        assert after.values[name] - shift == pytest.approx(value, rel=1e-4, abs=1e-5)


KNOWN = {"sigma": 0.5}


def process(t, y, priors=KNOWN, kernel="ExpQuad(x, 1, 1)"):
    model = Model(model=bl.GaussianProcess(target="y", kernel=kernel, mean="1 + t", priors=priors))
    return model, bind(model, Dataset.from_table({"x": Z, "t": t, "y": y}, "obs_id"), set())


@pytest.mark.parametrize("offset", OFFSETS)
def test_the_mean_of_a_process_shifted(offset):
    def posterior(t, y):
        return processes.compile(*process(t, y)).exact_plan.solve()

    before, free = posterior(X, Y), ("b", "Intercept_centred")
    after = posterior(X + offset, Y)
    agree(before, after, ("f", *free))
    assert after.log_evidence == pytest.approx(before.log_evidence, abs=1e-6)
    after = posterior(X, Y + offset)
    agree(before, after, ("b",))
    agree(before, after, ("f", "Intercept", "Intercept_centred"), shift=offset, tolerance=1e-5)
    assert after.log_evidence == pytest.approx(before.log_evidence, abs=1e-4)


@pytest.mark.parametrize("scale", SCALES)
def test_the_mean_of_a_process_scaled(scale):
    def posterior(t, y, by):
        return processes.compile(*process(t, y, {"sigma": 0.5 * by}, f"ExpQuad(x, 1, {by!r})")).exact_plan.solve()

    before = posterior(X, Y, 1.0)
    agree(before, posterior(X * scale, Y, 1.0), ("f", "Intercept", "Intercept_centred"))
    agree(before, posterior(X, Y * scale, scale), ("f", "b", "Intercept", "Intercept_centred"), scale=scale)


def test_the_raw_intercept_of_a_process_is_that_of_centred_predictors_moved():
    solved = processes.compile(*process(X, Y)).exact_plan.solve()
    draws, mean, sd = solved.draws(np.random.default_rng(0), 4000), solved.mean(), solved.sd()
    raw = draws["Intercept_centred"] - draws["b"][:, 0] * X.mean()
    np.testing.assert_allclose(draws["Intercept"], raw, rtol=1e-12)
    assert mean["Intercept"] == pytest.approx(mean["Intercept_centred"] - mean["b"][0] * X.mean(), rel=1e-12)
    assert abs(draws["Intercept"].std() / sd["Intercept"] - 1) < 4 / np.sqrt(2 * 4000)
    # A prior of the raw intercept is that of predictors of zero.
    own = processes.compile(*process(X, Y, KNOWN | {"Intercept": "Normal(0, 1)"})).exact_plan.solve()
    assert set(own.dims) == {"Intercept", "b", "f"}


LEARNERS = {
    "linear": {}, "recursive_least_squares": {}, "mixture_of_experts": {"n_experts": 2, "n_init": 1},
    "boosted_regression": {"n_estimators": 20}, "random_forest": {"n_estimators": 10}, "locally_weighted": {},
    "regression_tree": {},
}  # fmt: skip


@pytest.mark.parametrize("word", LEARNERS)
def test_learners_shifted_and_scaled(word):
    def predicted(y, x=X):
        model = Model(model=learners.Learner(learner=word, target="y", options=LEARNERS[word]))
        data = bind(model, Dataset.from_table({"x": x, "z": Z, "y": y}, "obs_id"), set())
        return learners.compile(model, data).learned(1).predicted(data)

    before, offset = predicted(Y), 2.0**30
    np.testing.assert_allclose(predicted(Y + offset) - offset, before, atol=2e-6)
    np.testing.assert_allclose(predicted(Y * 2.0**-400) * 2.0**400, before, atol=1e-9)
    np.testing.assert_allclose(predicted(Y, X + 2.0**20), before, atol=1e-6)


@pytest.mark.parametrize(("kernel", "price"), [("rbf", 10), ("rbf", 100), ("poly", 30), ("linear", 100)])
def test_support_vector_machines_shifted_and_scaled(kernel, price):
    """To 1e-5 of an sd: libsvm stops at a tolerance, and holds its kernel in single precision."""

    def predicted(y, x=X):
        model = Model(model=learners.Learner(learner="svm", target="y", options={"kernel": kernel, "C": price}))
        data = bind(model, Dataset.from_table({"x": x, "z": Z, "y": y}, "obs_id"), set())
        return learners.compile(model, data).learned(1).predicted(data)

    before, unit = predicted(Y), 1e-5 * Y.std()
    np.testing.assert_allclose(predicted(Y + 2.0**30) - 2.0**30, before, atol=unit)
    np.testing.assert_allclose(predicted(Y * 1e9) / 1e9, before, atol=unit)
    np.testing.assert_allclose(predicted(Y, X + 2.0**20), before, atol=unit)
    np.testing.assert_allclose(predicted(Y, X * 1e9), before, atol=unit)


CURVED = ["y ~ poly(x, 3)", "y ~ bs(x, df=5)", "y ~ scale(x) + z", "y ~ 0 + center(x) + scale(z)"]


@pytest.mark.parametrize("formula", CURVED)
def test_transforms_of_formulas_shifted_and_scaled(formula):
    spec = bl.Regression(formula=formula)

    def fitted(x):
        found = answer(spec, {"y": Y, "x": x, "z": Z})
        names = [name for name in ("b", "sigma", "Intercept_centred") if name in found.dims]
        return found, names

    before, names = fitted(X)
    for moved in (*(X + offset for offset in OFFSETS), *(X * scale for scale in SCALES)):
        if "center" in formula and np.ptp(moved) != np.ptp(X):
            continue  # centring keeps the unit of a slope
        after, _ = fitted(moved)
        agree(before, after, names)
        assert after.log_evidence == pytest.approx(before.log_evidence, abs=1e-6)


def test_polynomials_are_orthonormal_and_those_of_the_fit_at_new_rows():
    """Against Gram-Schmidt on exact powers in rational arithmetic, at a high degree."""
    from bayeslab.data.transforms import TRANSFORMS

    n, degree = 30, 12
    x = np.arange(n) + 2.0**40
    polynomial = TRANSFORMS["poly"]()
    found = polynomial(x, degree=degree)
    np.testing.assert_allclose(found.T @ found, np.eye(degree), atol=1e-13)
    columns = [[Fraction(1)] * n]
    for _ in range(degree):
        column = [Fraction(t) * c for t, c in zip(range(n), columns[-1], strict=True)]
        for earlier in columns:
            share = sum(map(lambda a, b: a * b, column, earlier)) / sum(a * a for a in earlier)
            column = [a - share * b for a, b in zip(column, earlier, strict=True)]
        columns.append(column)
    truth = np.column_stack([[float(a) for a in column] for column in columns[1:]])
    np.testing.assert_allclose(found, truth / np.linalg.norm(truth, axis=0), atol=1e-11)
    np.testing.assert_allclose(polynomial(x[::-3]), found[::-3], atol=1e-9)


def test_transforms_of_columns_without_digits_are_refused():
    for formula in ("y ~ poly(x, 2)", "y ~ bs(x, df=5)", "y ~ scale(x)"):
        with refused("data.too-many-digits", "'x'"):
            answer(bl.Regression(formula=formula), {"y": Y, "x": dyadic(X, 2) + 2.0**51})


def test_rows_summed_for_nuts_keep_their_digits():
    """The potential that NUTS sees is the log likelihood, far from zero too."""
    from bayeslab.exact.coordinates import coordinates
    from bayeslab.families.regression.lowering import lower
    from bayeslab.families.regression.pymc_graph import observations

    offset = 2.0**40
    model = Model(model=FORMULAS["line"])
    data = bind(model, Dataset.from_table(columns("line", y=offset), "obs_id"), set())
    seen = observations(lower(model, data))
    at, ((gram, cross, square),) = coordinates([[seen]], np.ones(1), np.zeros(1, bool))
    # Coefficients that a double can tell from their neighbours.
    theta = np.array([offset + 1.5, 1.75, -0.5])
    away = at.inverse @ (theta - at.point)
    found = (away @ gram @ away - 2 * away @ cross + square) * at.unit**2
    centred = [X - X.mean(), Z - Z.mean()]
    truth = np.sum((Y - 1.5 - 1.75 * centred[0] + 0.5 * centred[1]) ** 2)
    assert found == pytest.approx(truth, rel=1e-9)


@pytest.mark.slow(why="large")
def test_levels_of_a_state_space_shifted():
    """Decoded over several draws of the variances."""
    from bayeslab.families.hmm.model import linear_of
    from bayeslab.posterior.chains import linear as hmm_linear

    model = Model(model=bl.HMM(columns=["y"], states="continuous"))
    draws = {name: np.array(values) for name, values in (("level_sd", [0.3, 0.5, 0.9]), ("noise_sd", [1.0, 0.8, 0.6]))}

    def levels(offset):
        data = bind(model, Dataset.from_table({"y": dyadic(np.cumsum(Z)) + offset}, "obs_id"), set())
        linear = linear_of(model, data)
        return hmm_linear.decoded(linear, draws, "smooth", {}, None, None)[0]

    before, after = levels(0.0), levels(2.0**30)
    np.testing.assert_allclose(after["state"] - 2.0**30, before["state"], atol=1e-6)
    np.testing.assert_allclose(after["sd"], before["sd"], rtol=1e-6)


def estimated(spec, columns, method):
    found = bl.fit(Model(model=spec), data=columns, method=method, runs=None, seed=1).posterior
    return {name: found[name].values.mean(axis=(0, 1)) for name in found.data_vars if found[name].dtype.kind == "f"}


WITHOUT = {"mean", "location"}
SEARCHED = {
    "mixture": (bl.Mixture(columns=["y", "w"], components=2), WITHOUT),
    "student_t": (bl.Mixture(columns=["y"], components=2, component="student_t", dof=4), WITHOUT),
    "hmm": (bl.HMM(columns=["y"], states=2), WITHOUT),
    "factors": (bl.LatentFeatures(columns=["x", "y", "w"], features=1), WITHOUT),
}


@pytest.mark.slow(why="large")
@pytest.mark.parametrize("kind", SEARCHED)
def test_em_shifted_and_scaled(kind):
    spec, shifted = SEARCHED[kind]
    label = np.repeat([0, 1], N // 2)
    own = {"x": dyadic(X + 2 * label), "y": dyadic(Y + 6 * label), "w": dyadic(Z + Y - label)}
    before = estimated(spec, own, "em")
    after = estimated(spec, {name: values + 2.0**30 for name, values in own.items()}, "em")
    for name, value in before.items():
        shift = 2.0**30 if name in shifted else 0.0
        np.testing.assert_allclose(after[name] - shift, value, rtol=1e-4, atol=1e-5)
    after = estimated(spec, {name: values * 2.0**30 for name, values in own.items()}, "em")
    for name in before.keys() & shifted:
        np.testing.assert_allclose(after[name] / 2.0**30, before[name], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize(
    "term", ["(1 | g)", "(1 + x | g)", "(1 | mm(g, h))", "icar(W, g)", "bym2(W, g)", "car(W, g) + s(z, k=5)"]
)
def test_the_density_of_sums_of_rows_moves_with_the_response(term, offset):
    """Effects of all groups add up to the intercept, which alone is to take a response far from zero."""
    neighbours = {"one": np.array(list("abcde")), "other": np.array(list("bcdef"))}
    table = {"x": np.tile(X, 4), "z": np.tile(Z, 4), "g": np.tile(G, 4), "h": np.tile(np.roll(G, 1), 4)}
    densities = []
    for shift in (0.0, offset):
        data = pd.DataFrame({**table, "y": np.tile(GROUPED, 4) + shift})
        priors = {"Intercept": f"Normal({shift}, 2)", "b": "Normal(0, 1)", "sd": "HalfNormal(1)"}
        priors |= {"sigma": "Exponential(1)"} | ({"sd_s_z": "HalfNormal(1)"} if "s(z" in term else {})
        model = bl.Model(data={"rows": "row"}, model=bl.Regression(formula=f"y ~ x + {term}", priors=priors))
        posterior = Source(model).posterior({"row": data, "W": pd.DataFrame(neighbours)})
        assert posterior.lowered.summable
        densities.append(MachineDensity(posterior.machine_model(), lambda: None))
    one, other = densities
    for _ in range(3):
        at = {name: dyadic(0.4 * RNG.normal(size=shape)) for name, shape in zip(one.names, one.shapes, strict=True)}
        (value, slopes), (moved, theirs) = (
            one(one.flat(at)),
            other(other.flat({**at, "Intercept": at["Intercept"] + offset})),
        )
        assert moved == pytest.approx(value, rel=1e-9)
        np.testing.assert_allclose(theirs, slopes, rtol=1e-6, atol=1e-6)
