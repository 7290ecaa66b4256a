"""Mixtures by variational EM: against closed forms, quadrature, Gibbs draws, and densities written out with SciPy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln, logsumexp

import bayeslab as bl
from bayeslab.distributions import emissions
from bayeslab.posterior.mixtures.problem import MixtureProblem
from bayeslab.posterior.mixtures.variational import climb, prepared
from tests.families._models import mixture
from tests.refusals import refused


def fitted(model, data, method="variational", seed=1, **options):
    return bl.fit(model, data=data, method=method, seed=seed, progress=False, **options)


def planted(apart=6.0, n=200, seed=0):
    rng = np.random.default_rng(seed)
    z = (rng.random(n) < 0.35).astype(int)
    rows = rng.normal(0, 1, (n, 2)) + apart * z[:, None]
    return z, {"x": rows[:, 0], "y": rows[:, 1], "n": rng.poisson(np.where(z, 9.0, 2.0))}


def finding(fit, check):
    return next(f for f in fit.verdict.findings if f.check == check)


@pytest.mark.slow(why="statistical")
def test_with_every_label_known_it_is_the_closed_form():
    """Then q is the posterior: the bound is the evidence, and every importance ratio too."""
    z, data = planted(n=40)
    data = data | {"kind": [("a", "b")[k] for k in z]}
    model = mixture(
        ["x", "y", "n"],
        component={"x": "gaussian", "y": "gaussian", "n": "poisson"},
        covariance="diagonal",
        labels="kind",
        priors={"weights": 2},
    )
    exact, near = fitted(model, data, "exact"), fitted(model, data)
    evidence = exact.data_tree["exact_posterior"].attrs["log_evidence"]
    assert near.posterior.attrs["elbo"] == pytest.approx(evidence, abs=1e-8)
    assert finding(near, "Pareto k").status == "pass"
    truth = exact.data_tree["exact_posterior"].to_dataset()["gaussian_mean"]
    draws = near.posterior["gaussian_mean"].values.reshape(4000, 2, 2)
    mean, sd = truth.sel(statistic="mean").values, truth.sel(statistic="sd").values
    assert np.all(np.abs(draws.mean(axis=0) - mean) < 4.5 * sd / np.sqrt(4000))


@pytest.mark.parametrize("gated", [False, True])
def test_importance_ratios_are_those_of_densities_written_out(gated):
    """log p(rows, θ) - log q(θ) with every density by SciPy; with a gate and regressions, and without."""
    rng = np.random.default_rng(2)
    x = np.column_stack([np.ones(15), rng.normal(size=15)])
    y = rng.normal(size=15) * 2
    if gated:
        emission: object = emissions.Regression(2, prior=0.5, spread=8.0)
        problem = MixtureProblem.of(emission, np.column_stack([x, y]), 3, inputs=x, gate_precision=0.3)
    else:
        prior = emissions.NormalPrior(np.array([0.3, 0.1]), 0.4, 5.0, np.array([[2.0, 0.3], [0.3, 1.0]]))
        rows = np.column_stack([x[:, 1], y])
        problem = MixtureProblem.of(emissions.gaussian(2, prior=prior), rows, 3, concentration=1.5)
    problem = prepared(problem)
    fit = climb(problem, rng.dirichlet(np.ones(3), 15))
    theta = fit.draw(rng)
    r = fit.responsibilities
    if gated:
        want = written_out_experts(fit, theta, x, y, r)
    else:
        want = written_out_normals(fit, theta, problem.rows, prior, r)
    assert fit.log_ratio(theta) == pytest.approx(want, abs=1e-8)


def written_out_normals(fit, theta, rows, prior, r):
    weights = theta["weights"]
    laws = [stats.multivariate_normal(theta["mean"][k], theta["covariance"][k]) for k in range(3)]
    value = logsumexp(np.column_stack([law.logpdf(rows) for law in laws]) + np.log(weights), axis=1).sum()
    value += stats.dirichlet(np.full(3, 1.5)).logpdf(weights) - stats.dirichlet(1.5 + r.sum(axis=0)).logpdf(weights)
    for k in range(3):
        n, own = r[:, k].sum(), r[:, k] @ rows / r[:, k].sum()
        scatter = (r[:, k, None] * (rows - own)).T @ (rows - own)
        kappa, centre = 0.4 + n, (0.4 * prior.mean + n * own) / (0.4 + n)
        scale = prior.scale + scatter + 0.4 * n / kappa * np.outer(own - prior.mean, own - prior.mean)
        mean, cov = theta["mean"][k], theta["covariance"][k]
        value += stats.invwishart(5, prior.scale).logpdf(cov) - stats.invwishart(5 + n, scale).logpdf(cov)
        value += stats.multivariate_normal(prior.mean, cov / 0.4).logpdf(mean)
        value -= stats.multivariate_normal(centre, cov / kappa).logpdf(mean)
    return value


def written_out_experts(fit, theta, x, y, r):
    eta = x @ theta["gate"].T
    log_w = eta - logsumexp(eta, axis=1, keepdims=True)
    means, sds = x @ theta["coefficients"].T, np.sqrt(theta["variance"])
    value = logsumexp(log_w + stats.norm.logpdf(y[:, None], means, sds), axis=1).sum()
    free = theta["gate"][1:].ravel()
    value += stats.norm.logpdf(free, 0, 0.3**-0.5).sum()
    value -= stats.multivariate_normal(fit.factor.coefficients.ravel(), fit.factor.covariance).logpdf(free)
    for k in range(3):
        v, b = theta["variance"][k], theta["coefficients"][k]
        precision = (x * r[:, k, None]).T @ x + 0.5 * np.eye(2)
        centre = np.linalg.solve(precision, x.T @ (r[:, k] * y))
        rate = 0.08 + 0.5 * (r[:, k] @ (y - x @ centre) ** 2 + 0.5 * centre @ centre)
        value += stats.invgamma(1, scale=0.08).logpdf(v)
        value -= stats.invgamma(1 + 0.5 * r[:, k].sum(), scale=rate).logpdf(v)
        value += stats.multivariate_normal(np.zeros(2), v / 0.5 * np.eye(2)).logpdf(b)
        value -= stats.multivariate_normal(centre, v * np.linalg.inv(precision)).logpdf(b)
    return value


@pytest.mark.slow(why="statistical")
def test_components_that_stand_apart_have_the_posterior_that_gibbs_draws():
    _, data = planted()
    near, drawn = fitted(mixture(["x", "y"]), data), fitted(mixture(["x", "y"]), data, "gibbs", draws=1000, tune=100)
    assert near.verdict.status == "pass" and "all but equal" in str(near.verdict)
    for name in ("weights", "mean", "sd"):
        a, b = (fit.posterior[name].values.reshape(4000, -1) for fit in (near, drawn))
        # Gibbs draws of labels that are certain are nearly independent.
        error = np.sqrt((a.var(axis=0) + 1.5 * b.var(axis=0)) / 4000)
        assert np.all(np.abs(a.mean(axis=0) - b.mean(axis=0)) < 4.5 * error), name
        np.testing.assert_allclose(a.std(axis=0), b.std(axis=0), rtol=0.08)


def overlapping():
    rng = np.random.default_rng(4)
    return rng.poisson(np.where(rng.random(60) < 0.5, 1.5, 3.5))


@pytest.mark.slow(why="statistical")
def test_the_bound_is_below_the_evidence_and_too_narrow_where_components_overlap():
    """Evidence and posterior by quadrature over the weight and two rates."""
    counts = overlapping()
    model = mixture(["n"], component="poisson", priors={"rate": "Gamma(1, 0.5)"}, order="n")
    fit = fitted(model, {"n": counts})
    weight, rates = np.linspace(0.005, 0.995, 100), np.linspace(0.05, 8.0, 160)
    values, number = np.unique(counts, return_counts=True)
    log_p = stats.poisson.logpmf(values, rates[:, None])
    total = np.zeros((100, 160, 160))
    for j, times in enumerate(number):
        a = np.log(weight)[:, None, None] + log_p[:, j][None, :, None]
        b = np.log1p(-weight)[:, None, None] + log_p[:, j][None, None, :]
        total += times * np.logaddexp(a, b)
    prior = stats.gamma.logpdf(rates, 1, scale=2)
    total += prior[:, None] + prior
    cell = np.log((weight[1] - weight[0]) * (rates[1] - rates[0]) ** 2)
    evidence = logsumexp(total) + cell
    elbo = fit.posterior.attrs["elbo"]
    assert elbo < evidence - 0.1 and elbo > evidence - 6
    trace = fit.data_tree["variational"]["elbo"].values
    assert np.nanmin(np.diff(trace, axis=1)) > -1e-8 and np.nanmax(trace) == elbo
    # Of the weight of the component with the lower rate.
    low = np.tri(160, k=-1).T.astype(bool)
    share = np.exp(total - total.max()) * low
    p = share.sum(axis=(1, 2)) / share.sum()
    sd = np.sqrt(p @ weight**2 - (p @ weight) ** 2)
    assert fit.posterior["weights"].values[..., 0].std() < 0.6 * sd
    assert finding(fit, "Pareto k").status != "pass" and fit.verdict.status != "pass"
    assert "method nuts" in str(fit.verdict)


@pytest.mark.slow(why="statistical")
def test_a_bound_with_every_numbering_is_near_the_evidence_of_a_small_case():
    """Five rows of two components, by enumeration of the labels."""
    rows = np.array([-4.1, -3.9, 3.8, 4.0, 4.3])
    own = {"mean": 0.0, "rows": 0.05, "dof": 4, "scale": 1.0}
    fit = fitted(mixture(["x"], covariance="diagonal", priors={"components": own}), {"x": rows})
    emission = emissions.gaussian(1, "diagonal", prior=emissions.NormalPrior(np.zeros(1), 0.05, 4.0, np.ones(1)))
    values = []
    for code in range(32):
        r = np.eye(2)[[code >> i & 1 for i in range(5)]]
        n = r.sum(axis=0)
        each = emission.log_marginal(emission.statistics(rows[:, None], r)).sum()
        values.append(each + gammaln(n + 1).sum() - gammaln(7))
    evidence = logsumexp(values)
    message = finding(fit, "ELBO").message
    assert fit.posterior.attrs["elbo"] <= evidence
    about = float(message.split("about ")[1].split(" ")[0])
    assert about == pytest.approx(evidence, abs=0.1)


@pytest.mark.slow(why="statistical")
def test_components_that_are_not_needed_lose_their_rows():
    _, data = planted(n=300)
    fit = fitted(mixture(["x", "y"], 6, priors={"weights": 0.01}), data)
    held = fit.data_tree["variational"]["expected_rows"].values
    # One row lies far enough from the others for a component of its own.
    assert held.sum() == pytest.approx(300) and (held > 2).sum() == 2
    assert "3 of 6 components hold no rows" in str(fit.verdict)


@pytest.mark.slow(why="large")
def test_a_bayesian_mixture_of_experts():
    """Two pieces of a line, from a model's formula: recovered, with intervals that cover them."""
    rng = np.random.default_rng(0)
    t = rng.uniform(-3, 3, 300)
    y = np.where(t < 0.5, 1 + 2 * t, 4 - t) + 0.2 * rng.normal(size=300)
    model = bl.Model(model=bl.Mixture(regression="y ~ t", components=2, gating=["t"], order="t"))
    fit = fitted(model, {"t": t, "y": y}, max_iterations=400, tolerance=1e-3, draws=250)
    trace = fit.data_tree["variational"]["elbo"].values
    assert np.nanmin(np.diff(trace, axis=1)) > -1e-7
    draws = fit.posterior["coefficients"].values.reshape(1000, 2, 2)
    low, high = np.quantile(draws, [0.0005, 0.9995], axis=0)
    truth = np.array([[4, -1], [1, 2]])
    assert np.all((low < truth) & (truth < high)) and (high - low).max() < 0.5
    gate = fit.posterior["gate"].values
    assert np.all(gate[:, :, 0] == 0) and np.all(gate[:, :, 1, 1] < 0)
    # The line that rises is the one left of the bend.
    chance = fit.predict({"t": [-2.0, 2.5], "y": [-3.0, 1.5]}, kind="probabilities")
    assert chance["P(2)"][0] > 0.99 and chance["P(1)"][1] > 0.99


