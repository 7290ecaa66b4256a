"""Family latent_features: NUTS against quadrature and against Gibbs steps, features of new rows, and what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal

import bayeslab as bl
from bayeslab.families.latent_features.model import resolved
from bayeslab.families.latent_features.rows import features
from tests.refusals import refused

QUICK = {"progress": False, "runs": None}


def model(columns, seed=1, **spec):
    return bl.Model(model=bl.LatentFeatures(columns=list(columns), **spec), seed=seed)


def binary_rows(n=40, seed=0):
    rng = np.random.default_rng(seed)
    z = (rng.random((n, 2)) < 0.5).astype(int)
    loading = np.array([[2, 0, 1, 0.0], [0, 1.5, 0, -1]])
    return pd.DataFrame(z @ loading + 0.4 * rng.standard_normal((n, 4)), columns=list("abcd")), z


def normal_rows(n=25, seed=1):
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n, 1)) * np.array([1.0, -0.8]) + 0.6 * rng.standard_normal((n, 2))
    return pd.DataFrame(rows, columns=["a", "b"])


# --------------------------------------------------------------------------------- one posterior, several ways


@pytest.fixture(scope="module")
def normal_fit():
    data = normal_rows()
    priors = {"noise": "HalfNormal(1)", "scale": 1.5}
    return bl.fit(model("ab", features=1, mean="zero", priors=priors), data, target_accept=0.9, **QUICK), data


@pytest.mark.slow(why="compiles")
def test_principal_component_by_nuts_is_quadrature(normal_fit):
    """NUTS on the triangular loadings; the grid is over independent normal ones, of any sign."""
    fit, data = normal_fit
    assert fit.verdict.status == "pass", str(fit.verdict)
    at, noise = np.linspace(-3, 3, 61), np.linspace(0.2, 1.4, 49)
    w1, w2, s = np.meshgrid(at, at, noise, indexing="ij")
    second = data.to_numpy().T @ data.to_numpy()
    a, b, c = w1**2 + s**2, w1 * w2, w2**2 + s**2
    det = a * c - b**2
    logs = -0.5 * len(data) * np.log(det) - 0.5 * (c * second[0, 0] - 2 * b * second[0, 1] + a * second[1, 1]) / det
    logs += -0.5 * (w1**2 + w2**2) / 1.5**2 - 0.5 * s**2
    p = np.exp(logs - logs.max())
    p /= p.sum()
    draws = fit.posterior.to_dataset()
    loading = draws["loading"].values[..., 0]
    for exact, drawn in (
        (w1**2, loading[..., 0] ** 2),
        (w1 * w2, loading[..., 0] * loading[..., 1]),
        (s, draws["noise"].values),
    ):
        mean, parts = float((p * exact).sum()), drawn.reshape(-1, 100).mean(axis=1)
        assert abs(drawn.mean() - mean) < 4.5 * parts.std(ddof=1) / np.sqrt(len(parts)) + 2e-3


@pytest.mark.slow(why="compiles")
def test_normal_rows_and_scores(normal_fit):
    """Log likelihoods are dense densities; scores and the rows put together from them are conditional means."""
    fit, data = normal_fit
    draws = fit.posterior.to_dataset().isel(chain=0, draw=3)
    w, s = draws["loading"].values, float(draws["noise"])
    dense = multivariate_normal(np.zeros(2), w @ w.T + s**2 * np.eye(2)).logpdf(data.to_numpy())
    assert np.allclose(fit.log_likelihood()["row"].isel(chain=0, draw=3), dense)
    group = fit.features()
    assert group["score"].shape == (25, 1) and group["loading"].shape == (2, 1)
    half = data.iloc[:2].copy()
    half.loc[0, "b"] = np.nan
    new = fit.features(half)
    every = fit.posterior.to_dataset().stack(s=("chain", "draw"))
    w, s = every["loading"].values[:, 0], every["noise"].values
    kept = np.unique(np.linspace(0, len(s) - 1, 400).astype(int))
    score = np.mean(w[0, kept] * half["a"][0] / (w[0, kept] ** 2 + s[kept] ** 2))
    assert float(new["score"][0, 0]) == pytest.approx(score, rel=1e-6)
    assert np.isfinite(new["reconstruction"].values).all()
    assert 0 < float(group["explained"][0]) < 1 and group["communality"].shape == (2,)


@pytest.mark.slow(why="compiles")
def test_predictions_of_normal_features(normal_fit):
    """Replications have the covariance W W' + Ψ of the draws."""
    fit, data = normal_fit
    made = fit.predict(None, "draws")
    drawn = np.stack([made["a"].values.ravel(), made["b"].values.ravel()])
    draws = fit.posterior.to_dataset()
    w = draws["loading"].values.reshape(-1, 2)
    expected = (w[:, 0] * w[:, 1]).mean()
    assert np.cov(drawn)[0, 1] == pytest.approx(expected, rel=0.05)
    assert list(fit.predict(data.iloc[:3]).columns)[:2] == ["node", "obs_id"]


