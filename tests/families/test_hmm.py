"""The family hmm: its density against a sum over all paths, its engines against each other, and its errors."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bayeslab as bl
from bayeslab.families import hmm
from bayeslab.families.hmm.model import hidden_of
from bayeslab.language.writer import PYMC
from bayeslab.latents.chains.forward_backward import HiddenChain, simulate_states, smooth
from bayeslab.posterior.density import Density
from bayeslab.posterior.transforms import constrained, unconstrained
from tests.families._climb import climbed
from tests.families._interpreted import Interpreted
from tests.families._models import two_states as model
from tests.latents._paths import log_sum_over_paths
from tests.refusals import refused


def series(n, seed=0, means=(-2.0, 2.0), transition=((0.9, 0.1), (0.2, 0.8))):
    rng = np.random.default_rng(seed)
    k = len(means)
    states = simulate_states(HiddenChain.of(np.full(k, 1 / k), np.array(transition)), [0, n], rng)
    return states, np.array(means)[states] + rng.standard_normal(n)


def by_paths(start, transition, emission, offsets):
    """log p of each sequence by the sum over all paths; ``emission`` are probabilities."""
    return np.array([log_sum_over_paths(start, transition, emission[i:j]) for i, j in itertools.pairwise(offsets)])


# --------------------------------------------------------------------------------- the density


RAGGED = {"who": ["a"] * 3 + ["b"] * 4, "day": [1, 2, 5, 3, 4, 5, 6], "y": [0.5, -1.0, 2.0, np.nan, 1.5, -0.7, 1.2]}


@pytest.fixture(scope="module")
def ragged():
    """A model, its data, and its density."""
    declared = model(sequence="who", time="day")
    data = bl.check(declared, RAGGED)
    graph = hmm.compile(declared, data).graph()
    return declared, data, graph, Interpreted(graph)


@pytest.mark.slow(why="statistical")
def test_gaps_become_missing_rows(ragged):
    hidden = hidden_of(*ragged[:2])
    assert hidden.sequences.offsets.tolist() == [0, 5, 9]
    assert hidden.sequences.times.tolist() == [1, 2, 3, 4, 5, 3, 4, 5, 6]
    np.testing.assert_array_equal(hidden.rows[:, 0], [0.5, -1.0, np.nan, np.nan, 2.0, np.nan, 1.5, -0.7, 1.2])


@pytest.mark.slow(why="compiles")
def test_density_is_that_of_all_paths_and_its_slope_is_right(ragged):
    """log p(data | parameters) by enumeration, priors by scipy, the slope by differences."""
    declared, data, _, density = ragged
    point = density.near(np.random.default_rng(0), 0.5)
    value, slope = density(point)
    own = density.parameters(point)
    hidden = hidden_of(declared, data)
    prior = hidden.parts[0].emission.prior
    y = hidden.rows
    emission = np.where(np.isnan(y), 1.0, stats.norm.pdf(y, own["mean"], own["sd"]))
    want = by_paths(own["initial"], own["transition"], emission, hidden.sequences.offsets).sum()
    want += stats.norm.logpdf(own["mean"], prior.mean, own["sd"] / np.sqrt(prior.kappa)).sum()
    want += stats.invgamma.logpdf(own["sd"] ** 2, prior.nu / 2, scale=prior.scale / 2).sum()
    want += 3 * stats.dirichlet.logpdf([0.5, 0.5], [1, 1])  # three even rows
    assert value == pytest.approx(want, rel=1e-8)
    np.testing.assert_allclose(slope, density.differences(point), rtol=1e-5, atol=1e-6)


@pytest.mark.slow(why="compiles")
def test_em_ends_where_the_density_has_no_slope(ragged):
    """EM's log posterior and the PyMC model's differ by a constant; EM's end is a mode of both."""
    declared, data, graph, density = ragged
    problem = hmm.compile(declared, data).em_plan.problem(True)
    theta = hmm.compile(declared, data).em_plan.start(np.random.default_rng(1))
    for _ in range(3000):
        theta = problem.update(problem.expect(theta)[1], theta)

    def at(values):
        values = values | {"_variance": values["sd"] ** 2}
        # A probability of 0 or 1 at the mode has no coordinate; there the slope in it vanishes anyway.
        values = {n: np.clip(v, 1e-12, 1.0) if n in ("initial", "transition") else v for n, v in values.items()}
        free = {rv.name: values[rv.name][None] for rv in graph.free_RVs}
        return density(density.flat({n: v[0] for n, v in unconstrained(graph, free).items()}))

    height, slope = at(theta)
    assert np.abs(slope).max() < 1e-4
    rng = np.random.default_rng(2)
    for _ in range(5):
        other = hmm.compile(declared, data).em_plan.start(rng)
        gap = problem.expect(other)[0] + problem.log_prior(other) - problem.expect(theta)[0] - problem.log_prior(theta)
        assert at(other)[0] - height == pytest.approx(gap, abs=1e-5)
        assert gap < 1e-6


