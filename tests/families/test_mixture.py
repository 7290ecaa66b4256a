"""The family ``mixture``: its graph, its engines against each other and against quadrature, what it refuses."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize
from scipy.special import gammaln, logsumexp

import bayeslab as bl
from bayeslab.errors import BayeslabError
from bayeslab.families import mixture as family
from bayeslab.fitting import check as bound_of
from bayeslab.latents.labels.clusters import adjusted_rand_index
from bayeslab.posterior.latent_modes import ModeStarts
from bayeslab.streams import place_among_spawned
from tests.families._models import mixture
from tests.refusals import refused

N = 40


def planted(seed=0, n=N):
    """Two groups, in columns of every kind."""
    rng = np.random.default_rng(seed)
    z = rng.integers(0, 2, n)
    x = rng.normal(0, 1, (n, 2)) @ np.array([[1, 0.5], [0, 1]]) + 3 * z[:, None]
    told = rng.random(n) < 0.3
    return z, {
        "x": x[:, 0],
        "y": x[:, 1],
        "count": rng.poisson(np.where(z, 2, 9)),
        "time": rng.exponential(np.where(z, 1, 5)),
        "won": rng.binomial(7, np.where(z, 0.2, 0.8)),
        "flag": rng.binomial(1, np.where(z, 0.2, 0.8)),
        "word": np.array(["a", "b", "c"])[rng.integers(0, 3, n)],
        "known": [("one" if g else "zero") if t else None for g, t in zip(z, told, strict=True)],
    }


def with_gaps(data):
    rng = np.random.default_rng(5)
    out = dict(data)
    lost = rng.random(N) < 0.3
    out["x"] = np.where(lost, np.nan, data["x"])
    out["y"] = np.where(~lost & (rng.random(N) < 0.3), np.nan, data["y"])
    return out


# --------------------------------------------------------------------------------- the graph


def fitted(model, data, method, **options):
    return bl.fit(model, data, method, seed=options.pop("seed", 1), progress=False, runs=None, **options)


def functions(graph):
    """Log joint, log prior and gradient as functions of a flat vector, and a point; in plain Python."""
    import pytensor
    from pytensor.compile.mode import Mode

    values = graph.value_vars
    outputs = [graph.logp(), graph.logp(vars=graph.free_RVs)]
    outputs += pytensor.grad(outputs[0], values)
    mode = Mode("py", "fast_compile")
    function = pytensor.function(values, outputs, mode=mode, on_unused_input="ignore")
    start = graph.initial_point()
    rng = np.random.default_rng(1)
    point = {v.name: np.asarray(start[v.name]) + 0.1 * rng.standard_normal(np.shape(start[v.name])) for v in values}
    flat = np.concatenate([np.ravel(p) for p in point.values()])

    def split(vector):
        out, at = {}, 0
        for name, value in point.items():
            out[name] = vector[at : at + value.size].reshape(value.shape)
            at += value.size
        return out

    def call(vector):
        joint, prior, *gradient = function(*split(vector).values())
        return float(joint), float(prior), np.concatenate([np.ravel(g) for g in gradient])

    return call, split, flat


def parameters(graph, split, flat):
    from bayeslab.posterior.transforms import constrained

    found = constrained(graph, {name: value[None] for name, value in split(flat).items()})
    return {name: value[0] for name, value in found.items()}


def normal(values, k, columns, data):
    """Log density of rows in one normal component, by SciPy, cell by cell missing."""
    rows = np.column_stack([data[c] for c in columns])
    out = np.zeros(len(rows))
    for i, row in enumerate(rows):
        seen = ~np.isnan(row)
        cov = np.diag(np.broadcast_to(values["sd"][k] ** 2, len(row)))
        if "covariance" in values:
            cov = values["covariance"]
            cov = cov[k] if cov.ndim == 3 else cov
        if seen.any():
            law = stats.multivariate_normal(values["mean"][k][seen], cov[np.ix_(seen, seen)])
            out[i] = law.logpdf(row[seen])
    return out


def gaussian(columns):
    return lambda v, k, d: normal(v, k, columns, d)


def student(v, k, d):
    law = stats.multivariate_t(v["location"][k], v["scale_matrix"][k], v["dof"][k])
    return law.logpdf(np.column_stack([d["x"], d["y"]]))


def mixed(v, k, d):
    codes = np.array(["abc".index(w) for w in d["word"]])
    return (
        normal(v, k, ["x", "y"], d)
        + stats.poisson.logpmf(d["count"], v["count_rate" if "count_rate" in v else "poisson_rate"][k, 0])
        + np.log(v["p_word"][k][codes])
    )


KINDS = {"x": "gaussian", "y": "gaussian", "count": "poisson", "word": "categorical"}
CASES = {
    "full": (mixture(["x", "y"]), False, gaussian(["x", "y"])),
    "tied": (mixture(["x", "y"], covariance="tied"), False, gaussian(["x", "y"])),
    "diagonal": (mixture(["x", "y"], 3, covariance="diagonal"), False, gaussian(["x", "y"])),
    "spherical": (mixture(["x", "y"], covariance="spherical"), False, gaussian(["x", "y"])),
    "gaps": (mixture(["x", "y"]), True, gaussian(["x", "y"])),
    "diagonal gaps": (mixture(["x", "y"], covariance="diagonal"), True, gaussian(["x", "y"])),
    "student_t": (mixture(["x", "y"], component="student_t"), False, student),
    "poisson": (
        mixture(["count"], component="poisson"),
        False,
        lambda v, k, d: stats.poisson.logpmf(d["count"], v["rate"][k, 0]),
    ),
    "exponential": (
        mixture(["time"], component="exponential"),
        False,
        lambda v, k, d: stats.expon.logpdf(d["time"], scale=1 / v["rate"][k, 0]),
    ),
    "binomial": (
        mixture(["won"], component="binomial", trials=7),
        False,
        lambda v, k, d: stats.binom.logpmf(d["won"], 7, v["probability"][k, 0]),
    ),
    "bernoulli": (
        mixture(["flag"], component="bernoulli"),
        False,
        lambda v, k, d: stats.bernoulli.logpmf(d["flag"], v["probability"][k, 0]),
    ),
}


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("case", CASES)
def test_the_graph_has_the_likelihood_that_scipy_has_and_its_slope(case):
    model, gaps, density = CASES[case]
    _, data = planted()
    data = with_gaps(data) if gaps else data
    graph = family.compile(model, bound_of(model, data)).graph()
    call, split, flat = functions(graph)
    joint, prior, gradient = call(flat)
    values = parameters(graph, split, flat)
    values = values if "sd" not in values or values["sd"].ndim == 2 else spread_out(values)
    each = np.column_stack([density(values, k, data) for k in range(model.model.components)])
    assert joint - prior == pytest.approx(logsumexp(each + np.log(values["weights"]), axis=1).sum(), rel=1e-9)
    for along in np.random.default_rng(0).standard_normal((4, len(flat))):
        slope = (call(flat + 1e-5 * along)[0] - call(flat - 1e-5 * along)[0]) / 2e-5
        assert slope == pytest.approx(gradient @ along, rel=1e-6, abs=1e-5)


def spread_out(values):
    """Standard deviations (K, d) of spherical and tied components."""
    k = len(values["weights"])
    sd = values["sd"]
    return values | {"sd": np.repeat(sd[:, None], 2, axis=1) if len(sd) == k and "covariance" not in values else sd}


@pytest.mark.slow(why="compiles")
def test_mixed_columns_with_gaps_labels_and_a_gate_in_the_graph():
    _, data = planted()
    data = with_gaps(data)
    for spec in (
        {"component": KINDS},
        {"component": KINDS, "labels": "known"},
        {"component": KINDS, "gating": ["time"]},
    ):
        model = mixture(list(KINDS), **spec)
        graph = family.compile(model, bound_of(model, data)).graph()
        call, split, flat = functions(graph)
        joint, prior, gradient = call(flat)
        values = parameters(graph, split, flat)
        values = {n.removeprefix("gaussian_"): v for n, v in values.items()}
        each = np.column_stack([mixed(values, k, data) for k in range(2)])
        if "gating" in spec:
            time = (data["time"] - data["time"].mean()) / data["time"].std()
            eta = np.column_stack([np.ones(N), time]) @ values["gate"].T
            log_weights = eta - logsumexp(eta, axis=1, keepdims=True)
        else:
            log_weights = np.repeat(np.log(values["weights"])[None], N, axis=0)
        if "labels" in spec:
            told = [[w in (None, name) for name in ("one", "zero")] for w in data["known"]]
            log_weights = np.where(told, log_weights, -np.inf)
        assert joint - prior == pytest.approx(logsumexp(each + log_weights, axis=1).sum(), rel=1e-9)
        along = np.random.default_rng(0).standard_normal(len(flat))
        slope = (call(flat + 1e-5 * along)[0] - call(flat - 1e-5 * along)[0]) / 2e-5
        assert slope == pytest.approx(gradient @ along, rel=1e-6)


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
@pytest.mark.slow(why="compiles")
def test_the_prior_of_the_graph_is_normal_inverse_wishart(covariance):
    """Density of mean and covariance by SciPy, through the numerical Jacobian of the graph's coordinates."""
    _, data = planted()
    scale = [[2.0, 0.5], [0.5, 1.0]] if covariance == "full" else [2.0, 1.0]
    own = {"mean": [1.0, 2.0], "rows": 0.5, "dof": 5, "scale": scale}
    model = mixture(["x", "y"], 1, covariance=covariance, priors={"components": own})
    graph = family.compile(model, bound_of(model, data)).graph()
    call, split, flat = functions(graph)

    def natural(vector):
        v = parameters(graph, split, vector)
        cov = v["covariance"][0] if covariance == "full" else np.diag(v["sd"][0] ** 2)
        spread = cov[np.tril_indices(2)] if covariance == "full" else np.diag(cov)
        return np.concatenate([v["mean"][0], spread]), v["mean"][0], cov

    _, mean, cov = natural(flat)
    step = 1e-5 * np.eye(len(flat))
    jacobian = np.array([(natural(flat + e)[0] - natural(flat - e)[0]) / 2e-5 for e in step])
    if covariance == "full":
        want = stats.invwishart(5, np.array(scale)).logpdf(cov)
    else:
        want = sum(stats.invgamma(2.5, scale=s / 2).logpdf(c) for s, c in zip(scale, np.diag(cov), strict=True))
    want += stats.multivariate_normal([1, 2], cov / 0.5).logpdf(mean)
    assert call(flat)[1] == pytest.approx(want + np.linalg.slogdet(jacobian)[1], rel=1e-6)


