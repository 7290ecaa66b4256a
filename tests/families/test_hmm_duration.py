"""States with durations of their own: against sums over segmentations, an ordinary chain, and planted laws."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import bayeslab as bl
from bayeslab.families import hmm
from bayeslab.families.hmm.model import hidden_of
from bayeslab.latents.chains import duration, forward_backward
from bayeslab.latents.chains.duration import SemiMarkovChain, simulate_segments
from bayeslab.preparation import Source
from tests.families._climb import climbed
from tests.families._interpreted import Interpreted
from tests.latents.test_duration import truth
from tests.refusals import refused

MODELS = Path(__file__).parents[2] / "models"
LAWS = ("table", "poisson", "negative_binomial")


def model(**content):
    own = {"family": "hmm", "columns": ["y"], "states": 2, "durations": 4}
    return bl.Model(name="m", model=own | content)


def resolved(declare, content, table):
    declared = declare(**content)
    return hidden_of(declared, bl.check(declared, table))


def random_values(hidden, rng):
    values = hidden.guess(rng)
    k = hidden.n_states
    return values | {
        "mean": rng.normal(size=k),
        "sd": rng.uniform(0.5, 1.5, k),
        **{n: rng.uniform(0.3, 3.0, k) for n in values if n in ("duration_mu", "duration_alpha")},
    }


def law_by_hand(word, values, longest):
    """P(duration) from scipy's laws."""
    d = np.arange(longest)
    if word == "table":
        return values["duration"]
    if word == "poisson":
        own = stats.poisson.pmf(d, values["duration_mu"][:, None])
    else:
        mu, alpha = values["duration_mu"][:, None], values["duration_alpha"][:, None]
        own = stats.nbinom.pmf(d, alpha, alpha / (alpha + mu))
    return own / own.sum(axis=1, keepdims=True)


TABLE = {"who": ["a"] * 6 + ["b"] * 4, "y": [0.5, -1.0, 2.0, np.nan, 1.5, -0.7, 1.2, 0.1, -0.4, 0.9]}


@pytest.mark.parametrize("word", LAWS)
@pytest.mark.parametrize("states", [1, 2, 3])
def test_every_law_equals_the_sum_over_segmentations(word, states):
    """Evidence, posterior, the most likely path and the pairs of (state, age), which take another way."""
    rng = np.random.default_rng(states)
    declared = model(states=states, durations={"longest": 4, "law": word}, sequence="who")
    data = bl.check(declared, TABLE)
    hidden = hidden_of(declared, data)
    values = random_values(hidden, rng)
    moves = hidden.chain.complete(values)
    chain = SemiMarkovChain.of(moves["initial"], moves["transition"], law_by_hand(word, values, 4))
    y = hidden.rows
    rows = np.where(np.isnan(y), 0.0, stats.norm.logpdf(y, values["mean"], values["sd"]))
    law = hidden.law(values)
    found, paths, heights = law.expected(), *law.mode(1)
    terms, several = hidden.law(values).pairs.log_likelihoods(True), hidden.law(values).log_likelihoods(True)
    for s, own in enumerate((slice(0, 6), slice(6, 10))):
        total, (posterior, *_), best = truth(chain, rows[own])
        assert found.log_evidence[s] == pytest.approx(np.log(total), rel=1e-11)
        assert terms[s] == pytest.approx(np.log(total), rel=1e-10)
        assert several[s] == pytest.approx(np.log(total), rel=1e-10)
        np.testing.assert_allclose(found.posterior[own], posterior, atol=1e-11)
        np.testing.assert_array_equal(paths[0][own], best[1])
        assert heights[0, s] == pytest.approx(np.log(best[0]), rel=1e-11)
    pairs = law.pairs
    ages = forward_backward.smooth(pairs.chain, pairs.log_density, pairs.offsets).posterior
    np.testing.assert_allclose(hidden.chain.fold(ages), found.posterior, atol=1e-10)


