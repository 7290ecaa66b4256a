"""What is asked of hidden paths afterwards: draws, decoding, log likelihoods, simulation; against sums over all paths."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

import bayeslab as bl
from bayeslab.families import graph
from bayeslab.posterior.transforms import tables_at
from bayeslab.preparation import Source
from tests.refusals import refused

STATES = {"state": ["low", "high"], "next_state": "state"}
Y = np.array([0.1, 2.2, 1.7, -0.4, np.nan])
MU = np.array([0.0, 2.0])
P = np.array([[0.8, 0.2], [0.3, 0.7]])
START = np.array([0.6, 0.4])
NODES = {
    "P[state, next_state]": "Dirichlet(1)",
    "D[state, length]": "Dirichlet(1)",
    "mu[state]": "Normal(0, 5)",
    "y[t]": "Normal(mu[z], 1)",
}
DURATIONS = np.array([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3]])
PARENT = np.array([np.nan, 0, 0, 1, 1])


def path_of(kind):
    """P(path), by hand."""
    if kind == "tree":
        return lambda z: np.prod([START[z[0]]] + [P[z[int(PARENT[i])], z[i]] for i in range(1, 5)])
    if kind == "segments":

        def segments(z):
            pieces = [(state, len(list(run))) for state, run in itertools.groupby(z)]
            out = START[pieces[0][0]]
            for n, (state, length) in enumerate(pieces):
                row = DURATIONS[state]
                last = n == len(pieces) - 1
                out *= row[length - 1 :].sum() if last else row[length - 1] if length <= 3 else 0.0
            return out

        return segments
    return lambda z: START[z[0]] * np.prod([P[z[t - 1], z[t]] for t in range(1, 5)])


WORDS = {
    "chain": "MarkovChain(P, [0.6, 0.4])",
    "tree": "MarkovTree(P, parent=above, initial=[0.6, 0.4])",
    "segments": "SemiMarkovChain([[0, 1], [1, 0]], durations=D, initial=[0.6, 0.4])",
}


def model_of(kind, **nodes):
    return bl.Model(
        data={"rows": "t"},
        dims=STATES | {"length": 3},
        model={"family": "graph", "nodes": NODES | {"z[t]": WORDS[kind], "extra": "Potential(0 * sum(P))"} | nodes},
    )


DATA = {"y": Y, "above": PARENT}
AT = {"P": P, "D": DURATIONS, "mu": MU}
DRAWS = {name: value[None] for name, value in AT.items()}


def joint(kind):
    """All paths, and the logarithm of their probability with the data."""
    paths = list(itertools.product(range(2), repeat=5))
    prior = path_of(kind)
    with np.errstate(divide="ignore"):
        logs = [
            np.log(prior(z)) + sum(stats.norm.logpdf(Y[t], MU[z[t]], 1) for t in range(5) if not np.isnan(Y[t]))
            for z in paths
        ]
    return np.array(paths), np.array(logs)


def smoothed(kind):
    paths, logs = joint(kind)
    weights = np.exp(logs - logsumexp(logs))
    return np.stack([[weights[paths[:, t] == k].sum() for k in range(2)] for t in range(5)])


@pytest.mark.parametrize("kind", WORDS)
def test_smoothed_probabilities_and_the_best_path(kind):
    source = Source(model_of(kind))
    data = source.bound(DATA)
    table, about = graph.compile(source.model, data).decoded(DRAWS, "smooth", 1, None)
    chances = np.stack([table["P(state=low)"], table["P(state=high)"]], axis=1)
    np.testing.assert_allclose(chances, smoothed(kind), atol=1e-10)
    assert table["t"].tolist() == list(range(5))
    best, about = graph.compile(source.model, data).decoded(DRAWS, "viterbi", 1, None)
    paths, logs = joint(kind)
    names = np.array(["low", "high"])
    assert best["state"].tolist() == names[paths[np.argmax(logs)]].tolist()
    assert np.sum(about["log_probability"]) == pytest.approx(logs.max(), abs=1e-10)


@pytest.mark.slow(why="statistical")
def test_several_best_paths_and_filtered_probabilities():
    source = Source(model_of("chain"))
    data = source.bound(DATA)
    table, _ = graph.compile(source.model, data).decoded(DRAWS, "viterbi", 3, None)
    paths, logs = joint("chain")
    order = np.argsort(-logs)[:3]
    found = np.array(table["state"]).reshape(3, 5)
    assert found.tolist() == np.array(["low", "high"])[paths[order]].tolist()
    np.testing.assert_allclose(np.array(table["log_probability"]).reshape(3, 5)[:, 0], logs[order], atol=1e-10)
    ahead = START.copy()
    for t in range(5):
        table, _ = graph.compile(source.model, data).decoded(DRAWS, "predict", 1, None)
        assert table["P(state=high)"][t] == pytest.approx(ahead[1], abs=1e-10)
        now = ahead * (stats.norm.pdf(Y[t], MU, 1) if not np.isnan(Y[t]) else 1.0)
        now = now / now.sum()
        table, _ = graph.compile(source.model, data).decoded(DRAWS, "filter", 1, None)
        assert table["P(state=high)"][t] == pytest.approx(now[1], abs=1e-10)
        ahead = now @ P


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("kind", WORDS)
def test_paths_are_drawn_with_their_probabilities(kind):
    source = Source(model_of(kind))
    built, sums = graph.compile(source.model, source.bound(DATA)).elimination()
    (tables,) = tables_at(built, sums, DRAWS)
    n = 4000
    z = sums.drawn(np.tile(tables, (n, 1)), np.random.default_rng(0))["z"]
    want = smoothed(kind)[:, 1]
    np.testing.assert_array_less(np.abs(z.mean(axis=0) - want), 5 * np.sqrt(want * (1 - want) / n) + 1e-12)


@pytest.mark.parametrize("kind", WORDS)
def test_log_likelihood_of_each_cell_given_the_others(kind):
    """p(y_t | the other cells) by two sums over all paths."""
    source = Source(model_of(kind))
    built, sums = graph.compile(source.model, source.bound(DATA)).elimination()
    (tables,) = tables_at(built, sums, DRAWS)
    terms = sums.terms(tables)["y"][0]
    paths, logs = joint(kind)
    for t in range(4):
        without = logs - stats.norm.logpdf(Y[t], MU[paths[:, t]], 1)
        assert terms[t] == pytest.approx(logsumexp(logs) - logsumexp(without), abs=1e-10)
    assert terms[4] == pytest.approx(0.0, abs=1e-12)
    assert sums.log_evidence(tables)[0] == pytest.approx(logsumexp(logs), abs=1e-10)


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("kind", WORDS)
def test_simulated_paths_have_the_probabilities_of_the_law(kind):
    """Parameters fixed by priors that are nearly points: frequencies of every path."""
    from bayeslab.posterior.forward import forward

    source = Source(model_of(kind, extra="0"))
    nodes = graph.compile(source.model, source.bound({"above": PARENT, "t": np.arange(5)})).graph(purpose="simulate")
    n = 3000
    drawn = forward(nodes, {name: np.repeat(v, n, axis=0) for name, v in DRAWS.items()}, ["z", "y"], seed=1)
    prior = path_of(kind)
    for z in itertools.product(range(2), repeat=5):
        share = np.mean(np.all(drawn["z"] == z, axis=1))
        want = float(prior(z))
        assert abs(share - want) < 5 * np.sqrt(want * (1 - want) / n) + 1e-12, z
    centred = drawn["y"] - MU[drawn["z"]]
    assert abs(centred.mean()) < 5 / np.sqrt(centred.size)


@pytest.mark.slow(why="statistical")
def test_states_that_can_trade_places_are_renamed():
    """Half of the draws have their states the other way round; afterwards all agree, numbered by mu."""
    nodes = {k: v for k, v in NODES.items() if not k.startswith("D")} | {
        "z[t]": "MarkovChain(P, stationary)",
        "gap": "mu[0] - mu[1]",
    }
    model = bl.Model(data={"rows": "t"}, dims=STATES, model={"family": "graph", "nodes": nodes})
    source = Source(model)
    rng = np.random.default_rng(3)
    y = np.concatenate([rng.normal(0, 1, 15), rng.normal(4, 1, 15)])
    data = source.bound({"y": y})
    mu = np.stack([rng.normal(0, 0.2, 40), rng.normal(4, 0.2, 40)], axis=1)
    moves = np.stack([rng.beta(9, 2, 40), rng.beta(9, 2, 40)], axis=1)
    table = np.stack([np.stack([moves[:, 0], 1 - moves[:, 0]], 1), np.stack([1 - moves[:, 1], moves[:, 1]], 1)], 1)
    z = np.tile(np.repeat([0, 1], 15), (40, 1))
    odd = np.arange(40) % 2 == 1
    draws = {
        "mu": np.where(odd[:, None], mu[:, ::-1], mu),
        "P": np.where(odd[:, None, None], table[:, ::-1, ::-1], table),
        "z": np.where(odd[:, None], 1 - z, z),
    }
    draws["gap"] = draws["mu"][:, 0] - draws["mu"][:, 1]
    found, what = graph.compile(model, data).relabelled(draws)
    assert what == "'z'"
    np.testing.assert_allclose(found["mu"], mu)
    np.testing.assert_allclose(found["P"], table)
    np.testing.assert_array_equal(found["z"], z)
    np.testing.assert_allclose(found["gap"], mu[:, 0] - mu[:, 1])


@pytest.mark.parametrize(
    "changes",
    [
        {"mu[state]": "Ordered(Normal(0, 5))"},
        {"mu[state]": "Normal([0, 1], 5)"},
        {"z[t]": "MarkovChain(P, [0.6, 0.4])"},
    ],
)
def test_states_that_something_tells_apart_keep_their_names(changes):
    nodes = {k: v for k, v in NODES.items() if not k.startswith("D")} | {"z[t]": "MarkovChain(P)"} | changes
    model = bl.Model(data={"rows": "t"}, dims=STATES, model={"family": "graph", "nodes": nodes})
    draws = {"mu": np.tile(MU, (5, 1)), "P": np.tile(P, (5, 1, 1)), "z": np.zeros((5, 5), int)}
    assert graph.compile(model, Source(model).bound({"y": Y})).relabelled(draws) is None


# ------------------------------------------------------------------------------------- refusals


def wrong(where, code, nodes, lengths=None, data=None):
    whole = {k: v for k, v in NODES.items() if not k.startswith("D")} | nodes
    whole = {k: v for k, v in whole.items() if v is not None}
    model = bl.Model(data={"rows": "t"}, dims=lengths or STATES, model={"family": "graph", "nodes": whole})
    with pytest.raises(bl.BayeslabError) as error:
        bl.check(model, data=data or {"y": Y})
    assert error.value.code == code, error.value
    assert where in str(error.value)


@pytest.mark.parametrize(
    ("word", "code"),
    [
        ("MarkovChain()", "model.wrong-arguments"),
        ("MarkovChain(P, order=3)", "model.out-of-range"),
        ("MarkovChain(P, order=2)", "model.bad-dimensions"),
        ("MarkovChain(mu)", "model.bad-dimensions"),
        ("MarkovChain(P, initial=[0.2, 0.3, 0.5])", "model.wrong-length"),
        ("MarkovChain(P, initial=[0.2, 0.3])", "model.not-probabilities"),
        ("MarkovChain(P, initial=settled)", "model.unknown-name"),
        ("MarkovChain([[0.5, 0.4], [0.3, 0.7]])", "model.not-probabilities"),
        ("MarkovChain([[0.5, 0.5], [0.3, 1.7]])", "model.not-probabilities"),
        ("MarkovChain([[0.5, 0.5, 0], [0.3, 0.7, 0]])", "model.wrong-shape"),
        ("MarkovChain([[0.5, 0.5], [1]])", "model.wrong-shape"),
        ("MarkovChain([[1, 0], [0, 1]], initial=stationary)", "model.not-identified"),
        ("MarkovChain(P * 0.5)", "model.not-probabilities"),
        ("MarkovChain(P, sequence=who)", "model.unknown-name"),
        ("MarkovChain(P, sequence=[1, 2])", "model.wrong-arguments"),
        ("MarkovChain(Q=P)", "model.unknown-parameter"),
        ("MarkovTree(P)", "model.wrong-arguments"),
        ("SemiMarkovChain(P, durations=[[0.5, 0.5], [0.1, 0.9]])", "model.not-probabilities"),
        ("SemiMarkovChain([[0, 1], [1, 0]], durations=[[0.5, 0.5]])", "model.wrong-shape"),
    ],
)
def test_wrong_words(word, code):
    wrong("z[t]", code, {"z[t]": word})


def test_a_path_that_nothing_depends_on():
    wrong("z[t]", "model.nothing-observed", {"z[t]": "MarkovChain(P)", "y[t]": "Normal(mu[0], 1)"})


def test_a_path_without_a_dimension():
    wrong("z", "model.bad-dimensions", {"z": "MarkovChain(P)"})


def test_states_without_a_twin():
    wrong("z[t]", "model.bad-dimensions", {"z[t]": "MarkovChain(P)"}, {"state": 2, "next_state": 2})


def test_transitions_that_change_settle_nowhere():
    nodes = {"z[t]": "MarkovChain(softmax(log(P) + x * index(next_state), next_state), stationary)"}
    wrong("z[t]", "model.not-applicable", nodes, data={"y": Y, "x": np.arange(5.0)})


def test_sequences_in_two_pieces():
    nodes = {"z[t]": "MarkovChain(P, sequence=who)"}
    wrong("row 4", "data.not-in-order", nodes, data={"y": Y, "who": list("aabab")})


def test_parents_in_a_circle():
    nodes = {"z[t]": "MarkovTree(P, parent=above)"}
    wrong("row", "data.cycle", nodes, data={"y": Y, "above": [1, 2, 0, 0, 1]})
    wrong("row 3", "data.unknown-level", nodes, data={"y": Y, "above": [np.nan, 0, 17, 0, 1]})


def test_segments_that_meet_other_discrete_nodes():
    nodes = {
        "z[t]": "SemiMarkovChain([[0, 1], [1, 0]], durations=[[0.5, 0.5], [0.1, 0.9]])",
        "v[t]": "Bernoulli(0.5)",
        "y[t]": "Normal(mu[z] + v, 1)",
    }
    wrong("z", "model.discrete", nodes)


def test_a_number_that_is_sampled_and_depends_on_a_path():
    nodes = {"z[t]": "MarkovChain(P)", "x[t]": "Normal(mu[z], 1)", "y[t]": "Normal(x, 1)"}
    wrong("x[t]", "model.discrete", nodes)


def test_decoding_refuses_what_there_is_not():
    source = Source(model_of("tree"))
    data = source.bound(DATA)
    for method, best, code in (("filter", 1, "option.not-applicable"), ("viterbi", 2, "option.not-applicable")):
        with refused(code):
            graph.compile(source.model, data).decoded(DRAWS, method, best, None)
    with refused("option.unknown-word"):
        graph.compile(source.model, data).decoded(DRAWS, "guess", 1, None)
    with refused("data.unknown-level"):
        graph.compile(source.model, data).decoded(DRAWS, "smooth", 1, "nobody")