# --------------------------------------------------------------------------------- engines agree


def test_em_without_priors_ends_where_a_direct_search_of_the_likelihood_does():
    _, data = planted()
    x = np.asarray(data["x"])

    def loss(p):
        sds = np.exp(p[3:5])
        share = 1 / (1 + np.exp(-p[0]))
        return -np.logaddexp(
            np.log(share) + stats.norm.logpdf(x, p[1], sds[0]), np.log1p(-share) + stats.norm.logpdf(x, p[2], sds[1])
        ).sum()

    best = minimize(loss, [0.0, 0.0, 3.0, 0.0, 0.0], method="BFGS", options={"gtol": 1e-9})
    fit = fitted(mixture(["x"]), {"x": x}, "em", prior="ignore", tolerance=1e-11)
    assert float(fit.posterior.attrs["log_likelihood"]) == pytest.approx(-best.fun, abs=1e-7)
    at = fit.posterior.to_dataset().isel(chain=0, draw=0)
    np.testing.assert_allclose(at["mean"].values[:, 0], np.sort(best.x[1:3]), atol=1e-4)
    np.testing.assert_allclose(at["sd"].values[:, 0], np.exp(best.x[3:5])[np.argsort(best.x[1:3])], atol=1e-4)


def test_em_with_priors_ends_at_the_mode_of_the_posterior():
    _, data = planted()
    x = np.asarray(data["x"])
    own = {"mean": 1.5, "rows": 0.5, "dof": 5, "scale": 2.0}
    model = mixture(["x"], covariance="diagonal", priors={"components": own, "weights": 3})

    def loss(p):
        share, variance = 1 / (1 + np.exp(-p[0])), np.exp(p[3:5])
        terms = [stats.norm.logpdf(x, p[1 + k], np.sqrt(variance[k])) for k in range(2)]
        value = np.logaddexp(np.log(share) + terms[0], np.log1p(-share) + terms[1]).sum()
        value += stats.invgamma(2.5, scale=1.0).logpdf(variance).sum() + stats.beta(3, 3).logpdf(share)
        return -value - stats.norm.logpdf(p[1:3], 1.5, np.sqrt(variance / 0.5)).sum()

    best = minimize(loss, [0.0, 0.0, 3.0, 0.0, 0.0], method="BFGS", options={"gtol": 1e-9})
    fit = fitted(model, {"x": x}, "em", tolerance=1e-11)
    at = fit.posterior.to_dataset().isel(chain=0, draw=0)
    np.testing.assert_allclose(at["mean"].values[:, 0], np.sort(best.x[1:3]), atol=1e-4)
    np.testing.assert_allclose(at["sd"].values[:, 0], np.exp(best.x[3:5] / 2)[np.argsort(best.x[1:3])], atol=1e-4)