def test_paths_are_ranked_and_drawn_as_segmentations_are():
    rng = np.random.default_rng(7)
    declared = model(states=2, durations=3)
    table = {"y": rng.normal(size=5)}
    hidden = hidden_of(declared, bl.check(declared, table))
    values = random_values(hidden, rng)
    from tests.latents.test_duration import enumerate_segments

    rows = hidden.log_emission(values)
    every = {}
    for durations, states, p in enumerate_segments(hidden.chain.segments(values), rows):
        path = tuple(int(z) for z in np.repeat(states, durations))
        every[path] = every.get(path, 0.0) + p
    ranked = sorted(every.items(), key=lambda item: -item[1])
    law = hidden.law(values)
    paths, heights = law.mode(4)
    for (path, p), own, height in zip(ranked, paths, heights[:, 0], strict=False):
        assert tuple(int(z) for z in own) == path
        assert height == pytest.approx(np.log(p), rel=1e-10)
    n, total = 4000, sum(every.values())
    drawn = [tuple(int(z) for z in law.sample(rng)) for _ in range(n)]
    for path, p in ranked[:4]:
        share = p / total
        assert abs(drawn.count(path) / n - share) < 4.5 * np.sqrt(share * (1 - share) / n)


def test_filtered_and_expected_states_are_those_of_shorter_data():
    """P(state at t | rows to t) is what smoothing of the rows to t says of the last one."""
    rng = np.random.default_rng(3)
    y = rng.normal(size=7)
    declared = model(durations={"longest": 3, "law": "negative_binomial"})
    whole = hidden_of(declared, bl.check(declared, {"y": y}))
    values = random_values(whole, rng)
    filtered, expected = whole.law(values).filter("filter"), whole.law(values).filter("predict")
    for t in range(7):
        rows = whole.log_emission(values)[: t + 1]
        law = whole.chain.segments(values)
        np.testing.assert_allclose(filtered[t], duration.smooth(law, rows).posterior[t], atol=1e-10)
        rows[t] = 0.0
        np.testing.assert_allclose(expected[t], duration.smooth(law, rows).posterior[t], atol=1e-10)


def test_geometric_durations_are_an_ordinary_chain():
    """A negative binomial with alpha 1 is geometric; cut off far beyond the data."""
    rng = np.random.default_rng(4)
    table = {"y": rng.normal(size=40)}
    stay = np.array([0.7, 0.4])
    own = model(durations={"longest": 200, "law": "negative_binomial"})
    plain = bl.Model(name="p", model={"family": "hmm", "columns": ["y"], "states": 2})
    emitted = {"mean": np.array([-0.5, 0.5]), "sd": np.array([1.0, 0.8]), "initial": np.array([0.3, 0.7])}
    mu = stay / (1 - stay)
    mine = hidden_of(own, bl.check(own, table)).law(
        emitted | {"transition": np.array([[0.0, 1], [1, 0]]), "duration_mu": mu, "duration_alpha": np.ones(2)}
    )
    theirs = hidden_of(plain, bl.check(plain, table)).law(emitted | {"transition": np.array([[0.7, 0.3], [0.6, 0.4]])})
    np.testing.assert_allclose(mine.log_likelihoods(False), theirs.log_likelihoods(False), atol=1e-10)
    np.testing.assert_allclose(mine.expected().posterior, theirs.expected().posterior, atol=1e-10)
    np.testing.assert_array_equal(mine.mode(1)[0], theirs.mode(1)[0])


