"""Hidden paths in the language: densities and gradients against sums over all paths, written by hand with SciPy."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from pytensor import function
from pytensor.compile.mode import Mode
from pytensor.graph.replace import clone_replace
from scipy import stats
from scipy.special import logsumexp

import bayeslab as bl
from tests.refusals import refused

PYTHON = Mode("py", "fast_compile")
STATES = {"state": 2, "next_state": "state"}
P2 = np.array([[0.8, 0.2], [0.3, 0.7]])
START = np.array([0.6, 0.4])
Y = np.array([0.1, 2.2, 1.7, -0.4, 0.9])
MU = np.array([0.0, 2.0])


def model(nodes, lengths=None, **source):
    return bl.Model(data=source, dims=lengths or STATES, model={"family": "graph", "nodes": nodes})


def evidence(built, values) -> float:
    """The log of the sum at given values of the parameters: the potential alone."""
    (potential,) = built.potentials
    symbols = {rv: rv.type() for rv in built.free_RVs}
    at = function(list(symbols.values()), clone_replace([potential], symbols), mode=PYTHON, on_unused_input="ignore")
    return float(at(*(np.asarray(values[rv.name], dtype=rv.dtype) for rv in symbols))[0])


def enumerated(n: int, k: int, path: Callable[[tuple[int, ...]], float], cell: Callable[[int, int], float]) -> float:
    """log of the sum over all paths of n cells in k states of P(path) times the cells' densities."""
    with np.errstate(divide="ignore"):
        return float(
            logsumexp(
                [np.log(path(z)) + sum(cell(t, z[t]) for t in range(n)) for z in itertools.product(range(k), repeat=n)]
            )
        )


def chain_probability(start, moves) -> Callable[[tuple[int, ...]], float]:
    """P(path) of a chain; ``moves`` is a matrix, or one for each cell."""
    moves = np.asarray(moves)

    def path(z):
        out = start[z[0]]
        for t in range(1, len(z)):
            out *= (moves[t] if moves.ndim == 3 else moves)[z[t - 1], z[t]]
        return out

    return path


def normal(y, mu, sd=1.0):
    return lambda t, k: 0.0 if np.isnan(y[t]) else stats.norm.logpdf(y[t], mu[k], sd)


NODES = {
    "P[state, next_state]": "Dirichlet(1)",
    "mu[state]": "Normal(0, 5)",
    "y[t]": "Normal(mu[z], 1)",
}


# -------------------------------------------------------------------------------- one chain


@pytest.mark.parametrize(
    ("given", "start"),
    [
        ("", [0.5, 0.5]),
        (", initial=uniform", [0.5, 0.5]),
        (", initial=[0.6, 0.4]", START),
        (", START", START),
        (", stationary", [0.6, 0.4]),
        (", initial=start", START),
    ],
)
def test_density_of_a_chain(given, start):
    nodes = NODES | {"z[t]": f"MarkovChain(P{given.replace('START', '[0.6, 0.4]')})"}
    if "start" in given:
        nodes["start[state]"] = "Dirichlet(1)"
    built = bl.to_pymc(model(nodes, rows="t"), {"y": Y})
    want = enumerated(5, 2, chain_probability(np.asarray(start), P2), normal(Y, MU))
    assert evidence(built, {"P": P2, "mu": MU, "start": START}) == pytest.approx(want, abs=1e-10)


@pytest.mark.parametrize("lengths", [STATES, {"next_state": 2, "state": "next_state"}])
@pytest.mark.parametrize("dims", ["state, next_state", "next_state, state"])
def test_rows_and_columns_are_as_the_node_names_them(lengths, dims):
    """Whatever is declared first, and whichever is called the twin."""
    nodes = NODES | {"z[t]": "MarkovChain(P, [0.6, 0.4])", f"P[{dims}]": "Dirichlet(1)"}
    if dims != "state, next_state":
        del nodes["P[state, next_state]"]
    built = bl.to_pymc(model(nodes, lengths, rows="t"), {"y": Y})
    want = enumerated(5, 2, chain_probability(START, P2), normal(Y, MU))
    assert evidence(built, {"P": P2, "mu": MU}) == pytest.approx(want, abs=1e-10)


def test_an_expression_whose_dimensions_come_in_another_order_is_refused():
    nodes = {
        "a[next_state]": "Normal(0, 1)",
        "b[state]": "Normal(0, 1)",
        "z[t]": "MarkovChain(softmax(a + b, next_state))",
        "y[t]": "Normal(b[z], 1)",
    }
    with refused("model.bad-dimensions", "next_state"):
        bl.to_pymc(model(nodes, rows="t"), {"y": Y})
    clear = nodes | {"P[state, next_state]": "softmax(a + b, next_state)", "z[t]": "MarkovChain(P)"}
    assert bl.to_pymc(model(clear, rows="t"), {"y": Y}).potentials