@pytest.mark.slow(why="statistical")
def test_a_run_is_opened_again(tmp_path):
    z, data = planted()
    fit = fitted(mixture(["x", "y"]), data, name="near", runs=tmp_path)
    again = bl.open(tmp_path / "near")
    assert again.posterior.attrs["elbo"] == fit.posterior.attrs["elbo"]
    table = again.summary()
    assert "r_hat" not in table.columns and "sd" in table.columns
    group = again.clusters()
    assert np.array_equal(group["component_of"].values, z) or np.array_equal(group["component_of"].values, 1 - z)
    assert again.plot_clusters("trace").axes[0].get_ylabel() == "ELBO"


@pytest.mark.slow(why="large")
def test_two_runs_agree_and_number_components_alike():
    _, data = planted()
    a, b = (fitted(mixture(["x", "y"]), data, seed=s, restarts=3) for s in (1, 2))
    means = a.posterior["mean"].values[..., 0]
    assert (means[..., 0] < means[..., 1]).all()
    assert a.posterior.attrs["elbo"] == pytest.approx(b.posterior.attrs["elbo"], abs=1e-3)
    assert fitted(mixture(["x", "y"]), data, restarts=3).posterior.equals(a.posterior)


@pytest.mark.slow(why="statistical")
def test_an_interrupted_search_keeps_what_ended(monkeypatch):
    from bayeslab.posterior.mixtures import variational_plans

    _, data = planted()
    calls = []

    def stopping(*given, **more):
        calls.append(given)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return climb(*given, **more)

    monkeypatch.setattr(variational_plans, "climb", stopping)
    fit = fitted(mixture(["x", "y"]), data)
    assert "2 of 8 searches ended" in str(fit.verdict)
    assert fit.data_tree["variational"].sizes["restart"] == 2


