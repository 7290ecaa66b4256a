"""Hidden Markov models with an infinite number of states: planted numbers, results of every kind, errors."""

from __future__ import annotations

import numpy as np
import pytest

import bayeslab as bl
from bayeslab.families.hmm.model import hidden_of
from bayeslab.families.hmm.truncation import based, limited
from bayeslab.latents.chains.forward_backward import HiddenChain, simulate_states
from bayeslab.latents.labels.clusters import adjusted_rand_index
from tests.refusals import refused

SMALL = {"draws": 150, "tune": 100, "chains": 2, "progress": False}


def model(**content):
    declared = {"family": "hmm", "columns": ["y"], "states": "infinite", "most": 12} | content
    return bl.Model(name="m", model=declared)


def planted(n, means, transition, seed=0):
    rng = np.random.default_rng(seed)
    k = len(means)
    states = simulate_states(HiddenChain.of(np.full(k, 1 / k), transition), [0, n], rng)
    return states, np.array(means)[states] + 0.7 * rng.standard_normal(n)


def lasting(k, stay=0.9):
    return np.full((k, k), (1 - stay) / (k - 1)) + (stay - (1 - stay) / (k - 1)) * np.eye(k)


@pytest.fixture(scope="module")
def three():
    states, y = planted(200, [-4.0, 0.0, 4.0], lasting(3))
    y[50:54] = np.nan
    table = {"y": y, "w": np.where(states == 2, "high", "low"), "day": np.append(np.arange(199), 205)}
    return states, table, bl.fit(model(time="day"), table, seed=1, **SMALL)


@pytest.mark.slow(why="statistical")
def test_the_planted_number_is_found(three):
    """Three states well apart: hardly fewer than three in use, few more, and the partition is the planted one."""
    states, _, fit = three
    number = fit.posterior["n_occupied"].to_numpy()
    assert np.mean(number < 3) < 0.01
    assert number.mean() < 6
    partition = fit.data_tree["clusters"]["partition"].to_numpy()
    assert adjusted_rand_index(partition[:-1], states[:-1]) > 0.9
    together = fit.data_tree["clusters"]["together"].to_numpy()
    same = states[:, None] == states
    assert together[same].mean() > 0.8 > 0.1 > together[~same].mean()


@pytest.mark.slow(why="statistical")
def test_auto_samples_and_says_so(three):
    fit = three[2]
    checks = {f.check: f for f in fit.verdict.findings}
    assert "number of states in use" in checks["states"].message
    assert "truncation" not in checks
    assert set(fit.posterior.data_vars) == {"n_occupied", "entropy", "log_likelihood", "alpha", "gamma", "kappa"}


@pytest.mark.slow(why="compiles")
def test_states_have_parameters_by_the_partition(three):
    """The three with the most times are the planted ones; what else there is, is small."""
    _, _, fit = three
    own = fit.data_tree["occupied"]
    large = np.sort(np.argsort(-own["times"].to_numpy())[:3])
    np.testing.assert_allclose(own["mean"][large], [-4, 0, 4], atol=0.5)
    np.testing.assert_allclose(own["sd"][large], 0.7, atol=0.25)
    assert np.all(own["mean_sd"][large] < 0.6)
    np.testing.assert_allclose(own["probability"][large], 1.0, atol=0.05)
    assert own["times"][large].sum() == pytest.approx(206, abs=40)


def test_decoding_and_prediction(three):
    """Gaps have states too; new rows are put into the states of the fit."""
    states, table, fit = three
    path = fit.decode()
    assert len(path) == 206
    seen = path[path["day"].isin(table["day"])]
    assert adjusted_rand_index(seen["state"].to_numpy()[:-1], states[:-1]) > 0.9
    smooth = fit.decode(method="smooth")
    assert {"P(state=1)", "P(state=2)", "P(state=3)"} <= set(smooth.columns)
    new = fit.predict({"y": [-4.2, 4.1, 4.3], "day": [0, 1, 2]}, kind="probabilities")
    chances = np.column_stack([new[f"P(state={s})"] for s in range(1, 13)])
    centre = fit.data_tree["occupied"]["mean"].to_numpy()
    np.testing.assert_allclose(centre[chances.argmax(axis=1)], [-4, 4, 4], atol=0.5)


def test_names_of_states_do_not_change_the_likelihood(three):
    """Row by row, at the renamed states of every draw: it adds up to what the sampler found."""
    fit = three[2]
    rows = fit.log_likelihood()["row"].transpose("chain", "draw", ...)
    np.testing.assert_allclose(rows.sum(rows.dims[-1]), fit.posterior["log_likelihood"], rtol=1e-6)


@pytest.mark.slow(why="statistical")
def test_more_data_show_more_of_many_states():
    """Six states, five of them rare: a short series has met few of them."""
    k = 6
    rare = np.full((k, k), 0.01) + 0.75 * np.eye(k)
    rare[:, 0] += 1 - rare.sum(axis=1)
    states, y = planted(500, np.arange(k) * 4.0, rare, seed=6)
    assert len(set(states[:60])) <= 3
    assert len(set(states)) == k
    numbers = [
        bl.fit(model(most=16), {"y": y[:n]}, seed=1, **SMALL).posterior["n_occupied"].to_numpy() for n in (60, 500)
    ]
    assert numbers[0].mean() + 1 < numbers[1].mean()
    assert 5 <= np.median(numbers[1]) <= 9