def test_a_longest_duration_of_one_changes_state_every_time():
    declared = model(durations=1, initial=[1.0, 0.0])
    hidden = hidden_of(declared, bl.check(declared, {"y": [0.3, -0.2, 0.5, 0.1]}))
    values = random_values(hidden, np.random.default_rng(0))
    found = hidden.law(values).expected()
    want = stats.norm.logpdf([0.3, -0.2, 0.5, 0.1], values["mean"][[0, 1, 0, 1]], values["sd"][[0, 1, 0, 1]]).sum()
    assert found.log_evidence.sum() == pytest.approx(want, rel=1e-12)
    np.testing.assert_allclose(found.posterior[:, 0], [1, 0, 1, 0], atol=1e-12)


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("word", LAWS)
def test_density_is_right_and_so_is_its_slope(word):
    """log p by enumeration, priors by scipy, the slope by differences; EM's log posterior differs by a constant."""
    declared = model(states=3, durations={"longest": 3, "law": word})
    data = bl.check(declared, {"y": TABLE["y"][:6]})
    graph = hmm.compile(declared, data).graph()
    density = Interpreted(graph)
    rng = np.random.default_rng(5)
    hidden = hidden_of(declared, data)

    points = [density.near(rng) for _ in range(2)]
    gaps = []
    for point in points:
        found = density.parameters(point)
        y = hidden.rows
        rows = np.where(np.isnan(y), 0.0, stats.norm.logpdf(y, found["mean"], found["sd"]))
        chain = SemiMarkovChain.of(found["initial"], found["transition"], law_by_hand(word, found, 3))
        want = np.log(truth(chain, rows)[0])
        prior = hidden.parts[0].emission.prior
        want += stats.norm.logpdf(found["mean"], prior.mean, found["sd"] / np.sqrt(prior.kappa)).sum()
        want += stats.invgamma.logpdf(found["sd"] ** 2, prior.nu / 2, scale=prior.scale / 2).sum()
        want += stats.dirichlet.logpdf([1 / 3] * 3, [1] * 3)  # rows of two places have density 1
        if word == "table":
            want += 3 * stats.dirichlet.logpdf([1 / 3] * 3, [1] * 3)
        else:
            want += stats.expon.logpdf(found["duration_mu"], scale=3 / 2).sum()
        if word == "negative_binomial":
            want += stats.gamma.logpdf(found["duration_alpha"], 2, scale=10).sum()
        assert density.value(point) == pytest.approx(want, rel=1e-8)
        problem = hmm.compile(declared, data).em_plan.problem(True)
        theta = {n: found[n] for n in hidden.learned}
        gaps.append(density.value(point) - problem.expect(theta)[0] - problem.log_prior(theta))
    assert gaps[0] == pytest.approx(gaps[1], abs=1e-8)
    point = points[0]
    np.testing.assert_allclose(density.slope(point), density.differences(point), rtol=1e-5, atol=1e-6)


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("word", LAWS)
@pytest.mark.parametrize("prior", [True, False])
def test_em_never_falls_and_ends_where_nothing_is_higher(word, prior):
    rng = np.random.default_rng(6)
    y = np.array([-2.0, 2.0])[np.tile(np.repeat([0, 1], [3, 5]), 12)] + rng.standard_normal(96)
    y[10:12] = np.nan
    declared = model(durations={"longest": 8, "law": word})
    data = bl.check(declared, {"y": y})
    plan = hmm.compile(declared, data).em_plan
    problem, theta = plan.problem(prior), plan.start(np.random.default_rng(1))
    theta, trace = climbed(problem, theta, 200, rtol=0, atol=1e-7)
    assert abs(trace[-1] - trace[-2]) < 1e-5
    top = trace[-1]
    for name in ("duration", "duration_mu", "duration_alpha", "mean"):
        if name not in theta:
            continue
        for _ in range(4):
            moved = theta[name] * np.exp(0.02 * rng.standard_normal(theta[name].shape))
            moved = moved / moved.sum(axis=1, keepdims=True) if name == "duration" else moved
            other = theta | {name: moved}
            assert problem.expect(other)[0] + problem.log_prior(other) < top + 1e-6


@pytest.mark.parametrize("word", ["poisson", "negative_binomial"])
def test_truncated_laws_are_fitted_as_direct_search_finds_them(word):
    """The M-step against a fine grid."""
    declared = model(durations={"longest": 6, "law": word})
    chain = hidden_of(declared, bl.check(declared, {"y": [0.0, 1.0, 2.0]})).chain
    counts = np.array([[1.0, 2.5, 7.0, 6.0, 9.0, 3.0], [20.0, 6.0, 3.0, 2.0, 0.0, 1.0]])
    found = chain.maximise(
        {"duration": counts, "initial": np.ones(2), "transition": np.ones((2, 2))},
        prior=False,
        start=chain.start_values(),
    )

    def height(values):
        return (counts * np.log(law_by_hand(word, values, 6))).sum(axis=1)

    best = height(found)
    for mu in np.linspace(0.1, 12, 60):
        for alpha in np.geomspace(0.1, 1000, 30):
            other = {"duration_mu": np.full(2, mu), "duration_alpha": np.full(2, alpha)}
            assert np.all(height(other) <= best + 1e-7)