def test_missing_cells_are_a_factor_of_one():
    y = np.where(np.arange(5) == 2, np.nan, Y)
    built = bl.to_pymc(model(NODES | {"z[t]": "MarkovChain(P)"}, rows="t"), {"y": y})
    want = enumerated(5, 2, chain_probability([0.5, 0.5], P2), normal(y, MU))
    assert evidence(built, {"P": P2, "mu": MU}) == pytest.approx(want, abs=1e-10)
    assert [rv.name for rv in built.free_RVs] == ["P", "mu"]


def test_several_nodes_and_covariates_depend_on_a_chain():
    """A count by state and covariate, a label whose probabilities go by state, and a potential."""
    x, n, w = np.array([0.3, -1.0, 0.5, 1.1, 0.0]), np.array([2, 0, 5, 1, 3]), np.array([0, 2, 1, 1, 0])
    q = np.array([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]])
    nodes = {
        "P[state, next_state]": "Dirichlet(1)",
        "rate[state]": "Gamma(1, 1)",
        "b": "Normal(0, 1)",
        "q[state, word]": "Dirichlet(1)",
        "z[t]": "MarkovChain(P, [0.6, 0.4])",
        "n[t]": "Poisson(rate[z] * exp(b * x))",
        "w[t]": "Categorical(q[z, word])",
        "extra": "Potential(sum(0.3 * z))",
    }
    built = bl.to_pymc(model(nodes, STATES | {"word": 3}, rows="t"), {"n": n, "w": w, "x": x})
    rate, b = np.array([1.0, 3.0]), 0.4

    def cell(t, k):
        return stats.poisson.logpmf(n[t], rate[k] * np.exp(b * x[t])) + np.log(q[k, w[t]]) + 0.3 * k

    want = enumerated(5, 2, chain_probability(START, P2), cell)
    assert evidence(built, {"P": P2, "rate": rate, "b": b, "q": q}) == pytest.approx(want, abs=1e-9)


def test_categories_by_state():
    """By probabilities and by logits, with a missing cell."""
    w = np.array([0, 2, 1, np.nan, 0])
    q = np.array([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]])
    base = {"P[state, next_state]": "Dirichlet(1)", "z[t]": "MarkovChain(P, [0.6, 0.4])"}
    want = enumerated(
        5, 2, chain_probability(START, P2), lambda t, k: 0.0 if np.isnan(w[t]) else np.log(q[k, int(w[t])])
    )
    for nodes, values in (
        ({"q[state, word]": "Dirichlet(1)", "w[t]": "Categorical(q[z, word])"}, {"q": q}),
        ({"a[state, word]": "Normal(0, 1)", "w[t]": "Categorical(softmax(a[z, word], word))"}, {"a": np.log(q) + 2.0}),
        ({"a[state, word]": "Normal(0, 1)", "w[t]": "Categorical(logit_p=a[z, word])"}, {"a": np.log(q) + 2.0}),
    ):
        built = bl.to_pymc(model(base | nodes, STATES | {"word": 3}, rows="t"), {"w": w})
        assert evidence(built, {"P": P2} | values) == pytest.approx(want, abs=1e-9)


def test_a_chain_for_each_person():
    """By person the transitions differ, and the first states."""
    y = np.array([[0.1, 2.0, np.nan], [1.4, -0.2, 0.3]])
    moves = np.array([P2, [[0.5, 0.5], [0.1, 0.9]]])
    start = np.array([[0.6, 0.4], [0.2, 0.8]])
    nodes = {
        "P[person, state, next_state]": "Dirichlet(1)",
        "start[person, state]": "Dirichlet(1)",
        "mu[state]": "Normal(0, 5)",
        "z[person, t]": "MarkovChain(P, start)",
        "y[person, t]": "Normal(mu[z], 1)",
    }
    built = bl.to_pymc(model(nodes, dims={"y": ["person", "t"]}), {"y": y})
    want = sum(enumerated(3, 2, chain_probability(start[i], moves[i]), normal(y[i], MU)) for i in range(2))
    assert evidence(built, {"P": moves, "start": start, "mu": MU}) == pytest.approx(want, abs=1e-10)


