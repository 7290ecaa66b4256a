"""Effects of areas that have neighbours: icar(W, g), bym2(W, g) and car(W, g).

The truth is the density of the papers, written with NumPy and SciPy, and posteriors of linear Gaussian models in closed
form.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bayeslab as bl
from bayeslab.posterior.machine.density import MachineDensity
from bayeslab.preparation import Source
from tests.densities import agree, machines_agree
from tests.refusals import refused

# A ring with a chord, a pair, and an island; and the same in one piece, as pairs.
AREAS = list("abcdefgh")
APART = [("a", "b"), ("b", "c"), ("d", "c"), ("d", "e"), ("e", "a"), ("b", "e"), ("f", "g"), ("g", "f")]
WHOLE = [*APART, ("a", "f"), ("g", "h")]


def table(pairs: list[tuple[str, str]] = WHOLE, n: int = 60) -> dict[str, object]:
    rng = np.random.default_rng(3)
    return {
        "area": np.array(AREAS)[rng.integers(0, 7, n)],  # h has no rows
        "x": rng.normal(size=n),
        "y": rng.normal(size=n),
        "count": rng.poisson(3, n),
        "kind": np.array(["u", "v", "w"])[np.arange(n) % 3],
        "border": pd.DataFrame(pairs, columns=["one", "other"]),
    }


def regression(formula: object, likelihood: str = "gaussian", **more: object) -> bl.Model:
    spec = bl.Regression(formula=formula, likelihood=likelihood, **more)
    return bl.Model(data={"rows": "row"}, dims={"area": AREAS}, model=spec)


def adjacency(pairs: list[tuple[str, str]]) -> np.ndarray:
    out = np.zeros((8, 8))
    for one, other in pairs:
        i, j = AREAS.index(one), AREAS.index(other)
        out[i, j] = out[j, i] = 1
    return out


def intrinsic(pairs: list[tuple[str, str]], parts: list[str]) -> np.ndarray:
    """The pseudo-inverse of the Laplacian, each part scaled to the geometric mean 1 of its variances; 1 on islands."""
    w = adjacency(pairs)
    out = np.linalg.pinv(np.diag(w.sum(axis=0)) - w)
    for part in parts:
        at = np.ix_(places := [AREAS.index(area) for area in part], places)
        out[at] = 1 if len(part) == 1 else out[at] / stats.gmean(np.diag(out)[places])
    return out


@pytest.mark.parametrize(("pairs", "parts"), [(WHOLE, ["abcdefgh"]), (APART, ["abcde", "fg", "h"])])
def test_the_covariance_is_the_scaled_pseudo_inverse_of_the_laplacian(pairs, parts):
    posterior = Source(regression("y ~ icar(border, area)")).posterior(table(pairs))
    (area,) = posterior.lowered.design.areas
    factor = area.neighbours.factor
    np.testing.assert_allclose(factor @ factor.T, intrinsic(pairs, parts), atol=1e-10)
    shown = posterior.priors()["icar(border, area)"]
    assert shown.startswith("8 areas, ") and ("3 parts" in shown) == (len(parts) == 3)


PRIORS = {"Intercept": "Normal(0, 2)", "b": "Normal(0, 1)", "sd": "HalfNormal(1)"}


def test_the_density_of_intrinsic_effects_is_that_of_scipy():
    """Rows of a normal response enter through sums."""
    data = table()
    model = regression("y ~ x + icar(border, gr=area)", priors=PRIORS | {"sigma": "Exponential(1)"})
    posterior = Source(model).posterior(data)
    assert posterior.lowered.summable
    density = MachineDensity(posterior.machine_model(), lambda: None)
    (area,) = posterior.lowered.design.areas
    where, rng = np.array([AREAS.index(a) for a in data["area"]]), np.random.default_rng(1)
    at = {name: 0.5 * rng.normal(size=shape) for name, shape in zip(density.names, density.shapes, strict=True)}
    sd, sigma = np.exp(at["sd_icar_area_log__"]), np.exp(at["sigma_log__"])
    effects = sd * area.neighbours.factor @ at["_raw_icar_area"]
    assert effects.sum() == pytest.approx(0, abs=1e-12)
    rows = stats.norm(at["Intercept"] + at["b"][0] * data["x"] + effects[where], sigma).logpdf(data["y"])
    expected = rows.sum() + stats.norm(0, 2).logpdf(at["Intercept"]) + stats.norm.logpdf(at["b"]).sum()
    expected += stats.norm.logpdf(at["_raw_icar_area"]).sum() + stats.halfnorm.logpdf(sd) + stats.expon.logpdf(sigma)
    assert density(density.flat(at))[0] == pytest.approx(float(expected + np.log(sd * sigma)), rel=1e-9)
    draws = {"Intercept": at["Intercept"], "b": at["b"], "sigma": sigma, "u_icar_area": effects}
    draws = {name: np.asarray(value)[None] for name, value in draws.items()}
    ((_, each),) = posterior.log_likelihoods(draws).values()
    np.testing.assert_allclose(each[0], rows, rtol=1e-10)


def test_the_density_of_shared_and_separate_effects_is_that_of_scipy():
    data = table()
    posterior = Source(
        regression(
            "count ~ bym2(border, area)",
            "poisson",
            priors={"Intercept": "Normal(0, 2)", "sd_bym2_area": "HalfNormal(1)", "rho_bym2_area": "Beta(2, 3)"},
        )
    ).posterior(data)
    density = MachineDensity(posterior.machine_model(), lambda: None)
    (area,) = posterior.lowered.design.areas
    where, rng = np.array([AREAS.index(a) for a in data["area"]]), np.random.default_rng(1)
    at = {name: 0.5 * rng.normal(size=shape) for name, shape in zip(density.names, density.shapes, strict=True)}
    sd, rho = np.exp(at["sd_bym2_area_log__"]), 1 / (1 + np.exp(-at["rho_bym2_area_logodds__"]))
    shared, alone = at["_raw_bym2_area"], at["_alone_bym2_area"]
    effects = sd * (np.sqrt(rho) * area.neighbours.factor @ shared + np.sqrt(1 - rho) * alone)
    expected = stats.poisson(np.exp(at["Intercept"] + effects[where])).logpmf(data["count"]).sum()
    expected += stats.norm(0, 2).logpdf(at["Intercept"]) + stats.norm.logpdf([shared, alone]).sum()
    expected += stats.halfnorm.logpdf(sd) + np.log(sd) + stats.beta(2, 3).logpdf(rho) + np.log(rho * (1 - rho))
    assert density(density.flat(at))[0] == pytest.approx(float(expected), rel=1e-9)


def test_the_density_of_a_conditional_autoregression_is_that_of_scipy():
    """But for its constant, which PyMC leaves out."""
    data = table()
    priors = {"Intercept": "Normal(0, 2)", "sd_car_area": "HalfNormal(1)", "alpha_car_area": "Beta(2, 3)"}
    posterior = Source(regression("count ~ car(border, area)", "poisson", priors=priors)).posterior(data)
    density = MachineDensity(posterior.machine_model(), lambda: None)
    w, where = adjacency(WHOLE), np.array([AREAS.index(a) for a in data["area"]])
    rng, offsets = np.random.default_rng(1), []
    for _ in range(3):
        at = {name: 0.5 * rng.normal(size=shape) for name, shape in zip(density.names, density.shapes, strict=True)}
        sd, alpha = np.exp(at["sd_car_area_log__"]), 1 / (1 + np.exp(-at["alpha_car_area_logodds__"]))
        raw = at["_raw_car_area"]
        expected = stats.poisson(np.exp(at["Intercept"] + sd * raw[where])).logpmf(data["count"]).sum()
        expected += stats.multivariate_normal(np.zeros(8), np.linalg.inv(np.diag(w.sum(axis=0)) - alpha * w)).logpdf(
            raw
        )
        expected += stats.norm(0, 2).logpdf(at["Intercept"]) + stats.halfnorm.logpdf(sd)
        expected += np.log(sd) + stats.beta(2, 3).logpdf(alpha) + np.log(alpha * (1 - alpha))
        offsets.append(density(density.flat(at))[0] - expected)
    constant = 4 * np.log(2 * np.pi) - 0.5 * np.log(w.sum(axis=0)).sum()
    np.testing.assert_allclose(offsets, constant, rtol=1e-8)


WRITTEN = {
    "intrinsic": ("y ~ x + icar(border, area)", "gaussian", WHOLE),
    "apart": ("count ~ 0 + x + bym2(border, area)", "poisson", APART),
    "proper": ("count ~ car(border, area) + (1 | kind)", "poisson", WHOLE),
    "sigma": ({"mu": "y ~ x + (1 | area)", "sigma": "~ bym2(border, area)"}, "student_t", WHOLE),
}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n == "intrinsic" else pytest.mark.slow(why="compiles")) for n in WRITTEN]
)
def test_the_density_is_that_of_the_model_written_out(name):
    formula, likelihood, pairs = WRITTEN[name]
    model, data = regression(formula, likelihood), table(pairs)
    agree(bl.to_pymc(model, data), bl.to_pymc(bl.expand(model, data), data), rtol=1e-9)


@pytest.mark.parametrize("name", WRITTEN)
def test_the_machine_has_the_density_of_the_model_written_out(name):
    formula, likelihood, pairs = WRITTEN[name]
    model, data = regression(formula, likelihood), table(pairs)
    machines_agree(model, bl.expand(model, data), data)


# --------------------------------------------------------------------------------- posteriors, new rows


@pytest.fixture(scope="module")
def fit() -> bl.Fit:
    priors = {"Intercept": "Normal(0, 2)", "sd": "0.8", "sigma": "0.5"}
    model = regression("y ~ icar(border, area)", priors=priors)
    return bl.fit(model, table(), "nuts", seed=1, runs=None, progress=False)


def test_the_posterior_of_a_normal_response_is_the_closed_form(fit):
    """Also of an area without rows."""
    data = table()
    where = np.array([AREAS.index(a) for a in data["area"]])
    design = np.column_stack([np.ones(60), np.eye(8)[where]])
    prior = np.zeros((9, 9))
    prior[0, 0], prior[1:, 1:] = 4, 0.64 * intrinsic(WHOLE, ["abcdefgh"])
    gain = prior @ design.T @ np.linalg.inv(design @ prior @ design.T + 0.25 * np.eye(60))
    mean, sd = gain @ data["y"], np.sqrt(np.diag(prior - gain @ design @ prior))
    draws = np.column_stack(
        [fit.posterior["Intercept"].to_numpy().ravel(), fit.posterior["u_icar_area"].to_numpy().reshape(-1, 8)]
    )
    error = sd / np.sqrt(len(draws) / 4)
    assert np.all(np.abs(draws.mean(axis=0) - mean) < 4 * error)
    assert np.all(np.abs(draws.std(axis=0) / sd - 1) < 4 / np.sqrt(2 * len(draws) / 4))


def test_new_rows_have_the_effects_of_their_areas(fit):
    new = pd.DataFrame({"area": ["h", "a"]})
    effects = fit.posterior["u_icar_area"].to_numpy().reshape(-1, 8)
    truth = fit.posterior["Intercept"].to_numpy().ravel()[:, None] + effects[:, [7, 0]]
    np.testing.assert_allclose(np.asarray(fit.predictions(new).draws).reshape(truth.shape), truth, rtol=1e-9)
    assert fit.predict(new)["mean"].to_numpy() == pytest.approx(truth.mean(axis=0), abs=0.1)
    with refused("data.unknown-level", "'top'"):
        fit.predict(pd.DataFrame({"area": ["top"]}))


def test_areas_may_be_numbers():
    data = table()
    number = {name: 10 * k + 10 for k, name in enumerate(AREAS)}
    coded = data | {"area": np.array([number[a] for a in data["area"]]), "border": data["border"].replace(number)}
    model = regression("y ~ icar(border, area)")
    other = bl.Model(data={"rows": "row"}, dims={"area": [*number.values()]}, model=model.model)
    ours, theirs = (Source(m).posterior(d).lowered.design.areas[0] for m, d in ((model, data), (other, coded)))
    np.testing.assert_array_equal(ours.neighbours.ends, theirs.neighbours.ends)
    np.testing.assert_array_equal(ours.codes, theirs.codes)


# ----------------------------------------------------------------------------------------- wrong terms


@pytest.mark.parametrize(
    ("formula", "code", "match"),
    [
        ("y ~ icar(borders, area)", "data.unknown-dimension", "no table 'borders'.*'border'"),
        ("y ~ icar(border, are)", "model.unknown-column", "'are'"),
        ("y ~ icar(border)", "model.wrong-arguments", "'gr'"),
        ("y ~ icar(border + 1, area)", "model.wrong-arguments", "name of a table"),
        ("y ~ car(border, area, type='bym2')", "model.unknown-option", "'type'"),
        ("y ~ log(icar(border, area))", "model.misplaced", "a separate term"),
        ("y ~ (icar(border, area) | kind)", "model.misplaced", "outside of the brackets"),
        ("y ~ x:icar(border, area)", "model.misplaced", "no interactions"),
        ("y ~ icar(border, area) + car(border, area)", "model.duplicate", "leave out one"),
        ("y ~ bym2(border, area) + (1 | area)", "model.duplicate", "already"),
        ("kind ~ icar(border, area)", "model.unsupported", "categorical"),
    ],
)
def test_wrong_terms_are_refused_in_one_line_with_their_place(formula, code, match):
    likelihood = "categorical" if formula.startswith("kind") else "gaussian"
    with refused(code, match, where="model.formula"):
        bl.check(regression(formula, likelihood), table())


@pytest.mark.parametrize(
    ("kind", "pairs", "code", "match"),
    [
        ("icar", [*WHOLE, ("a", "a")], "self-reference", "row 11 .*'a' with itself"),
        ("icar", [*WHOLE, ("a", "z")], "unknown-level", "'other', row 11 .*'z'"),
        ("icar", [*WHOLE, ("a", None)], "missing", "row 11"),
        ("car", APART, "incomplete", "'h' has no neighbour"),
    ],
)
def test_wrong_tables_of_neighbours_are_refused_in_one_line_with_their_place(kind, pairs, code, match):
    with refused(f"data.{code}", match, where="model.formula"):
        bl.check(regression(f"y ~ {kind}(border, area)"), table(pairs))


def test_a_table_of_neighbours_has_two_columns():
    data = table()
    data["border"] = data["border"].assign(length=1.0)
    with refused("data.wrong-shape", "two columns.*length", where="model.formula"):
        bl.check(regression("y ~ icar(border, area)"), data)


def test_priors_are_by_name():
    data = table()
    model = regression("count ~ bym2(border, area)", "poisson", priors={"rho_bym2_area": "Beta(2, 2)", "sd": "1"})
    named = Source(model).posterior(data).priors()
    assert named["rho_bym2_area"] == "Beta(2, 2)"
    with refused("model.out-of-range", "'rho_bym2_area'", where="model.priors.rho_bym2_area"):
        bl.check(regression("count ~ bym2(border, area)", "poisson", priors={"rho_bym2_area": 1.5}), data)
    with refused("model.unknown-parameter", "'rho_icar_area'", where="model.priors.rho_icar_area"):
        bl.check(regression("y ~ icar(border, area)", priors={"rho_icar_area": "Beta(2, 2)"}), data)


def test_areas_are_levels():
    with refused("data.not-states", "'x'"):
        bl.check(regression("y ~ icar(border, x)"), table())
