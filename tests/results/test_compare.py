"""Comparing models: against closed forms, enumeration, ArviZ and refits."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from scipy import stats
from scipy.special import betaln, logsumexp

import bayeslab as bl
from bayeslab.cli import main
from bayeslab.results.compare import (
    bridge,
    compare,
    held_out,
    model_probabilities,
    pseudo_bma_weights,
    stacking_weights,
)
from bayeslab.results.likelihood import aic, bic, description_bits, effective_parameters, hypothesis_bits
from bayeslab.results.predict import log_likelihood
from bayeslab.results.psis import leave_one_out, pareto_fit, smoothed_log_weights
from tests.refusals import refused

RNG = np.random.default_rng(11)
N = 40
X = RNG.normal(size=N)
Y = 1 + 2 * X + RNG.normal(size=N)
Y[5] = 8.0
DATA = {"x": X, "y": Y}


def regression(formula: str, **more) -> bl.Model:
    return bl.Model(name="regression", model=bl.Regression(formula=formula, **more), seed=3)


@pytest.fixture(scope="module")
def exact(tmp_path_factory):
    runs = tmp_path_factory.mktemp("runs")
    formulas = {"constant": "y ~ 1", "line": "y ~ x", "cubic": "y ~ x + I(x**2) + I(x**3)"}
    return {k: bl.fit(regression(f), DATA, progress=False, runs=runs, name=k) for k, f in formulas.items()}


@pytest.fixture(scope="module")
def drawn():
    """The line by NUTS, with every kind of transform along."""
    nodes = {
        "bound": "HalfNormal(3)",
        "a": "Uniform(-10, 10 + bound)",
        "share[part]": "Dirichlet([2, 2, 2])",
        "cut[rank]": "Ordered(Normal(0, 2))",
        "b": "Normal(0, 5)",
        "s": "HalfNormal(5)",
        "y[obs_id]": "Normal(a + b * x + 0.01 * (share[0] + cut[1]), s)",
    }
    model = bl.Model(name="drawn", dims={"part": 3, "rank": 4}, model=bl.Graph(nodes=nodes), seed=5)
    return bl.fit(model, DATA, "nuts", progress=False, runs=None, draws=1000, tune=500)


# ---------------------------------------------------------------------------------- importance


def test_smoothing_equals_arviz():
    """2500 draws: the tail has 150 both with the ceiling of the reference and with the floor of ArviZ."""
    from arviz_stats.base import array_stats

    sizes = np.random.default_rng(1).uniform(0.1, 1.5, size=(60, 1))
    ratios = 0.5 * (np.random.default_rng(2).normal(size=(60, 2500)) * sizes) ** 2
    weights, k = smoothed_log_weights(ratios)
    theirs, their_k = array_stats.psislw(-ratios)
    assert np.allclose(weights, theirs, atol=1e-8) and np.allclose(k, their_k, atol=1e-8)


@pytest.mark.parametrize("shape", [0.1, 0.5, 0.9])
def test_pareto_shape_is_recovered(shape):
    """Over many samples of 2000 the mean estimate is the shape, the pull of ten observations to ½ allowed for."""
    x = np.sort(stats.genpareto(shape).rvs(size=(200, 2000), random_state=4), axis=1)
    found, scale = pareto_fit(x)
    expected = (2000 * shape + 5) / 2010
    assert found.mean() == pytest.approx(expected, abs=5 * found.std() / np.sqrt(200) + 0.005)
    assert scale.mean() == pytest.approx(1, abs=0.02)


def test_equal_ratios_have_equal_weights():
    weights, k = smoothed_log_weights(np.zeros((2, 400)))
    assert np.allclose(weights, -np.log(400)) and np.all(k == -np.inf)


def test_draws_that_repeat_need_no_tail_where_weights_are_alike():
    """Partitions take few values: a tail of ties has no shape, which matters only if weights differ."""
    ratios = np.zeros((2, 1000))
    ratios[:, :5] = [[0.3], [5.0]]
    weights, k = smoothed_log_weights(ratios)
    assert k[0] == -np.inf and k[1] == np.inf
    assert np.allclose(weights, ratios - np.log(np.exp(ratios).sum(axis=1, keepdims=True)))


def test_leave_one_out_of_a_normal_mean():
    """Known noise, normal prior: the predictive density left out is a normal density."""
    rng = np.random.default_rng(6)
    y, prior, n_draws = rng.normal(1, 1, size=25), 2.0, 40_000
    precision = len(y) + 1 / prior**2
    mu = rng.normal(y.sum() / precision, precision**-0.5, size=n_draws)
    elpd, p_loo, k = leave_one_out(stats.norm(mu, 1).logpdf(y[:, None]))
    rest = precision - 1
    truth = stats.norm((y.sum() - y) / rest, np.sqrt(1 + 1 / rest)).logpdf(y)
    assert np.allclose(elpd, truth, atol=0.003) and np.all(k < 0.5)
    assert p_loo.sum() == pytest.approx(1, abs=0.5)


def test_bridge_of_an_outlier():
    """Eight sds out, where the mean over draws without it has a huge error."""
    rng = np.random.default_rng(7)
    n, m, out = 10, 4000, 8.0
    rest = stats.norm(0, 1 / np.sqrt(n))
    whole = stats.norm(out / (n + 1), 1 / np.sqrt(n + 1))
    density = lambda mu: stats.norm(mu, 1).logpdf(out)  # noqa: E731
    found = bridge(density(rest.rvs(m, random_state=rng)), density(whole.rvs(m, random_state=rng)))
    assert found == pytest.approx(stats.norm(0, np.sqrt(1 + 1 / n)).logpdf(out), abs=0.1)


# ------------------------------------------------------------------------------------ weights


def test_stacking_maximises_the_mixture():
    elpd = np.log(np.random.default_rng(8).uniform(0.05, 1, size=(60, 3)))
    found = stacking_weights(elpd)
    score = lambda w: logsumexp(elpd + np.log(np.maximum(w, 1e-300)), axis=1).sum()  # noqa: E731
    grid = [np.array([i, j, 50 - i - j]) / 50 for i in range(51) for j in range(51 - i)]
    assert found.sum() == pytest.approx(1) and np.all(found >= 0)
    assert score(found) >= max(score(w) for w in grid) - 1e-9


def test_stacking_finds_the_mixture_it_came_from():
    """Data of 30 % model A and 70 % model B, and a copy of neither."""
    rng = np.random.default_rng(9)
    y = np.where(rng.uniform(size=20_000) < 0.3, rng.normal(-3, 1, size=20_000), rng.normal(3, 1, size=20_000))
    elpd = np.column_stack([stats.norm(m, 1).logpdf(y) for m in (-3, 3, 12)])
    assert np.allclose(stacking_weights(elpd), [0.3, 0.7, 0], atol=4 * np.sqrt(0.21 / 20_000))


def test_pseudo_bma_by_hand():
    """Two models that differ by d in every observation: the bootstrap changes nothing."""
    elpd = np.column_stack([np.zeros(10), np.full(10, -0.1)])
    assert pseudo_bma_weights(elpd, np.random.default_rng(1))[0] == pytest.approx(1 / (1 + np.exp(-1)))


# ------------------------------------------------------------ evidence, criteria, descriptions


def beta_bernoulli(data, a: float, b: float) -> float:
    return betaln(a + sum(data), b + len(data) - sum(data)) - betaln(a, b)


def test_evidence_of_all_data_sets_sums_to_one():
    """A fair coin spreads its evidence evenly; beta(1, 1) spends some on lopsided data and loses on even ones."""
    sets = list(itertools.product([0, 1], repeat=8))
    fair = np.full(len(sets), 8 * np.log(0.5))
    free = np.array([beta_bernoulli(d, 1, 1) for d in sets])
    assert np.exp(fair).sum() == pytest.approx(1) and np.exp(free).sum() == pytest.approx(1)
    heads = np.array([sum(d) for d in sets])
    assert np.all(fair[heads == 4] > free[heads == 4]) and np.all(free[heads == 0] > fair[heads == 0])


def test_bayes_factor_of_a_fair_coin():
    """k heads of n: 2⁻ⁿ (n + 1) C(n, k), by the integral of the likelihood too."""
    from scipy.integrate import quad
    from scipy.special import comb

    n, k = 12, 9
    free = beta_bernoulli([1] * k + [0] * (n - k), 1, 1)
    assert np.exp(free) == pytest.approx(quad(lambda t: t**k * (1 - t) ** (n - k), 0, 1)[0])
    factor = np.exp(n * np.log(0.5) - free)
    assert factor == pytest.approx(0.5**n * (n + 1) * comb(n, k))
    probability = model_probabilities(np.array([n * np.log(0.5), free]))
    assert probability.sum() == pytest.approx(1) and probability[0] == pytest.approx(factor / (1 + factor))
    assert model_probabilities(np.zeros(2), np.array([0.8, 0.2])) == pytest.approx([0.8, 0.2])
    assert np.isnan(model_probabilities(np.array([0, np.nan]))).all()


def test_candies_with_and_without_a_hidden_bag():
    """1000 candies by flavour, wrapper, hole: independence (3 numbers) against a latent class (7)."""
    counts = np.array([273, 93, 104, 90, 79, 100, 94, 167])
    flavour, wrapper, hole = 560, 545, 550
    independent = sum(k * np.log(k / 1000) + (1000 - k) * np.log(1 - k / 1000) for k in (flavour, wrapper, hole))
    saturated = (counts * np.log(counts / 1000)).sum()
    assert -aic(independent, 3) / 2 == pytest.approx(-2066.160309, abs=1e-6)
    assert -bic(independent, 3, 1000) / 2 == pytest.approx(-2073.521942, abs=1e-6)
    assert -aic(saturated, 7) / 2 == pytest.approx(-1986.360127, abs=1e-6)
    assert -bic(saturated, 7, 1000) / 2 == pytest.approx(-2003.537271, abs=1e-6)


def test_bic_tends_to_the_log_evidence():
    """Per observation the two agree ever better."""
    gaps = []
    for n in (100, 10_000, 1_000_000):
        k = round(0.3 * n)
        best = k * np.log(0.3) + (n - k) * np.log(0.7)
        gaps.append(abs(-bic(best, 1, n) / 2 - (betaln(1 + k, 1 + n - k))) / n)
    assert gaps[0] > 10 * gaps[1] > 100 * gaps[2]


@pytest.mark.parametrize(
    ("limes", "bits"),
    [
        (1, [4.321928, 2.321928, 2.736966, 3.321928]),
        (2, [6.321928, 3.321928, 3.152003, 3.321928]),
        (10, [22.321928, 11.321928, 6.472303, 3.321928]),
    ],
)
def test_description_lengths_of_candy_bags(limes, bits):
    prior, lime = np.array([0.1, 0.2, 0.4, 0.2, 0.1]), np.array([0, 0.25, 0.5, 0.75, 1])
    with np.errstate(divide="ignore"):
        likelihood = limes * np.log(lime)
    found = hypothesis_bits(prior, likelihood)
    assert found[0] == np.inf and found[1:] == pytest.approx(bits, abs=1e-6)
    assert found.argmin() == (prior * lime**limes).argmax()


def test_bits_are_half_bic_in_base_two():
    assert description_bits(bic(-10.0, 2, 64)) == pytest.approx(10 / np.log(2) + 6)


def test_effective_parameters_of_ridge():
    design = np.random.default_rng(2).normal(size=(50, 4))
    hat = design @ np.linalg.solve(design.T @ design + 3 * np.eye(4), design.T)
    assert effective_parameters(design, 3.0) == pytest.approx(np.trace(hat))
    assert effective_parameters(design, 0.0) == pytest.approx(4)
    assert effective_parameters(design, 1e9) < 1e-6


@pytest.mark.slow(why="statistical")
def test_p_loo_is_the_ridge_trace():
    """Normal coefficients, known noise. Over data from the model, p_loo is the trace on average."""
    rng = np.random.default_rng(3)
    n, p, alpha = 200, 5, 30.0
    design = rng.normal(size=(n, p))
    cov = np.linalg.inv(design.T @ design + alpha * np.eye(p))
    found = []
    for _ in range(20):
        y = design @ rng.normal(0, alpha**-0.5, size=p) + rng.normal(size=n)
        draws = rng.multivariate_normal(cov @ design.T @ y, cov, size=2000)
        found.append(leave_one_out(stats.norm(draws @ design.T, 1).logpdf(y).T)[1].sum())
    error = np.std(found, ddof=1) / np.sqrt(len(found))
    assert np.mean(found) == pytest.approx(effective_parameters(design, alpha), abs=4 * error + 0.1)


# -------------------------------------------------------------------------- pointwise densities


@pytest.mark.slow(why="compiles")
def test_log_likelihood_from_constrained_draws(drawn):
    """Interval with a random bound, simplex, ordered, positive: forward transforms, and SciPy's density."""
    there = log_likelihood(drawn)["y"].to_numpy()
    kept = drawn.data_tree["unconstrained_posterior"]
    del drawn.data_tree["unconstrained_posterior"]
    back = log_likelihood(drawn)["y"].to_numpy()
    drawn.data_tree["unconstrained_posterior"] = kept
    assert np.allclose(there, back, atol=1e-9)
    post = {str(n): v.to_numpy() for n, v in drawn.posterior.to_dataset().data_vars.items()}
    shift = 0.01 * (post["share"][..., 0] + post["cut"][..., 1])
    mean = (post["a"] + shift)[..., None] + post["b"][..., None] * X
    assert np.allclose(there, stats.norm(mean, post["s"][..., None]).logpdf(Y), atol=1e-8)