TINY = {"x": np.array([-1.6, -0.9, -0.4, 0.2, 1.1, 1.7, 2.4, 3.0])}
TINY_MODEL = mixture(
    ["x"],
    covariance="known",
    known=1.0,
    order="x",
    priors={"components": {"mean": 0.5, "rows": 0.3, "scale": 1.0}, "weights": 2},
)


@pytest.fixture(scope="module")
def on_a_grid():
    """Posterior moments of two means and a share by brute force; the means in order."""
    share = (np.arange(80) + 0.5) / 80
    at = np.linspace(-6, 7, 160)
    x = TINY["x"]
    low, high = np.meshgrid(at, at, indexing="ij")
    log_prior = stats.norm.logpdf(low, 0.5, 0.3**-0.5) + stats.norm.logpdf(high, 0.5, 0.3**-0.5)
    first, second = (stats.norm.logpdf(x[:, None], at, 1.0) for _ in range(2))
    terms = np.empty((len(share), len(at), len(at)))
    for i, s in enumerate(share):
        each = np.logaddexp(np.log(s) + first[:, :, None], np.log1p(-s) + second[:, None, :]).sum(axis=0)
        terms[i] = each + log_prior + stats.beta(2, 2).logpdf(s)
    terms[:, low > high] = -np.inf
    p = np.exp(terms - terms.max())
    p /= p.sum()
    out = {}
    for name, value in {"share": share[:, None, None], "low": low, "high": high}.items():
        mean = float((p * value).sum())
        out[name] = mean, float((p * value**2).sum() - mean**2) ** 0.5
    return out


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("method", ["nuts", "gibbs"])
def test_draws_have_the_moments_of_the_posterior_on_a_grid(method, on_a_grid):
    options = {"draws": 4000, "chains": 2} | ({"cores": 1} if method == "nuts" else {})
    table = fitted(TINY_MODEL, TINY, method, **options).summary()
    for row, name in {"weights[1]": "share", "mean[1, x]": "low", "mean[2, x]": "high"}.items():
        mean, sd = on_a_grid[name]
        assert abs(table.loc[row, "mean"] - mean) < 4.5 * table.loc[row, "mcse_mean"], (row, mean)
        assert table.loc[row, "sd"] == pytest.approx(sd, rel=0.1)


@pytest.mark.slow(why="statistical")
def test_chains_in_swapped_labels_are_renamed_to_agree(monkeypatch):
    at_modes = ModeStarts.__call__

    def swapped(self, rng):
        values = at_modes(self, rng)
        return (
            {name: np.flip(value, axis=0) for name, value in values.items()} if place_among_spawned(rng) % 2 else values
        )

    monkeypatch.setattr(ModeStarts, "__call__", swapped)
    z, data = planted(n=80)
    apart = {c: data[c] + 5 * z for c in "xy"}
    fit = fitted(mixture(["x", "y"]), apart, "gibbs", draws=500, tune=50, seed=0)
    said = next(f for f in fit.verdict.findings if f.check == "relabelled").message
    before, after = (float(x) for x in re.search(r"R-hat ([\d.]+) before, ([\d.]+) after", said).groups())
    assert before > 1.5 and after < 1.02
    by_chain = fit.posterior["mean"].mean("draw").values[:, :, 0]
    # Components are numbered by the first column.
    np.testing.assert_allclose(by_chain, np.tile([0, 8], (4, 1)), atol=0.6)


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize(
    ("weights", "alike"),
    [("Dirichlet([5, 5])", True), ("Beta(5, 5)", True), ([5, 5], True), (5, True), ("Dirichlet([5, 6])", False)],
)
def test_components_of_equal_concentrations_can_trade_places(weights, alike):
    _, data = planted(n=20)
    fit = fitted(mixture(["x", "y"], priors={"weights": weights}), data, "gibbs", draws=50, tune=10, seed=0)
    assert any(f.check == "relabelled" for f in fit.verdict.findings) == alike