def test_columns_of_every_kind_against_enumeration():
    """Mixed columns with missing cells: log likelihood of the two sequences."""
    table = {
        "who": ["a"] * 3 + ["b"] * 3,
        "height": [1.0, np.nan, 2.0, 0.5, -1.0, 0.0],
        "heavy": [0.0, 40.0, 1.0, -2.0, np.nan, 0.3],
        "word": ["u", "v", None, "w", "u", "v"],
        "sick": [0, 1, 1, np.nan, 0, 1],
        "calls": [3, 0, 5, 2, np.nan, 1],
        "won": [2, 3, 0, 1, 3, np.nan],
        "wait": [0.1, 2.0, np.nan, 0.5, 1.0, 3.0],
    }
    words = {
        "height": "gaussian",
        "heavy": "student_t",
        "word": "categorical",
        "sick": "bernoulli",
        "calls": "poisson",
        "won": "binomial",
        "wait": "exponential",
    }
    values = {
        "height_mean": [0.0, 1.0],
        "height_sd": [1.0, 2.0],
        "heavy_location": [0.0, 1.0],
        "heavy_scale": [1.0, 0.5],
        "heavy_dof": [3.0, 4.0],
        "p_word": [[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]],
        "sick_probability": [0.2, 0.7],
        "calls_rate": [1.0, 4.0],
        "won_probability": [0.3, 0.9],
        "wait_rate": [1.0, 0.2],
    }
    start, transition = [0.3, 0.7], [[0.6, 0.4], [0.1, 0.9]]
    declared = model(
        columns=list(words), emission=words, trials=3, parameters=values, initial=start, transition=transition,
        sequence="who",
    )  # fmt: skip
    data = bl.check(declared, table)
    v = {name: np.array(x) for name, x in values.items()}
    codes = {"u": 0, "v": 1, "w": 2}

    def cells(name, density):
        column = np.array([np.nan if x is None else x for x in table[name]], dtype=float)[:, None]
        return np.where(np.isnan(column), 1.0, density(np.where(np.isnan(column), 0.0, column)))

    emission = (
        cells("height", lambda x: stats.norm.pdf(x, v["height_mean"], v["height_sd"]))
        * cells("heavy", lambda x: stats.t.pdf(x, v["heavy_dof"], v["heavy_location"], v["heavy_scale"]))
        * np.array([[1.0, 1.0] if w is None else v["p_word"][:, codes[w]] for w in table["word"]])
        * cells("sick", lambda x: stats.bernoulli.pmf(x, v["sick_probability"]))
        * cells("calls", lambda x: stats.poisson.pmf(x, v["calls_rate"]))
        * cells("won", lambda x: stats.binom.pmf(x, 3, v["won_probability"]))
        * cells("wait", lambda x: stats.expon.pdf(x, scale=1 / v["wait_rate"]))
    )
    want = by_paths(start, transition, emission, [0, 3, 6])
    _, (dims, found) = next(iter(hmm.compile(declared, data).log_likelihoods({}).items()))
    assert dims == ("sequence_number",)
    np.testing.assert_allclose(found[0], want, rtol=1e-10)
    # The same as PyTensor expressions.
    hidden, variables = hidden_of(declared, data), {name: PYMC.constant(value) for name, value in v.items()}
    expression = sum(part.density(PYMC, variables, hidden.rows) for part in hidden.parts)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(expression.eval(mode="FAST_COMPILE"), np.log(emission), rtol=1e-9, atol=1e-12)


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("covariance", ["full", "tied"])
def test_matrices(covariance):
    """The graph's evidence, the family's and one by scipy; EM never falls; simulation runs."""
    rng = np.random.default_rng(1)
    table = {"y": rng.standard_normal(12), "z": rng.standard_normal(12) + 1}
    table["z"][3] = np.nan
    declared = model(columns=["y", "z"], covariance=covariance)
    data = bl.check(declared, table)
    graph = hmm.compile(declared, data).graph()
    density = Interpreted(graph)
    point = density.near(rng, 0.3)
    own = density.parameters(point)
    potential = graph.compile_fn(graph.replace_rvs_by_values(graph.potentials), mode="FAST_COMPILE")
    evidence = float(potential(density.split(point))[0])
    matrices = np.broadcast_to(own["covariance"], (2, 2, 2))
    emission = np.zeros((12, 2))
    for t in range(12):
        for k in range(2):
            seen = [0] if t == 3 else [0, 1]
            row = np.array([table["y"][t], table["z"][t]])[seen]
            emission[t, k] = stats.multivariate_normal.pdf(row, own["mean"][k][seen], matrices[k][np.ix_(seen, seen)])
    want = smooth(HiddenChain.of(own["initial"], own["transition"]), np.log(emission)).log_evidence.sum()
    assert evidence == pytest.approx(want, rel=1e-8)
    _, found = hmm.compile(declared, data).log_likelihoods(
        {n: own[n][None] for n in hidden_of(declared, data).learned}
    )["row"]
    assert found.sum() == pytest.approx(want, rel=1e-10)
    plan = hmm.compile(declared, data).em_plan
    problem, theta = plan.problem(True), plan.start(np.random.default_rng(4))
    theta, _ = climbed(problem, theta, 20)
    back = problem.unflatten(problem.flatten(theta))
    np.testing.assert_allclose(back["covariance"], theta["covariance"], rtol=1e-9)
    tree = bl.simulate(declared, table, draws=2, seed=1)
    assert np.isfinite(tree["prior_predictive"]["z"].to_numpy()).all()