@pytest.mark.slow(why="compiles")
def test_loo_agrees_with_arviz(drawn):
    import arviz as az

    found = compare({"m": drawn}, refit=False, progress=False)
    with pytest.warns(UserWarning, match="greater than 0.70"):
        theirs = az.loo(drawn.data_tree, pointwise=True, reff=1.0)
    ours, good = found.loos["m"], np.setdiff1d(np.arange(N), found.loos["m"].bad)
    assert ours.bad == (5,) and found.verdict.status == "warn"
    # Tails of 190 and of 189 draws, and efficiencies of each observation's own.
    assert np.allclose(ours.elpd[good], theirs.elpd_i[good], atol=0.01)
    assert np.allclose(ours.pareto_k, theirs.pareto_k, atol=0.2)


@pytest.mark.slow(why="compiles")
def test_refit_of_an_outlier_is_the_evidence_ratio(exact, drawn):
    """NUTS without the outlier's term, against the quadrature of a model with nearly the same prior."""
    found = compare({"m": drawn}, progress=False).loos["m"]
    whole = exact["line"]
    compare({"m": whole}, progress=False)
    assert 5 in found.refitted and not found.bad
    for i in (5, 6):
        assert held_out(drawn, "y", i) == pytest.approx(held_out(whole, "y", i), rel=0.06, abs=0.05)