@pytest.mark.slow(why="statistical")
def test_clusters_are_those_planted_and_free_of_names():
    truth, data = planted(n=80)
    spec = {"columns": ["x", "y", "count"], "component": {"x": "gaussian", "y": "gaussian", "count": "poisson"}}
    fit = fitted(mixture(**spec), {c: data[c] for c in ("x", "y", "count")}, "gibbs", draws=300, tune=50)
    found = fit.clusters()
    assert adjusted_rand_index(found["partition"].values, truth) > 0.85
    together = found["together"].values
    np.testing.assert_allclose(np.diag(together), 1)
    np.testing.assert_array_equal(together, together.T)
    np.testing.assert_allclose(found["probability"].values.sum(axis=1), 1)
    assert together[truth == 0][:, truth == 0].mean() > 0.9 > 0.1 > together[truth == 0][:, truth == 1].mean()


@pytest.mark.slow(why="statistical")
def test_the_number_of_components_is_sampled():
    """Three planted clusters, weights 0.2, 0.3, 0.5."""
    rng = np.random.default_rng(2)
    z = np.repeat([0, 1, 2], [16, 24, 40])
    data = {"x": 6.0 * z + rng.standard_normal(80)}
    fit = fitted(mixture(["x"], "sampled", covariance="diagonal", most=8), data, None, draws=500, tune=200, chains=2)
    assert fit.method == "gibbs" and "sampled" in fit.reason
    probability = fit.data_tree["number"]["probability"].values
    assert probability.sum() == pytest.approx(1) and probability.argmax() == 2
    shares = np.bincount(fit.posterior["n_components"].values.ravel(), minlength=9)[1:] / 1000
    np.testing.assert_allclose(shares, probability, atol=0.06)
    assert adjusted_rand_index(fit.clusters()["partition"].values, z) == 1
    with refused("option.not-kept"):
        fit.log_likelihood()
    with refused("model.no-graph"):
        fitted(mixture(["x"], "sampled"), data, "nuts")


@pytest.mark.slow(why="statistical")
def test_the_number_of_components_is_chosen():
    rng = np.random.default_rng(2)
    data = {"x": 6.0 * np.repeat([0, 1, 2], [16, 24, 40]) + rng.standard_normal(80)}
    fit = fitted(mixture(["x"], [1, 2, 3, 4, 5]), data, "em")
    assert fit.posterior.sizes["component"] == 3 and "chosen by bic" in str(fit.verdict)
    assert [f.status for f in fit.verdict.findings] == ["pass"] * len(fit.verdict.findings)


def test_components_that_say_the_same_are_reported():
    """Counts that vary less than Poisson ones: two components are no better than one."""
    data = {"count": np.repeat([4, 5, 6], [10, 30, 10])}
    fit = fitted(mixture(["count"], component="poisson"), data, "em", prior="ignore")
    assert any(f.check == "merged" and f.status == "warn" for f in fit.verdict.findings)
    one = fitted(mixture(["count"], 1, component="poisson"), data, "em", prior="ignore")
    assert fit.posterior.attrs["log_likelihood"] == pytest.approx(one.posterior.attrs["log_likelihood"], abs=1e-3)


def test_a_collapse_is_refused_without_priors_and_cannot_happen_with_them():
    data = {"x": np.array([0.0, 0.0, 0.0, 5.0, 5.0, 5.0])}
    with refused("engine.refused.degenerate", "prior"):
        fitted(mixture(["x"]), data, "em", prior="ignore")
    at = fitted(mixture(["x"]), data, "em").posterior.to_dataset()
    np.testing.assert_allclose(at["mean"].values.ravel(), [0, 5], atol=0.05)
    assert (at["sd"].values > 0.1).all()


# --------------------------------------------------------------------------------- labels


def test_a_few_labels_beat_labels_alone():
    """Groups that differ in two columns; five rows of each are labelled."""
    rng = np.random.default_rng(8)
    z = np.tile([0, 1], 100)
    x = rng.normal(0, 1, (200, 2)) + 1.3 * z[:, None]
    words = np.array(["left", "right"])[z].astype(object)
    words[10:] = None
    data = {"x": x[:, 0], "y": x[:, 1], "side": list(words)}
    fit = fitted(mixture(["x", "y"], labels="side", covariance="spherical"), data, "em")
    assert list(fit.posterior["component"].values) == ["left", "right"]
    guessed = fit.predict({"x": x[:, 0], "y": x[:, 1]}, kind="probabilities")["P(right)"].to_numpy() > 0.5
    alone = np.array([x[:10][z[:10] == k].mean(axis=0) for k in (0, 1)])
    nearest = np.linalg.norm(x[:, None] - alone, axis=2).argmin(axis=1)
    assert (guessed == z).mean() > (nearest == z).mean()
    assert fit.posterior["mean"].values[0, 0] == pytest.approx(np.array([[0, 0], [1.3, 1.3]]), abs=0.4)


@pytest.mark.slow(why="statistical")
def test_the_rate_of_misreported_labels_is_covered():
    rng = np.random.default_rng(3)
    z = rng.integers(0, 2, 150)
    told = np.where(rng.random(150) < 0.2, 1 - z, z)
    data = {"x": 4.0 * z + rng.standard_normal(150), "told": [("low", "high")[t] for t in told]}
    fit = fitted(mixture(["x"], labels="told", label_noise=True), data, "gibbs", draws=400, tune=100)
    assert list(fit.posterior["component"].values) == ["high", "low"]
    wrong = fit.posterior["p_told"].sel(component="low", told_state="high").values
    assert np.quantile(wrong, 0.01) < 0.2 < np.quantile(wrong, 0.99)