def test_order_2_is_the_sum_over_paths():
    declared = model(order=2, parameters={"mean": [0.0, 2.0], "sd": 1.0})
    data = bl.check(declared, {"y": [0.1, 1.5, 2.2, -0.3, 0.8]})
    rng = np.random.default_rng(3)
    values = {
        "initial": rng.dirichlet([1, 1]),
        "second_transition": rng.dirichlet([1, 1], 2),
        "transition": rng.dirichlet([1, 1], (2, 2)),
    }
    y = data.dataset.columns["y"].values
    emission = stats.norm.pdf(y[:, None], [0.0, 2.0])
    total = 0.0
    for path in itertools.product(range(2), repeat=5):
        p = values["initial"][path[0]] * values["second_transition"][path[0], path[1]]
        p *= np.prod([values["transition"][path[t - 2], path[t - 1], path[t]] for t in range(2, 5)])
        total += p * np.prod([emission[t, z] for t, z in enumerate(path)])
    found = hmm.compile(declared, data).log_likelihoods({n: x[None] for n, x in values.items()})["row"][1]
    assert found.sum() == pytest.approx(np.log(total), rel=1e-12)


# --------------------------------------------------------------------------------- engines agree


TINY = {"columns": ["y"], "parameters": {"probability": [0.2, 0.9]}, "emission": "bernoulli", "initial": "uniform"}


@pytest.fixture(scope="module")
def tiny():
    """Two unknown numbers: the probabilities of staying."""
    y = [1, 1, 1, 0, 0, 1, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0]
    return model(**TINY), {"y": y}


def grid_posterior(y, n=120):
    """Means of P(stay) in each state by quadrature, the likelihood by matrix products."""
    points = (np.arange(n) + 0.5) / n
    likelihood = np.zeros((n, n))
    b = np.array([[0.8, 0.1], [0.2, 0.9]])
    for i, p in enumerate(points):
        for j, q in enumerate(points):
            a = np.array([[p, 1 - p], [1 - q, q]])
            alpha = 0.5 * b[y[0]]
            for value in y[1:]:
                alpha = (alpha @ a) * b[value]
            likelihood[i, j] = alpha.sum()
    weight = likelihood / likelihood.sum()
    first, second = weight.sum(1), weight.sum(0)
    return (first @ points, second @ points), weight


@pytest.mark.slow(why="compiles")
def test_nuts_agrees_with_a_grid_and_the_run_reopens(tiny, tmp_path):
    declared, table = tiny
    means, _ = grid_posterior(table["y"])
    fit = bl.fit(declared, table, method="nuts", seed=3, progress=False, runs=tmp_path)
    assert fit.verdict.status == "pass", str(fit.verdict)
    rows = fit.summary()
    for name, want in zip(("transition[1, 1]", "transition[2, 2]"), means, strict=True):
        assert abs(rows.loc[name, "mean"] - want) < 4 * rows.loc[name, "mcse_mean"]
    again = bl.open(fit.folder)
    decoded = again.decode()
    assert decoded.equals(fit.decode())
    assert len(decoded) == len(table["y"])
    assert "posterior mean" in decoded.attrs["about"]
    smoothed = again.decode(method="smooth")
    np.testing.assert_allclose(smoothed["P(state=1)"] + smoothed["P(state=2)"], 1.0)
    assert smoothed.attrs["draws"] == 200 and "200 of 4,000" in smoothed.attrs["about"]
    assert "200 of 4,000" in decoded.attrs["about"]
    few = [again.decode(method="smooth", draws=n) for n in (1, 4000, 5000)]
    assert [one.attrs["draws"] for one in few] == [1, 4000, 4000]
    assert few[1].equals(few[2]) and not few[0].equals(few[1])
    with refused("option.out-of-range"):
        again.decode(draws=0)
    # New data, with a cell to predict.
    new = pd.DataFrame({"y": [1.0, 1.0, 1.0, np.nan]})
    drawn = again.predict(new, kind="draws")
    assert drawn["y"].dtype.kind == "i"
    assert 0.5 < float(drawn["y"][:, :, 3].mean()) < 0.95
    assert again.predict(new, kind="probabilities").shape == (4, 3)