def test_exact_refit_is_the_student_predictive():
    """Conjugate by hand: known sd of the noise, normal prior of the mean."""
    y = np.array([0.3, -1.0, 0.4, 6.0])
    model = bl.Model(name="mean", model=bl.Graph(nodes={"mu": "Normal(0, 2)", "y[obs_id]": "Normal(mu, 1)"}), seed=1)
    fit = bl.fit(model, {"y": y}, progress=False, runs=None)
    entry = compare({"m": fit}, progress=False).loos["m"]
    precision = len(y) - 1 + 1 / 4
    truth = stats.norm((y.sum() - y) / precision, np.sqrt(1 + 1 / precision)).logpdf(y)
    for i in entry.refitted if fit.method == "exact" else ():
        assert entry.elpd[i] == pytest.approx(truth[i], abs=1e-9)
    assert np.allclose(entry.elpd, truth, atol=0.15)


def log_marginal(x, y, weights):
    """Of y ~ Normal(x b, 0.8), b ~ Normal(0, 1), each row as often as its weight."""
    precision, shift = 1 + np.sum(weights * x**2) / 0.64, np.sum(weights * x * y) / 0.64
    normals = np.sum(weights * stats.norm(0, 0.8).logpdf(y))
    return normals + 0.5 * (shift**2 / precision - np.log(precision))