def test_transitions_by_covariates_and_groups():
    """Row t of P is the transition into t, here a softmax of a covariate and an effect of the person."""
    rng = np.random.default_rng(1)
    y, x = rng.normal(1, 1, (2, 4)), rng.normal(size=(2, 4))
    a, b, u = rng.normal(size=(2, 2)), rng.normal(size=(2, 2)), np.array([0.5, -0.7])
    nodes = {
        "a[state, next_state]": "Normal(0, 1)",
        "b[state, next_state]": "Normal(0, 1)",
        "u[person]": "Normal(0, 1)",
        "P[person, t, state, next_state]": "softmax(a + b * x + u * index(next_state), next_state)",
        "mu[state]": "Normal(0, 5)",
        "z[person, t]": "MarkovChain(P, [0.6, 0.4])",
        "y[person, t]": "Normal(mu[z], 1)",
    }
    built = bl.to_pymc(model(nodes, dims={"y": ["person", "t"], "x": ["person", "t"]}), {"y": y, "x": x})
    want = 0.0
    for i in range(2):
        logits = a + b * x[i][:, None, None] + u[i] * np.arange(2)
        moves = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
        want += enumerated(4, 2, chain_probability(START, moves), normal(y[i], MU))
    assert evidence(built, {"a": a, "b": b, "u": u, "mu": MU}) == pytest.approx(want, abs=1e-10)


def test_a_list_of_lists_with_zeros_and_columns():
    """Left to right, with chances that change along the chain."""
    stay = np.array([0.5, 0.9, 0.7, 0.4, 0.8])
    nodes = {
        "a": "Beta(1, 1)",
        "mu[state]": "Normal(0, 5)",
        "z[t]": "MarkovChain([[stay * a, 1 - stay * a], [0, 1]], initial=[1, 0])",
        "y[t]": "Normal(mu[z], 1)",
    }
    built = bl.to_pymc(model(nodes, rows="t"), {"y": Y, "stay": stay})
    a = 0.8
    moves = np.stack([np.array([[s * a, 1 - s * a], [0, 1]]) for s in stay])
    want = enumerated(5, 2, chain_probability([1.0, 0.0], moves), normal(Y, MU))
    assert evidence(built, {"a": a, "mu": MU}) == pytest.approx(want, abs=1e-10)


def test_sequences_in_one_long_table():
    nodes = NODES | {"z[t]": "MarkovChain(P, stationary, sequence=who)"}
    built = bl.to_pymc(model(nodes, rows="t"), {"y": Y, "who": ["a", "a", "b", "b", "b"]})
    path = chain_probability(START, P2)
    want = enumerated(2, 2, path, normal(Y[:2], MU)) + enumerated(3, 2, path, normal(Y[2:], MU))
    assert evidence(built, {"P": P2, "mu": MU}) == pytest.approx(want, abs=1e-10)


@pytest.mark.parametrize("initial", ["[0.6, 0.4]", "joint", "stationary"])
def test_second_order(initial):
    rng = np.random.default_rng(4)
    moves, joint = rng.dirichlet([1, 1], (2, 2)), rng.dirichlet(np.ones(4)).reshape(2, 2)
    nodes = NODES | {
        "P[state, state2, next_state]": "Dirichlet(1)",
        "z[t]": f"MarkovChain(P, {initial}, order=2)",
    }
    del nodes["P[state, next_state]"]
    built = bl.to_pymc(
        model(
            nodes, {"state": 2, "state2": "state", "next_state": "state"}, rows="t", dims={"joint": ["state", "state2"]}
        ),
        {"y": Y, "joint": joint},
    )
    if initial == "stationary":
        pairs = np.zeros((4, 4))
        for i, j, k in itertools.product(range(2), repeat=3):
            pairs[2 * i + j, 2 * j + k] = moves[i, j, k]
        joint = np.linalg.matrix_power(pairs, 500)[0].reshape(2, 2)

    def path(z):
        first = START[z[0]] * moves[z[0], z[0], z[1]] if initial.startswith("[") else joint[z[0], z[1]]
        return first * np.prod([moves[z[t - 2], z[t - 1], z[t]] for t in range(2, 5)])

    want = enumerated(5, 2, path, normal(Y, MU))
    assert evidence(built, {"P": moves, "mu": MU}) == pytest.approx(want, abs=1e-10)


# ----------------------------------------------------------------------------- trees, segments


def test_a_tree():
    parent = ["", "r0", "r0", "r1", "r1"]
    nodes = NODES | {"z[t]": "MarkovTree(P, parent=mother, initial=[0.6, 0.4])"}
    built = bl.to_pymc(
        model(nodes, rows="t"),
        {
            "y": Y[[3, 0, 4, 1, 2]],
            "t": ["r3", "r0", "r4", "r1", "r2"],
            "mother": [parent[3], "", parent[4], "r0", "r0"],
        },
    )
    above = [-1, 0, 0, 1, 1]

    def path(z):
        return np.prod([START[z[i]] if above[i] < 0 else P2[z[above[i]], z[i]] for i in range(5)])

    want = enumerated(5, 2, path, normal(Y, MU))
    assert evidence(built, {"P": P2, "mu": MU}) == pytest.approx(want, abs=1e-10)