def test_known_labels_are_solved_in_closed_form():
    """Textbook posteriors of each group by SciPy, and the evidence by the chain rule of predictive densities."""
    z, data = planted(n=30)
    own = {"mean": 1.0, "rows": 0.5, "dof": 5, "scale": 2.0}
    data = {"x": data["x"], "won": data["won"], "kind": [("low", "high")[g] for g in z]}
    model = mixture(
        ["x", "won"],
        component={"x": "gaussian", "won": "binomial"},
        trials=7,
        labels="kind",
        covariance="diagonal",
        priors={"components": own, "weights": 2, "probability": "Beta(2, 3)"},
    )
    fit = fitted(model, data, None)
    assert fit.method == "exact" and "all labels are known" in fit.reason
    table = fit.summary()
    x, won = np.asarray(data["x"])[z == 1], np.asarray(data["won"])[z == 1]
    n = len(x)
    kappa, nu = 0.5 + n, 5 + n
    centre = (0.5 + x.sum()) / kappa
    spread = 2 + ((x - x.mean()) ** 2).sum() + 0.5 * n / kappa * (x.mean() - 1) ** 2
    mean = stats.t(nu, centre, np.sqrt(spread / (kappa * nu)))
    assert table.loc["gaussian_mean[high, x]", "mean"] == pytest.approx(mean.mean())
    assert table.loc["gaussian_mean[high, x]", "eti89_lb"] == pytest.approx(mean.ppf(0.055))
    root = np.sqrt(stats.invgamma(nu / 2, scale=spread / 2).rvs(400_000, random_state=1))
    assert table.loc["gaussian_sd[high, x]", "mean"] == pytest.approx(root.mean(), rel=1e-3)
    assert table.loc["gaussian_sd[high, x]", "sd"] == pytest.approx(root.std(), rel=1e-2)
    share = stats.beta(2 + won.sum(), 3 + 7 * n - won.sum())
    assert table.loc["binomial_probability[high, won]", "sd"] == pytest.approx(share.std())
    assert table.loc["weights[high]", "mean"] == pytest.approx((2 + n) / (4 + 30))
    assert fit.posterior["gaussian_mean"].mean(("chain", "draw")).values[0, 0] == pytest.approx(centre, abs=0.05)

    def evidence(rows, wins):
        out = 0.0
        k, m, v, s, a, b = 0.5, 1.0, 5.0, 2.0, 2.0, 3.0
        for x, w in zip(rows, wins, strict=True):
            out += stats.t(v, m, np.sqrt(s * (k + 1) / (k * v))).logpdf(x) + stats.betabinom(7, a, b).logpmf(w)
            s += k / (k + 1) * (x - m) ** 2
            m, k, v, a, b = (k * m + x) / (k + 1), k + 1, v + 1, a + w, b + 7 - w
        return out

    groups = [(np.asarray(data["x"])[z == g], np.asarray(data["won"])[z == g]) for g in (0, 1)]
    want = sum(evidence(*g) for g in groups)
    counts, total = np.zeros(2), 0.0
    for g in z:
        total += np.log((2 + counts[g]) / (4 + counts.sum()))
        counts[g] += 1
    assert fit.data_tree["exact_posterior"].attrs["log_evidence"] == pytest.approx(want + total)


# --------------------------------------------------------------------------------- regressions


def two_lines():
    rng = np.random.default_rng(0)
    z = rng.integers(0, 2, 120)
    x = rng.uniform(10, 20, 120)
    return z, {"x": x, "y": np.where(z, 5 + 2 * x, 60 - 1.5 * x) + rng.normal(0, 1.5, 120)}


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("gating", [[], ["x"]])
def test_a_mixture_of_regressions_and_of_experts(gating):
    """EM without priors against a direct search of the likelihood, on the scale of the data."""
    _, data = two_lines()
    x, y = data["x"], data["y"]
    model = bl.Model(model=bl.Mixture(regression="y ~ x", components=2, gating=gating))

    def loss(p):
        means, sds = [p[0] + p[1] * x, p[2] + p[3] * x], np.exp(p[4:6])
        terms = [stats.norm.logpdf(y, m, s) for m, s in zip(means, sds, strict=True)]
        eta = p[6] + (p[7] * (x - 15) if gating else 0)
        return -np.logaddexp(terms[0] - np.logaddexp(0, eta), terms[1] - np.logaddexp(0, -eta)).sum()

    best = minimize(loss, [5.0, 2, 60, -1.5, 0, 0, 0, 0], method="BFGS", options={"gtol": 1e-7})
    fit = fitted(model, data, "em", prior="ignore", tolerance=1e-10, restarts=6)
    assert fit.posterior.attrs["log_likelihood"] == pytest.approx(-best.fun, abs=2e-4)
    at = fit.posterior.to_dataset().isel(chain=0, draw=0)
    np.testing.assert_allclose(at["coefficients"].values, best.x[:4].reshape(2, 2), rtol=5e-3)
    assert list(at["term"].values) == ["Intercept", "x"]
    made = fit.predict({"x": [12.0]})
    assert made["mean"][0] == pytest.approx(0.5 * (5 + 24 + 60 - 18), abs=8)