@pytest.mark.slow(why="statistical")
def test_em_ends_where_the_grid_is_highest(tiny):
    declared, table = tiny
    _, weight = grid_posterior(table["y"], 200)
    i, j = np.unravel_index(weight.argmax(), weight.shape)
    fit = bl.fit(declared, table, method="em", seed=1, progress=False, runs=None, tolerance=1e-10)
    found = fit.posterior["transition"].to_numpy()[0, 0]
    np.testing.assert_allclose([found[0, 0], found[1, 1]], [(i + 0.5) / 200, (j + 0.5) / 200], atol=0.006)


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"topology": "left_right", "states": 3},
        {"topology": "banded", "states": 4},
        {"order": 2},
        {"emission": "student_t"},
        {"parameters": {"sd": 1.0}},
        {"parameters": {"mean": [-2.0, 2.0]}},
        {"initial": "uniform", "pseudocount": 2, "stickiness": 3},
    ],
)
@pytest.mark.parametrize("prior", [True, False])
def test_baum_welch_never_falls(content, prior):
    _, y = series(80, seed=2)
    y[10:14] = np.nan
    declared = model(**content)
    plan = hmm.compile(declared, bl.check(declared, {"y": y})).em_plan
    problem = plan.problem(prior)
    theta = plan.start(np.random.default_rng(4))
    theta, _ = climbed(problem, theta, 25)
    back = problem.unflatten(problem.flatten(theta))
    for name, value in theta.items():
        np.testing.assert_allclose(back[name], value, rtol=1e-9, atol=1e-12)


def test_filtered_counts_in_place_of_smoothed_ones_fail():
    """A tempting mistake goes downhill from the top, where a true step stays."""
    _, y = series(60, seed=2, means=(-0.7, 0.7))
    declared = model()
    plan = hmm.compile(declared, bl.check(declared, {"y": y})).em_plan
    problem = plan.problem(True)
    theta = plan.start(np.random.default_rng(4))
    for _ in range(500):
        theta = problem.update(problem.expect(theta)[1], theta)
    top, statistics = problem.expect(theta)
    top += problem.log_prior(theta)
    filtered = problem.law(theta).filter("filter")
    wrong = problem.update(statistics | problem.totals(filtered, theta), theta)
    right = problem.update(statistics, theta)
    assert problem.expect(right)[0] + problem.log_prior(right) > top - 1e-9
    assert problem.expect(wrong)[0] + problem.log_prior(wrong) < top - 1e-4


def test_zeros_of_a_pattern_stay():
    _, y = series(100, seed=1, means=(0.0, 3.0, 6.0), transition=((0.9, 0.1, 0), (0, 0.9, 0.1), (0, 0, 1.0)))
    declared = model(states=3, topology="left_right")
    fit = bl.fit(declared, {"y": y}, method="em", seed=1, progress=False, runs=None)
    found = fit.posterior["transition"].to_numpy()[0, 0]
    assert found[np.tril_indices(3, -1)].max() == 0
    assert found[0, 2] == 0
    assert found[2, 2] == 1
    path = fit.decode()["state"].to_numpy()
    assert np.all(np.diff(path) >= 0)


@pytest.mark.slow(why="statistical")
def test_known_means_are_recovered_and_numbered_by_rule():
    states, y = series(2000, seed=7, means=(3.0, -3.0))
    tables = [bl.fit(model(), {"y": y}, method="em", seed=s, progress=False, runs=None) for s in (1, 2)]
    means = [fit.posterior["mean"].to_numpy()[0, 0] for fit in tables]
    np.testing.assert_allclose(means[0], [-3, 3], atol=0.15)
    np.testing.assert_allclose(means[0], means[1], atol=1e-3)
    path = tables[0].decode()["state"].to_numpy()
    assert np.mean(path == 2 - states) > 0.98


def test_labels_are_made_to_agree():
    """Draws whose states were exchanged come back as they were."""
    _, y = series(60, seed=3)
    declared = model()
    data = bl.check(declared, {"y": y})
    rng = np.random.default_rng(0)
    n = 40
    draws = {
        "initial": rng.dirichlet([20, 20], n),
        "transition": rng.dirichlet([30, 10], (n, 2)),
        "mean": np.array([-2.0, 2.0]) + 0.1 * rng.standard_normal((n, 2)),
        "sd": np.exp(0.1 * rng.standard_normal((n, 2))),
    }
    order = np.array([rng.permutation(2) for _ in range(n)])
    shuffled = hidden_of(declared, data).permuted(draws, order, lead=1)
    assert not np.array_equal(shuffled["mean"], draws["mean"])
    back, what = hmm.compile(declared, data).relabelled(shuffled)
    assert what == "the chain"
    for name, value in draws.items():
        np.testing.assert_array_equal(back[name], value)


# --------------------------------------------------------------------------------- decoding