@pytest.fixture(scope="module")
def by_gibbs():
    data, z = binary_rows()
    return bl.fit(model("abcd", features=2, kind="binary"), data, draws=1500, tune=200, **QUICK), data, z


@pytest.mark.slow(why="compiles")
def test_binary_factors_by_nuts_and_by_gibbs(by_gibbs):
    """binary-factor: the same posterior with patterns summed out as with weights integrated out."""
    fit, data, _ = by_gibbs
    assert fit.method == "gibbs" and fit.verdict.status == "pass", str(fit.verdict)
    nuts = bl.fit(model("abcd", features=2, kind="binary"), data, "nuts", **QUICK)
    assert nuts.verdict.status == "pass", str(nuts.verdict)
    ours, theirs = fit.posterior.to_dataset(), nuts.posterior.to_dataset()
    for name in ("noise", "scale", "loading", "probability"):
        parts = []
        for draws in (ours[name].values, theirs[name].values):
            batches = draws.reshape(-1, 50, *draws.shape[2:]).mean(axis=1)
            parts.append((batches.mean(axis=0), batches.std(axis=0, ddof=1) / np.sqrt(len(batches))))
        (m1, e1), (m2, e2) = parts
        assert (abs(m1 - m2) < 4.5 * np.hypot(e1, e2) + 1e-3).all(), name
    assert np.allclose(nuts.features()["active"], fit.features()["active"], atol=0.05)


