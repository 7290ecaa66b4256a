"""What hidden states can emit beyond one distribution: mixtures of normals, and more."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

import bayeslab as bl
from bayeslab.distributions.emissions import gaussian
from bayeslab.families import hmm
from bayeslab.families.hmm.model import hidden_of
from bayeslab.posterior.mixtures.problem import MixtureProblem
from tests.families._interpreted import Interpreted
from tests.families._models import two_states as model
from tests.latents._paths import log_sum_over_paths
from tests.refusals import refused


def fitted(declared, y, **options):
    return bl.fit(declared, {"y": y}, seed=1, progress=False, runs=None, **options)


def planted(n, seed=0):
    """Two states of two parts each: -3 and 3, 0 and 6."""
    rng = np.random.default_rng(seed)
    states = np.zeros(n, int)
    for t in range(1, n):
        states[t] = states[t - 1] if rng.random() < 0.9 else 1 - states[t - 1]
    part = rng.random(n) < 0.5
    mean = np.where(states == 0, np.where(part, -3.0, 3.0), np.where(part, 0.0, 6.0))
    return states, mean + 0.6 * rng.standard_normal(n)


MIXED = {"emission": "gaussian_mixture", "mixtures": 2}


# --------------------------------------------------------------------------------- mixtures of normals


@pytest.mark.slow(why="compiles")
def test_density_of_mixtures_is_that_of_all_paths_and_its_slope_is_right():
    """Two columns, missing cells: log p by enumeration, priors by SciPy, the slope by differences."""
    table = {"x": [0.1, -2.0, np.nan, 1.0, 3.0], "y": [1.0, np.nan, np.nan, 0.2, -1.0]}
    declared = model(columns=["x", "y"], **MIXED)
    data = bl.check(declared, table)
    graph = hmm.compile(declared, data).graph()
    density = Interpreted(graph)
    point = density.near(np.random.default_rng(0), 0.5)
    value, slope = density(point)
    own = density.parameters(point)
    hidden = hidden_of(declared, data)
    assert own["mean"].shape == (2, 2, 2)
    cells = stats.norm.pdf(hidden.rows[:, None, None, :], own["mean"], own["sd"])
    emission = np.sum(own["weight"] * np.where(np.isnan(cells), 1.0, cells).prod(axis=3), axis=2)
    prior = hidden.parts[0].emission.prior
    want = log_sum_over_paths(own["initial"], own["transition"], emission)
    want += stats.norm.logpdf(own["mean"], prior.mean, own["sd"] / np.sqrt(prior.kappa)).sum()
    want += stats.invgamma.logpdf(own["sd"] ** 2, prior.nu / 2, scale=prior.scale / 2).sum()
    want += 5 * stats.dirichlet.logpdf([0.5, 0.5], [1, 1])
    assert value == pytest.approx(want, rel=1e-8)
    np.testing.assert_allclose(slope, density.differences(point), rtol=1e-4, atol=1e-6)
    exact = hidden.law({n: own[n] for n in hidden.learned}).expected().log_evidence.sum()
    assert exact == pytest.approx(log_sum_over_paths(own["initial"], own["transition"], emission), rel=1e-10)


@pytest.mark.slow(why="statistical")
def test_mixtures_find_states_that_single_normals_cannot():
    """EM is monotone, higher than single normals on such data, and decodes the planted states."""
    states, y = planted(400)
    fits = {}
    for word, more in (("gaussian", {}), ("gaussian_mixture", {"mixtures": 2})):
        fits[word] = fitted(model(emission=word, **more), y, method="em")
    trace = fits["gaussian_mixture"].data_tree["em"]["log_posterior"].to_numpy()
    assert np.nanmin(np.diff(trace, axis=1)) > -1e-9
    heights = {w: float(f.posterior.attrs["log_likelihood"]) for w, f in fits.items()}
    assert heights["gaussian_mixture"] > heights["gaussian"] + 100
    found = fits["gaussian_mixture"].posterior
    np.testing.assert_allclose(found["mean"][0, 0], [[-3, 3], [0, 6]], atol=0.2)
    np.testing.assert_allclose(found["weight"][0, 0], 0.5, atol=0.1)
    decoded = np.asarray(fits["gaussian_mixture"].decode()["state"])
    assert np.mean(decoded == states + 1) > 0.97


def test_one_state_of_a_mixture_is_a_mixture():
    """Rows are independent: the likelihood of the family mixture with the same parts."""
    _, y = planted(60, seed=3)
    own = {"weight": [[0.3, 0.7]], "mean": [[-1.0, 2.0]], "sd": [[1.0, 2.0]]}
    declared = model(states=1, parameters=own, **MIXED)
    hidden = hidden_of(declared, bl.check(declared, {"y": y}))
    value = hidden.law({}).expected().log_evidence.sum()
    theta = {"weights": np.array([0.3, 0.7]), "mean": np.array([[-1.0], [2.0]]), "variance": np.array([[1.0], [4.0]])}
    want = MixtureProblem.of(gaussian(1, "diagonal"), y[:, None], 2).expect(theta)[0]
    assert value == pytest.approx(want, rel=1e-12)


def test_parts_are_numbered_by_their_means_in_every_draw():
    """Draws with parts and states in any order come out alike."""
    declared = model(**MIXED)
    _, y = planted(60, seed=4)
    data = bl.check(declared, {"y": y})
    rng = np.random.default_rng(0)
    true = {
        "initial": np.array([0.4, 0.6]),
        "transition": np.array([[0.9, 0.1], [0.2, 0.8]]),
        "mean": np.array([[-3.0, 3.0], [0.0, 6.0]]),
        "sd": np.array([[0.5, 0.6], [0.7, 0.8]]),
        "weight": np.array([[0.4, 0.6], [0.3, 0.7]]),
    }
    draws = {name: [] for name in true}
    for _ in range(20):
        state, parts = rng.permutation(2), [rng.permutation(2) for _ in range(2)]
        for name, value in true.items():
            if name in ("mean", "sd", "weight"):
                value = np.stack([row[p] for row, p in zip(value, parts, strict=True)])
            value = value[state]
            draws[name].append(value[:, state] if name == "transition" else value)
    found, what = hmm.compile(declared, data).relabelled({n: np.stack(v) for n, v in draws.items()})
    assert what == "the chain"
    for name, value in true.items():
        np.testing.assert_allclose(found[name], np.broadcast_to(value, found[name].shape), err_msg=name)


@pytest.mark.slow(why="compiles")
def test_mixtures_end_to_end_by_nuts():
    """States and parts agree between chains; replications are like the data; the model can be simulated."""
    _, y = planted(100, seed=6)
    fit = fitted(model(**MIXED), y, method="nuts", chains=2, draws=200, tune=200)
    posterior = fit.posterior
    assert posterior["mean"].dims == ("chain", "draw", "state", "part")
    mean, sd = posterior["mean"].mean(("chain", "draw")), posterior["mean"].std(("chain", "draw"))
    assert np.all(np.abs(mean - [[-3, 3], [0, 6]]) < 5 * sd + 0.1)
    apart = posterior["mean"].mean("draw").to_numpy()
    assert np.abs(apart[0] - apart[1]).max() < 0.5
    made = fit.predict(kind="draws")["y"].to_numpy().ravel()
    assert abs(made.mean() - y.mean()) < 5 * y.std() / np.sqrt(len(y))
    assert np.isfinite(bl.simulate(model(**MIXED), {"y": y}, draws=2, seed=1)["prior_predictive"]["y"]).all()


@pytest.mark.parametrize(
    ("content", "code", "where", "match"),
    [
        ({"emission": "gaussian_mixture"}, "model.incomplete", "model", "mixtures"),
        ({"mixtures": 2}, "model.conflict", "model", "gaussian_mixture"),
        ({**MIXED, "covariance": "full"}, "model.unsupported", "model", "diagonal"),
        ({**MIXED, "mixtures": 1}, "model.out-of-range", "model.mixtures", ""),
        ({**MIXED, "window": 1}, "model.unsupported", "model", "inputs"),
        ({**MIXED, "parameters": {"mean": "Normal(0, 1)"}}, "model.conflict", "model.parameters.mean", ""),
        ({**MIXED, "parameters": {"mean": [[0, 1], [0, 1]]}}, "model.incomplete", "model.parameters", ""),
        ({**MIXED, "parameters": {"weight": [[0.5, 0.6], [0.5, 0.5]], "mean": [[0, 1], [0, 1]],
                                  "sd": [[1, 1], [1, 1]]}}, "model.not-probabilities", "model.parameters.weight", r"1\.1"),
    ],
)  # fmt: skip
def test_bad_mixtures(content, code, where, match):
    with refused(code, match, where=where):
        _ = hmm.compile(model(**content), bl.check(model(**content), {"y": [0.0, 1.0, 2.0, 3.0]})).resolved


# --------------------------------------------------------------------------------- EM: what has no closed form


def sequences(n_sequences=40, length=6, seed=0):
    """Many short sequences of a chain that begins where it settles, at 2/3 and 1/3."""
    rng = np.random.default_rng(seed)
    transition = np.array([[0.9, 0.1], [0.2, 0.8]])
    who, y = np.repeat(np.arange(n_sequences), length), []
    for _ in range(n_sequences):
        z = int(rng.random() < 1 / 3)
        for _ in range(length):
            y.append([-2.0, 2.0][z] + rng.standard_normal())
            z = int(rng.random() < transition[z, 1])
    return {"who": who, "y": np.array(y)}


def at_the_top(declared, data, steps=400, seed=0, prior=True, tolerance=1e-4):
    """EM's end: monotone on the way; the log posterior has no slope there in any coordinate (by differences)."""
    plan = hmm.compile(declared, data).em_plan
    problem, theta = plan.problem(prior), plan.start(np.random.default_rng(seed))
    before = -np.inf
    for _ in range(steps):
        value, statistics = problem.expect(theta)
        height = value + problem.log_prior(theta)
        assert height >= before - 1e-8 * abs(height)
        gained, before = height - before, height
        theta = problem.update(statistics, theta)
        if gained < 1e-13 * abs(height):
            break
    x = problem.flatten(theta)

    def log_posterior(x):
        own = problem.unflatten(x)
        return problem.expect(own)[0] + problem.log_prior(own)

    step = 1e-5
    slope = [(log_posterior(x + step * e) - log_posterior(x - step * e)) / (2 * step) for e in np.eye(len(x))]
    assert np.abs(slope).max() < tolerance, slope
    np.testing.assert_allclose(problem.gradient(theta, problem.expect(theta)[1]), slope, atol=1e-4)
    return theta, problem


