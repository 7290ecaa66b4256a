"""Urns without replacement from model files: against enumeration, the model with replacement, and planted moves."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import bayeslab as bl
from bayeslab.families import hmm
from bayeslab.families.hmm.model import hidden_of
from bayeslab.fitting import bound
from bayeslab.latents.chains.forward_backward import HiddenChain
from bayeslab.results.decode import decode
from tests.families._climb import climbed
from tests.families._interpreted import Interpreted
from tests.latents.test_urns import truth
from tests.refusals import refused

COLOURS = ["red", "green", "blue"]
BALLS = np.array([[2, 3, 1], [1, 5, 0]])


def model(balls=BALLS, **content):
    own = {
        "family": "hmm", "columns": ["ball"], "states": 2, "emission": "urn", "sequence": "round",
        "parameters": {"balls": np.asarray(balls).tolist()},
    }  # fmt: skip
    return bl.Model(name="m", dims={"ball": COLOURS}, model=own | content)


TABLE = {
    "round": ["a"] * 4 + ["b"] * 3,
    "ball": ["green", "red", None, "red", "blue", "green", "green"],
}
OWN = [np.array([1, 0, -1, 0]), np.array([2, 1, 1])]


@pytest.fixture(scope="module")
def small():
    declared = model()
    data = bl.check(declared, TABLE)
    return declared, data, hmm.compile(declared, data).graph()


def test_evidence_and_states_equal_enumeration(small):
    declared, data, _ = small
    hidden = hidden_of(declared, data)
    values = hidden.guess(np.random.default_rng(0))
    chain = HiddenChain.of(values["initial"], values["transition"])
    want = [truth(BALLS, chain, own, np.zeros((len(own), 2))) for own in OWN]
    draws = {n: v[None] for n, v in values.items()}
    found = hmm.compile(declared, data).log_likelihoods(draws)["sequence"][1][0]
    np.testing.assert_allclose(found, np.log([w[0] for w in want]), rtol=1e-10)
    smoothed = hmm.compile(declared, data).decoded(draws, "smooth", 1, None)[0]
    np.testing.assert_allclose(smoothed["P(state=1)"], np.concatenate([w[1][:, 0] for w in want]), atol=1e-10)
    path = hmm.compile(declared, data).decoded(draws, "viterbi", 1, "a")[0]["state"] - 1
    np.testing.assert_array_equal(path, want[0][4][want[0][3].argmax()])
    filtered = hmm.compile(declared, data).decoded(draws, "filter", 1, "b")[0]["P(state=1)"]
    shorter = [truth(BALLS, chain, OWN[1][: t + 1], np.zeros((t + 1, 2)))[1][t, 0] for t in range(3)]
    np.testing.assert_allclose(filtered, shorter, atol=1e-10)
    expected = hmm.compile(declared, data).decoded(draws, "predict", 1, "b")[0]
    np.testing.assert_allclose(expected["P(state=1)"][0], values["initial"][0], atol=1e-12)


@pytest.mark.slow(why="compiles")
def test_density_is_that_of_enumeration_and_its_slope_is_right(small):
    """Even priors are constants: rows of two places have density 1."""
    _, _, graph = small
    density = Interpreted(graph)
    point = density.near(np.random.default_rng(1))
    found = density.parameters(point)
    chain = HiddenChain.of(found["initial"], found["transition"])
    want = sum(np.log(truth(BALLS, chain, colours, np.zeros((len(colours), 2)))[0]) for colours in OWN)
    assert density.value(point) == pytest.approx(want, rel=1e-8)
    np.testing.assert_allclose(density.slope(point), density.differences(point), rtol=1e-5, atol=1e-6)


def test_probabilities_of_all_sequences_sum_to_one():
    """Each of the 81 sequences of four colours as a round of its own."""
    every = list(product(COLOURS, repeat=4))
    table = {
        "round": np.repeat([f"r{i}" for i in range(81)], 4),
        "ball": [c for colours in every for c in colours],
    }
    declared = model(initial=[0.3, 0.7], transition=[[0.6, 0.4], [0.1, 0.9]])
    data = bound(declared, table)
    found = hidden_of(declared, data).law({}).expected().log_evidence
    assert np.sum(found == -np.inf) > 0  # there are but three reds
    assert np.exp(found).sum() == pytest.approx(1.0, abs=1e-12)


def test_very_full_urns_are_the_categorical_model():
    known = {"initial": [0.3, 0.7], "transition": [[0.6, 0.4], [0.1, 0.9]]}
    full = model(BALLS * 10**7, **known)
    shares = BALLS / BALLS.sum(axis=1, keepdims=True)
    plain = model(**known, emission="categorical", parameters={"p_ball": shares.tolist()})
    for method in ("smooth", "filter", "predict"):
        mine, theirs = (decode(declared, TABLE, method) for declared in (full, plain))
        np.testing.assert_allclose(mine["P(state=1)"], theirs["P(state=1)"], atol=1e-5)
    mine, theirs = (hmm.compile(m, bl.check(m, TABLE)).log_likelihoods({})["sequence"][1] for m in (full, plain))
    np.testing.assert_allclose(mine, theirs, atol=1e-5)


@pytest.fixture(scope="module")
def planted():
    """A hundred rounds of nine draws from urns that differ."""
    rng = np.random.default_rng(5)
    balls, move = np.array([[8, 3, 1], [1, 4, 8]]), np.array([[0.8, 0.2], [0.4, 0.6]])
    z, ball = np.empty(900, int), []
    for s in range(100):
        left = balls.copy()
        for t in range(9):
            z[9 * s + t] = k = rng.choice(2, p=move[z[9 * s + t - 1]] if t else [0.5, 0.5])
            c = rng.choice(3, p=left[k] / left[k].sum())
            left[k, c] -= 1
            ball.append(COLOURS[c])
    hidden = rng.random(900) < 0.05
    shown = [None if gone else c for c, gone in zip(ball, hidden, strict=True)]
    return balls, z, np.array(ball), hidden, {"round": np.repeat([f"r{i}" for i in range(100)], 9), "ball": shown}


@pytest.mark.slow(why="statistical")
def test_em_never_falls_and_finds_what_was_planted(planted):
    balls, z, _, _, table = planted
    declared = model(balls)
    plan = hmm.compile(declared, bl.check(declared, table)).em_plan
    problem, theta = plan.problem(True), plan.start(np.random.default_rng(1))
    theta, trace = climbed(problem, theta, 100, rtol=0, atol=1e-9)
    assert trace[-1] - trace[-2] < 1e-7
    rng = np.random.default_rng(2)
    for _ in range(10):  # the end is a maximum
        moved = theta["transition"] * np.exp(0.02 * rng.standard_normal((2, 2)))
        other = theta | {"transition": moved / moved.sum(axis=1, keepdims=True)}
        assert problem.expect(other)[0] < trace[-1] + 1e-6
    fit = bl.fit(declared, table, method="em", seed=1, runs=None, progress=False)
    found = np.asarray(fit.posterior["transition"])[0, 0]
    np.testing.assert_allclose(found, theta["transition"], atol=1e-3)
    # States are seen through colours: twice the error of counted ones.
    assert abs(found[0, 1] - 0.2) < 8 * np.sqrt(0.2 * 0.8 / 500)
    assert abs(found[1, 0] - 0.4) < 8 * np.sqrt(0.4 * 0.6 / 250)
    assert np.mean(fit.decode()["state"].to_numpy() == z + 1) > 0.75
    assert hidden_of(declared, fit.data).n_free == 3


@pytest.mark.slow(why="compiles")
def test_sampling_and_predicting(planted):
    """One NUTS run; balls not seen are predicted better than by their shares, and replications empty no urn."""
    balls, _, ball, gone, table = planted
    declared = model(balls)
    fit = bl.fit(declared, table, method="nuts", draws=200, tune=200, chains=2, seed=2, runs=None, progress=False)
    draws = np.asarray(fit.posterior["transition"])
    assert np.all(np.abs(draws.mean(axis=(0, 1)) - [[0.8, 0.2], [0.4, 0.6]]) < 4.5 * draws.std(axis=(0, 1)))
    own = {n: np.asarray(fit.posterior[n])[0, :60] for n in hidden_of(declared, fit.data).learned}
    made = hmm.compile(declared, fit.data).predictive(own, np.random.default_rng(0))["ball"][1]
    assert made.shape == (60, 900)
    codes = np.array([COLOURS.index(c) for c in ball])
    share = np.stack([(made == c).mean(axis=0) for c in range(3)], axis=1)
    right = share[np.flatnonzero(gone), codes[gone]]
    base = np.bincount(codes[~gone], minlength=3) / (~gone).sum()
    assert right.mean() > base[codes[gone]].mean()
    assert (made.reshape(60, 100, 9) == 2).sum(axis=2).max() <= balls[:, 2].sum()


def test_a_ball_not_seen_is_one_of_those_that_are_left():
    """An urn of two reds and a green, two of which are seen: the third is known, whenever it was drawn."""
    declared = model([[2, 1, 0], [0, 0, 9]], initial=[1.0, 0.0], transition=[[1, 0], [0, 1]])
    data = bl.check(declared, {"round": ["a"] * 3, "ball": ["red", None, "green"]})
    made = hmm.compile(declared, data).predictive({}, np.random.default_rng(0))["ball"][1]
    assert made[0, 1] == 0
    found = hmm.compile(declared, data).log_likelihoods({})["row"][1][0]
    assert np.exp(found.sum()) == pytest.approx(2 / 3 * 1 / 2)


def test_simulated_balls_come_from_what_is_left():
    import pymc as pm

    table = {"round": np.repeat([f"r{i}" for i in range(300)], 3), "ball": ["red"] * 900}
    declared = model([[2, 1, 0], [0, 0, 3]], initial="uniform")
    graph = hmm.compile(declared, bound(declared, table)).graph(purpose="simulate")
    fixed = pm.do(graph, {"transition": np.array([[1.0, 0.0], [0.0, 1.0]])})
    path, ball = pm.draw([fixed["path"], fixed["ball"]], random_seed=1, mode="FAST_COMPILE")
    path, ball = path.reshape(300, 3), ball.reshape(300, 3)
    assert np.all(path == path[:, :1])
    # Three draws empty the urn: always two reds and a green, in an order as good as any other.
    first = ball[path[:, 0] == 0]
    np.testing.assert_array_equal(np.sort(first, axis=1), np.tile([0, 0, 1], (len(first), 1)))
    assert abs(np.mean(first[:, 0] == 1) - 1 / 3) < 4.5 * np.sqrt(2 / 9 / len(first))
    assert np.all(ball[path[:, 0] == 1] == 2)


@pytest.mark.parametrize(
    ("content", "code", "where", "match"),
    [
        ({"parameters": {}}, "model.wrong-type", "model.parameters", "balls"),
        ({"parameters": {"ball": [[1]]}}, "model.wrong-type", "model.parameters", "'ball'"),
        ({"parameters": {"balls": [[1, 2, 3]]}}, "model.wrong-length", "model.parameters.balls", "1.*2"),
        ({"parameters": {"balls": [[1, 2, 3], [0, 0, 0]]}}, "model.no-values", "model.parameters.balls", "2"),
        ({"parameters": {"balls": [[1, 2, 3], [0.5, 0, 0]]}}, "model.not-whole", "model.parameters.balls", ""),
        ({"parameters": {"balls": [[1, 2], [3, 4]]}}, "data.wrong-length", "", "'ball'.*3.*2"),
        ({"columns": ["ball", "x"]}, "model.unsupported", "model", "urn"),
        ({"emission": {"ball": "urn"}}, "model.unsupported", "model", "urn"),
        ({"durations": 3}, "model.conflict", "model", "durations"),
        ({"order": 2}, "model.conflict", "model", "order"),
    ],
)
def test_errors_are_one_line(content, code, where, match):
    with refused(code, match, where=where):
        resolved(content, TABLE)


def resolved(content, table):
    declared = model(**content)
    return hidden_of(declared, bl.check(declared, table))


def test_balls_that_cannot_be_drawn_are_named():
    table = {"round": ["a"] * 3 + ["b"] * 3, "ball": ["red", "red", "green", "blue", "green", "blue"]}
    with refused("data.probability-zero", "row 6.*'b'"):
        bl.fit(model(), table, method="em", runs=None, progress=False)