@pytest.mark.parametrize("lost", ["nothing", "an outcome", "a predictor"])
@pytest.mark.parametrize("weighted", [False, True])
def test_exact_refits_keep_weights_and_the_rows_that_were_dropped(weighted, lost):
    weights = np.ones(12) if not weighted else np.array([5.0, 1, 2, 1, 1, 3, 1, 1, 2, 1, 1, 4])
    x, y = X[:12].copy(), X[:12] + Y[12:24] / 3
    {"an outcome": y, "a predictor": x, "nothing": np.empty(12)}[lost][7] = np.nan
    there = np.flatnonzero(~np.isnan(x + y))
    more = {"weights": "w"} if weighted else {}
    model = regression("y ~ 0 + x", priors={"sigma": 0.8, "b": "Normal(0, 1)"}, **more)
    fit = bl.fit(model, {"x": x, "y": y, "w": weights}, "exact", progress=False, runs=None)
    compare({"m": fit}, refit=False, progress=False)
    for at, row in enumerate(there):
        rest = np.setdiff1d(there, row)
        truth = log_marginal(x[there], y[there], weights[there]) - log_marginal(x[rest], y[rest], weights[rest])
        assert held_out(fit, "y", at) == pytest.approx(truth, abs=1e-8)


@pytest.mark.slow(why="compiles")
def test_terms_of_observations_that_share_a_discrete_node_with_parameters():
    """pymc-extras sums it out of all of them at once; the terms are those given its draws. Against two normals."""
    y = np.array([2.1, 3.9, 3.0, 1.2, 4.0, 2.6])
    nodes = {"a": "Bernoulli(0.3)", "x": "Normal(a, 1)", "y[obs_id]": "Normal(x + 2 * a, 1)"}
    fit = bl.fit(bl.Model(name="m", model=bl.Graph(nodes=nodes)), {"y": y}, seed=1, progress=False, runs=None)
    table, entry = (found := compare({"m": fit}, progress=False)).table, found.loos["m"]

    def log_evidence(rows):
        covariance = np.eye(len(rows)) + 1
        each = [stats.multivariate_normal(np.full(len(rows), 3.0 * a), covariance).logpdf(rows) for a in (0, 1)]
        return logsumexp(each, b=[0.7, 0.3])

    truth = [log_evidence(y) - log_evidence(np.delete(y, i)) for i in range(len(y))]
    assert entry.elpd == pytest.approx(truth, abs=0.03)
    assert np.isnan(table.loc["m", "aic"])