@pytest.mark.slow(why="compiles")
def test_the_graph_of_regressions_has_their_likelihood():
    _, data = two_lines()
    model = bl.Model(model=bl.Mixture(regression="y ~ x", components=2))
    graph = family.compile(model, bound_of(model, data)).graph()
    call, split, flat = functions(graph)
    joint, prior, gradient = call(flat)
    v = parameters(graph, split, flat)
    mean = v["coefficients"][:, 0] + np.outer(data["x"], v["coefficients"][:, 1])
    each = stats.norm.logpdf(data["y"][:, None], mean, v["sd"]) + np.log(v["weights"])
    assert joint - prior == pytest.approx(logsumexp(each, axis=1).sum(), rel=1e-9)
    step = 1e-5 * np.eye(len(flat))
    found = [(call(flat + e)[0] - call(flat - e)[0]) / 2e-5 for e in step]
    np.testing.assert_allclose(found, gradient, rtol=1e-5, atol=1e-4)


# --------------------------------------------------------------------------------- using a fit


@pytest.mark.slow(why="compiles")
def test_a_run_is_opened_again_and_predicts(tmp_path):
    _, data = planted()
    data = {"x": data["x"], "y": data["y"]}
    fit = bl.fit(mixture(["x", "y"]), data, "gibbs", seed=3, progress=False, runs=tmp_path, draws=100, tune=200)
    again = bl.open(fit.folder)
    new = {"x": [0.0, 3.0, np.nan], "y": [0.0, 3.0, 3.0]}
    one, two = (f.predict(new, kind="probabilities") for f in (fit, again))
    assert list(one.columns) == ["obs_id", "P(1)", "P(2)"]
    np.testing.assert_array_equal(one.to_numpy(), two.to_numpy())
    assert one["P(1)"][0] > 0.9 and one["P(2)"][1] > 0.9 and one["P(2)"][2] > 0.8
    # The density of a row by SciPy, draw by draw.
    row = fit.log_likelihood()["row"].isel(obs_id=0).values.ravel()
    v = {n: a.values.reshape(-1, *a.shape[2:]) for n, a in fit.posterior.to_dataset().items()}
    point = np.array([data["x"][0], data["y"][0]])
    want = [
        logsumexp(
            [np.log(v["weights"][s, k]) + stats.multivariate_normal(v["mean"][s, k], v["covariance"][s, k]).logpdf(point)
             for k in (0, 1)]
        )
        for s in range(5)
    ]  # fmt: skip
    np.testing.assert_allclose(row[:5], want, rtol=1e-9)


@pytest.mark.slow(why="statistical")
def test_replications_look_like_the_data():
    _, data = planted(n=200)
    model = mixture(list(KINDS), component=KINDS)
    fit = fitted(model, {c: data[c] for c in KINDS}, "gibbs", draws=200, tune=100)
    made = fit.posterior_predictive()
    assert set(made.data_vars) == set(KINDS)
    for name in ("x", "count"):
        centre = made[name].mean("obs_id").values.ravel()
        assert abs(centre.mean() - np.mean(data[name])) < 4 * centre.std()
    assert made["count"].dtype.kind == "i" and made["word"].values.max() == 2


@pytest.mark.slow(why="statistical")
def test_more_components_are_compared_by_leave_one_out():
    rng = np.random.default_rng(2)
    data = {"x": np.r_[rng.normal(-3, 1, 40), rng.normal(3, 1, 40)]}
    fits = {str(k): fitted(mixture(["x"], k), data, "gibbs", draws=300, tune=100) for k in (1, 2)}
    table = bl.compare(fits)
    assert table.table.index[0] == "2"
    assert table.maxima["2"].n_parameters == 5 and table.maxima["1"].n_parameters == 2
    normal = stats.norm(data["x"].mean(), data["x"].std()).logpdf(data["x"]).sum()
    assert table.maxima["1"].log_likelihood == pytest.approx(normal)


def test_simulated_rows_have_the_moments_of_the_model():
    """With a point-like prior: shares 0.5, means 0 and 10 in turns by `order`."""
    own = {"mean": 0.0, "rows": 1e-2, "dof": 400, "scale": 400.0}
    model = bl.Model(
        dims={"obs_id": 400},
        model=bl.Mixture(columns=["x"], components=2, order="x", priors={"components": own, "weights": 1000}),
    )
    made = bl.simulate(model, draws=50, seed=1)
    prior, rows = made["prior"], made["prior_predictive"]["x"].values[0]
    mean = prior["mean"].values[0, :, :, 0]
    assert (mean[:, 0] < mean[:, 1]).all() and prior["label"].shape == (1, 50, 400)
    label = prior["label"].values[0]
    apart = rows - np.take_along_axis(mean, label, axis=1)
    assert apart.std() == pytest.approx(1, abs=0.05)
    assert label.mean() == pytest.approx(0.5, abs=0.02)
    # Means are Normal(0, σ² / 0.01), σ near 1, so their spread is near 10.
    assert mean.std() == pytest.approx(10, rel=0.3)


# --------------------------------------------------------------------------------- refusals

LINE = {"x": np.arange(9.0) ** 2, "w": 1 - 2 * np.arange(9.0) ** 2}
FEW = {"x": np.array([1.0, 2.0, 3.5]), "y": np.array([1.0, 1.0, 1.0]), "word": ["a", "b", "a"]}