def test_umbrella_against_fact():
    """F8: filtered, smoothed and most likely states; log P(data)."""
    declared = bl.Model(
        name="umbrella",
        dims={"umbrella": ["yes", "no"]},
        model={
            "family": "hmm",
            "columns": ["umbrella"],
            "emission": "categorical",
            "states": ["rain", "dry"],
            "initial": [0.58, 0.42],
            "transition": [[0.7, 0.3], [0.3, 0.7]],
            "parameters": {"p_umbrella": [[0.9, 0.1], [0.2, 0.8]]},
        },
    )
    from bayeslab.results.decode import decode

    table = {"umbrella": ["yes", "yes", "no", "yes", "yes"]}
    smoothed = decode(declared, table, "smooth")
    np.testing.assert_allclose(smoothed["P(state=rain)"], [0.900286, 0.831156, 0.310307, 0.820933, 0.867470], atol=5e-7)
    filtered = decode(declared, table, "filter")
    np.testing.assert_allclose(filtered["P(state=rain)"], [0.861386, 0.890832, 0.192718, 0.731480, 0.867470], atol=5e-7)
    best = decode(declared, table)
    assert best["state"].tolist() == ["rain", "rain", "dry", "rain", "rain"]
    data = bl.check(declared, table)
    assert hmm.compile(declared, data).log_likelihoods({})["row"][1].sum() == pytest.approx(-3.261365, abs=5e-7)
    three = decode(declared, table, best=3)
    assert three["path"].tolist() == [1] * 5 + [2] * 5 + [3] * 5
    assert three["log_probability"].is_monotonic_decreasing
    with refused("model.nothing-to-fit"):
        bl.fit(declared, table, method="nuts", progress=False, runs=None)
    with refused("data.unknown-level", "'x'"):
        decode(declared, table, sequence="x")
    with refused("option.unknown-word", "'viterby'.*'viterbi'"):
        decode(declared, table, "viterby")


def test_an_unknown_parameter_is_named():
    from bayeslab.results.decode import decode

    with refused("model.not-learned", "'transition'"):
        decode(model(parameters={"mean": [0, 1], "sd": 1}, initial="uniform"), {"y": [0.0, 1.0, 2.0]})


# --------------------------------------------------------------------------------- simulation


def test_simulated_rows_follow_the_model():
    """Shares and means of long simulated sequences, at known parameters."""
    declared = model(
        parameters={"mean": ["Normal(0, 0.001)", "Normal(5, 0.001)"], "sd": 1.0},
        transition=[[0.9, 0.1], [0.3, 0.7]],
        initial="stationary",
    )
    tree = bl.simulate(declared, {"y": np.zeros(400)}, draws=50, seed=1)
    path, y = (tree[g][n].to_numpy()[0] for g, n in (("prior", "path"), ("prior_predictive", "y")))
    # Two states with second eigenvalue 0.6: the variance of the share of time is (1 + 0.6) / (1 - 0.6) times binomial.
    error = np.sqrt(0.25 * 0.75 * 4 / path.size)
    assert abs(path.mean() - 0.25) < 4 * error
    for k, want in enumerate((0.0, 5.0)):
        own = y[path == k]
        assert abs(own.mean() - want) < 4 / np.sqrt(own.size) + 0.002


# --------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("content", "code", "where", "match"),
    [
        ({"states": 0}, "model.out-of-range", "model.states", "0.*1"),
        ({"states": []}, "model.duplicate", "model.states", ""),
        ({"states": True}, "model.wrong-type", "model.states", ""),
        ({"states": [[1]]}, "model.wrong-type", "model.states", r"\[1\]"),
        ({"emission": "gausian"}, "model.not-a-distribution", "model.emission", "'gaussian'"),
        ({"emission": {"z": "gaussian"}}, "model.unknown-column", "model.emission", "'z'"),
        ({"topology": "left-right"}, "model.unknown-word", "model.topology", "'left_right'"),
        ({"topology": [[1, 1]]}, "model.wrong-shape", "model.topology", "2"),
        ({"topology": [[0, 0], [1, 1]]}, "model.contradiction", "model.topology", "row 1"),
        ({"transition": [[0.5, 0.4], [0.5, 0.5]]}, "model.not-probabilities", "model.transition", r"row 1.*0\.9"),
        ({"initial": [0.5, 0.6]}, "model.not-probabilities", "model.initial", r"1\.1"),
        ({"initial": "freee"}, "model.unknown-word", "model.initial", "'free'"),
        ({"parameters": {"men": 1.0}}, "model.unknown-parameter", "model.parameters.men", "'mean'"),
        ({"parameters": {"mean": [1.0, 2.0, 3.0]}}, "model.wrong-length", "model.parameters.mean", "3.*2"),
        ({"parameters": {"sd": -1.0}}, "model.out-of-range", "model.parameters.sd", ""),
        ({"parameters": {"sd": "Normal(0, 1)"}}, "model.bad-prior", "model.parameters.sd", "Normal.*'sd'"),
        ({"parameters": {"mean": ["Normal(0, 1)", "Cauchy(0, 1)"]}}, "model.unsupported", "model.parameters.mean", ""),
        ({"parameters": {"mean": "Normal(a, 1)"}}, "model.not-a-number", "model.parameters.mean", "mu.*'a'"),
        ({"parameters": {"mean": "Norml(0, 1)"}}, "model.not-a-distribution", "model.parameters.mean", "Norml"),
        ({"columns": ["y", "y"]}, "model.duplicate", "model", "column"),
        ({"time": "y"}, "model.conflict", "model", "'y'"),
        ({"order": 2, "topology": "banded", "states": 3}, "model.unsupported", "model.order", "2"),
        ({"emission": "binomial"}, "model.incomplete", "model.trials", ""),
    ],
)
def test_what_is_wrong_with_a_model_is_said_in_a_line(content, code, where, match):
    def resolve():
        declared = model(**content)
        return hidden_of(declared, bl.check(declared, {"y": [0.0, 1.0, 0.0]}))

    with refused(code, match, where=where):
        resolve()