@pytest.mark.slow(why="compiles")
def test_refits_of_states_leave_the_cell_out():
    """A level, a slope and an outlier; one outcome is missing. Against normals given all other outcomes."""
    n, y = 10, np.array([0.2, -0.3, np.nan, 0.9, 0.4, 1.8, 1.2, 1.1, 1.6, 8.0])
    x = np.array([0.0, 0, 0, 0, 3, 0, 0, -0.2, 0, 0])
    nodes = {
        "b": "Normal(0, 10)",
        "level[time]": "LocalLevel(0.5, initial=Normal(0, 2))",
        "y[time]": "Normal(level + b * x, 1)",
    }
    spec = bl.Model(name="levels", data={"rows": "time"}, model=bl.Graph(nodes=nodes), seed=1)
    fit = bl.fit(spec, {"x": x, "y": y}, progress=False, runs=None)
    entry = compare({"m": fit}, progress=False).loos["m"]
    steps = np.minimum.outer(np.arange(n), np.arange(n))
    covariance = 4 + 0.25 * steps + np.eye(n) + 100 * np.outer(x, x)
    there = np.flatnonzero(~np.isnan(y))
    truth = []
    for row in there:
        rest = np.setdiff1d(there, row)
        weights = np.linalg.solve(covariance[np.ix_(rest, rest)], covariance[rest, row])
        variance = covariance[row, row] - weights @ covariance[rest, row]
        truth.append(stats.norm(weights @ y[rest], np.sqrt(variance)).logpdf(y[row]))
    assert len(entry.elpd) == len(there) and len(entry.refitted) and not entry.bad
    assert entry.elpd == pytest.approx(truth, abs=0.1)