@pytest.mark.parametrize(
    ("spec", "data", "code", "match"),
    [
        ({"columns": ["x"], "components": 0}, FEW, "model.out-of-range", r"^model\.components"),
        ({"columns": ["x"], "components": "many"}, FEW, "model.unknown-word", r"^model\.components.*dirichlet_process.*'many'"),
        ({"columns": ["x"], "components": []}, FEW, "model.incomplete", r"^model\.components"),
        ({"columns": ["x"], "components": 4}, FEW, "data.too-few", "3.*4.*components"),
        ({"columns": ["x", "y"]}, FEW, "data.constant", "'y'"),
        ({"columns": ["x"], "component": "poisson"}, {"x": np.full(6, 3)}, "data.constant", "'x'"),
        ({"columns": ["x"]}, {"x": np.array([1.0, np.inf, 2.0])}, "data.not-finite", "'x'.*row 2"),
        ({"columns": ["x", "w"], "covariance": "full"}, LINE, "data.dependent-columns", "x, w"),
        ({"columns": ["x", "w"], "covariance": "tied"}, LINE, "data.dependent-columns", "x, w"),
        ({"columns": ["x", "w"], "component": "student_t"}, LINE, "data.dependent-columns", "x, w"),
        ({"columns": ["z"]}, FEW, "model.unknown-column", r"^model\.columns\.0.*'z'"),
        ({"columns": ["x"], "component": "gausian"}, FEW, "model.unknown-word", r"^model\.component.*'gausian'.*'gaussian'"),
        ({"columns": ["x", "word"]}, FEW, "data.not-numbers", "'word'"),
        ({"columns": ["x"], "component": "poisson"}, FEW, "data.impossible-value", r"'x', row 3.*3\.5"),
        ({"columns": ["x"], "component": "binomial"}, FEW, "model.incomplete", "`trials`"),
        ({"columns": ["x"], "covariance": "known"}, FEW, "model.incomplete", "covariance.*known"),
        ({"columns": ["x"], "order": "y"}, FEW, "model.unknown-column", "order.*'y'"),
        ({"columns": ["x"], "gating": ["word"]}, FEW, "data.not-numbers", "'word' holds words"),
        ({"columns": ["x"], "gating": ["y"]}, FEW, "data.constant", "'y' is constant"),
        ({"columns": ["mean"]}, FEW, "model.reserved-name", "'mean'"),
        ({"columns": ["x"], "priors": {"rates": 1}}, FEW, "model.unknown-parameter", "'rates'.*'rate'"),
        ({"columns": ["x"], "priors": {"weights": -1}}, FEW, "model.out-of-range", r"^model\.priors\.weights"),
        ({"columns": ["x"], "component": "poisson", "priors": {"rate": "Normal(0, 1)"}}, FEW, "model.bad-prior", r"^model\.priors\.rate"),
        ({"columns": ["x"], "priors": {"mean": "Normal(0, 1)"}}, FEW, "model.incomplete", r"^model\.priors"),
        (
            {"columns": ["x", "y"]},
            {"x": [1.0, np.nan, 2.0, 3.0], "y": [0.0, np.nan, 1.0, 4.0]},
            "data.missing", "row 2",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_a_line(spec, data, code, match):
    with refused(code, match):
        fitted(bl.Model(model={"family": "mixture", "components": 2, **spec}), data, "em")


def test_priors_are_told():
    _, data = planted()
    spec = {"component": KINDS, "priors": {"rate": "Gamma(2, 0.5)", "weights": 2}}
    told = family.compile(mixture(list(KINDS), **spec), bound_of(mixture(list(KINDS), **spec), data)).priors()
    assert told["weights"] == "Dirichlet(2)" and told["poisson_rate"] == "Gamma(2, 0.5)"
    assert told["p_word"] == "Dirichlet(1)" and told["gaussian_covariance"].startswith("InverseWishart(4, ")
    free = mixture(["x"], priors={"mean": "Normal(0, 2)", "sd": "HalfNormal(2)"})
    assert family.compile(free, bound_of(free, data)).priors()["sd"] == "HalfNormal(2)"


def test_every_spec_survives_a_file(tmp_path):
    words = itertools.product([2, [1, 2], "sampled"], ["full", "diagonal"])
    for i, (components, covariance) in enumerate(words):
        model = bl.Model(model=bl.Mixture(columns=["x"], components=components, covariance=covariance))
        bl.save(model, tmp_path / f"{i}.yaml")
        assert bl.load(tmp_path / f"{i}.yaml") == model


# --------------------------------------------------------------------------------- nothing silent


def normal_evidence(y, k):
    """log p(y) of one normal column whose variance and mean have the default prior of K components, in closed form."""
    n, nu, kappa = len(y), 3.0, 0.01
    scale = y.var() / k**2
    spread = scale + ((y - y.mean()) ** 2).sum()
    value = gammaln((nu + n) / 2) - gammaln(nu / 2) + 0.5 * nu * np.log(scale) - 0.5 * (nu + n) * np.log(spread)
    return value + 0.5 * np.log(kappa / (kappa + n)) - 0.5 * n * np.log(np.pi)


def test_each_number_in_a_list_has_its_own_prior():
    """The evidence of one component is that of `components: 1`, whatever else is in the list."""
    y = np.random.default_rng(3).normal(5, 2, 12)
    found = {}
    for numbers in ([1], [1, 2], [1, 4]):
        model = mixture(["y"], numbers, choose="evidence")
        found[tuple(numbers)] = family.compile(model, bound_of(model, {"y": y})).resolved.choice.scores[0]
    assert list(found.values()) == pytest.approx([normal_evidence(y, 1)] * 3, abs=1e-9)


def test_the_evidence_of_a_list_is_under_the_priors_of_the_file():
    y = np.random.default_rng(3).poisson(5, 12)
    model = mixture(["y"], [1, 2], component="poisson", choose="evidence", priors={"rate": "Gamma(3, 2)"})
    score = family.compile(model, bound_of(model, {"y": y})).resolved.choice.scores[0]
    a, b = 3 + y.sum(), 2 + len(y)
    exact = 3 * np.log(2) - gammaln(3) + gammaln(a) - a * np.log(b) - gammaln(y + 1).sum()
    assert score == pytest.approx(exact, abs=1e-9)
    free = mixture(["y"], [1, 2], choose="evidence", priors={"mean": "Normal(0, 5)", "sd": "HalfNormal(3)"})
    with refused("model.not-conjugate", where="model.choose"):
        _ = family.compile(free, bound_of(free, {"y": y + 0.5})).resolved


def test_a_number_that_the_rows_cannot_support_is_not_dropped():
    model = mixture(["y"], [1, 2, 9])
    with refused("data.too-few", "5.*9"):
        _ = family.compile(model, bound_of(model, {"y": np.arange(5.0)})).resolved


def test_one_component_whose_labels_are_known_has_weight_one():
    y = np.random.default_rng(3).normal(5, 2, 12)
    fit = fitted(mixture(["y"], 1, labels="who"), {"y": y, "who": ["a"] * 12}, "exact")
    weight = fit.data_tree["exact_posterior"]["weights"].to_numpy()
    assert np.allclose(weight[:, 0], [1, 0, *([1] * 7)])
    assert fit.verdict.status == "pass"
    assert np.isfinite(fit.data_tree["posterior"].to_dataset().to_array()).all()
    assert float(fit.data_tree["exact_posterior"].attrs["log_evidence"]) == pytest.approx(normal_evidence(y, 1))


@pytest.mark.parametrize(
    ("content", "code", "match"),
    [
        ({"most": 5}, "model.conflict", "most"),
        ({"choose": "aic"}, "model.conflict", "choose"),
        ({"choose": "bic"}, "model.conflict", "choose"),  # what it is where it is left out
        ({"choose": "bic", "components": "dirichlet_process"}, "model.conflict", "choose"),
        ({"choose": "bic", "components": "sampled"}, "model.conflict", "choose"),
        ({"component": "poisson", "covariance": "tied"}, "model.conflict", "covariance"),
        ({"dof": 3}, "model.conflict", "dof.*student_t"),
        ({"trials": 3}, "model.conflict", "trials"),
        ({"priors": {"rate": "Gamma(1, 1)"}}, "model.conflict", "priors.*rate"),
        ({"priors": {"probability": "Beta(1, 1)"}}, "model.conflict", "priors.*probability"),
        ({"component": "poisson", "priors": {"components": {"dof": 3}}}, "model.conflict", "priors.*components"),
        ({"gating": ["x"], "priors": {"weights": 2}}, "model.conflict", "priors.*weights.*gating"),
    ],
)
def test_keys_that_would_say_nothing_are_refused(content, code, match):
    with refused(code, match):
        mixture(["y"], **content)


GAPS = {"y": [0.1, 1.0, None, 3.0, 7.5, 8.0], "v": [1.0, None, 0.3, 2.0, 1.1, 0.2], "c": [0, 1, 2, 5, 6, 4]}


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("components", ["sampled", "dirichlet_process", 2])
@pytest.mark.parametrize("method", ["gibbs", "variational"])
@pytest.mark.parametrize(
    "content",
    [
        {"component": "student_t"},
        {"component": {"y": "student_t", "c": "poisson"}, "columns": ["y", "c"]},
        {"columns": ["y", "v"]},
        {"columns": ["y", "v"], "covariance": "tied"},
        {
            "component": {"y": "gaussian", "v": "gaussian", "c": "poisson"},
            "columns": ["y", "v", "c"],
            "covariance": "tied",
        },
        {"columns": ["y", "v"], "covariance": "spherical"},
        {"covariance": "known", "known": 2.0},
        {"priors": {"mean": "Normal(0, 3)", "sd": "HalfNormal(2)"}},
        {"columns": ["y", "v"], "priors": {"correlation": "LKJ(2)"}},
    ],
)
def test_what_an_engine_refuses_check_refuses(content, method, components):
    model = bl.Model(model={"family": "mixture", "columns": ["y"], "components": components} | content)

    def words(call):
        try:
            call()
        except BayeslabError as error:
            return str(error)
        return None

    more = {"draws": 3, "tune": 1, "chains": 1} if method == "gibbs" else {"draws": 3}
    why = words(lambda: bl.check(model, GAPS, method))
    assert words(lambda: bl.fit(model, GAPS, method, seed=1, progress=False, runs=None, **more)) == why


@pytest.mark.parametrize(
    ("content", "code", "match"),
    [
        ({"priors": {"mean": "Normal(0, 3)", "sd": "HalfNormal(2)"}}, "engine.refused.not-conjugate", "mean, sd"),
        ({"columns": ["x", "y"], "priors": {"correlation": "LKJ(2)"}}, "engine.refused.not-conjugate", "mean, sd"),
        ({"priors": {"weights": "Dirichlet([2, 3])"}, "most": 2}, "model.wrong-length", r"^model\.priors\.weights"),
        ({"order": "y"}, "model.conflict", "`order`"),
        ({"component": "student_t"}, "engine.refused.not-conjugate", "StudentT"),
    ],
)
def test_a_sampled_number_takes_nothing_in_silence(content, code, match):
    """Priors that cannot be integrated out were left out of the posterior without a word."""
    _, data = planted()
    with refused(code, match):
        bl.check(mixture(**{"columns": ["y"], "components": "sampled"} | content), data)


@pytest.mark.parametrize(
    "known",
    [
        "wide",
        {"x": 1.0, "y": 2.0},
        {"covariance": [[1.0, 0.3], [0.3, 2.0]]},
        [[1.0, 0.3], [2.0]],
        [[1.0, np.nan], [0.0, 2.0]],  # one triangle alone is a covariance
        [[1.0, 9.0], [0.3, 2.0]],
    ],
)
def test_a_known_covariance_that_is_none_is_refused(known):
    """A mapping was a TypeError, and the upper triangle of a matrix was not read."""
    model = mixture(["x", "y"], covariance="known", known=known)
    with refused("model.not-a-covariance", "known covariance"):
        bl.check(model, {"x": np.array([0.1, 1.0, 2.3, 4.0]), "y": np.array([1.0, 0.2, 3.0, 2.0])})