@pytest.mark.parametrize(
    ("model", "gaps", "code", "match"),
    [
        (mixture(["x", "y"], component="student_t"), False, "engine.refused.not-conjugate", "StudentT"),
        (mixture(["x", "y"], covariance="tied"), False, "engine.refused.no-closed-form", "covariance"),
        (mixture(["x", "y"]), True, "engine.refused.no-closed-form", "missing"),
        (mixture(["x", "y"], "sampled"), False, "engine.refused.no-graph", ""),
        (
            mixture(["x"], priors={"mean": "Normal(0, 2)", "sd": "HalfNormal(1)"}),
            False,
            "engine.refused.not-conjugate",
            "mean, sd",
        ),
        (
            bl.Model(model=bl.Graph(nodes={"m": "Normal(0, 1)", "x[obs_id]": "Normal(m, 1)"})),
            False,
            "engine.refused.other-family",
            "graph",
        ),
    ],
)
def test_what_it_cannot_do_is_said_in_a_line(model, gaps, code, match):
    _, data = planted(n=30)
    if gaps:
        data["x"][3] = np.nan
    with refused(code, match):
        fitted(model, data)


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("n_rows", [2, 6])
def test_a_stick_of_more_pieces_than_rows_is_a_fit_like_others(n_rows):
    counts, alpha, shape, rate = np.array([0, 1, 1, 4, 6, 7])[:n_rows], 1.5, 2.0, 0.5
    spec = bl.Model(
        name="m",
        model={
            "family": "mixture", "columns": ["n"], "components": "dirichlet_process", "component": "poisson",
            "concentration": alpha, "priors": {"rate": f"Gamma({shape}, {rate})"},
        },
    )  # fmt: skip
    fit = bl.fit(spec, {"n": counts}, "variational", seed=1, progress=False, runs=None)
    assert fit.posterior["weights"].sizes["component"] == 20
    predicted = fit.predict({"n": [2, 9]}, "probabilities")
    shown = np.column_stack([predicted[f"P({k})"] for k in range(1, 21)])
    assert shown.shape == (2, 20)
    assert shown.sum(axis=1) == pytest.approx(1.0)
    assert fit.clusters()["together"].shape == (n_rows, n_rows)
    assert {f.check: f.status for f in fit.verdict.findings}["truncation"] == "pass"

    # The bound is below the log evidence, here the sum over all partitions; each cluster's rate integrated out.
    def cluster(own):
        k, s = len(own), own.sum()
        whole = shape * np.log(rate) - gammaln(shape) + gammaln(shape + s) - (shape + s) * np.log(rate + k)
        return whole - gammaln(own + 1).sum() + gammaln(k) + np.log(alpha)

    def partitions(labels, rows):
        if rows == n_rows:
            yield labels
        else:
            for k in range(max(labels, default=-1) + 2):
                yield from partitions([*labels, k], rows + 1)

    terms = [sum(cluster(counts[np.array(z) == k]) for k in set(z)) for z in partitions([], 0)]
    evidence = logsumexp(terms) + gammaln(alpha) - gammaln(alpha + n_rows)
    assert evidence - 4 < fit.posterior.attrs["elbo"] <= evidence