@pytest.mark.parametrize(
    ("table", "code", "where", "match"),
    [
        ({"who": ["a", "b", "a"], "day": [1, 1, 2], "y": [1.0, 2.0, 3.0]}, "data.not-in-order", "", "'a'.*row 3"),
        (
            {"who": ["a", "a", "b"], "day": [2, 1, 1], "y": [1.0, 2.0, 3.0]},
            "data.not-in-order",
            "",
            "'day', row 2.*'a'",
        ),
        ({"who": ["a", "a", "b"], "day": [1, 1, 1], "y": [1.0, 2.0, 3.0]}, "data.not-in-order", "", "row 2.*1.*'a'"),
        (
            {"who": ["a", "a", "b"], "day": [1, 1.5, 1], "y": [1.0, 2.0, 3.0]},
            "data.not-whole",
            "",
            r"'day', row 2.*1\.5",
        ),
        ({"who": ["a", "a", "b"], "day": [1, np.nan, 1], "y": [1.0, 2.0, 3.0]}, "data.missing", "", "'day', row 2"),
        ({"who": ["a", None, "b"], "day": [1, 2, 1], "y": [1.0, 2.0, 3.0]}, "data.missing", "", "'who'.*row 2"),
        ({"who": ["a", "a", "b"], "day": [1, 10**9, 1], "y": [1.0, 2.0, 3.0]}, "data.too-costly", "", "999,999,999"),
        ({"who": ["a", "a", "b"], "day": [1, 2, 1], "y": [np.nan] * 3}, "data.nothing-observed", "", "'y'"),
        ({"who": ["a", "a", "b"], "day": [1, 2, 1], "y": [1.0, 1.0, 1.0]}, "data.constant", "", "'y'"),
        ({"who": ["a", "a", "b"], "day": [1, 2, 1], "y": ["u", "v", "u"]}, "data.not-numbers", "", "'y'"),
        ({"who": ["a", "a", "b"], "day": [1, 2, 1], "y": [1.0, np.inf, 2.0]}, "data.not-finite", "", "'y', row 2: inf"),
        ({"who": ["a", "a", "b"], "y": [1.0, 2.0, 3.0]}, "model.unknown-column", "model.time", "'day'"),
        ({"day": [1, 2, 3], "y": [1.0, 2.0, 3.0]}, "model.unknown-column", "model.sequence", "'who'"),
        (
            {"who": ["a", "a", "b"], "day": [1, 2, 1], "x": [1.0, 2.0, 3.0]},
            "model.unknown-column",
            "model.columns.0",
            "'y'",
        ),
    ],
)
def test_what_is_wrong_with_data_is_said_in_a_line(table, code, where, match):
    declared = model(sequence="who", time="day")
    with refused(code, match, where=where):
        hidden_of(declared, bl.check(declared, table))


@pytest.mark.parametrize("method", ["em", "gibbs"])
@pytest.mark.parametrize(
    ("content", "y", "code", "match"),
    [
        ({"states": 4}, [1.0, 2.0, np.nan, 3.0], "data.too-few", "3.*4"),
        ({"emission": "poisson"}, [0, 0, 0, 0], "data.constant", "'y'"),
        ({"emission": "categorical"}, ["a", "a", "a"], "data.constant", "'y'"),
    ],
)
def test_rows_that_cannot_tell_states_apart(content, y, code, match, method):
    declared = model(**content)
    with refused(code, match):
        bl.fit(declared, {"y": y}, method=method, progress=False, runs=None)


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize(
    ("emission", "code", "where"),
    [
        ("gaussian", "data.no-values", None),  # default priors are scaled to the column
        ("student_t", "data.no-values", None),
        ("poisson", "model.unknown-column", "model.columns"),
        ("categorical", "model.unknown-column", "model.columns"),
    ],
)
def test_a_column_that_the_data_lack_is_not_learned(emission, code, where):
    """Its parameters would be those of the prior, beside others that are learned."""
    table = {"y": ["a", "b"] * 6 if emission == "categorical" else [1, 5, 2, 7] * 3}
    given = {"family": "hmm", "columns": ["y", "yy"], "states": 2, "emission": emission}
    with refused(code, "'yy'", where=where):
        bl.check(bl.Model(name="m", model=given), table)


