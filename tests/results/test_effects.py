"""Effects equal their definitions, written out in NumPy on the same draws."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import special, stats

import bayeslab as bl
from tests.refusals import refused

N = 60


def table() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "x": rng.normal(2, 1.5, N),
            "z": rng.normal(0, 1, N),
            "g": rng.choice(["a", "b", "c"], N),
            "u": rng.choice(list("pqrst"), N),
            "flag": rng.integers(0, 2, N),
            "n": rng.integers(3, 9, N),
            "w": rng.integers(1, 5, N).astype(float),
        }
    )
    frame["y"] = 1 + frame.x + (frame.g == "b") * (2 - frame.x) + rng.normal(0, 1, N)
    frame["yes"] = (rng.random(N) < special.expit(0.5 * frame.x - 1 + frame.flag)).astype(int)
    frame["count"] = rng.poisson(np.exp(0.2 * frame.x) * frame.n)
    frame["won"] = rng.binomial(frame.n, 0.4)
    frame["grade"] = np.array(["low", "mid", "top"])[np.digitize(frame.x + rng.normal(0, 1, N), [1.0, 3.0])]
    frame["time"] = rng.gamma(2.0, np.exp(0.1 * frame.x))
    return frame


DATA = table()
FITS: dict[tuple[str, str, str], bl.Fit] = {}


def fit_of(formula: str, likelihood: str = "gaussian", method: str = "nuts", **keys) -> bl.Fit:
    """A short run: the definitions hold for any draws."""
    key = (formula, likelihood, method + repr(keys))
    if key not in FITS:
        model = bl.Model(
            dims={"grade": ["low", "mid", "top"], "g": ["a", "b", "c"]},
            data=keys.pop("data", {"rows": "row"}),
            model=bl.Regression(formula=formula, likelihood=likelihood, **keys),
        )
        options = {"draws": 25, "tune": 60, "chains": 2} if method == "nuts" else {}
        FITS[key] = bl.fit(model, DATA, method=method, seed=1, runs=None, progress=False, **options)
    return FITS[key]


def draws(fit: bl.Fit, name: str, **labels) -> np.ndarray:
    """Draws of a parameter, chains joined, the draw first."""
    values = fit.posterior[name].sel(labels) if labels else fit.posterior[name]
    return values.stack(sample=("chain", "draw")).transpose("sample", ...).to_numpy()


def slope(fit: bl.Fit, name: str) -> np.ndarray:
    return draws(fit, "b", predictor=name)[:, None]


def got(effects) -> np.ndarray:
    """Draws of estimates, shape (draws, estimates)."""
    return effects.draws.stack(sample=("chain", "draw")).transpose("sample", "estimate").to_numpy()


def same(effects, wanted: np.ndarray, tolerance: float = 1e-9) -> None:
    np.testing.assert_allclose(got(effects), wanted, rtol=tolerance, atol=tolerance)


X, FLAG, IS = DATA["x"].to_numpy(), DATA["flag"].to_numpy(), {g: (DATA["g"] == g).to_numpy() for g in "abc"}


# ------------------------------------------------------------------------------------------------ linear models


def interacting() -> bl.Fit:
    return fit_of("y ~ x * g + z", method="exact")


def test_the_slope_of_a_linear_model_is_its_coefficient():
    fit = interacting()
    same(fit.slopes("z"), slope(fit, "z"), 1e-6)
    table = fit.slopes("z").table
    exact = fit.summary(["b[z]"]).iloc[0]
    error = exact["sd"] / np.sqrt(got(fit.slopes("z")).size)
    assert abs(table["mean"][0] - exact["mean"]) < 5 * error


def test_slopes_differ_by_the_interaction():
    fit = interacting()
    wanted = [slope(fit, "x"), *(slope(fit, "x") + slope(fit, f"x:g[{g}]") for g in "bc")]
    effects = fit.slopes("x", by="g")
    same(effects, np.hstack(wanted), 1e-6)
    assert effects.table["g"].tolist() == ["a", "b", "c"]
    shares = np.array([IS[g].mean() for g in "abc"])
    same(fit.slopes("x"), np.hstack(wanted) @ shares[:, None], 1e-6)


def test_levels_of_a_factor_are_compared_at_the_values_of_each_row():
    fit = interacting()
    by_row = {g: slope(fit, f"g[{g}]") + slope(fit, f"x:g[{g}]") * X for g in "bc"}
    effects = fit.comparisons("g")
    same(effects, np.stack([by_row[g].mean(axis=1) for g in "bc"], axis=1))
    assert effects.table["contrast"].tolist() == ["b - a", "c - a"]
    same(fit.comparisons({"g": "sequential"}), np.stack([by_row["b"].mean(1), (by_row["c"] - by_row["b"]).mean(1)], 1))
    pairs = fit.comparisons({"g": "pairwise"})
    assert pairs.table["contrast"].tolist() == ["b - a", "c - a", "c - b"]
    same(fit.comparisons({"g": ["c", "a"]}, by=False), -by_row["c"])


@pytest.mark.parametrize(
    ("wanted", "label", "size"),
    [
        (None, "+1", 1.0),
        (-2.5, "-2.5", -2.5),
        ([1, 4], "4 - 1", 3.0),
        ("sd", "sd around the mean", np.std(DATA["z"], ddof=1)),
        ("2sd", "2sd around the mean", 2 * np.std(DATA["z"], ddof=1)),
        ("iqr", "q3 - q1", stats.iqr(DATA["z"])),
        ("minmax", "max - min", np.ptp(DATA["z"])),
    ],
)
def test_a_number_changes_by_what_is_asked(wanted, label, size):
    fit = interacting()
    effects = fit.comparisons({"z": wanted})
    same(effects, slope(fit, "z") * size)
    assert effects.table["contrast"][0] == label


def test_expected_outcomes_are_the_linear_predictor():
    fit = interacting()
    a, x, z = draws(fit, "Intercept")[:, None], slope(fit, "x"), slope(fit, "z")
    same(fit.predictions(at={"x": [0, 1], "z": 2, "g": "a"}), np.hstack([a + 2 * z, a + x + 2 * z]))
    mean = DATA[["x", "z"]].mean()
    most = DATA["g"].mode()[0]
    extra = 0.0 if most == "a" else slope(fit, f"g[{most}]") + slope(fit, f"x:g[{most}]") * mean.x
    same(fit.predictions(at="mean"), a + x * mean.x + z * mean.z + extra)
    # The mean of the fitted values is, draw by draw, the linear predictor at the mean of the design matrix.
    design = [IS["b"].mean(), IS["c"].mean(), (X * IS["b"]).mean(), (X * IS["c"]).mean()]
    names = ["g[b]", "g[c]", "x:g[b]", "x:g[c]"]
    rest = sum(slope(fit, name) * value for name, value in zip(names, design, strict=True))
    same(fit.predictions(), a + x * mean.x + z * mean.z + rest)


def test_slopes_of_curves_are_derivatives():
    fit = fit_of("y ~ x + I(x ** 2) + exp(z)", method="exact")
    b1, b2, c = slope(fit, "x"), slope(fit, "I(x ** 2)"), slope(fit, "exp(z)")
    same(fit.slopes("x", at={"x": [0, 3]}), np.hstack([b1, b1 + 6 * b2]), 1e-6)
    same(fit.slopes("z", by=False), c * np.exp(DATA["z"].to_numpy()), 1e-6)
    y = draws(fit, "Intercept")[:, None] + b1 * 1.5 + b2 * 2.25 + c
    at = {"x": 1.5, "z": 0}
    same(fit.slopes("x", at=at, kind="elasticity"), (b1 + 3 * b2) * 1.5 / y, 1e-5)
    same(fit.slopes("x", at=at, kind="semi-elasticity"), (b1 + 3 * b2) / y, 1e-5)


def test_far_from_zero_slopes_keep_their_digits():
    data = pd.DataFrame({"t": 1.7e9 + np.arange(20.0) * 86400, "y": np.arange(20.0) % 7})
    fit = bl.fit(bl.Model(model=bl.Regression(formula="y ~ t")), data, seed=1, runs=None, progress=False)
    assert got(fit.slopes("t")) == pytest.approx(slope(fit, "t"), rel=1e-6)


# ------------------------------------------------------------------------------------------- generalised models


def logistic() -> bl.Fit:
    return fit_of("yes ~ x + flag", "bernoulli")


def probabilities(fit: bl.Fit, x=X, flag=FLAG) -> np.ndarray:
    return special.expit(draws(fit, "Intercept")[:, None] + slope(fit, "x") * x + slope(fit, "flag") * flag)


def test_the_average_slope_of_a_logistic_regression():
    fit = logistic()
    p = probabilities(fit)
    wanted = (p * (1 - p) * slope(fit, "x")).mean(axis=1, keepdims=True)
    same(fit.slopes("x"), wanted, 1e-6)
    same(fit.slopes(), wanted, 1e-6)  # 0 and 1 have no slope
    same(fit.slopes("x", scale="link"), slope(fit, "x"), 1e-6)


def test_counterfactual_comparisons_of_a_logistic_regression():
    fit = logistic()
    low, high = probabilities(fit, flag=0).mean(1, keepdims=True), probabilities(fit, flag=1).mean(1, keepdims=True)
    same(fit.comparisons("flag"), high - low)
    same(fit.comparisons("flag", kind="ratio"), high / low)
    same(fit.comparisons("flag", kind="odds ratio"), high / (1 - high) / (low / (1 - low)))
    # Of single rows all odds ratios are the exponential of the coefficient.
    single = fit.comparisons("flag", kind="odds ratio", by=False)
    same(single, np.repeat(np.exp(slope(fit, "flag")), N, axis=1), 1e-7)
    same(fit.comparisons("flag", scale="link"), slope(fit, "flag"))
    assert fit.comparisons("flag").table["contrast"][0] == "1 - 0"
    grid = fit.grid(flag=[0, 1], counterfactual=True)
    assert len(grid) == 2 * N
    same(fit.predictions(grid, by="flag"), np.hstack([low, high]))


def test_averages_by_groups_are_of_their_rows():
    fit = logistic()
    p = probabilities(fit)
    same(fit.predictions(by="g"), np.stack([p[:, IS[g]].mean(axis=1) for g in "abc"], axis=1))
    effects = fit.predictions(by=["flag", "g"])
    cells = [(f, g) for f in (0, 1) for g in "abc"]
    same(effects, np.stack([p[:, IS[g] & (f == FLAG)].mean(axis=1) for f, g in cells], axis=1))
    assert list(effects.table[["flag", "g"]].itertuples(index=False, name=None)) == cells
    same(fit.predictions(by=False), p)


def test_weights_of_averages():
    fit, w = logistic(), DATA["w"].to_numpy()
    same(fit.predictions(weights="w"), (probabilities(fit) @ w / w.sum())[:, None])
    weighted = fit_of("yes ~ x + flag", "bernoulli", weights="w")
    same(weighted.predictions(), (probabilities(weighted) @ w / w.sum())[:, None])
    same(weighted.predictions(weights=False), probabilities(weighted).mean(axis=1, keepdims=True))


def test_counts_and_shares():
    fit = fit_of("count ~ x + offset(log(n))", "poisson")
    mean = np.exp(draws(fit, "Intercept")[:, None] + slope(fit, "x") * X) * DATA["n"].to_numpy()
    same(fit.predictions(), mean.mean(axis=1, keepdims=True))
    same(fit.comparisons({"x": 2}, kind="ratio"), np.exp(2 * slope(fit, "x")))
    same(fit.slopes("x", kind="semi-elasticity"), slope(fit, "x"), 1e-6)
    fit = fit_of("p(won, n) ~ x", "binomial")
    p = special.expit(draws(fit, "Intercept")[:, None] + slope(fit, "x") * X)
    same(fit.predictions(), p.mean(axis=1, keepdims=True))
    # A share depends on no number of trials, so that rows need none.
    at = special.expit(draws(fit, "Intercept")[:, None] + slope(fit, "x") * np.array([0.0, 2.0]))
    same(fit.predictions(at={"x": [0, 2]}), at)
    same(fit.predictions({"x": [0.0, 2.0]}), at)
    same(fit.predictions({"x": [0.0, 2.0], "n": [5, 900]}), at)
    same(fit.predictions({"x": [0.0, 2.0], "won": [3, 900]}), at)


def test_levels_of_an_ordered_outcome():
    fit = fit_of("grade ~ x", "ordered")
    cut = draws(fit, "cutpoints")

    def share(x):
        below = special.expit(cut[:, None, :] - (slope(fit, "x") * x)[..., None])
        ends = [np.zeros((*below.shape[:2], 1)), below, np.ones((*below.shape[:2], 1))]
        return np.diff(np.concatenate(ends, axis=2), axis=2)

    effects = fit.predictions()
    same(effects, share(X).mean(axis=1))
    assert effects.table["grade"].tolist() == ["low", "mid", "top"]
    same(fit.comparisons("x"), share(X + 1).mean(axis=1) - share(X).mean(axis=1))
    same(fit.predictions(at={"x": [0, 2]}), share(np.array([0.0, 2.0])).reshape(len(cut), -1))


def test_the_mean_of_an_outcome_is_not_always_what_the_formula_predicts():
    fit = fit_of("time ~ x", "Weibull")
    scale = np.exp(draws(fit, "Intercept")[:, None] + slope(fit, "x") * X)
    mean = scale * special.gamma(1 + 1 / draws(fit, "alpha"))[:, None]
    same(fit.predictions(), mean.mean(axis=1, keepdims=True))
    same(fit.predictions(scale="parameter"), scale.mean(axis=1, keepdims=True))
    fit = fit_of("count ~ x", "ZeroInflatedPoisson")
    mean = draws(fit, "psi")[:, None] * np.exp(draws(fit, "Intercept")[:, None] + slope(fit, "x") * X)
    same(fit.predictions(), mean.mean(axis=1, keepdims=True))
    fit = fit_of("count ~ x", "HurdlePoisson")
    rate = np.exp(draws(fit, "Intercept")[:, None] + slope(fit, "x") * X)
    same(fit.predictions(), (draws(fit, "psi")[:, None] * rate / -np.expm1(-rate)).mean(axis=1, keepdims=True))
    quantile = fit_of("y ~ x", "AsymmetricLaplace(q=0.9)")
    wanted = draws(quantile, "Intercept")[:, None] + slope(quantile, "x") * 2
    same(quantile.predictions(at={"x": 2}, scale="parameter"), wanted)


# ------------------------------------------------------------------------------------------------------- groups


def grouped() -> bl.Fit:
    return fit_of("y ~ x + (1 + x | u)")


def test_effects_of_groups():
    fit = grouped()
    a, b, u = draws(fit, "Intercept")[:, None], slope(fit, "x"), draws(fit, "u_u")
    same(fit.slopes("x", by="u"), b + u[:, :, 1], 1e-6)
    # A grid that does not name the groups is of a typical one.
    same(fit.predictions(at={"x": [0, 1]}), np.hstack([a, a + b]))
    same(fit.predictions(at={"x": 1, "u": ["q", "t"]}), a + b + u[:, [1, 4]].sum(axis=2))
    same(fit.predictions(pd.DataFrame({"x": [1.0], "u": ["t"]})), a + b + u[:, [4]].sum(axis=2))
    same(fit.predictions(pd.DataFrame({"x": [1.0]})), a + b)
    same(fit.comparisons({"u": ["p", "t"]}, at={"x": 2}), (u[:, 4] - u[:, 0]) @ np.array([[1.0], [2.0]]))


# ------------------------------------------------------------------------------------- columns that are computed


def test_computed_columns_are_predictors():
    fit = fit_of("y ~ x + late", data={"rows": "row", "derive": {"late": "z > 0.5"}}, method="exact")
    same(fit.comparisons("late"), slope(fit, "late"))
    late = (DATA["z"] > 0.5).mean()
    wanted = draws(fit, "Intercept")[:, None] + slope(fit, "x") * X.mean() + slope(fit, "late") * late
    same(fit.predictions(), wanted)
    assert fit.grid()["late"].tolist() == [float(late > 0.5)]
    both = fit_of("y ~ x + square", data={"rows": "row", "derive": {"square": "x * x"}}, method="exact")
    same(both.slopes("x", at={"x": 3}), slope(both, "x") + 6 * slope(both, "square"), 1e-6)


# ------------------------------------------------------------------------------------------------------ results


def test_statistics_are_those_of_the_draws():
    fit = logistic()
    effects = fit.comparisons("flag", ci_prob=0.5, rope=(-0.1, 0.2))
    flat, row = got(effects)[:, 0], effects.table.iloc[0]
    assert row["mean"] == pytest.approx(flat.mean())
    assert row["sd"] == pytest.approx(flat.std(ddof=1))
    assert [row["eti50_lb"], row["eti50_ub"]] == pytest.approx(np.quantile(flat, [0.25, 0.75]))
    assert row["pd"] == max((flat > 0).mean(), (flat < 0).mean())
    assert row["in_rope"] == ((flat >= -0.1) & (flat <= 0.2)).mean()
    ratio = fit.comparisons("flag", kind="ratio")
    assert ratio.table["pd"][0] == pytest.approx(row["pd"])  # of 1, as the difference is of 0
    assert effects.with_rope(-9, 9).table["in_rope"][0] == 1
    assert "pd" not in fit.predictions().table
    assert fit.predictions().draws.dims == ("chain", "draw", "estimate")
    assert dict(fit.predictions().draws.sizes) == {"chain": 2, "draw": 25, "estimate": 1}


def test_contrasts_of_effects():
    fit = interacting()
    effects = fit.slopes("x", by="g").contrasts("reference")
    same(effects, np.hstack([slope(fit, "x:g[b]"), slope(fit, "x:g[c]")]), 1e-5)
    assert effects.table["contrast"].tolist() == ["b - a", "c - a"]
    assert fit.slopes("x", by="g").contrasts().table["contrast"].tolist() == ["b - a", "c - a", "c - b"]
    assert fit.slopes("x", by="g").contrasts("sequential").table["contrast"].tolist() == ["b - a", "c - b"]


def test_one_draw_has_estimates_without_intervals():
    effects = interacting().slopes("z")
    one = replace(effects, draws=effects.draws[:1, :1])
    assert one.table.columns.tolist() == ["term", "mean"]
    assert one.table["mean"][0] == got(effects)[0, 0]


def test_tables_are_of_the_kind_given():
    polars = pytest.importorskip("polars")
    fit = logistic()
    rows = polars.DataFrame({"x": [0.0, 1.0], "flag": [0, 1]})
    made = fit.predictions(rows)
    assert isinstance(made.table, polars.DataFrame)
    same(made, probabilities(fit, np.array([0.0, 1.0]), np.array([0, 1])))


def test_rows_of_the_sample_are_those_of_the_fit():
    data = DATA.assign(x=DATA["x"].where(DATA.index != 4), z=DATA["z"].where(DATA.index != 7))
    fit = bl.fit(bl.Model(model=bl.Regression(formula="y ~ x")), data, seed=1, runs=None, progress=False)
    kept = data["x"].dropna().to_numpy()
    same(fit.predictions(), draws(fit, "Intercept")[:, None] + slope(fit, "x") * kept.mean())
    assert fit.predictions(by=False).draws.sizes["estimate"] == N - 1


# -------------------------------------------------------------------------------------------------------- grids


def test_grids_hold_what_is_asked():
    fit = interacting()
    grid = fit.grid(g="levels", z=[0, 1])
    assert grid[["g", "z"]].values.tolist() == [[g, z] for g in "abc" for z in (0.0, 1.0)]
    assert grid["x"].unique() == pytest.approx([X.mean()])
    assert fit.grid(x="quartiles")["x"].tolist() == pytest.approx(np.quantile(X, [0.25, 0.5, 0.75]).tolist())
    assert fit.grid(x="minmax")["x"].tolist() == [X.min(), X.max()]
    assert fit.grid(x=np.max)["x"].tolist() == [X.max()]
    assert fit.grid({"g": "b"})["g"].tolist() == ["b"]
    assert fit.grid()["g"].tolist() == [DATA["g"].mode()[0]]
    whole = fit.grid(g=["a", "b"], counterfactual=True)
    assert whole["x"].tolist() == [*X, *X]
    assert set(whole["g"]) == {"a", "b"}


# ------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("call", "code", "named"),
    [
        (lambda fit: fit.comparisons("flg"), "option.unknown-column", "'flag'"),
        (lambda fit: fit.slopes("yes"), "option.unknown-column", "'x'"),
        (lambda fit: fit.predictions(by="gg"), "option.unknown-column", "'g'"),
        (lambda fit: fit.predictions(by=["g", "g"]), "option.duplicate", "by"),
        (lambda fit: fit.predictions(at="median"), "option.unknown-word", "mean"),
        (lambda fit: fit.predictions(at=3), "option.wrong-type", "mean"),
        (lambda fit: fit.predictions(at={"x": "men"}), "option.unknown-word", "'mean'"),
        (lambda fit: fit.predictions(at={"x": np.nan}), "option.not-finite", "'x'"),
        (lambda fit: fit.predictions(DATA, at={"x": 1}), "option.conflict", "newdata"),
        (lambda fit: fit.predictions(pd.DataFrame({"x": [1.0]})), "data.unknown-column", "'flag'"),
        (lambda fit: fit.predictions(pd.DataFrame({"x": [np.nan], "flag": [1]})), "data.missing", "'x'"),
        (lambda fit: fit.predictions(pd.DataFrame({"x": [], "flag": []})), "data.no-rows", "rows"),
        (lambda fit: fit.predictions(scale="probs"), "option.unknown-word", "response"),
        (lambda fit: fit.predictions(ci_prob=95), "option.out-of-range", "ci_prob"),
        (lambda fit: fit.predictions(weights="v"), "option.unknown-column", "'v'"),
        (lambda fit: fit.predictions(weights="z"), "option.out-of-range", "'z'"),
        (lambda fit: fit.comparisons("x", kind="odds"), "option.unknown-word", "odds ratio"),
        (lambda fit: fit.comparisons("x", kind="odds ratio", scale="link"), "option.not-applicable", "ratio"),
        (lambda fit: fit.comparisons({"x": "pairwise"}), "option.unknown-word", "minmax"),
        (lambda fit: fit.comparisons({"x": [1, 2, 3]}), "option.wrong-length", "two"),
        (lambda fit: fit.comparisons({"x": 0}), "option.out-of-range", "'x'"),
        (lambda fit: fit.comparisons({"x": True}), "option.wrong-type", "'x'"),
        (lambda fit: fit.comparisons("x", rope=1), "option.wrong-type", "rope"),
        (lambda fit: fit.comparisons("x", rope=(1, 0)), "option.out-of-range", "rope"),
        (lambda fit: fit.comparisons(3), "option.wrong-type", "name"),
        (lambda fit: fit.comparisons({}), "option.incomplete", "name"),
        (lambda fit: fit.slopes("x", kind="dydx"), "option.unknown-word", "elasticity"),
        (lambda fit: fit.slopes("x").contrasts(), "option.not-applicable", "two"),
        (lambda fit: fit.predictions(by="g").contrasts("all"), "option.unknown-word", "pairwise"),
    ],
)
def test_wrong_arguments_are_named(call, code, named):
    with refused(code, re.escape(named)):
        call(logistic())


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda fit: fit.slopes("g"), "option.not-applicable"),
        (lambda fit: fit.comparisons({"g": "refrence"}), "option.unknown-word"),
        (lambda fit: fit.comparisons({"g": ["a", "d"]}), "option.unknown-level"),
        (lambda fit: fit.grid(g="mean"), "option.not-applicable"),
        (lambda fit: fit.grid(g=["d"]), "option.unknown-level"),
        (lambda fit: fit.grid(x=[]), "option.wrong-length"),
    ],
)
def test_wrong_questions_to_factors(call, code):
    with refused(code):
        call(interacting())


def test_levels_have_no_linear_predictor_and_other_families_no_table():
    with refused("option.unsupported"):
        fit_of("grade ~ x", "ordered").predictions(scale="link")
    model = bl.Model(model=bl.Mixture(columns=["x"], components=2))
    with refused("option.other-family"):
        bl.fit(model, DATA[["x"]], method="em", seed=1, runs=None, progress=False).predictions()


# ----------------------------------------------------------------------------------------------------- pictures


def drawn(made, axes: int = 0) -> list[tuple[np.ndarray, np.ndarray]]:
    """The curves and points of estimates in a figure."""
    lines = made.axes[axes].get_lines()
    return [(np.asarray(line.get_xdata()), np.asarray(line.get_ydata())) for line in lines if line.get_alpha() is None]


def test_a_curve_is_the_mean_of_expected_outcomes():
    fit = logistic()
    made = fit.plot_effects("x", by="flag")
    curves = drawn(made)
    assert len(curves) == 2
    for flag, (x, y) in enumerate(curves):
        assert [x[0], x[-1]] == [X.min(), X.max()]
        np.testing.assert_allclose(y, probabilities(fit, x, np.full(len(x), flag)).mean(axis=0))
    band = made.axes[0].collections[0].get_paths()[0].vertices[:, 1]
    edge = probabilities(fit, np.array([X.min()]), np.array([0]))
    assert np.isclose(band, np.quantile(edge, 0.055)).any()
    texts = [text.get_text() for text in made.axes[0].get_legend().get_texts()]
    assert texts == ["0", "1"]


def test_pictures_of_levels_facets_comparisons_and_slopes():
    fit = interacting()
    made = fit.plot_effects("g")
    (_, y), *_ = drawn(made)
    assert [label.get_text() for label in made.axes[0].get_xticklabels()] == ["a", "b", "c"]
    np.testing.assert_allclose(y, fit.predictions(at={"g": ["a", "b", "c"]}).table["mean"])
    assert len(fit.plot_effects("x", by=["g", "z"]).axes) == 3
    assert len(fit.plot_effects().axes) == 3
    slopes = drawn(fit.plot_effects("x", by="g", what="slopes"))[1:]  # the first line marks zero
    assert len(slopes) == 3
    np.testing.assert_allclose(slopes[0][1], slope(fit, "x").mean(), rtol=1e-5)
    (_, y), *_ = drawn(fit.plot_effects("z", by="x", what="comparisons"))[1:]
    np.testing.assert_allclose(y, slope(fit, "z").mean())
    graded = fit_of("grade ~ x", "ordered").plot_effects("x")
    np.testing.assert_allclose(sum(y for _, y in drawn(graded)), 1.0)


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda fit: fit.plot_effects("xx"), "option.unknown-column"),
        (lambda fit: fit.plot_effects("x", what="lines"), "option.unknown-word"),
        (lambda fit: fit.plot_effects("x", kind="ratio"), "option.conflict"),
        (lambda fit: fit.plot_effects("x", by="x"), "option.duplicate"),
        (lambda fit: fit.plot_effects("x", at={"x": 1}), "option.duplicate"),
        (lambda fit: fit.plot_effects([]), "option.incomplete"),
    ],
)
def test_pictures_that_are_refused(call, code):
    with refused(code):
        call(interacting())


@pytest.fixture(scope="module")
def short():
    """A regression with a Gaussian process over a tenth of a unit, and a slope."""
    rng = np.random.default_rng(3)
    table = pd.DataFrame({"t": rng.uniform(0, 0.1, 40), "x": rng.normal(size=40)})
    table["y"] = table.x + rng.normal(size=40)
    model = bl.Model(model=bl.Regression(formula="y ~ gp(t, k=5) + x"), seed=1)
    return bl.fit(model, table, runs=None, progress=False, draws=50, chains=2)


def test_a_predictor_that_cannot_be_compared_leaves_the_others(short):
    with pytest.warns(UserWarning, match="'t' is left out: .*beyond the domain of its sines"):
        effects = short.comparisons()
    assert list(effects.left_out) == ["t"]
    assert "t is left out: " in repr(effects)
    pd.testing.assert_frame_equal(effects.table, short.comparisons("x").table)
    # One asked for by name, and a kind that no predictor has, remain errors.
    with pytest.raises(bl.BayeslabError, match="beyond the domain of its sines"):
        short.comparisons("t")
    with pytest.raises(bl.BayeslabError, match="beyond the domain of its sines"):
        short.comparisons(["x", "t"])
    assert short.slopes().left_out == {}
    assert short.comparisons({"t": "sd", "x": 1}).left_out == {}