def test_em_of_a_stationary_start():
    """Monotone, at a maximum; the start adds what it knows to the transitions."""
    table = sequences()
    declared = model(initial="stationary", sequence="who")
    data = bl.check(declared, table)
    theta, problem = at_the_top(declared, data)
    free = model(sequence="who", initial="uniform")
    other, _ = at_the_top(free, bl.check(free, table))
    assert np.abs(theta["transition"] - other["transition"]).max() > 1e-3
    assert problem.latent.complete(theta)["initial"][0] == pytest.approx(2 / 3, abs=0.15)


@pytest.mark.slow(why="large")
@pytest.mark.parametrize(
    ("content", "table"),
    [
        ({"parameters": {"mean": ["Normal(-1, 0.3)", "Normal(2, 0.1)"]}}, None),
        ({"parameters": {"mean": "StudentT(3, 0, 1)", "sd": "HalfNormal(0.5)"}}, None),
        (
            {"parameters": {"sd": ["Gamma(3, 2)", "Gamma(9, 2)"]}, "columns": ["y", "x"], "covariance": "spherical"},
            None,
        ),
        ({"parameters": {"mean": [-2.0, 2.0], "sd": "LogNormal(0, 0.2)"}}, None),
        ({"emission": "poisson", "parameters": {"rate": "LogNormal(1, 0.2)"}}, "counts"),
        ({"emission": "bernoulli", "parameters": {"probability": ["Beta(2, 5)", "Beta(5, 2)"]}}, "coins"),
        ({"emission": "student_t", "parameters": {"location": [-2.0, 2.0]}}, None),
        ({"emission": "student_t", "dof": 4, "parameters": {"scale": [1.0, 1.5], "location": "Normal(0, 1)"}}, None),
    ],
)
def test_em_under_written_priors(content, table):
    rng = np.random.default_rng(1)
    states, y = planted(120, seed=2)
    own = {
        None: {"y": y, "x": y + rng.standard_normal(120)},
        "counts": {"y": rng.poisson([1.0, 6.0])[0] + rng.poisson(np.where(states == 0, 1.0, 6.0))},
        "coins": {"y": (rng.random(120) < np.where(states == 0, 0.2, 0.7)).astype(int)},
    }[table]
    declared = model(**content)
    at_the_top(declared, bl.check(declared, own), steps=3000, tolerance=2e-3)