def segment_probability(start, moves, lasting):
    """P(path) of segments in states without self transitions, the last censored."""

    def path(z):
        pieces = [(state, len(list(run))) for state, run in itertools.groupby(z)]
        out = start[pieces[0][0]]
        for n, (state, length) in enumerate(pieces):
            if n:
                out *= moves[pieces[n - 1][0], state]
            row = lasting[state]
            if n == len(pieces) - 1:
                out *= row[length - 1 :].sum()
            else:
                out *= row[length - 1] if length <= len(row) else 0.0
        return out

    return path


def test_segments():
    rng = np.random.default_rng(2)
    lasting, moves = rng.dirichlet(np.ones(3), 2), np.array([[0.0, 1.0], [1.0, 0.0]])
    nodes = {
        "D[state, length]": "Dirichlet(1)",
        "mu[state]": "Normal(0, 5)",
        "z[t]": "SemiMarkovChain([[0, 1], [1, 0]], durations=D, initial=[0.6, 0.4])",
        "y[t]": "Normal(mu[z], 1)",
    }
    built = bl.to_pymc(model(nodes, STATES | {"length": 3}, rows="t"), {"y": Y})
    want = enumerated(5, 2, segment_probability(START, moves, lasting), normal(Y, MU))
    assert evidence(built, {"D": lasting, "mu": MU}) == pytest.approx(want, abs=1e-10)


# ---------------------------------------------------------------------------------- elimination


def test_two_chains_in_one_density():
    """What meets cells of two chains is summed out by elimination."""
    nodes = {
        "P[state, next_state]": "Dirichlet(1)",
        "mu[state]": "Normal(0, 5)",
        "z[t]": "MarkovChain(P, [0.6, 0.4])",
        "v[t]": "MarkovChain([[0.5, 0.5], [0.2, 0.8]])",
        "y[t]": "Normal(mu[z] + 0.7 * v, 1)",
    }
    built = bl.to_pymc(model(nodes, rows="t"), {"y": Y[:3]})
    first, second = chain_probability(START, P2), chain_probability([0.5, 0.5], np.array([[0.5, 0.5], [0.2, 0.8]]))
    paths = list(itertools.product(range(2), repeat=3))
    total = [
        np.log(first(z)) + np.log(second(v)) + sum(stats.norm.logpdf(Y[t], MU[z[t]] + 0.7 * v[t], 1) for t in range(3))
        for z in paths
        for v in paths
    ]
    assert evidence(built, {"P": P2, "mu": MU}) == pytest.approx(logsumexp(total), abs=1e-10)


def test_transitions_that_depend_on_a_label():
    """The kind of each person is hidden too, and chooses the chain's probabilities."""
    y = np.array([[0.1, 2.0, 1.4], [1.4, -0.2, 0.3]])
    moves = np.array([P2, [[0.5, 0.5], [0.1, 0.9]]])
    nodes = {
        "P[kind, state, next_state]": "Dirichlet(1)",
        "mu[state]": "Normal(0, 5)",
        "kind_of[person]": "Bernoulli(0.3)",
        "z[person, t]": "MarkovChain(P[kind_of, state, next_state], [0.6, 0.4])",
        "y[person, t]": "Normal(mu[z], 1)",
    }
    built = bl.to_pymc(model(nodes, STATES | {"kind": 2}, dims={"y": ["person", "t"]}), {"y": y})
    want = sum(
        logsumexp(
            [
                np.log([0.7, 0.3][g]) + enumerated(3, 2, chain_probability(START, moves[g]), normal(y[i], MU))
                for g in range(2)
            ]
        )
        for i in range(2)
    )
    assert evidence(built, {"P": moves, "mu": MU}) == pytest.approx(want, abs=1e-10)