@pytest.mark.slow(why="statistical")
def test_predictions_at_a_point_have_the_spread_of_their_distribution():
    """Mixtures of the states' normals by smoothed probabilities, of rows that are empty and of complete ones."""
    _, y = series(120, seed=5)
    fit = bl.fit(model(), {"y": y}, method="em", progress=False, runs=None, seed=1)
    new = {"y": np.array([-1.8, 0.1, np.nan, 2.2, np.nan])}
    found, drawn = fit.predict(new, seed=2), fit.predict(new, "draws", seed=2)["y"]
    at = fit.posterior.to_dataset().isel(chain=0, draw=0)
    weight = fit.predict(new, "probabilities").to_numpy()[:, 1:].astype(float)
    mean, sd = (at[name].to_numpy().reshape(2) for name in ("mean", "sd"))
    true = weight @ mean
    spread = np.sqrt(weight @ (sd**2 + mean**2) - true**2)
    n = drawn.sizes["chain"] * drawn.sizes["draw"]
    assert n >= 1000
    assert np.all(np.abs(found["mean"] - true) < 4.5 * spread / np.sqrt(n))
    np.testing.assert_allclose(found["sd"], spread, rtol=0.15)
    assert np.all(found["eti89_lb"] < true) and np.all(found["eti89_ub"] > true)


def test_an_impossible_observation_is_named():
    declared = model(
        emission="bernoulli", parameters={"probability": [0.0, 1.0]}, topology=[[1, 0], [1, 1]], sequence="who"
    )
    table = {"who": ["a"] * 2 + ["b"] * 3, "y": [1, 0, 0, 0, 1]}
    with refused("data.probability-zero", "row 5.*'b'"):
        bl.fit(declared, table, method="em", progress=False, runs=None)


def test_an_impossible_observation_is_named_where_nothing_is_learned():
    """By check, which has nothing else to say of a model whose parameters are all given."""
    declared = model(
        columns=["s"], emission="observed", states=["a", "b"], initial=[0.5, 0.5], transition=[[0, 1], [1, 0]]
    )
    with refused("data.probability-zero", "row 3"):
        bl.check(declared, {"s": ["a", "b", "b", "a"]})
    bl.check(declared, {"s": ["a", None, "a", "b"]})


@pytest.mark.slow(why="compiles")
def test_a_chain_of_no_return_that_begins_where_it_settles():
    """All mass is on the last state: what is left for good has none of it, not what rounding leaves."""
    y = np.random.default_rng(1).normal(size=6)
    graph = bl.to_pymc(model(states=3, topology="left_right", reach=2, initial="stationary"), {"y": y})
    own = Density.of(graph, jacobian=False)
    value = graph.compile_logp(vars=graph.potentials, jacobian=False, mode="FAST_COMPILE")
    slope = graph.compile_dlogp(jacobian=False, mode="FAST_COMPILE")
    begun, rng = own.flat(graph.initial_point()), np.random.default_rng(2)
    for _ in range(20):
        point = own.split(begun + rng.normal(size=own.n_dim))
        values = {n: v[0] for n, v in constrained(graph, {n: v[None] for n, v in point.items()}).items()}
        wanted = stats.norm.logpdf(y, values["mean"][2], values["sd"][2]).sum()
        assert float(value(point)) == pytest.approx(wanted, rel=1e-9)
        assert np.isfinite(slope(point)).all()


@pytest.mark.slow(why="compiles")
def test_a_known_chain_that_begins_where_it_settles():
    transition = [[1 - 1e-9, 1e-9], [0.5, 0.5]]
    graph = bl.to_pymc(model(transition=transition, initial="stationary"), {"y": [0.0, 30.0, 1.0]})
    point = graph.initial_point()
    values = {n: v[0] for n, v in constrained(graph, {n: v[None] for n, v in point.items()}).items()}
    emission = stats.norm.pdf(np.array([[0.0], [30.0], [1.0]]), values["mean"], values["sd"])
    start = np.array([0.5, 1e-9]) / (0.5 + 1e-9)
    found = graph.compile_logp(vars=graph.potentials, jacobian=False, mode="FAST_COMPILE")(point)
    assert float(found) == pytest.approx(by_paths(start, np.array(transition), emission, [0, 3]).sum(), rel=1e-12)


@pytest.mark.parametrize("covariance", ["full", "tied"])
def test_columns_that_follow_from_others_have_no_matrix(covariance):
    """The weak prior is on the scale of the data: it would be as singular as they are."""
    declared = model(columns=["y", "x"], covariance=covariance)
    y = np.random.default_rng(0).normal(size=20)
    with refused("data.dependent-columns"):
        hidden_of(declared, bl.check(declared, {"y": y, "x": 3 - 2 * y}))


def test_counts_must_be_counts():
    declared = model(emission="poisson")
    with refused("data.impossible-value", r"'y'.*row 2.*1\.5"):
        hidden_of(declared, bl.check(declared, {"y": [1.0, 1.5, 2.0]}))


@pytest.mark.parametrize("method", ["em", "gibbs", "nuts"])
def test_silent_sequences_are_refused(method):
    table = {"who": ["a", "a", "a", "b"], "y": [0.0, 1.0, 3.0, np.nan]}
    with refused("data.no-values", "'b'"):
        bl.fit(model(sequence="who"), table, method=method, seed=1, progress=False, runs=None)