@pytest.mark.slow(why="compiles")
def test_mode_under_a_written_prior_is_that_of_the_graph():
    """The PyMC model has no slope at EM's end."""
    declared = model(
        parameters={"mean": ["Normal(-1, 0.5)", "Normal(1, 0.5)"], "sd": "Gamma(5, 4)"},
        initial="uniform",
        transition=[[0.8, 0.2], [0.2, 0.8]],
    )
    _, y = planted(60, seed=5)
    data = bl.check(declared, {"y": y})
    theta, _ = at_the_top(declared, data, steps=3000)
    graph = hmm.compile(declared, data).graph()
    density = Interpreted(graph)
    from bayeslab.posterior.transforms import unconstrained

    free = {rv.name: theta[rv.name][None] for rv in graph.free_RVs}
    point = density.flat({n: v[0] for n, v in unconstrained(graph, free).items()})
    assert np.abs(density(point)[1]).max() < 1e-3


@pytest.mark.slow(why="compiles")
def test_pseudocounts_keep_unseen_words_possible():
    """A Dirichlet prior of the words: EM's end is a mode, also of the graph; Gibbs steps know it; without it zeros."""
    rng = np.random.default_rng(4)
    states, _ = planted(80, seed=4)
    seen = np.where(rng.random(80) < np.where(states == 0, 0.2, 0.8), "a", "b")
    a = np.array([3.0, 2.0, 1.5])
    declared = bl.Model(
        dims={"y": ["a", "b", "c"]},
        model={
            "family": "hmm", "columns": ["y"], "states": 2, "emission": "categorical", "initial": "uniform",
            "pseudocount": 2, "parameters": {"p_y": "Dirichlet([3, 2, 1.5])"},
        },
    )  # fmt: skip
    data = bl.check(declared, {"y": seen})
    plan = hmm.compile(declared, data).em_plan
    problem, theta = plan.problem(True), plan.start(np.random.default_rng(0))
    for _ in range(3000):
        value, statistics = problem.expect(theta)
        theta = problem.update(statistics, theta)
    want = stats.dirichlet(a).logpdf(theta["p_y"].T).sum() + stats.dirichlet([2, 2]).logpdf(theta["transition"].T).sum()
    kernel = ((a - 1) * np.log(theta["p_y"])).sum() + np.log(theta["transition"]).sum()
    assert problem.log_prior(theta) == pytest.approx(kernel, rel=1e-9)
    assert np.all(theta["p_y"][:, 2] > 0.004)
    # The graph at EM's end: the normalised prior, and up to the stick-breaking Jacobian no slope.
    graph = hmm.compile(declared, data).graph()
    density = Interpreted(graph)
    from bayeslab.posterior.transforms import unconstrained

    free = {rv.name: theta[rv.name][None] for rv in graph.free_RVs}
    point = density.flat({n: v[0] for n, v in unconstrained(graph, free).items()})
    height, slope = density(point)
    assert height == pytest.approx(value + want, rel=1e-7)
    assert np.abs(slope).max() < 1e-3
    assert hmm.compile(declared, data).priors()["p_y"] == "Dirichlet([3, 2, 1.5]) in every row"
    # Flat priors are maximum likelihood: the unseen word has probability 0.
    flat = declared.model_copy(update={"model": declared.model.model_copy(update={"parameters": {}})})
    plain = bl.fit(flat, {"y": seen}, method="em", seed=1, progress=False, runs=None).posterior
    assert np.all(plain["p_y"].to_numpy()[..., 2] == 0)
    drawn = bl.fit(declared, {"y": seen}, method="gibbs", seed=1, progress=False, runs=None, draws=400, tune=100)
    # Given n rows in a state the unseen word has mean 1.5 / (6.5 + n); summed over both states, whose rows are 80,
    # that is least at 40 and 40. With a flat prior it would be 2 / 43 there.
    rare = drawn.posterior["p_y"].to_numpy()[..., 2]
    assert rare.sum(axis=-1).mean() > 3 / 46.5 - 0.006