def exact_rate(labelled, free, shape, rate):
    """Mean and sd of the first component's Poisson rate, by enumerating the labels of the free rows."""
    labels = np.array(list(itertools.product((0, 1), repeat=len(free))))
    z = np.hstack([np.tile(np.repeat([0, 1], 4), (len(labels), 1)), labels])
    counts = np.stack([(z == k).sum(axis=1) for k in (0, 1)], axis=1)
    totals = np.stack([(z == k) @ np.r_[labelled, free] for k in (0, 1)], axis=1)
    a, b = shape + totals, rate + counts
    log_weight = (gammaln(a) - a * np.log(b) + gammaln(1 + counts)).sum(axis=1)
    weight = np.exp(log_weight - logsumexp(log_weight))
    mean = weight @ (a / b)[:, 0]
    return mean, np.sqrt(weight @ (a * (a + 1) / b**2)[:, 0] - mean**2)


@pytest.mark.slow(why="statistical")
def test_standard_deviations_that_are_too_small_are_a_finding():
    """Eight labelled rows and twelve free ones: the exact sd of a rate is 0.82, that of the draws 0.62."""
    rng = np.random.default_rng(0)
    labelled = rng.poisson(np.repeat([3, 9], 4))
    free = rng.poisson(np.where(rng.integers(0, 2, 12), 9, 3))
    data = {"y": [*labelled.tolist(), *free.tolist()], "kind": ["a"] * 4 + ["b"] * 4 + [""] * 12}
    model = mixture(["y"], component="poisson", labels="kind", components=2)
    fit = fitted(model, data, runs=None)
    mean, sd = exact_rate(labelled, free, 1.0, 1 / np.mean(data["y"]))
    draws = fit.posterior["rate"].values[..., 0, 0]
    assert draws.std() < sd / 1.2 and abs(draws.mean() - mean) < 0.2 * sd
    assert finding(fit, "Pareto k").status != "fail"
    moments = finding(fit, "moments")
    assert moments.status == "warn" and fit.verdict.status == "warn"
    weighted = float(moments.message.rsplit(" ", 1)[1])
    assert weighted == pytest.approx(sd, rel=0.08) and moments.where == "rate[a, y]"