def test_refits_of_a_process_know_which_outcomes_are_missing():
    x, y = np.arange(8.0), np.sin(np.arange(8.0))
    y[3] = np.nan
    priors = {"ExpQuad_scale": 1.0, "ExpQuad_lengthscale": 1.5, "sigma": 0.3, "Intercept": 0.0}
    spec = bl.GaussianProcess(target="y", kernel="ExpQuad(x)", priors=priors)
    fit = bl.fit(bl.Model(name="process", model=spec), {"x": x, "y": y}, "exact", progress=False, runs=None)
    there = np.flatnonzero(~np.isnan(y))
    compare({"m": fit}, refit=False, progress=False)
    covariance = np.exp(-0.5 * np.subtract.outer(x, x) ** 2 / 1.5**2) + 0.09 * np.eye(8)
    for at, row in enumerate(there):
        rest = np.setdiff1d(there, row)
        both = [stats.multivariate_normal(cov=covariance[np.ix_(s, s)]).logpdf(y[s]) for s in (there, rest)]
        assert held_out(fit, "row", at) == pytest.approx(both[0] - both[1], abs=1e-6)


# ----------------------------------------------------------------------------------- the table


@pytest.mark.slow(why="statistical")
def test_table(exact):
    found = compare(exact, progress=False)
    table = found.table
    assert table.index[0] in ("line", "cubic") and table.index[-1] == "constant"
    assert table["elpd_diff"].iloc[0] == 0 and np.all(table["elpd_diff"].diff().dropna() <= 0)
    assert table["stacking"].sum() == pytest.approx(1) and table["pseudo_bma"].sum() == pytest.approx(1)
    assert table["probability"].sum() == pytest.approx(1)
    assert not found.loos["line"].bad and table.loc["line", "refits"] >= 1
    by_evidence = table["log_evidence"].sort_values(ascending=False)
    assert np.allclose(np.diff(np.log(table.loc[by_evidence.index, "probability"])), np.diff(by_evidence))
    assert "<table" in found._repr_html_() and "line" in repr(found)


@pytest.mark.slow(why="statistical")
def test_maximum_likelihood_is_least_squares(exact):
    table = compare(exact, "bic", refit=False, progress=False).table
    for name, degree in (("constant", 0), ("line", 1), ("cubic", 3)):
        residuals = Y - np.polyval(np.polyfit(X, Y, degree), X)
        best = stats.norm(0, residuals.std()).logpdf(residuals).sum()
        assert table.loc[name, "max_log_likelihood"] == pytest.approx(best, abs=1e-5)
        assert table.loc[name, "n_parameters"] == degree + 2
        assert table.loc[name, "bic"] == pytest.approx(bic(best, degree + 2, N), abs=1e-4)
        assert table.loc[name, "bits"] == pytest.approx(table.loc[name, "bic"] / 2 / np.log(2))
    assert table.index[0] == table["bic"].idxmin()


@pytest.mark.slow(why="statistical")
def test_averaged_predictions(exact):
    found = compare(exact, progress=False)
    new = {"x": np.array([-1.0, 0.0, 2.0])}
    alone = found.predict(new, weights={"line": 1}, seed=1)
    line = exact["line"].predict(new, seed=1)
    assert np.allclose(alone[["mean", "sd"]], line[["mean", "sd"]])
    mixed = found.predict(new, weights={"line": 0.3, "constant": 0.7}, seed=1)
    constant = exact["constant"].predict(new, seed=2)
    error = 6 * mixed["sd"].max() / np.sqrt(4000)
    assert np.allclose(mixed["mean"], 0.3 * line["mean"] + 0.7 * constant["mean"], atol=error)
    assert found.predict(new, "draws", seed=1)["y"].shape == (1, 4000, 3)
    assert found.weights() == pytest.approx(dict(found.table["stacking"]))


def test_averaging_beats_picking():
    """Data from either of two models: the log score of the mixture is higher than that of the pick, on average."""
    rng = np.random.default_rng(12)
    gain = []
    for _ in range(2000):
        p = 0.5 if rng.uniform() < 0.5 else rng.uniform()
        data, new = (rng.uniform(size=6) < p).astype(int), int(rng.uniform() < p)
        weights = model_probabilities(np.array([6 * np.log(0.5), beta_bernoulli(data, 1, 1)]))
        one = (1 + data.sum()) / 8
        density = np.array([0.5, one if new else 1 - one])
        gain.append(np.log(weights @ density) - np.log(density[weights.argmax()]))
    assert np.mean(gain) > 2 * np.std(gain) / np.sqrt(len(gain))