@pytest.mark.parametrize(
    ("prior", "code", "where", "match"),
    [
        ("Dirichlet([1, 2])", "model.wrong-length", "model.parameters.p_y", "2.*3"),
        ("Dirichlet([1, 2, 0])", "model.out-of-range", "model.parameters.p_y", ""),
        ("Dirichlet([1, 2, b])", "model.bad-prior", "model.parameters.p_y", ""),
        ("Beta(1, 2)", "model.bad-prior", "model.parameters.p_y", "Dirichlet"),
        (["Dirichlet(1)", "Dirichlet(2)"], "model.wrong-length", "model.parameters.p_y", "Dirichlet"),
    ],
)
def test_bad_priors_of_words(prior, code, where, match):
    own = {"family": "hmm", "columns": ["y"], "states": 2, "emission": "categorical", "parameters": {"p_y": prior}}
    declared = bl.Model(dims={"y": ["a", "b", "c"]}, model=own)

    def resolve():
        return hidden_of(declared, bl.check(declared, {"y": ["a", "b", "a"]}))

    with refused(code, match, where=where):
        resolve()


def test_search_in_every_cell():
    """Maxima of quartics with their own centres; a support that ends; a cell that is at the top already."""
    from bayeslab.posterior.observed.given_priors import climb

    centre = np.array([[0.0, 3.0], [-50.0, 1e-3]])
    found = climb(lambda x: -((x - centre) ** 2) - 0.1 * (x - centre) ** 4, np.zeros((2, 2)))
    np.testing.assert_allclose(found, centre, atol=1e-5)
    edge = climb(lambda x: np.where(x < 2, x, -np.inf), np.zeros(3))
    assert np.all((edge > 1.7) & (edge < 2))