@pytest.mark.slow(why="statistical")
def test_a_chain_whose_probabilities_a_chain_chooses():
    """Regimes of regimes: the slow chain has no density of its own."""
    nodes = {
        "P[mood, state, next_state]": "Dirichlet(1)",
        "mu[state]": "Normal(0, 5)",
        "slow[t]": "MarkovChain([[0.9, 0.1], [0.2, 0.8]])",
        "z[t]": "MarkovChain(P[slow, state, next_state], [0.6, 0.4])",
        "y[t]": "Normal(mu[z], 1)",
    }
    moves = np.array([P2, [[0.5, 0.5], [0.1, 0.9]]])
    built = bl.to_pymc(model(nodes, STATES | {"mood": 2}, rows="t"), {"y": Y[:3]})
    slow = chain_probability([0.5, 0.5], np.array([[0.9, 0.1], [0.2, 0.8]]))
    total = [
        np.log(slow(s)) + enumerated(3, 2, chain_probability(START, moves[list(s)]), normal(Y[:3], MU))
        for s in itertools.product(range(2), repeat=3)
    ]
    assert evidence(built, {"P": moves, "mu": MU}) == pytest.approx(logsumexp(total), abs=1e-10)


def test_a_path_that_is_seen():
    """With data the node has the probability of its path, and what depends on it is given it."""
    z = np.array([0, 0, 1, 1, 0])
    built = bl.to_pymc(model(NODES | {"z[t]": "MarkovChain(P, [0.6, 0.4])"}, rows="t"), {"y": Y, "z": z})
    at = {"P_simplex__": 0.5 * np.log(P2[:, :1] / P2[:, 1:]), "mu": MU}
    found = built.compile_logp(vars=built.observed_RVs, mode=PYTHON)(at)
    want = np.log(chain_probability(START, P2)(tuple(z))) + stats.norm.logpdf(Y, MU[z], 1).sum()
    assert found == pytest.approx(want, abs=1e-10)


def test_a_chain_that_two_cells_of_a_density_meet():
    """The change of the state counts, so that neighbours meet."""
    nodes = NODES | {"z[t]": "MarkovChain(P, [0.6, 0.4])", "y[t]": "Normal(mu[z] + 0.5 * lag(z, 1, start=0), 1)"}
    built = bl.to_pymc(model(nodes, rows="t"), {"y": Y[:4]})
    path = chain_probability(START, P2)
    total = []
    for z in itertools.product(range(2), repeat=4):
        before = (0, *z[:-1])
        total.append(np.log(path(z)) + sum(stats.norm.logpdf(Y[t], MU[z[t]] + 0.5 * before[t], 1) for t in range(4)))
    assert evidence(built, {"P": P2, "mu": MU}) == pytest.approx(logsumexp(total), abs=1e-10)


# ------------------------------------------------------------------------------------ gradients


GRADIENTS = {
    "stationary": {"z[t]": "MarkovChain(P, stationary)"},
    "zeros": {
        "a": "Beta(2, 2)",
        "z[t]": "MarkovChain([[a, 1 - a], [0, 1]], initial=[1, 0])",
        "extra": "Potential(sum(P))",
    },
    "tree": {"z[t]": "MarkovTree(P, parent=above)"},
    "segments": {
        "D[state, length]": "Dirichlet(1)",
        "z[t]": "SemiMarkovChain([[0, 1], [1, 0]], durations=D)",
        "extra": "Potential(sum(P))",
    },
    "second order": {
        "Q[state, state2, next_state]": "Dirichlet(1)",
        "z[t]": "MarkovChain(Q, stationary, order=2)",
        "extra": "Potential(sum(P))",
    },
    "counts": {"rate[state]": "Gamma(2, 1)", "n[t]": "Poisson(rate[z])", "z[t]": "MarkovChain(P, stationary)"},
    "by time": {
        "b": "Normal(0, 1)",
        "z[t]": "MarkovChain(softmax(log(P) + b * x * index(next_state), next_state))",
    },
}


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("case", GRADIENTS)
def test_gradients(case):
    """The graph as it is, not simplified, against finite differences of the whole log density."""
    lengths = {"state": 2, "state2": "state", "next_state": "state", "length": 3}
    data = {"y": Y, "above": np.array([np.nan, 0, 0, 1, 1]), "n": np.array([0, 3, 1, 0, 2])}
    data["x"] = Y[::-1].copy()
    built = bl.to_pymc(model(NODES | GRADIENTS[case], lengths, rows="t"), data)
    value, slope = built.compile_logp(mode=Mode("py", None)), built.compile_dlogp(mode=Mode("py", None))
    rng = np.random.default_rng(0)
    point = {name: rng.normal(0, 0.5, np.shape(v)) for name, v in built.initial_point().items()}
    found, at = slope(point), 0
    for name in (v.name for v in built.value_vars):
        for index in np.ndindex(point[name].shape):
            moved = []
            for step in (1e-5, -1e-5):
                other = {n: v.copy() for n, v in point.items()}
                other[name][index] += step
                moved.append(float(value(other)))
            assert found[at] == pytest.approx((moved[0] - moved[1]) / 2e-5, abs=1e-6), (name, index)
            at += 1