@pytest.mark.slow(why="statistical")
def test_free_parameters_are_counted_and_information_criteria_choose_the_planted_number():
    """BIC by the definition, at the ends of EM; three planted states, far apart."""
    _, y = series(300, seed=4, means=(-6.0, 0.0, 6.0), transition=((0.8, 0.1, 0.1), (0.1, 0.8, 0.1), (0.1, 0.1, 0.8)))
    scores = {}
    for k in (1, 2, 3, 4):
        declared = model(states=k)
        highest, free = hmm.compile(declared, bl.check(declared, {"y": y})).maximum_likelihood()
        assert free == (k - 1) + k * (k - 1) + 2 * k
        scores[k] = -2 * highest + free * np.log(300)
    assert scores[1] == pytest.approx(-2 * stats.norm.logpdf(y, y.mean(), y.std()).sum() + 2 * np.log(300), rel=1e-9)
    assert min(scores, key=lambda k: scores[k] if np.isfinite(scores[k]) else np.inf) == 3
    counts = {
        ("topology", "left_right"): 3 + 2 * 4,  # begins in the first state; three rows of two
        ("topology", "banded"): 3 + 1 + 2 + 2 + 1 + 2 * 4,
        ("covariance", "spherical"): 3 + 12 + 2 * 4,
    }
    for (key, value), want in counts.items():
        declared = model(states=4, **{key: value})
        assert hidden_of(declared, bl.check(declared, {"y": y})).n_free == want


def test_priors_are_written_out():
    declared = model(parameters={"mean": "Normal(0, 3)"}, stickiness=2)
    found = hmm.compile(declared, bl.check(declared, {"y": [0.0, 1.0, 3.0]})).priors()
    assert found["mean"] == "Normal(0, 3)"
    assert found["initial"] == "Dirichlet([1, 1])"
    assert found["transition"] == "Dirichlet, row by row"
    assert found["sd"].startswith("sqrt(InverseGamma(1.5")


# --------------------------------------------------------------------------------- nothing silent


@pytest.mark.parametrize(
    ("content", "code", "where", "match"),
    [
        (
            {"topology": "left_right", "transition": [[0.5, 0.5], [0.5, 0.5]]},
            "model.contradiction",
            "model.transition",
            r"transition\[2\]\[1\]",
        ),
        (
            {"topology": [[0, 1], [1, 0]], "transition": [[0.25, 0.75], [1, 0]]},
            "model.contradiction",
            "model.transition",
            r"transition\[1\]\[1\].*0\.25.*topology",
        ),
        (
            {"topology": [[0, 1], [1, 0]], "transition": [[0.25, 0.75], [1, 0]], "durations": 3},
            "model.contradiction",
            "model.transition",
            r"transition\[1\]\[1\].*0\.25.*topology",
        ),
        (
            {"initial": "stationary", "transition": [[0, 1], [1, 0]], "durations": 3},
            "model.conflict",
            "model.initial",
            "",
        ),
        ({"transition": [[0.5, 0.5], [0.5, 0.5]], "stickiness": 3}, "model.conflict", "model", "stickiness"),
        ({"transitions_on": ["x"], "stickiness": 3}, "model.conflict", "model", "stickiness"),
        ({"reach": 2}, "model.conflict", "model", "reach.*topology"),
        ({"trials": 2}, "model.conflict", "model", "trials"),
        ({"dof": 2}, "model.conflict", "model", "dof"),
        ({"covariance": "spherical", "emission": "poisson"}, "model.conflict", "model", "covariance"),
        ({"covariance": "full", "window": 1}, "model.conflict", "model", "covariance"),
        ({"emission": "observed", "window": 1}, "model.conflict", "model", "window"),
    ],
)
def test_nothing_given_is_lost(content, code, where, match):
    with refused(code, match, where=where):
        bl.check(model(**content), {"y": [0.0, 1.0, 0.5], "x": [0.0, 1.0, 2.0]})


def test_a_topology_that_says_what_the_zeros_say_is_fine():
    with_zeros = {"transition": [[0.5, 0.5], [0, 1]], "initial": [1, 0], "parameters": {"mean": [0, 3], "sd": 1}}
    values = [
        hidden_of(declared, bl.check(declared, {"y": [0.1, 2.0, 2.5]})).law({}).expected().log_evidence[0]
        for declared in (model(**with_zeros), model(topology="left_right", **with_zeros))
    ]
    density = stats.norm.pdf(np.array([0.1, 2.0, 2.5])[:, None], [0, 3], 1)
    exact = by_paths([1, 0], [[0.5, 0.5], [0, 1]], density, [0, 3])[0]
    assert values == pytest.approx([exact, exact])


def test_of_one_state_the_order_does_not_matter():
    one, two = (model(states=1, order=order, parameters={"mean": [0], "sd": 1}) for order in (1, 2))
    table = {"y": [0.1, 2.0, 2.5]}
    assert hidden_of(two, bl.check(two, table)).learned == hidden_of(one, bl.check(one, table)).learned == ()