# --------------------------------------------------------------------------------- standard errors of EM


def test_standard_errors_of_one_state_are_those_of_a_normal_sample():
    """No hidden state in doubt: sd / √n for the mean, sd / √(2 n) for the sd."""
    y = np.random.default_rng(0).normal(3, 2, 200)
    fit = fitted(model(states=1), y, method="em", standard_errors=True, prior="ignore", tolerance=1e-12)
    errors = fit.data_tree["standard_errors"]
    sd = y.std()
    assert float(errors["mean"][0]) == pytest.approx(sd / np.sqrt(200), rel=1e-3)
    assert float(errors["sd"][0]) == pytest.approx(sd / np.sqrt(400), rel=1e-3)


def test_standard_errors_are_the_curvature_of_the_likelihood():
    """Against second differences of the log likelihood in (mean_1, mean_2, a_11, a_22), and what is not written."""
    _, y = planted(150, seed=7)
    declared = model(initial="uniform", parameters={"sd": 2.5})
    fit = fitted(declared, y, method="em", standard_errors=True, prior="ignore", tolerance=1e-13)
    theta = {n: fit.posterior[n].to_numpy()[0, 0] for n in ("mean", "transition")}
    hidden = hidden_of(declared, bl.check(declared, {"y": y}))

    def log_likelihood(x):
        a, b = x[2:]
        own = {"mean": x[:2], "transition": np.array([[a, 1 - a], [1 - b, b]])}
        return float(hidden.law(own).expected().log_evidence.sum())

    x, h = np.array([*theta["mean"], *np.diag(theta["transition"])]), 1e-4
    e = h * np.eye(4)
    hessian = np.array([
        [log_likelihood(x + a + b) - log_likelihood(x + a - b) - log_likelihood(x - a + b) + log_likelihood(x - a - b)
         for b in e] for a in e
    ]) / (4 * h**2)  # fmt: skip
    want = np.sqrt(np.diag(np.linalg.inv(-hessian)))
    errors = fit.data_tree["standard_errors"]
    np.testing.assert_allclose(errors["mean"], want[:2], rtol=1e-3)
    np.testing.assert_allclose(np.diag(errors["transition"]), want[2:], rtol=1e-3)
    np.testing.assert_allclose(errors["transition"].to_numpy()[:, ::-1], errors["transition"], rtol=1e-6)


@pytest.mark.slow(why="large")
def test_newton_ends_where_em_ends():
    _, y = planted(150, seed=8)
    ends = [fitted(model(), y, method="em", variant=v, tolerance=1e-9).posterior for v in ("em", "newton")]
    np.testing.assert_allclose(ends[0]["mean"], ends[1]["mean"], atol=1e-3)