# ------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("data", "code", "match"),
    [
        ({"x": X[1:], "y": Y[1:]}, "data.different-data", "40.*'y'.*'b'.*39"),
        ({"x": X, "y": np.where(np.arange(N) == 2, 0.0, Y)}, "data.different-data", "'y'.*row 3"),
    ],
)
def test_other_data_are_refused(exact, data, code, match):
    other = bl.fit(regression("y ~ x"), data, progress=False, runs=None)
    with refused(code, match):
        compare({"a": exact["line"], "b": other}, progress=False)


def test_fits_without_names_are_refused(exact):
    with refused("option.wrong-type", "by name"):
        bl.compare(exact["line"], exact["cubic"])


def test_other_outcomes_are_refused(exact):
    other = bl.fit(regression("z ~ x"), {"x": X, "z": Y}, progress=False, runs=None)
    with refused("data.different-data", "'a'.*'y'.*'b'.*'z'"):
        compare({"a": exact["line"], "b": other}, progress=False)


def test_words_are_compared_by_name():
    """Levels with another order are the same outcome; other words in the same places are another outcome."""
    words = np.where(np.median(Y) < Y, "b", "a")

    def tossed(given, levels, rows="obs"):
        nodes = {"p[level]": "Dirichlet(1)", f"y[{rows}]": "Categorical(p)"}
        model = bl.Model(
            name="m", data={"rows": rows}, dims={"level": levels}, model={"family": "graph", "nodes": nodes}
        )
        return bl.fit(model, {"y": given}, runs=None, progress=False, seed=1)

    fits = {"ab": tossed(words, ["a", "b"]), "ba": tossed(words, ["b", "a"], "day")}
    both = compare(fits, progress=False)
    counts = np.array([(words == word).sum() for word in words])
    for one in both.loos.values():
        # With one more of each level before the data, all others know n_k of n + 1.
        np.testing.assert_allclose(one.elpd, np.log(counts / (N + 1)), atol=0.01)
    frame = both.predict({"y": words[:3]}, "probabilities", weights={"ab": 1, "ba": 1})
    assert len(frame) == 3
    other = tossed(np.where(words == "a", "p", "q"), ["p", "q"])
    with refused("data.different-data", "'y', row 1"):
        compare({"ab": fits["ab"], "pq": other}, progress=False)


def test_predictions_of_words_are_averaged_by_name():
    """Models whose levels have another order, and likelihoods that name them otherwise, predict the same words."""
    words = np.where(np.median(X) < X, "b", "a")
    new = {"x": [X.min() - 5, X.max() + 5]}

    def fitted(likelihood, **more):
        model = bl.Model(name="m", model=bl.Regression(formula="y ~ x", likelihood=likelihood), **more)
        return bl.fit(model, {"x": X, "y": words}, "laplace", runs=None, progress=False, seed=1)

    fits = {
        "plain": fitted("bernoulli"),
        "turned": fitted("bernoulli", dims={"y": ["b", "a"]}),
        "states": fitted("categorical"),
    }
    for order in (["plain", "turned", "states"], ["turned", "states", "plain"]):
        both = compare({name: fits[name] for name in order}, refit=False, progress=False)
        frame = both.predict(new, "probabilities", weights=dict.fromkeys(order, 1.0))
        np.testing.assert_allclose(frame["P(y=a)"], [1, 0], atol=0.05)
        np.testing.assert_allclose(frame["P(y=b)"], [0, 1], atol=0.05)