@pytest.fixture(scope="module")
def planted():
    """States that last 3 + Poisson(2) rows and 1 + Poisson(7): not at all geometric."""
    rng = np.random.default_rng(8)
    d = np.arange(25)
    law = np.stack([stats.poisson.pmf(d, 4), stats.poisson.pmf(d, 9)])
    chain = SemiMarkovChain.of([0.5, 0.5], [[0, 1], [1, 0]], law)
    z, _ = simulate_segments(chain, [1500], rng)
    return z, {"y": np.array([-2.0, 2.0])[z] + rng.standard_normal(1500)}


@pytest.mark.slow(why="statistical")
def test_planted_durations_are_found(planted):
    z, table = planted
    declared = model(durations={"longest": 25, "law": "poisson"})
    fit = bl.fit(declared, table, method="em", seed=1, runs=None, progress=False)
    n = np.sum(np.diff(z) != 0) / 2
    mu = np.asarray(fit.posterior["duration_mu"]).ravel()
    assert np.all(np.abs(mu - [4, 9]) < 4 * np.sqrt(np.array([4, 9]) / n))
    path = fit.decode()
    assert np.mean(path["state"].to_numpy() == z + 1) > 0.97
    assert set(hmm.compile(fit.model, fit.data).priors()) == {"initial", "transition", "duration_mu", "mean", "sd"}
    assert "duration" in hmm.compile(fit.model, fit.data).network()
    # Two parameters of a law, one of the start, means and sds; nothing of the certain transitions.
    assert hidden_of(declared, fit.data).n_free == 2 + 1 + 4


@pytest.mark.slow(why="compiles")
def test_sampling_predicting_and_leaving_out(planted):
    """One NUTS run: durations within the planted ones' reach, EM's mode inside; LOO, prediction and simulation run."""
    z, table = planted
    table = {"y": table["y"][:300]}
    declared = model(durations={"longest": 25, "law": "poisson"})
    fit = bl.fit(declared, table, method="nuts", draws=200, tune=200, chains=2, seed=2, runs=None, progress=False)
    mu = np.asarray(fit.posterior["duration_mu"])
    n = np.sum(np.diff(z[:300]) != 0) / 2
    assert np.all(np.abs(mu.mean(axis=(0, 1)) - [4, 9]) < 4.5 * np.sqrt(np.array([4, 9]) / n))
    terms = hmm.compile(declared, fit.data).log_likelihoods(
        {n: np.asarray(fit.posterior[n])[0] for n in hidden_of(declared, fit.data).learned}
    )
    assert terms["row"][1].shape == (200, 300)
    assert np.mean(fit.decode(method="smooth")["state"].to_numpy() == z[:300] + 1) > 0.97
    made = hmm.compile(declared, fit.data).predictive(
        {n: np.asarray(fit.posterior[n])[0][:50] for n in hidden_of(declared, fit.data).learned},
        np.random.default_rng(0),
    )["y"][1]
    assert np.corrcoef(made.mean(axis=0), np.array([-2.0, 2.0])[z[:300]])[0, 1] > 0.9


def test_simulated_paths_have_the_durations():
    """Tables that allow 2 and 5 rows alone: every finished segment lasts so long."""
    import pymc as pm

    declared = model(
        durations={"longest": 5, "law": "poisson"}, parameters={"mean": [-1.0, 1.0], "sd": 1.0}, initial="uniform"
    )
    data = bl.check(declared, {"y": np.arange(200.0)})
    graph = hmm.compile(declared, data).graph(purpose="simulate")
    fixed = pm.do(graph, {"duration_mu": np.array([1e-6, 3e3])})
    with fixed:
        path = pm.draw(fixed["path"], draws=3, random_seed=1, mode="FAST_COMPILE")
    for own in path:
        ends = np.flatnonzero(np.diff(own) != 0)
        lengths, states = np.diff(ends), own[ends[1:]]
        assert np.all(lengths[states == 0] == 1)
        assert np.mean(lengths[states == 1]) > 4.9