# --------------------------------------------------------------------------------- names of dimensions


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize(
    "content",
    [
        {"family": "hmm", "columns": ["x", "y"], "states": 2, "covariance": "full"},
        {"family": "mixture", "columns": ["x", "y"], "components": 2},
    ],
)
def test_dimensions_have_no_name_that_plots_use(content):
    """ArviZ calls its own facets column, row and variable."""
    import arviz as az
    import matplotlib as mpl

    mpl.use("Agg")
    rng = np.random.default_rng(0)
    z = np.repeat([0, 1, 0, 1], 15)
    table = {"x": 4.0 * z + rng.standard_normal(60), "y": 3.0 * z + rng.standard_normal(60)}
    declared = bl.Model(name="m", model=content)
    fit = bl.fit(declared, table, method="gibbs", draws=50, tune=20, seed=1, progress=False, runs=None)
    assert fit.posterior["mean"].dims[-1] == "feature"
    assert fit.posterior["covariance"].dims[-2:] == ("feature", "feature_2")
    az.plot_trace_dist(fit.data_tree, var_names=["mean"], compact=False)
    az.plot_forest(fit.data_tree, var_names=["mean"])
    assert len(az.summary(fit.data_tree, var_names=["covariance"])) == 8


# --------------------------------------------------------------------------------- matrices and gaps


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("family", ["hmm", "mixture"])
def test_rows_with_gaps_under_matrices_have_the_right_slope(family):
    """The node of normal terms in a whole graph: density by the exact kernel, slope by differences."""
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(12, 3)) * [1, 10, 0.1] + 3 * rng.integers(0, 2, 12)[:, None]
    rows[rng.random(rows.shape) < 0.2] = np.nan
    rows[0] = [1.0, 2.0, 0.0]
    table = dict(zip("abc", rows.T, strict=True))
    kind = {"states": 2, "covariance": "full"} if family == "hmm" else {"components": 2}
    declared = bl.Model(name="m", model={"family": family, "columns": ["a", "b", "c"], **kind})
    data = bl.check(declared, table)
    from bayeslab import registry

    graph = registry.load("families", family).compile(declared, data).graph()
    density = Interpreted(graph)
    point = density.near(rng, 0.2)
    slope = density(point)[1]
    np.testing.assert_allclose(slope, density.differences(point), rtol=1e-4, atol=1e-5)
    own = density.parameters(point)
    evidence = graph.compile_logp(vars=graph.potentials, jacobian=False, mode="FAST_COMPILE")
    terms = np.zeros((12, 2))
    for n, row in enumerate(rows):
        seen = np.flatnonzero(~np.isnan(row))
        for k in range(2):
            block = own["covariance"][k][np.ix_(seen, seen)]
            terms[n, k] = stats.multivariate_normal(own["mean"][k, seen], block).logpdf(row[seen])
    if family == "hmm":
        want = log_sum_over_paths(own["initial"], own["transition"], np.exp(terms))
    else:
        want = np.log(np.exp(terms) @ own["weights"]).sum()
    assert float(evidence(density.split(point))) == pytest.approx(want, rel=1e-8)


# --------------------------------------------------------------------------------- what verdicts say


def test_an_order_is_not_called_trading_places():
    rng = np.random.default_rng(0)
    y = np.concatenate([rng.normal(0, 1, 40), rng.normal(5, 1, 40)])
    said = {}
    for name, more in (("free", {}), ("ordered", {"order": "y"})):
        declared = bl.Model(name="m", model={"family": "mixture", "columns": ["y"], "components": 2, **more})
        fit = fitted(declared, y, method="gibbs", draws=50, tune=20)
        said[name] = next(f.message for f in fit.verdict.findings if f.check == "relabelled")
    assert "are exchangeable" in said["free"]
    assert "numbered by where they lie in 'y'" in said["ordered"]
    assert "exchangeable" not in said["ordered"]