def test_weights_and_predictions_by_name(exact):
    both = compare(exact, progress=False)
    assert both.weights({"line": 1, "cubic": 3}) == {"line": 0.25, "cubic": 0.75}
    for wrong, code in (({"lin": 1}, "unknown-model"), ({"line": 0}, "out-of-range"), ({"line": -1}, "out-of-range")):
        with refused(f"option.{code}"):
            both.weights(wrong)
    with refused("option.wrong-type", "'line'"):
        compare(exact, prior={"line": "a", "cubic": 1, "constant": 1}, progress=False)
    with refused("option.unknown-word", "components"):
        both.predict(kind="components")
    with refused("option.out-of-range", "ci_prob"):
        both.predict(ci_prob=2)
    with refused("option.wrong-type", "'line'.*cross_validate"):
        compare({"line": "line.yaml"})


@pytest.mark.slow(why="statistical")
def test_unknown_words(exact):
    with refused("option.unknown-word", "'lo'.*'loo'"):
        compare(exact, "lo", progress=False)
    with refused("option.incomplete", "'name'"):
        compare({}, progress=False)
    with refused("option.unknown-word", "'staking'.*'stacking'"):
        compare(exact, refit=False, progress=False).weights("staking")
    with refused("option.unknown-model", "'lin'.*'line'"):
        compare(exact, prior={"lin": 1.0}, progress=False)


@pytest.mark.slow(why="large")
def test_command(exact, capsys):
    folders = [str(fit.folder) for fit in exact.values()]
    with pytest.raises(SystemExit) as stopped:
        main(["compare", *folders, "--json", "-q"])
    content = json.loads(capsys.readouterr().out)
    assert stopped.value.code == 0 and set(content["models"]) == {"constant", "line", "cubic"}
    assert list(content["models"]) == list(compare(exact, progress=False).table.index)
    with pytest.raises(SystemExit):
        main(["compare", *folders, "-q", "--no-refit"])
    assert "elpd_diff" in capsys.readouterr().out


@pytest.mark.slow(why="statistical")
def test_plot(exact):
    assert compare(exact, refit=False, progress=False).plot().axes


@pytest.mark.slow(why="large")
def test_points_have_no_left_out_predictions():
    """A mode can be compared by BIC, not by leave-one-out."""
    fit = bl.fit(regression("y ~ x"), DATA, "map", progress=False, runs=None)
    with refused("data.too-few"):
        compare({"m": fit}, progress=False)
    residuals = Y - np.polyval(np.polyfit(X, Y, 1), X)
    best = stats.norm(0, residuals.std()).logpdf(residuals).sum()
    table = compare({"m": fit}, "bic", progress=False).table
    assert table.loc["m", "bic"] == pytest.approx(bic(best, 3, N), abs=1e-4)


def test_a_row_of_weight_two_counts_twice():
    rng = np.random.default_rng(4)
    x, w = rng.normal(size=30), rng.integers(1, 4, 30)
    y = 1 + x + rng.normal(size=30)
    model = bl.Model(name="m", data={"rows": "row"}, model=bl.Regression(formula="y ~ x", weights="w"))
    plain = bl.Model(name="m", data={"rows": "row"}, model=bl.Regression(formula="y ~ x"))
    weighted = bl.fit(model, {"x": x, "y": y, "w": w}, seed=1, runs=None)
    repeated = bl.fit(plain, {"x": np.repeat(x, w), "y": np.repeat(y, w)}, seed=1, runs=None)
    one, other = (bl.compare({"m": fit}, criterion="bic").table.loc["m"] for fit in (weighted, repeated))
    assert one["aic"] == pytest.approx(other["aic"], abs=1e-6)
    assert one["bic"] == pytest.approx(other["bic"], abs=1e-6)


def test_rows_that_differ_are_not_paired_where_their_outcomes_agree():
    y = np.array([1, 1, 0, 2, 3, 1, 0, 2, 4, 1])
    x, z = np.arange(10.0), np.arange(10.0)[::-1].copy()
    x[0] = z[1] = np.nan
    fits = {
        name: bl.fit(
            bl.Model(name="m", data={"rows": "row"}, model=bl.Regression(formula=f"y ~ {name}")),
            {"x": x, "z": z, "y": y.astype(float)}, seed=1, runs=None,
        )
        for name in ("x", "z")
    }  # fmt: skip
    with refused("data.different-data", "'x'.*'z'") as caught:
        bl.compare(fits)
    assert caught.value.code.endswith("different-data")