@pytest.mark.slow(why="statistical")
def test_words_and_several_columns():
    states, y = planted(120, [-4.0, 4.0], lasting(2), seed=2)
    rng = np.random.default_rng(0)
    table = {"y": y, "w": rng.choice(["a", "b"], 120), "who": ["one"] * 50 + ["two"] * 70}
    table["v"] = states + 0.3 * rng.standard_normal(120)
    mixed = model(columns=["y", "w"], emission={"y": "gaussian", "w": "categorical"}, sequence="who", stickiness=3)
    fit = bl.fit(mixed, table, seed=1, **SMALL)
    assert adjusted_rand_index(fit.data_tree["clusters"]["partition"].to_numpy(), states) > 0.9
    assert fit.data_tree["occupied"]["p_w"].shape[1] == 2
    table["v"][5] = np.nan
    full = model(columns=["y", "v"], covariance="full", parameters={"kappa": "Gamma(1, 0.1)", "gamma": 2})
    fit = bl.fit(full, table, seed=1, **SMALL)
    assert "kappa" in fit.posterior.data_vars
    assert "gamma" not in fit.posterior.data_vars
    assert adjusted_rand_index(fit.data_tree["clusters"]["partition"].to_numpy(), states) > 0.9


@pytest.mark.slow(why="statistical")
def test_the_truncation_is_watched():
    _, y = planted(100, [-4.0, 0.0, 4.0], lasting(3))
    fit = bl.fit(model(most=3), {"y": y}, seed=1, **SMALL)
    found = [f for f in fit.verdict.findings if f.check == "truncation"]
    assert [f.status for f in found] == ["warn"]
    assert "most" in found[0].advice


@pytest.mark.slow(why="statistical")
def test_the_same_seed_gives_the_same_draws():
    _, y = planted(40, [-4.0, 4.0], lasting(2))
    tiny = {"draws": 5, "tune": 2, "chains": 2, "progress": False}
    one, two, other = (bl.fit(model(), {"y": y}, seed=s, **tiny).data_tree for s in (1, 1, 2))
    for group in ("posterior", "states", "clusters"):
        assert one[group].to_dataset().equals(two[group].to_dataset())
    assert not one["states"].to_dataset().equals(other["states"].to_dataset())


def test_priors_do_not_depend_on_the_truncation():
    """The base measure of normal columns as documented: σ² ~ InverseGamma(1.5, s² / 18), means with σ / √0.1."""
    _, y = planted(100, [-4.0, 0.0, 4.0], lasting(3))
    for most in (5, 40):
        declared = model(most=most)
        data = bl.check(declared, {"y": y})
        prior = limited(hidden_of(declared, data)).parts[0].emission.prior
        assert prior.nu == 3
        assert prior.kappa == pytest.approx(0.1)
        np.testing.assert_allclose(prior.scale / 2, np.var(y) / 18)
    declared = model(columns=["y", "z"], covariance="full", most=7)
    data = bl.check(declared, {"y": y, "z": y**2})
    prior = based(hidden_of(declared, data).parts[0]).emission.prior
    np.testing.assert_allclose(prior.scale, np.cov([y, y**2], bias=True) / 9, rtol=1e-5)


# --------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("method", "code"),
    [
        ("nuts", "model.no-graph"),
        ("em", "engine.refused.not-suited"),
        ("exact", "engine.refused.no-closed-form"),
        ("map", "model.no-graph"),
    ],
)
def test_other_engines_refuse_with_advice(method, code):
    with refused(code, "gibbs"):
        bl.fit(model(), {"y": [0.0, 1.0, 2.0, 3.0]}, method=method, seed=1, progress=False)


@pytest.mark.parametrize(
    ("content", "code", "where", "match"),
    [
        ({"topology": "left_right"}, "model.unsupported", "model", "topology"),
        ({"initial": "stationary"}, "model.unsupported", "model", "initial"),
        ({"order": 2}, "model.unsupported", "model", "order"),
        ({"pseudocount": 2}, "model.unsupported", "model", "pseudocount"),
        ({"states": 3}, "model.conflict", "model", "most"),
        ({"states": "infinit"}, "model.unknown-word", "model.states", "'infinite'"),
        ({"most": 1000}, "model.out-of-range", "model.most", "100"),
        ({"parameters": {"alpha": -1}}, "model.bad-prior", "model.parameters.alpha", ""),
        ({"parameters": {"alpha": "Normal(0, 1)"}}, "model.bad-prior", "model.parameters.alpha", "Gamma"),
        ({"parameters": {"kappa": "Gamma(1, 1)"}, "stickiness": 2}, "model.conflict", "model.stickiness", "kappa"),
        ({"parameters": {"beta": 1}}, "model.unknown-parameter", "model.parameters.beta", "'beta'"),
        ({"emission": "student_t"}, "engine.refused.not-suited", "", "student_t"),
    ],
)
def test_what_does_not_go_together(content, code, where, match):
    with refused(code, match, where=where):
        bl.fit(model(**content), {"y": [0.0, 1.0, 2.0, 3.0]}, method="gibbs", seed=1, progress=False)