@pytest.mark.parametrize("order", [None, "y"])
def test_where_no_draw_is_renamed_nothing_is_compared(order):
    """R-hat before and after is of what was changed; here the components are 40 sds apart, and draws never swap them."""
    rng = np.random.default_rng(0)
    y = np.concatenate([rng.normal(0, 1, 40), rng.normal(40, 1, 40)])
    declared = bl.Model(name="m", model={"family": "mixture", "columns": ["y"], "components": 2, "order": order})
    for seed in range(6):
        fit = bl.fit(declared, {"y": y}, "gibbs", draws=20, tune=20, chains=1, seed=seed, runs=None, progress=False)
        said = next(f.message for f in fit.verdict.findings if f.check == "relabelled")
        if "20 of 20 draws" in said:
            assert "R-hat" in said and "before" in said
        else:
            word = "renumbered" if order else "relabelled"
            assert said.endswith(f", and no draw was {word}") and "R-hat" not in said
            break
    else:
        raise AssertionError("in none of six seeds the components began in their order")


def test_gibbs_steps_are_not_told_to_reparametrise():
    """Too few draws, of the number of components among others: all that helps is more of them."""
    rng = np.random.default_rng(1)
    y = np.concatenate([rng.normal(0, 1, 30), rng.normal(2, 1, 30)])
    declared = bl.Model(name="m", model={"family": "mixture", "columns": ["y"], "components": "sampled", "most": 5})
    fit = fitted(declared, y, method="gibbs", draws=30, tune=5)
    advice = [f.advice for f in fit.verdict.findings if f.advice]
    assert advice
    assert not any(w in text for text in advice for w in ("parametrise", "Ordered", "target_accept", "predictors"))


# --------------------------------------------------------------------------------- scores of a classifier


def scored(n=60, seed=0, share=(0.7, 0.3)):
    """Rows, and P(state | row) of the classifier that knows the densities and these shares."""
    _, y = planted(n, seed)
    density = stats.norm.pdf(y[:, None], [-1.0, 2.0], [2.0, 2.0])
    joint = density * share
    return y, joint / joint.sum(axis=1, keepdims=True)


MOVES = {"transition": [[0.9, 0.1], [0.2, 0.8]], "initial": [0.5, 0.5]}


def test_scores_of_the_right_classifier_decode_as_the_model_itself():
    """P(z | x) / P(z) is the likelihood up to p(x): same path, same probabilities; a row without scores says nothing."""
    y, p = scored()
    y[5], p[5] = np.nan, np.nan
    plain = model(parameters={"mean": [-1.0, 2.0], "sd": 2.0}, **MOVES)
    hybrid = model(columns=["a", "b"], emission="scores", parameters={"prior": [0.7, 0.3]}, **MOVES)
    from bayeslab.results.decode import decode

    for method in ("viterbi", "smooth", "filter"):
        want = decode(plain, {"y": y}, method)
        found = decode(hybrid, {"a": p[:, 0], "b": p[:, 1]}, method)
        np.testing.assert_array_equal(found["state"], want["state"])
        np.testing.assert_allclose(found["probability"], want["probability"], rtol=1e-9)


@pytest.mark.slow(why="processes")
def test_transitions_are_learned_from_scores():
    """The same maximum as with the known densities; the mean of the columns stands in for P(state)."""
    y, p = scored(400)
    share = p.mean(axis=0)
    plain = model(parameters={"mean": [-1.0, 2.0], "sd": 2.0}, initial="uniform")
    given = model(columns=["a", "b"], emission="scores", parameters={"prior": [0.7, 0.3]}, initial="uniform")
    table = {"a": p[:, 0], "b": p[:, 1]}
    options = {"method": "em", "tolerance": 1e-10, "seed": 1, "progress": False, "runs": None}
    want = bl.fit(plain, {"y": y}, **options).posterior["transition"]
    np.testing.assert_allclose(bl.fit(given, table, **options).posterior["transition"], want, atol=1e-4)
    left_out = hidden_of(d := model(columns=["a", "b"], emission="scores"), bl.check(d, table))
    np.testing.assert_allclose(left_out.parts[0].emission.share, share)
    density = Interpreted(hmm.compile(d, bl.check(d, table)).graph())
    point = np.random.default_rng(0).normal(size=density.n_dim)
    np.testing.assert_allclose(density(point)[1], density.differences(point), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("content", "table", "code", "where", "match"),
    [
        ({}, {"a": [0.5, 1.2], "b": [0.5, -0.2]}, "data.impossible-value", "", "row 2"),
        ({}, {"a": [0.5, 0.7], "b": [0.5, 0.1]}, "data.not-probabilities", "", r"row 2.*0\.8"),
        ({}, {"a": [0.5, np.nan], "b": [0.5, 0.1]}, "data.missing", "", "row 2"),
        ({"states": 3}, {"a": [0.5], "b": [0.5]}, "model.wrong-length", "model", "2.*3"),
        (
            {"parameters": {"prior": [1.0, 0.0]}},
            {"a": [0.5], "b": [0.5]},
            "model.not-probabilities",
            "model.parameters.prior",
            "0",
        ),
        (
            {"parameters": {"prior": "Normal(0, 1)"}},
            {"a": [0.5], "b": [0.5]},
            "model.wrong-type",
            "model.parameters.prior",
            "",
        ),
        (
            {"emission": {"a": "scores", "b": "poisson"}},
            {"a": [0.5], "b": [0.5]},
            "model.unsupported",
            "model",
            "scores",
        ),
    ],
)
def test_bad_scores(content, table, code, where, match):
    def resolve():
        declared = model(**{"columns": ["a", "b"], "emission": "scores"} | content)
        return hidden_of(declared, bl.check(declared, table))

    with refused(code, match, where=where):
        resolve()


