"""Components of any distribution: against SciPy's densities, sums over all labels, quadrature and closed forms."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize
from scipy.special import logsumexp

import bayeslab as bl
from bayeslab.families import mixture as family
from bayeslab.families.mixture.model import candidates, resolved
from bayeslab.fitting import bound, check
from bayeslab.posterior.mixtures.expectation_maximisation import maximum_likelihood
from tests.families._models import mixture
from tests.families.test_mixture import functions, parameters
from tests.refusals import refused

NAN = np.nan


def fitted(model, data, method="em", **options):
    return bl.fit(model, data, method, seed=1, progress=False, runs=None, **options)


def planted(n=240, seed=3):
    """Two groups that stand apart: waiting times, directions, counts, amounts with zeros."""
    rng = np.random.default_rng(seed)
    z = rng.random(n) < 0.4
    return z, {
        "wait": np.where(z, rng.gamma(16, 1 / 2, n), rng.gamma(4, 1 / 4, n)),
        "angle": rng.vonmises(np.where(z, 2.0, -1.0), 6.0),
        "count": np.where(rng.random(n) < 0.3, 0, rng.poisson(np.where(z, 12, 3))),
        "rain": np.where(rng.random(n) < 0.4, 0.0, rng.gamma(5, np.where(z, 2.0, 0.2), n)),
        "group": [("late" if g else "early") if k % 3 == 0 else None for k, g in enumerate(z)],
    }


# --------------------------------------------------------------------------------- densities, as SciPy has them


def hurdle_gamma(x, psi, alpha, beta):
    return np.log(1 - psi) if x == 0 else np.log(psi) + stats.gamma.logpdf(x, alpha, scale=1 / beta)


def zero_inflated(x, psi, mu):
    return np.log((1 - psi) * (x == 0) + psi * stats.poisson.pmf(x, mu))


DENSITIES = {
    "Gamma": (["alpha", "beta"], lambda x, a, b: stats.gamma.logpdf(x, a, scale=1 / b), [0.4, 2.0, NAN, 5.5, 1.1, 0.9]),
    "Weibull": (
        ["alpha", "beta"],
        lambda x, a, b: stats.weibull_min.logpdf(x, a, scale=b),
        [0.4, 2.0, 3.0, 5.5, NAN, 0.9],
    ),
    "NegativeBinomial": (
        ["mu", "alpha"],
        lambda x, m, a: stats.nbinom.logpmf(x, a, a / (a + m)),
        [0, 3, 11, NAN, 2, 2],
    ),
    "ZeroInflatedPoisson": (["psi", "mu"], zero_inflated, [0, 0, 4, 6, NAN, 1]),
    "HurdleGamma": (["psi", "alpha", "beta"], hurdle_gamma, [0.0, 1.2, 0.0, 3.0, NAN, 0.7]),
    "VonMises": (["mu", "kappa"], lambda x, m, k: stats.vonmises.logpdf(x, k, loc=m), [-3.0, 3.1, 0.2, NAN, 0.5, 1.9]),
    "Binomial(n=7)": (["p"], lambda x, p: stats.binom.logpmf(x, 7, p), [0, 3, 7, NAN, 5, 1]),
    "Pareto(m=1)": (["alpha"], lambda x, a: stats.pareto.logpdf(x, a), [1.5, 1.1, 9.0, NAN, 2.0, 4.0]),
    "Gumbel": (["mu", "beta"], lambda x, m, b: stats.gumbel_r.logpdf(x, m, b), [-1.0, 0.3, 0.4, NAN, 2.0, 5.0]),
    "TruncatedNormal(lower=0)": (
        ["mu", "sigma"],
        lambda x, m, s: stats.norm.logpdf(x, m, s) - stats.norm.logsf(0, m, s),
        [0.1, 0.3, 0.4, NAN, 2.0, 5.0],
    ),
}


def by_enumeration(values, words, density, x, prefix, more):
    """Log of the sum over the labels of all rows; ``more`` is the log density of another column, (N, K)."""
    n, k = more.shape
    each = np.array(more)
    for i, j in itertools.product(range(n), range(k)):
        if not np.isnan(x[i]):
            each[i, j] += density(x[i], *(values[f"{prefix}{word}"][j, 0] for word in words))
    log_weights = np.log(values["weights"])
    total = [
        sum(log_weights[j] + each[i, j] for i, j in enumerate(labels))
        for labels in itertools.product(range(k), repeat=n)
    ]
    return logsumexp(total)


QUICK = ("Gamma", "HurdleGamma", "NegativeBinomial")


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize(
    "word", [pytest.param(word, marks=() if word in QUICK else pytest.mark.slow(why="compiles")) for word in DENSITIES]
)
def test_likelihood_is_the_sum_over_labels_in_arrays_and_graph(word):
    words, density, x = DENSITIES[word]
    x, y = np.array(x, float), np.array([0.5, -1.0, 2.0, 0.1, 3.0, 1.0])
    model = mixture(["x", "y"], component={"x": word, "y": "gaussian"})
    data = bound(model, {"x": x, "y": y})
    graph = family.compile(model, data).graph_without_start()
    call, split, flat = functions(graph)
    joint, prior, gradient = call(flat)
    values = parameters(graph, split, flat)
    normal = stats.norm.logpdf(y[:, None], values["gaussian_mean"][:, 0], values["gaussian_sd"][:, 0])
    truth = by_enumeration(values, words, density, x, word.partition("(")[0] + "_", normal)
    seen = resolved(model, data)
    assert seen.problem.expect(seen.theta({n: values[n] for n in seen.dims}))[0] == pytest.approx(truth, rel=1e-8)
    assert joint - prior == pytest.approx(truth, rel=1e-7)
    for i in range(0, len(flat), 2):
        step = 1e-5 * np.eye(len(flat))[i]
        slope = (call(flat + step)[0] - call(flat - step)[0]) / 2e-5
        assert gradient[i] == pytest.approx(slope, rel=1e-4, abs=1e-4)


SLOW = pytest.mark.slow(why="compiles")
JACOBIANS = {"log": np.log, "logit": lambda v: np.log(v) + np.log1p(-v), "none": np.zeros_like}


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize(
    ("word", "x", "priors", "maps"),
    [
        pytest.param("Gamma", [0.4, 2.0, 3.0, 5.5], {}, {"alpha": "log", "beta": "log"}, marks=SLOW),
        ("Gamma", [0.4, 2.0, 3.0, 5.5], {"alpha": "Gamma(2, 1)"}, {"alpha": "log", "beta": "log"}),
        ("Gumbel", [0.4, -2.0, 3.0, 5.5], {"mu": "StudentT(3, 0, 2)"}, {"mu": "none", "beta": "log"}),
        pytest.param("ZeroInflatedPoisson", [0, 0, 3, 5], {}, {"psi": "logit", "mu": "log"}, marks=SLOW),
        pytest.param("VonMises", [0.4, -2.0, 3.0, 1.0], {}, {"mu": "none", "kappa": "log"}, marks=SLOW),
    ],
)
def test_priors_of_the_graph_are_those_of_em(word, x, priors, maps):
    """Two columns of different scale; one component, so that nothing else has a prior."""
    model = mixture(["x", "z"], components=1, component=word, priors=priors)
    x = np.array(x, float)
    data = bound(model, {"x": x, "z": x[::-1] * (1 if word == "VonMises" else 10)})
    graph = family.compile(model, data).graph_without_start()
    call, split, flat = functions(graph)
    seen = resolved(model, data)
    difference = []
    for shift in (0.0, 0.2, -0.3):
        prior = call(flat + shift)[1]
        values = parameters(graph, split, flat + shift)
        ours = seen.problem.log_prior(seen.theta(values))
        ours += sum(np.sum(JACOBIANS[how](values[name])) for name, how in maps.items())
        difference.append(prior - ours)
    # Up to the constants of the coordinates.
    assert difference[1:] == pytest.approx([difference[0]] * 2, abs=1e-6)


def test_weak_priors_are_the_documented_ones():
    """About the maximum of the likelihood of all rows, by SciPy."""
    x = np.random.default_rng(1).gamma(3, 2, 80)
    model = mixture(["x"], component="Gamma")
    shape, _, scale = stats.gamma.fit(x, floc=0)
    laws = resolved(model, bound(model, {"x": x})).problem.emission.prior
    for word, value in {"alpha": shape, "beta": 1 / scale}.items():
        at = np.array([[0.7 * value], [3 * value]])
        assert laws[word].log_density(at) == pytest.approx(stats.lognorm.logpdf(at, 2, scale=value), abs=2e-3)


# --------------------------------------------------------------------------------- EM


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("prior", ["use", "ignore"])
@pytest.mark.parametrize(
    ("columns", "component"),
    [(["wait"], "Gamma"), (["angle"], "VonMises"), (["count", "rain"], {"count": "ZeroInflatedPoisson", "rain": "HurdleGamma"})],
)  # fmt: skip
def test_em_climbs_to_a_maximum_near_the_truth(columns, component, prior):
    z, data = planted(160)
    model = mixture(columns, component=component, order=columns[0])
    fit = fitted(model, data, prior=prior, restarts=1, tolerance=1e-10)
    seen = resolved(model, bound(model, data))
    problem = seen.problem if prior == "use" else seen.problem.without_prior()
    values = {name: fit.posterior[name].values[0, 0] for name in seen.dims}
    theta = seen.theta(values)

    def height(at):
        return problem.expect(at)[0] + problem.log_prior(at)

    top = height(theta)
    for name in seen.dims:
        for k, size in itertools.product(range(2), (0.99, 1.01)):
            moved = {n: np.array(v) for n, v in values.items()}
            moved[name][k] *= size
            moved["weights"] = moved["weights"] / moved["weights"].sum()
            assert height(seen.theta(moved)) <= top + 1e-5, name
    labels = problem.responsibilities(theta)[1].argmax(axis=1)
    assert np.mean(labels == z) > 0.9


def test_em_never_goes_down_with_priors_of_several_columns():
    _, data = planted(80)
    model = mixture(["wait", "other"], component="Gamma")
    seen = resolved(model, bound(model, {"wait": data["wait"], "other": 1e4 * data["wait"][::-1]}))
    rng = np.random.default_rng(0)
    theta = seen.problem.update(seen.problem.statistics(rng.dirichlet(np.ones(2), 80)))
    heights = []
    for _ in range(12):
        value, statistics = seen.problem.expect(theta)
        heights.append(value + seen.problem.log_prior(theta))
        theta = seen.problem.update(statistics, theta)
    assert np.all(np.diff(heights) > -1e-9)


@pytest.mark.slow(why="statistical")
def test_parameters_of_the_truth_are_recovered():
    _, data = planted(900)
    values = fitted(mixture(["wait"], component="Gamma", order="wait"), data, prior="ignore", restarts=2).posterior
    # Standard errors from the information of complete data are about 0.25 and 1.2; the groups hardly overlap.
    assert values["alpha"].values[0, 0, :, 0] == pytest.approx([4, 16], rel=0.25)
    assert (values["alpha"] / values["beta"]).values[0, 0, :, 0] == pytest.approx([1, 8], rel=0.06)
    assert values["weights"].values[0, 0] == pytest.approx([0.6, 0.4], abs=0.05)


def test_one_component_is_scipys_maximum_likelihood():
    x = np.random.default_rng(2).gamma(3, 2, 120)
    fit = fitted(mixture(["x"], 1, component="Gamma"), {"x": x}, prior="ignore", restarts=1)
    shape, _, scale = stats.gamma.fit(x, floc=0)
    assert fit.posterior["alpha"].values.item() == pytest.approx(shape, rel=1e-3)
    assert fit.posterior["beta"].values.item() == pytest.approx(1 / scale, rel=1e-3)


@pytest.mark.parametrize("variant", ["accelerated", "hard"])
def test_variants_of_em(variant):
    _, data = planted(120)
    plain = fitted(mixture(["count"], component="Binomial(n=40)"), data, prior="ignore", restarts=1, tolerance=1e-9)
    other = fitted(
        mixture(["count"], component="Binomial(n=40)"),
        data,
        prior="ignore",
        restarts=1,
        tolerance=1e-9,
        variant=variant,
    )
    near = 1e-3 if variant == "accelerated" else 0.3
    assert other.posterior["p"].values == pytest.approx(plain.posterior["p"].values, rel=near)


@pytest.mark.slow(why="statistical")
def test_free_parameters_and_bic_do_not_count_what_is_known():
    _, data = planted(60)
    model = mixture(["wait", "count"], [1, 2], component={"wait": "Gamma(alpha=4)", "count": "ZeroInflatedPoisson"})
    seen = resolved(model, bound(model, data))
    numbers = candidates(model, bound(model, data)).problems
    assert [problem.n_free for problem in numbers.values()] == [3, 2 * 3 + 1]
    # The score of one component: the maximum of the likelihood, in closed form and by SciPy.
    x, n = data["wait"], data["count"]
    best = stats.gamma.logpdf(x, 4, scale=x.mean() / 4).sum()
    best -= minimize(lambda p: -sum(zero_inflated(v, p[0], p[1]) for v in n), [0.5, 5.0], method="Nelder-Mead").fun
    assert seen.choice is not None
    assert seen.choice.scores[0] == pytest.approx(best - 0.5 * 3 * np.log(60), abs=1e-3)
    assert maximum_likelihood(seen)[1] == seen.problem.n_free == 7


@pytest.mark.slow(why="statistical")
def test_held_out_chooses_two_groups():
    _, data = planted(60)
    model = mixture(["count"], [1, 2], component="Poisson", choose="held_out")
    assert "2 components, chosen by held_out" in str(fitted(model, data, restarts=1).verdict)


# --------------------------------------------------------------------------------- with the other keys


@pytest.mark.slow(why="statistical")
def test_order_is_by_the_mean():
    """Of gamma components, whose parameters say nothing by themselves of where they lie."""
    _, data = planted(120)
    for columns in (["wait", "count"], ["count", "wait"]):
        model = mixture(columns, component={"wait": "Gamma", "count": "ZeroInflatedPoisson"}, order="wait")
        values = fitted(model, data, restarts=1).posterior
        means = (values["Gamma_alpha"] / values["Gamma_beta"]).values[0, 0, :, 0]
        assert means[0] < means[1]


def test_known_labels_stay_and_name_components():
    z, data = planted(90)
    model = mixture(["angle"], component="VonMises", labels="group")
    fit = fitted(model, data, restarts=1)
    assert fit.posterior["mu"].component.values.tolist() == ["early", "late"]
    assert fit.posterior["mu"].values[0, 0, :, 0] == pytest.approx([-1, 2], abs=0.3)
    seen = resolved(model, bound(model, data))
    _, r = seen.problem.responsibilities(seen.theta({n: fit.posterior[n].values[0, 0] for n in seen.dims}))
    assert np.all(r[::3].max(axis=1) == 1)
    assert np.array_equal(r[::3].argmax(axis=1), z[::3])


def test_weights_may_depend_on_columns():
    z, data = planted(90)
    data["x"] = z + np.random.default_rng(1).normal(size=90)
    values = fitted(mixture(["wait"], component="Gamma", gating=["x"], order="wait"), data, restarts=1).posterior
    assert float(values["gate"].values[0, 0, 1, 1]) > 0.3


def test_columns_of_one_distribution_with_numbers_of_their_own():
    """Different known numbers, and different parameters known."""
    rng = np.random.default_rng(5)
    data = {
        "a": rng.binomial(5, 0.4, 30),
        "b": rng.binomial(9, 0.7, 30),
        "c": rng.gamma(2, 1, 30),
        "d": rng.gamma(3, 1, 30),
    }
    words = {"a": "Binomial(n=5)", "b": "Binomial(n=9)", "c": "Gamma(alpha=2)", "d": "Gamma"}
    model = mixture(list(data), 1, component=words)
    values = fitted(model, data, prior="ignore", restarts=1).posterior
    assert values["Binomial_p"].values.ravel() == pytest.approx([data["a"].mean() / 5, data["b"].mean() / 9], rel=1e-4)
    assert values["Gamma_c_beta"].values.item() == pytest.approx(2 / data["c"].mean(), rel=1e-4)
    assert {"Gamma_d_alpha", "Gamma_d_beta"} <= set(values)
    with refused("data.impossible-value", "column 'a', row 2: 6; the values of Binomial are whole numbers from 0 to 5"):
        fitted(model, data | {"a": [1, 6, *data["a"][2:]]})


@pytest.mark.slow(why="statistical")
def test_predictions_replications_shapes_and_a_run_folder(tmp_path):
    _, data = planted(80)
    names = ["wait", "count", "rain"]
    words = {"wait": "Gamma", "count": "ZeroInflatedPoisson", "rain": "HurdleGamma"}
    model = mixture(names, component=words, order="wait")
    fit = bl.fit(model, data, "em", seed=1, progress=False, runs=tmp_path, restarts=1)
    again = bl.open(fit.folder)
    new = {"wait": [0.5, 9.0], "count": [2, None], "rain": [0.0, 11.0]}
    chances = again.predict(new, "probabilities")
    assert np.all(chances[["P(1)", "P(2)"]].to_numpy().argmax(axis=1) == [0, 1])
    seen = resolved(model, bound(model, data))
    draws = {n: fit.posterior[n].values[0] for n in seen.dims}
    made = family.compile(model, bound(model, data)).predictive(draws, np.random.default_rng(1))
    assert made["count"][1].dtype.kind == "i"
    assert np.mean(made["rain"][1] == 0) == pytest.approx(0.4, abs=0.25)
    shape = family.compile(model, bound(model, data)).component_shapes(draws, ["rain"])
    places, density = shape.densities
    psi = draws["HurdleGamma_psi"][0, :, 0]
    # What lies within the data of densities that leave the probability of 0 out.
    assert places.min() > 0
    assert np.trapezoid(density.sum(axis=0), places) == pytest.approx(draws["weights"][0] @ psi, abs=0.1)
    with refused("data.impossible-value", "column 'wait', row 1: -1"):
        again.predict({"wait": [-1.0], "count": [1], "rain": [0.0]}, "probabilities")


def test_priors_are_shown_and_simulated_from():
    model = mixture(["n"], component="NegativeBinomial", priors={"mu": "Gamma(2, 0.5)", "alpha": "Exponential(1)"})
    data = bound(model, {"n": [0, 3, 8, 2, 2]})
    assert family.compile(model, data).priors() == {
        "weights": "Dirichlet(1)",
        "mu": "Gamma(2, 0.5)",
        "alpha": "Exponential(1)",
    }
    rows = bl.Model(model=model.model, dims={"obs_id": 5})
    counts = bl.simulate(rows, draws=200, seed=1)["prior_predictive"]["n"].values
    assert counts.dtype.kind == "i"
    assert counts.mean() == pytest.approx(4, abs=5 * np.sqrt((4 + 8 + 30) / 400))
    with refused("model.no-data", "alpha"):
        bl.simulate(mixture(["n"], component="NegativeBinomial", priors={"mu": "Gamma(2, 0.5)"}), draws=2, seed=1)


def test_known_whole_numbers_are_drawn_with():
    model = mixture(["n"], component="Binomial(n=7)", priors={"p": "Beta(200, 200)"})
    rows = bl.Model(model=model.model, dims={"obs_id": 5})
    counts = bl.simulate(rows, draws=40, seed=1)["prior_predictive"]["n"].values
    assert counts.dtype.kind == "i"
    # Of 200 numbers of mean 3.5; a component's probability is within 0.025 of a half.
    assert counts.mean() == pytest.approx(3.5, abs=4 * np.sqrt(7 / 4 / 200) + 0.05)


# --------------------------------------------------------------------------------- sampling


@pytest.mark.slow(why="compiles")
def test_nuts_agrees_with_quadrature():
    counts = np.array([0, 1, 1, 2, 5, 7, 6])
    model = mixture(["n"], component="Poisson", priors={"mu": "Gamma(2, 0.5)"}, order="n")
    fit = fitted(model, {"n": counts}, "nuts", draws=2000, tune=1000)
    rates, w = (np.arange(80) + 0.5) * 0.16, (np.arange(60) + 0.5) / 60
    low, high, share = np.meshgrid(rates, rates, w, indexing="ij")
    log_p = stats.gamma.logpdf(low, 2, scale=2) + stats.gamma.logpdf(high, 2, scale=2)
    for n, often in zip(*np.unique(counts, return_counts=True), strict=True):
        log_p += often * np.log(share * stats.poisson.pmf(n, low) + (1 - share) * stats.poisson.pmf(n, high))
    p = np.exp(log_p - log_p.max()) * (low < high)
    p /= p.sum()
    for name, k, truth in (("mu", 0, low), ("mu", 1, high), ("weights", 0, share)):
        draws = fit.posterior[name].values.reshape(8000, 2)[:, k]
        mean = np.sum(p * truth)
        sd = np.sqrt(np.sum(p * truth**2) - mean**2)
        assert draws.mean() == pytest.approx(mean, abs=4 * sd / np.sqrt(1500))
        assert draws.std() == pytest.approx(sd, rel=0.1)


# --------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("component", "code", "match"),
    [
        ("Gama", "model.not-a-distribution", "unknown distribution 'Gama'; did you mean 'Gamma'"),
        ("gamma", "model.unknown-word", "did you mean 'Gamma'"),
        ("Binomial", "model.incomplete", r"Binomial\(n=...\)"),
        ("MvNormal", "model.not-a-distribution", "of single numbers"),
        ("Gamma(alpha=-1)", "model.out-of-range", "alpha is above 0, not -1"),
        ("Binomial(n=2.5)", "model.out-of-range", "n is a whole number, not 2.5"),
        ("Gamma(alpha=q)", "model.not-a-number", "alpha"),
        ("Gamma(mu=2, sigma=1)", "model.unknown-parameter", "'mu'"),
        ("Uniform", "model.conflict", "nothing of Uniform is left"),
    ],
)
def test_words_that_are_no_component_are_refused(component, code, match):
    with refused(code, match, where="model.component"):
        mixture(["x"], component=component)


@pytest.mark.parametrize(
    ("priors", "code", "match"),
    [
        ({"alpha": "Normal(0, 1)"}, "model.out-of-range", "alpha is above 0"),
        ({"alpha": "Gamma(2)"}, "model.wrong-arguments", "Gamma"),
        ({"alpha": "Gamma(2, -1)"}, "model.out-of-range", "needs beta above 0; given: -1"),
        ({"alpha": "Gamma(a, 1)"}, "model.bad-prior", "with numbers"),
        ({"alpha": "Poisson(2)"}, "model.bad-prior", "density of one number"),
        ({"alpha": "2"}, "model.bad-prior", "not 2"),
        ({"alpha": "VonMises(0, 1)"}, "model.out-of-range", "of angles"),
        ({"alpha": "Gama(2, 1)"}, "model.not-a-distribution", "did you mean 'Gamma'"),
        ({"alpa": "Gamma(2, 1)"}, "model.unknown-parameter", "did you mean 'alpha'"),
        ({"rate": "Gamma(2, 1)"}, "model.conflict", "rate"),
    ],
)
def test_priors_that_do_not_fit_are_refused(priors, code, match):
    with refused(code, match, where="model"):
        check(mixture(["x"], component="Gamma", priors=priors), {"x": [1.0, 2.0, 3.0]})


@pytest.mark.parametrize(
    ("x", "component", "match"),
    [
        ([1.0, 0.0, 3.0], "Gamma", "column 'x', row 2: 0; .*HurdleGamma"),
        ([1.0, 0.5, 1.5], "Beta", "column 'x', row 1: 1; .* strictly between 0 and 1"),
        ([1.0, 2.5, 3.0], "Poisson", "column 'x', row 2: 2.5; .* whole numbers"),
        ([1.0, 2.5, 0.5], "Pareto(m=1)", "column 'x', row 3: 0.5"),
        ([1.0, 2.5, 4.5], "VonMises", "column 'x', row 3: 4.5"),
    ],
)
def test_values_that_no_component_has_are_refused_with_their_row(x, component, match):
    words = {"y": "gaussian", "x": component}
    with refused("data.impossible-value", match):
        check(mixture(["y", "x"], component=words), {"y": [0.0, 1.0, 3.0], "x": x})


@pytest.mark.parametrize("method", ["gibbs", "variational"])
@pytest.mark.parametrize("components", [2, "dirichlet_process"])
def test_engines_that_need_conjugate_priors_refuse(method, components):
    model = mixture(["x"], components, component="Gamma", **({"most": 5} if components != 2 else {}))
    x = [0.5, 2.0, 1.0, 4.0, 0.2, 3.0]
    engines = "nuts or em" if components == 2 else "nuts"
    with refused("engine.refused.not-conjugate", f"Gamma components have no conjugate prior; use {engines}$"):
        fitted(model, {"x": x}, method)


def test_parameters_of_a_process_have_names_beside_its_concentration():
    model = mixture(["x"], "dirichlet_process", most=4, component="Gamma")
    data = bound(model, {"x": [0.5, 2.0, 1.0, 4.0, 0.2, 3.0]})
    graph = family.compile(model, data).graph_without_start()
    assert {"alpha", "Gamma_alpha", "Gamma_beta", "weights"} <= set(graph.named_vars)
    assert family.compile(model, data).preferred_engine() is None


def test_what_needs_an_evidence_is_refused():
    with refused("model.not-conjugate", "cannot be integrated out"):
        mixture(["x"], "sampled", component="Gamma")
    with refused("model.not-conjugate", "choose by bic"):
        mixture(["x"], [1, 2], component="Gamma", choose="evidence")
    with refused("model.reserved-name", "'alpha'"):
        mixture(["alpha"], component="Gamma")
    # Parameters of several parts have longer names.
    mixture(["alpha", "y"], component={"alpha": "Gamma", "y": "gaussian"})


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize(("low", "high"), [(100.0, 200.0), (0.001, 0.002)])
def test_priors_that_the_data_contradict_warn_of_nothing_but_the_verdict(low, high):
    """The mode is at the end of the support, where the log posterior has no slope: nothing of it reaches the user."""
    rng = np.random.default_rng(1)
    data = {"x": np.r_[rng.normal(0, 1, 30), rng.normal(8, 1, 30)]}
    model = mixture(["x"], component="Normal", priors={"sigma": f"Uniform({low}, {high})"})
    sigma = fitted(model, data, restarts=1).posterior["sigma"].to_numpy()
    np.testing.assert_allclose(sigma, low if low > 1 else high, rtol=1e-3)