def test_spreads_of_loadings_far_from_zero():
    """Rows a million sds from zero without an offset: a feature of all rows, whose loadings have that mean."""
    rng = np.random.default_rng(2)
    data = pd.DataFrame(1e6 * np.array([1.0, -1.0]) + rng.normal(size=(30, 2)), columns=["a", "b"])
    spec = model("ab", features=1, kind="binary", mean="zero", priors={"noise": 1.0, "scale": 1e6})
    fit = bl.fit(spec, data, draws=200, tune=50, chains=2, **QUICK)
    group, posterior = fit.features(), fit.data_tree["posterior"]
    draws = posterior["loading"].to_numpy().reshape(-1, 2, 1)
    np.testing.assert_allclose(group["loading"].to_numpy(), draws.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(group["loading_sd"].to_numpy(), draws.std(axis=0), rtol=1e-6)
    # Of thirty rows with noise of sd one.
    np.testing.assert_allclose(draws.std(axis=0), 30**-0.5, rtol=0.3)


def test_scores_of_normal_features_far_from_zero():
    """Averages over draws whose features have large scores: means and sds as NumPy has them."""
    rng = np.random.default_rng(3)
    data = pd.DataFrame(5e4 + rng.normal(size=(6, 2)), columns=["a", "b"])
    spec = model("ab", features=1, mean="zero", priors={"noise": 1.0, "scale": 1.0})
    seen = resolved(spec, bl.check(spec, data))
    loading = np.ones((50, 2, 1))
    mean = 1e-3 * rng.normal(size=(50, 2))
    group = features(seen, "row", loading, mean, np.ones((50, 2)), None, None, rng)
    # f | x of loadings one and noise one: normal with mean Σ (x - m) / 3 and variance 1 / 3.
    centres = (data.to_numpy()[None] - mean[:, None]).sum(axis=2) / 3
    np.testing.assert_allclose(group["score"][1][:, 0], centres.mean(axis=0), rtol=1e-12)
    expected = np.sqrt((centres - centres.mean(axis=0)).var(axis=0) + 1 / 3)
    np.testing.assert_allclose(group["score_sd"][1][:, 0], expected, rtol=1e-9)


@pytest.mark.slow(why="statistical")
def test_noise_of_binary_features_far_from_zero():
    """Columns at 1e4 without means of their own: a feature is the level; much farther there are no digits for noise."""
    rng = np.random.default_rng(5)
    data = pd.DataFrame(1e4 + 0.4 * rng.standard_normal((60, 4)), columns=list("abcd"))
    spec = model("abcd", features=1, kind="binary", priors={"scale": "HalfNormal(1e4)"})
    fit = bl.fit(spec, data, "gibbs", draws=200, tune=100, chains=2, **QUICK)
    noise = fit.data_tree["posterior"]["noise"]
    deviations = data.to_numpy() - data.to_numpy().mean(axis=0)
    expected = np.sqrt((deviations**2).sum() / (4 * 59))
    assert float(noise.mean()) == pytest.approx(expected, abs=0.01)
    with refused("data.not-allowed", r"'d'.*1\.05e\+06"):
        bl.fit(spec, data - 1e4 + 2.0**20 + [0, 0, 0, 9], "gibbs", **QUICK)


def test_default_priors_have_the_size_of_what_loadings_explain():
    """Without means that is the distance from zero: loadings held to the sds would have to be many, or far too small."""
    data = normal_rows() + np.array([30.0, -40.0])
    size = np.sqrt((data.to_numpy() ** 2).mean(axis=0))
    pooled = np.sqrt((size**2).mean())
    spread = np.sqrt(data.to_numpy().var(axis=0).mean())
    for spec, loading, noise in (
        (model("ab", features=1, mean="zero"), pooled, spread),
        (model("ab", features=1, kind="binary"), pooled, spread),
        (model("ab", features=1), spread, spread),
        (model("ab", features=1, kind="binary", mean="own"), spread, spread),
    ):
        seen = resolved(spec, bl.check(spec, data))
        scale = seen.scale[0] if isinstance(seen.scale[0], float) else seen.scale[0].arguments["sigma"]
        assert scale == pytest.approx(loading) and seen.noise[0].arguments["sigma"] == pytest.approx(noise)


def test_maximum_without_means_far_from_zero():
    """Tipping and Bishop's closed form about zero: one axis is the level."""
    rng = np.random.default_rng(4)
    rows = rng.standard_normal((40, 1)) @ [[1.0, -0.8, 0.5, 0.9]] + 0.4 * rng.standard_normal((40, 4))
    data = pd.DataFrame(rows + 2.0**14, columns=list("abcd"))
    fit = bl.fit(model("abcd", features=2, mean="zero"), data, "em", prior="ignore", tolerance=1e-9, **QUICK)
    second = data.to_numpy().T @ data.to_numpy() / 40
    values, vectors = np.linalg.eigh(second)
    variance = values[:2].mean()
    kept = vectors[:, 2:] * (values[2:] - variance)
    found = fit.posterior.to_dataset()["loading"].values.reshape(4, 2)
    # What is left of a slope so flat moves the log likelihood by less than 1e-6.
    np.testing.assert_allclose(found @ found.T, kept @ vectors[:, 2:].T, rtol=1e-3)
    assert float(fit.summary().loc["noise"].iloc[0]) == pytest.approx(np.sqrt(variance), rel=1e-3)
    told = {f.check: f.status for f in fit.verdict.findings}
    assert told["optimum"] == "pass" and told["level"] == "warn" and "mean: own" in str(fit.verdict)


@pytest.mark.slow(why="compiles")
def test_posterior_without_means_far_from_zero_is_quadrature():
    """A principal component that is the level, with NUTS along it and across it; the grid is about its axes."""
    data = normal_rows() + 200.0
    fit = bl.fit(
        model("ab", features=1, mean="zero", priors={"noise": "HalfNormal(1)", "scale": 200.0}), data, "nuts", **QUICK
    )
    assert {f.name for f in fit.verdict.findings if f.status == "fail"} == set()
    n, rows = len(data), data.to_numpy()
    along, across = rows.sum(axis=1) / np.sqrt(2), (rows[:, 0] - rows[:, 1]) / np.sqrt(2)
    u, v, s = np.meshgrid(
        np.linspace(120, 700, 120), np.linspace(-1.5, 1.5, 121), np.linspace(0.5, 2.2, 100), indexing="ij"
    )
    # The normal density of rows about zero, by the direction of the loadings and the one across it.
    length = np.hypot(u, v)
    a, b, c = (along**2).sum(), (along * across).sum(), (across**2).sum()
    with_it = (u**2 * a + 2 * u * v * b + v**2 * c) / length**2
    beside = (v**2 * a - 2 * u * v * b + u**2 * c) / length**2
    logs = -0.5 * n * np.log((length**2 + s**2) * s**2) - 0.5 * (with_it / (length**2 + s**2) + beside / s**2)
    logs += -0.5 * (length / 200.0) ** 2 - 0.5 * s**2
    p = np.exp(logs - logs.max())
    p /= p.sum()
    draws = fit.posterior.to_dataset()
    loading = draws["loading"].values[..., 0]
    sign = np.sign(loading.sum(axis=-1))
    for exact, drawn in (
        (u, sign * loading.sum(axis=-1) / np.sqrt(2)),
        (v, sign * (loading[..., 0] - loading[..., 1]) / np.sqrt(2)),
        (s, draws["noise"].values),
    ):
        mean, parts = float((p * exact).sum()), drawn.reshape(-1, 100).mean(axis=1)
        assert abs(drawn.mean() - mean) < 4.5 * parts.std(ddof=1) / np.sqrt(len(parts)) + 1e-3


def test_columns_without_digits_are_refused():
    """By check as by fit, as in other families; and columns without means whose level leaves no digits for the noise."""
    data = normal_rows()
    blunt = data.assign(b=data["b"] * 1e-15 + 1.0)
    for kind in ("gaussian", "binary"):
        for mean in ("own", "zero"):
            spec = model("ab", features=1, kind=kind, mean=mean)
            for run in (bl.check, lambda spec, data: bl.fit(spec, data, **QUICK)):
                with refused("data.too-many-digits", "'b'"):
                    run(spec, blunt)
    for run in (bl.check, lambda spec, data: bl.fit(spec, data, **QUICK)):
        with refused("data.not-allowed", "'b'.*zero.*features"):
            run(model("ab", features=1, mean="zero"), data + 2.0**20)
        with refused("data.too-large", "'a'"):
            run(model("ab", features=1), data * 1e-160)


@pytest.mark.slow(why="statistical")
def test_planted_features_of_rows(by_gibbs):
    """binary-factor: which row has which feature, up to the order; the same of the rows given as new ones."""
    fit, data, z = by_gibbs
    group = fit.features()
    order = [int(np.argmax(abs(group["loading"].values[0]))), int(np.argmax(abs(group["loading"].values[3])))]
    assert order[0] != order[1]
    assert (group["z"].values[:, order] == z).mean() > 0.97
    new = fit.features(data)
    assert np.allclose(new["active"], group["active"], atol=0.1)
    assert abs(group["reconstruction"].values - data.to_numpy()).mean() < 0.45
    masked = data.copy()
    masked.loc[0, "a"] = np.nan
    assert np.isfinite(fit.features(masked)["reconstruction"].values).all()
    assert fit.log_likelihood()["row"].shape == (4, 1500, 40)


@pytest.mark.slow(why="statistical")
def test_missing_cells_are_drawn(by_gibbs):
    data = by_gibbs[1].copy()
    data.loc[3, "b"] = np.nan
    fit = bl.fit(model("abcd", features=2, kind="binary"), data, draws=200, tune=80, **QUICK)
    assert abs(fit.posterior["noise"].mean() - 0.39) < 0.05


# --------------------------------------------------------------------------------- the buffet


@pytest.fixture(scope="module")
def buffet():
    data, _ = binary_rows(60, 2)
    return bl.fit(model("abcd", features="ibp", kind="binary", mean="own"), data, draws=300, tune=160, **QUICK), data


@pytest.mark.slow(why="statistical")
def test_number_of_features_is_near_the_planted_one(buffet):
    """beta-process-factor: two planted; R-hat and ESS of what does not depend on the names of features."""
    fit, _ = buffet
    number = fit.posterior["n_features"].values
    assert 2 <= np.median(number) <= 4
    assert {"n_features", "noise", "scale", "alpha", "log_likelihood", "mean"} == set(
        fit.posterior.to_dataset().data_vars
    )
    assert any("number of features" in finding.message for finding in fit.verdict.findings)


@pytest.mark.slow(why="statistical")
def test_features_face_one_way_in_all_draws(buffet):
    """With means of the columns a feature may be turned round; in results fewer rows have it than not, everywhere."""
    fit, _ = buffet
    group = fit.features()
    assert ((group["active"].values[:, :2] < 0.25) | (group["active"].values[:, :2] > 0.75)).mean() > 0.85
    assert fit.posterior["mean"].values.std(axis=(0, 1)).max() < 0.5


@pytest.mark.slow(why="statistical")
def test_new_rows_under_a_buffet(buffet):
    fit, data = buffet
    new = fit.features(data.iloc[:7])
    old = fit.features()
    k = new.sizes["feature"]
    assert k == old.sizes["feature"] >= 2
    assert abs(new["active"].values - old["active"].values[:7, :k]).mean() < 0.15
    made = fit.predict(data.iloc[:2], "draws")
    spread, seen = float(made["a"].std()), float(data["a"].std())
    assert 0.6 * seen < spread < 1.6 * seen
    with refused("option.not-applicable", "independent"):
        fit.log_likelihood()


def test_runs_reopen_and_repeat(buffet, tmp_path):
    data = buffet[1]
    spec = model("abcd", features="ibp", kind="binary")
    one = bl.fit(spec, data, draws=20, tune=8, chains=2, progress=False, runs=tmp_path)
    two = bl.fit(spec, data, draws=20, tune=8, chains=2, **QUICK)
    again = bl.open(one.folder)
    assert np.array_equal(again.posterior["noise"], two.posterior["noise"])
    assert np.allclose(again.features()["active"], two.features()["active"])
    assert np.allclose(again.features(data.iloc[:3])["reconstruction"], two.features(data.iloc[:3])["reconstruction"])


# --------------------------------------------------------------------------------- EM, comparison, the prior


def test_em_of_the_family():
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((60, 1)) @ rng.standard_normal((1, 4)) + 0.5 * rng.standard_normal((60, 4))
    data = pd.DataFrame(rows, columns=list("abcd"))
    fit = bl.fit(model("abcd", features=1, noise="own"), data, "em", prior="ignore", standard_errors=True, **QUICK)
    assert fit.verdict.status == "pass", str(fit.verdict)
    mean = fit.posterior["mean"].values.squeeze()
    assert np.allclose(mean, rows.mean(axis=0), atol=1e-3)
    # The information about the mean is n Σ⁻¹, whatever the rest.
    w, s = fit.posterior["loading"].values[0, 0], fit.posterior["noise"].values[0, 0]
    errors = fit.data_tree["standard_errors"]["mean"].values
    assert np.allclose(errors, np.sqrt(np.diag(w @ w.T + np.diag(s**2)) / 60), rtol=0.01)
    assert fit.features()["score"].shape == (60, 1)
    top = bl.fit(model("abcd", features=1), data, "em", **QUICK)
    assert top.verdict.status == "pass"


@pytest.mark.slow(why="statistical")
def test_binary_em_of_the_family(by_gibbs):
    fit = bl.fit(model("abcd", features=2, kind="binary"), by_gibbs[1], "em", prior="ignore", restarts=6, **QUICK)
    assert np.allclose(abs(fit.posterior["loading"].values[0, 0]).max(axis=0), [2, 1.5], atol=0.3)
    assert fit.features()["active"].shape == (40, 2)
    with refused("engine.refused.no-mode"):
        bl.fit(model("abcd", features=2, kind="binary"), by_gibbs[1], "em", **QUICK)


@pytest.mark.slow(why="statistical")
def test_simulated_rows():
    """Of given scales rows are drawn without data; their covariance is that of the prior."""
    known = {"noise": 0.5, "scale": 1.0}
    spec = bl.Model(
        model=bl.LatentFeatures(columns=["a", "b"], features=1, mean="zero", priors=known), dims={"obs_id": 3}, seed=1
    )
    drawn = bl.simulate(spec, draws=4000)["prior_predictive"]["a"].values[0, :, 0]
    assert drawn.var() == pytest.approx(1.25, rel=0.15)
    spec = bl.Model(
        model=bl.LatentFeatures(columns=["a"], features="ibp", kind="binary", priors=known | {"alpha": 2.0}),
        dims={"obs_id": 3},
        seed=1,
    )
    number = bl.simulate(spec, draws=2000)["prior"]["z"].values[0].sum(axis=-1)
    # Every row has Poisson(α) features.
    assert abs(number.mean() - 2.0) < 4 * np.sqrt(2.0 / 2000) and number.var() == pytest.approx(2.0, rel=0.1)


# --------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("spec", "code", "match"),
    [
        ({"columns": ["a", "b"], "features": 1, "noise": "own"}, "model.out-of-range", "factors.*1"),
        ({"columns": ["a", "b"], "features": 2}, "model.out-of-range", "principal.*2"),
        ({"columns": ["a", "b"], "features": "ibp"}, "model.conflict", "features"),
        ({"columns": ["a", "b"], "features": 0}, "model.out-of-range", r"^model\.features.*1,000"),
        ({"columns": ["a", "b"], "features": "many"}, "model.wrong-type", r"^model\.features.*many"),
        ({"columns": ["a", "a"], "features": 1}, "model.duplicate", "column"),
        ({"columns": ["a", "loading"], "features": 1}, "model.reserved-name", "'loading'"),
        ({"columns": ["a", "b"], "features": 1, "kind": "binary", "noise": "own"}, "model.unsupported", "noise"),
        ({"columns": ["a", "b"], "features": 1, "priors": {"alpha": 1.0}}, "model.unknown-parameter", "'alpha'"),
    ],
)
def test_specs_that_make_no_sense(spec, code, match):
    with refused(code, match):
        bl.Model(model={"family": "latent_features"} | spec)