# --------------------------------------------------------------------------------- vector quantisation


@pytest.mark.slow(why="statistical")
def test_codes_of_groups_and_normal_emissions_agree_on_separated_states():
    """k-means codes in a categorical hidden Markov model decode like normal emissions."""
    from bayeslab.latents.labels.k_means import k_means

    rng = np.random.default_rng(0)
    states = np.zeros(300, int)
    for t in range(1, 300):
        states[t] = states[t - 1] if rng.random() < 0.9 else (states[t - 1] + rng.integers(1, 3)) % 3
    y = np.array([-8.0, 0.0, 8.0])[states] + rng.standard_normal(300)
    codes = k_means(y[:, None], 6, np.random.default_rng(1)).labels
    words = np.array(list("abcdef"))[codes]
    by_code = fitted(model(states=3, emission="categorical"), words, method="em")
    by_value = fitted(model(states=3), y, method="em")
    paths = [np.asarray(fit.decode()["state"]) for fit in (by_code, by_value)]
    best = max(np.mean(np.array(names)[paths[0] - 1] == paths[1]) for names in itertools.permutations((1, 2, 3)))
    assert best > 0.98
    assert np.mean(paths[1] == states + 1) > 0.98


# --------------------------------------------------------------------------------- labels and edges


@pytest.mark.slow(why="compiles")
def test_labels_that_are_numbers_stay_numbers():
    rng = np.random.default_rng(0)
    y, x = rng.integers(1, 4, 40), rng.integers(0, 2, 40)
    options = {"method": "gibbs", "draws": 5, "tune": 2, "chains": 1, "seed": 1, "progress": False, "runs": None}
    chain = bl.fit(model(states=[10, 20], emission="categorical"), {"y": y}, **options)
    assert chain.posterior["state"].values.tolist() == [10, 20]
    assert chain.posterior["y_state"].values.tolist() == [1, 2, 3]
    assert set(chain.decode()["state"]) <= {10, 20}
    content = {"family": "mixture", "columns": ["y", "x"], "components": 2, "component": "categorical"}
    classes = bl.fit(bl.Model(name="m", model=content), {"y": y, "x": x}, **options)
    assert classes.posterior["y_state"].values.tolist() == [1, 2, 3]
    assert classes.posterior["x_state"].values.tolist() == [0, 1]


@pytest.mark.parametrize("several", [False, True])
def test_first_states_at_the_edge_are_reported_for_several_sequences(several):
    """Every sequence begins low: with one of them that is no news."""
    rng = np.random.default_rng(0)
    y = np.tile([-4.0] * 5 + [4.0] * 5, 4) + rng.normal(0, 0.5, 40)
    table = {"y": y, "who": np.repeat(np.arange(4), 10)}
    declared = model(**({"sequence": "who"} if several else {}))
    fit = bl.fit(declared, table, method="em", prior="ignore", seed=1, progress=False, runs=None, tolerance=1e-12)
    assert fit.posterior["initial"].min() < 1e-6
    said = [f.where for f in fit.verdict.findings if f.check == "boundary"]
    assert ("initial" in said) == several