@pytest.mark.parametrize(
    ("content", "code", "where", "match"),
    [
        ({"order": 2}, "model.unsupported", "model.durations", "order.*1"),
        ({"initial": "stationary"}, "model.conflict", "model.initial", ""),
        ({"stickiness": 2}, "model.conflict", "model.durations", "stickiness"),
        (
            {"transition": [[0.5, 0.5], [1.0, 0.0]]},
            "model.contradiction",
            "model.transition",
            r"transition\[1\]\[1\].*0\.5.*0",
        ),
        ({"durations": 0}, "model.out-of-range", "model.durations", "1.*100,000.*0"),
        (
            {"durations": {"longest": 5, "law": "possion"}},
            "model.unknown-word",
            "model.durations",
            "'possion'.*'poisson'",
        ),
        ({"transitions_on": ["x"]}, "model.unsupported", "model.transitions_on", "order.*1"),
    ],
)
def test_errors_are_one_line(content, code, where, match):
    with refused(code, match, where=where):
        resolved(model, content, {"y": [1.0, 2, 3], "x": [1.0, 2, 3]})


def test_absorbing_states_go_on_and_data_that_cannot_be_are_refused():
    declared = model(states=3, topology="left_right", durations=2)
    hidden = hidden_of(declared, bl.check(declared, {"y": np.arange(9.0)}))
    assert hidden.chain.mask.tolist() == [[False, True, False], [False, False, True], [False, False, True]]
    found = hidden.law(hidden.guess(None)).expected()
    assert np.isfinite(found.log_evidence).all()
    impossible = model(
        emission="bernoulli", durations=2, parameters={"probability": [0.0, 1.0]}, transition=[[0, 1], [1, 0]]
    )
    with refused("data.probability-zero", "row 3"):
        bl.fit(impossible, {"y": [0, 0, 0, 1]}, method="em", runs=None, progress=False)


@pytest.mark.slow(why="large")
def test_old_faithful_seldom_repeats_a_short_eruption():
    """As runs counted by a threshold between the two kinds say."""
    fit = bl.fit(MODELS / "geyser_runs.yaml", method="em", prior="ignore", runs=None, progress=False)
    states = fit.decode()["state"].to_numpy()
    eruptions = fit.data.term("eruptions").value
    short = np.asarray(eruptions) < 3.1
    assert np.mean((states == "short") == short) > 0.97
    edges = np.flatnonzero(np.diff(short)) + 1
    runs, kinds = np.diff(edges), short[edges[:-1]]  # finished ones
    mu = np.asarray(fit.posterior["duration_mu"]).ravel()
    assert mu[0] == pytest.approx(runs[kinds].mean() - 1, abs=0.03)
    assert mu[1] == pytest.approx(runs[~kinds].mean() - 1, abs=0.1)


def test_tables_of_more_durations_than_can_be_learned_are_refused():
    """Each gradient of EM took hours, without a word; a law, or tables that are given, have no such limit."""
    table = {"y": np.arange(20.0)}
    with refused("model.too-costly", "200,000 probabilities.*20,000.*20 rows", where="model.durations"):
        bl.fit(model(durations=100_000), table, method="em", runs=None)
    bl.check(model(durations=10_000), table)
    bl.check(model(durations={"longest": 100_000, "law": "poisson"}), table)


@pytest.mark.parametrize("longest", [20, 100_000])
def test_check_forecasts_the_time_of_durations(longest):
    """A hundred thousand durations of a law take seconds for each evaluation."""
    data = {"y": np.random.default_rng(1).normal(size=300)}
    model = bl.Model(model=bl.HMM(columns=["y"], states=2, durations={"longest": longest, "law": "poisson"}))
    forecast = Source(model).posterior(data).forecast()
    assert forecast["nuts"].endswith("of one core")
    assert ("beyond the longest sequence, 300 rows" in forecast["an evaluation"]) == (longest > 300)