@pytest.mark.parametrize(
    ("priors", "code", "match"),
    [
        ({"noise": "Normal(0, 1)"}, "model.bad-prior", r"^model\.priors\.noise"),
        ({"noise": -1.0}, "model.out-of-range", r"^model\.priors\.noise.*-1\.0"),
        ({"noise": "HalfNormal(x)"}, "model.bad-prior", r"^model\.priors\.noise.*'HalfNormal\(x\)'"),
        ({"scale": "HalfNormle(1)"}, "model.bad-prior", r"^model\.priors\.scale.*HalfNormal"),
        ({"alpha": "Beta(1, 1)"}, "model.bad-prior", r"^model\.priors\.alpha.*'Beta\(1, 1\)'"),
    ],
)
def test_priors_that_make_no_sense(priors, code, match, by_gibbs):
    with refused(code, match):
        bl.fit(model("abcd", features="ibp", kind="binary", priors=priors), by_gibbs[1], **QUICK)


def test_data_that_cannot_be_modelled(by_gibbs):
    data = by_gibbs[1]
    with refused("model.unknown-column", "'e'", where="model.columns.3"):
        bl.fit(model("abce", features=1), data, **QUICK)
    with refused("data.constant", "'c'.*noise"):
        bl.fit(model("abcd", features=1, noise="own"), data.assign(c=1.0), **QUICK)
    with refused("data.not-numbers", "'c'.*features"):
        bl.fit(model("abcd", features=1), data.assign(c="x"), **QUICK)
    with refused("data.too-few", "'c'"):
        bl.fit(model("abcd", features=1), data.assign(c=np.nan), **QUICK)
    with refused("engine.refused.not-suited", "gibbs.*features"):
        bl.fit(model("abcd", features=1), data, "gibbs", **QUICK)
    with refused("model.no-graph", where="model.features"):
        bl.fit(model("abcd", features="ibp", kind="binary"), data, "nuts", **QUICK)
    with refused("model.missing", "binary", where="model.features"):
        bl.fit(model("abcd", features=1, kind="binary"), data.mask(data > 2), "nuts", **QUICK)
    with refused("engine.refused.too-costly", "13.*binary.*features.*2"):
        bl.fit(model("abcd", features=13, kind="binary"), data, "em", **QUICK)
