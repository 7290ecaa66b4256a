"""What textbooks state of networks, one test for each statement, named by what it is about."""

from __future__ import annotations

from itertools import combinations, pairwise, product

import networkx as nx
import numpy as np
import pytest

import bayeslab as bl
from bayeslab.families.bayes_net.net import net_of
from bayeslab.latents.networks import variable_elimination
from bayeslab.latents.networks.factors import FactorGraph
from bayeslab.latents.networks.junction_tree import JunctionTree
from bayeslab.latents.networks.network import DiscreteNetwork
from bayeslab.structure import dag
from bayeslab.structure.dynamic import Template, unroll


def random_network(rng: np.random.Generator, n: int, most: int = 3) -> DiscreteNetwork:
    """Two or three states, up to three parents."""
    names = [f"v{k}" for k in range(n)]
    states = {v: tuple("abc"[: rng.integers(2, most + 1)]) for v in names}
    parents = {
        v: tuple(rng.permutation(names[:k])[: rng.integers(0, min(k, 3) + 1)].tolist()) for k, v in enumerate(names)
    }
    tables = {v: rng.dirichlet(np.ones(len(states[v])), [len(states[p]) for p in parents[v]]) for v in names}
    return DiscreteNetwork(states, parents, tables)


def joint(net: DiscreteNetwork) -> np.ndarray:
    """Entry by entry the product of entries of the tables."""
    out = np.empty([len(s) for s in net.states.values()])
    for place in np.ndindex(*out.shape):
        code = dict(zip(net.states, place, strict=True))
        out[place] = np.prod([net.tables[v][tuple(code[p] for p in net.parents[v])][code[v]] for v in net.states])
    return out


def model(variables) -> bl.Network:
    return bl.network(bl.Model(model=bl.BayesNet(variables=variables)))


def test_bn_representation():
    """P(x) is the product of the tables' entries: the probability of a full assignment as evidence."""
    net = random_network(np.random.default_rng(1), 5)
    whole, tree = joint(net), JunctionTree.of(net)
    for place in np.ndindex(*whole.shape):
        given = {v: s[c] for (v, s), c in zip(net.states.items(), place, strict=True)}
        assert tree.query(given, []).log_evidence == pytest.approx(np.log(whole[place]))


@pytest.mark.parametrize("seed", range(10))
def test_bn_joint_sums_one(seed):
    """A directed factorisation needs no normaliser."""
    net = random_network(np.random.default_rng(seed), 7)
    assert joint(net).sum() == pytest.approx(1.0)
    assert JunctionTree.of(FactorGraph.of(net)).query().log_evidence == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("seed", range(10))
def test_bn_query(seed):
    """Any variable given any evidence: enumeration, elimination and junction tree agree."""
    rng = np.random.default_rng(100 + seed)
    net = random_network(rng, 6)
    whole, names = joint(net), list(net.states)
    seen = rng.permutation(names)[: rng.integers(0, 4)].tolist()
    given = {v: str(rng.choice(net.states[v])) for v in seen}
    at = {v: net.states[v].index(s) for v, s in given.items()}
    part = whole[tuple(slice(at[v], at[v] + 1) if v in at else slice(None) for v in names)]
    answer = JunctionTree.of(net).query(given)
    assert answer.log_evidence == pytest.approx(np.log(part.sum()))
    assert variable_elimination.log_evidence(net, given) == pytest.approx(np.log(part.sum()))
    for k, v in enumerate(names):
        if v not in given:
            own = part.sum(axis=tuple(i for i in range(len(names)) if i != k)) / part.sum()
            np.testing.assert_allclose(answer.marginals[v], own, atol=1e-12)
            np.testing.assert_allclose(variable_elimination.eliminate(net, (v,), given), own, atol=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_cond_independence_test(seed):
    """Where d-separation says so P(x | y, z) = P(x | z) in numbers; with random tables nowhere else."""
    net = random_network(np.random.default_rng(200 + seed), 5, most=2)
    whole, names = joint(net), list(net.states)
    asked = bl.network(net)
    checked = {True: 0, False: 0}
    for x, y in combinations(names, 2):
        rest = [v for v in names if v not in (x, y)]
        for given in [c for k in range(3) for c in combinations(rest, k)]:
            other = tuple(names.index(v) for v in rest if v not in given)
            part = whole.sum(axis=other, keepdims=True)
            over_x, over_y = part.sum(axis=names.index(x), keepdims=True), part.sum(axis=names.index(y), keepdims=True)
            both = part.sum(axis=(names.index(x), names.index(y)), keepdims=True)
            independent = np.allclose(part * both, over_x * over_y, atol=1e-10)
            assert asked.d_separated(x, y, given) == independent, (x, y, given)
            checked[independent] += 1
    assert checked[False] > 0


def test_head_to_head():
    """Parents of a collider are independent until it is seen."""
    net = model({"x": {"states": ["n", "y"], "table": 0.3}, "y": {"states": ["n", "y"], "table": 0.6}, "z": {"states": ["n", "y"], "parents": ["x", "y"], "table": [[0.9, 0.3], [0.4, 0.05]]}})  # fmt: skip
    pair = net.joint(["x", "y"]).values
    np.testing.assert_allclose(pair, np.outer([0.3, 0.7], [0.6, 0.4]), atol=1e-15)
    seen = net.joint(["x", "y"], {"z": "y"}).values
    assert abs(seen[0, 0] - seen[0].sum() * seen[:, 0].sum()) > 0.01
    assert net.d_separated("x", "y") and not net.d_separated("x", "y", "z")


def test_noisy_or_linear_penalty():
    """k parents: k numbers instead of 2^k."""
    for k in (1, 3, 8):
        parents = {f"c{i}": ["no", "yes"] for i in range(k)}
        for kind, expected in (({"noisy_or": {}}, k), ({}, 2**k)):
            spec = bl.BayesNet(variables=parents | {"x": {"states": ["no", "yes"], "parents": list(parents), **kind}})
            one = net_of(spec).locals["x"]
            rows = 0 if one.rows is None else one.rows.concentration.shape[0] * (one.rows.concentration.shape[1] - 1)
            assert len(one.unknown) + rows == expected


@pytest.mark.parametrize("seed", range(5))
def test_moralization(seed):
    """The moral graph has the edges of all families made into cliques, and no others."""
    net = random_network(np.random.default_rng(300 + seed), 8)
    edges = {frozenset(pair) for v in net.states for pair in combinations((*net.parents[v], v), 2)}
    assert {frozenset(e) for e in dag.moral_graph(net.graph).edges} == edges
    assert {frozenset(e) for e in FactorGraph.of(net).graph.edges} == edges


@pytest.mark.parametrize("seed", range(5))
def test_param_count(seed):
    """For each row of each table one number less than there are states."""
    net = random_network(np.random.default_rng(400 + seed), 8)
    by_hand = sum(table[..., 0].size * (table.shape[-1] - 1) for table in net.tables.values())
    assert net.n_parameters == by_hand
    counted = dag.parameter_counts(net.graph, {v: len(s) for v, s in net.states.items()})
    assert sum(counted.values()) == by_hand


@pytest.mark.parametrize("n", [1, 4, 10])
def test_naive_bayes_net(n):
    """F5: a Boolean class and n Boolean attributes have 2n + 1 parameters."""
    names = ["class", *(f"x{i}" for i in range(n))]
    spec = bl.BayesNet(variables={v: ["no", "yes"] for v in names}, target="class", structure="naive_bayes")
    net = net_of(spec)
    assert set(net.graph.edges) == {("class", f"x{i}") for i in range(n)}
    assert sum(one.rows.concentration.shape[0] for one in net.locals.values()) == 2 * n + 1


# --------------------------------------------------------------------------------- dynamic nets


def test_dynamic_bn():
    """F8: the umbrella net unrolled, asked: as the recursions of a hidden Markov model."""
    rain = {"Rain": ("rain", "dry")}
    template = Template(
        DiscreteNetwork(rain, {}, {"Rain": np.array([0.7, 0.3])}),
        rain | {"Umbrella": ("yes", "no")},
        {"Rain": ("Rain[t-1]",), "Umbrella": ("Rain",)},
        {"Rain": np.array([[0.7, 0.3], [0.3, 0.7]]), "Umbrella": np.array([[0.9, 0.1], [0.2, 0.8]])},
    )
    found = bl.network(unroll(template, 6)).query(
        {f"Umbrella[{t}]": s for t, s in enumerate(["yes", "yes", "no", "yes", "yes"], 1)}
    )
    smoothed = [0.810443, 0.900286, 0.831156, 0.310307, 0.820933, 0.867470]
    np.testing.assert_allclose([found[f"Rain[{t}]"]["rain"] for t in range(6)], smoothed, atol=5e-7)
    assert found.log_evidence == pytest.approx(-3.261365, abs=5e-7)


def test_dynamic_wet_grass():
    """Weather that persists: filtering the unrolled wet-grass net against the sum over all weathers."""
    weather, wet = np.array([[0.8, 0.2], [0.3, 0.7]]), np.array([[0.9, 0.1], [0.25, 0.75]])
    states = {"Cloudy": ("yes", "no"), "Wet": ("yes", "no")}
    template = Template(
        DiscreteNetwork(states, {"Wet": ("Cloudy",)}, {"Cloudy": np.array([0.5, 0.5]), "Wet": wet}),
        states,
        {"Cloudy": ("Cloudy[t-1]",), "Wet": ("Cloudy",)},
        {"Cloudy": weather, "Wet": wet},
    )
    seen = [0, 0, 1, 0]
    total = np.zeros(2)
    for path in product(range(2), repeat=4):
        p = 0.5 * np.prod([weather[a, b] for a, b in pairwise(path)])
        total[path[-1]] += p * np.prod([wet[c, s] for c, s in zip(path, seen, strict=True)])
    found = bl.network(unroll(template, 4)).query({f"Wet[{t}]": states["Wet"][s] for t, s in enumerate(seen)})
    assert found["Cloudy[3]"]["yes"] == pytest.approx(total[0] / total.sum())
    assert found.log_evidence == pytest.approx(np.log(total.sum()))


# --------------------------------------------------------------------------------- nets of other fields


def jukes_cantor(distance: float) -> np.ndarray:
    """Probabilities of change between four bases over an evolutionary distance (Jukes and Cantor 1969)."""
    same = 0.25 + 0.75 * np.exp(-4 * distance / 3)
    return np.full((4, 4), (1 - same) / 3) + np.eye(4) * (same - (1 - same) / 3)


def test_phylogenetic_tree():
    """Species at the leaves: the likelihood by pruning (Felsenstein 1981), by the net, and by enumeration."""
    tree = nx.DiGraph([("root", "ape"), ("root", "mouse"), ("ape", "human"), ("ape", "chimp")])
    lengths = {"ape": 0.3, "mouse": 0.8, "human": 0.1, "chimp": 0.12}
    bases = tuple("ACGT")
    nodes = ["root", *lengths]
    parents = {v: tuple(tree.predecessors(v)) for v in nodes}
    tables = {v: jukes_cantor(lengths[v]) if v in lengths else np.full(4, 0.25) for v in nodes}
    net = DiscreteNetwork(dict.fromkeys(nodes, bases), parents, tables)
    seen = {"human": "A", "chimp": "A", "mouse": "G"}

    def pruned(v: str) -> np.ndarray:
        """P(leaves below | base of v)."""
        if v in seen:
            return np.eye(4)[bases.index(seen[v])]
        return np.prod([tables[w] @ pruned(w) for w in tree.successors(v)], axis=0)

    likelihood = 0.25 * pruned("root").sum()
    every = sum(
        0.25 * tables["ape"][r, a] * tables["mouse"][r, 2] * tables["human"][a, 0] * tables["chimp"][a, 0]
        for r, a in product(range(4), repeat=2)
    )
    assert likelihood == pytest.approx(every)
    found = bl.network(net).query(seen)
    assert found.log_evidence == pytest.approx(np.log(likelihood))
    ancestor = 0.25 * pruned("root") / likelihood
    np.testing.assert_allclose(list(found["root"].values()), ancestor)


def test_text_topic_graph():
    """An author picks a topic, the topic words; the next day's topic follows from this day's."""
    topics, words = ["sport", "politics"], ["goal", "vote", "team"]
    says = [[0.5, 0.1, 0.4], [0.1, 0.7, 0.2]]
    net = model({
        "author": {"states": ["ann", "bob"], "table": 0.4},
        "topic_1": {"states": topics, "parents": ["author"], "table": {"ann": 0.9, "bob": 0.2}},
        "topic_2": {"states": topics, "parents": ["topic_1"], "table": {"sport": 0.8, "politics": 0.3}},
        **{f"word_{i}": {"states": words, "parents": ["topic_1"], "table": says} for i in (1, 2)},
        "word_3": {"states": words, "parents": ["topic_2"], "table": says},
    })  # fmt: skip
    total = np.zeros((2, 2, 2))  # author, topics
    for a, s, t in np.ndindex(2, 2, 2):
        p = [0.4, 0.6][a] * [[0.9, 0.1], [0.2, 0.8]][a][s] * [[0.8, 0.2], [0.3, 0.7]][s][t]
        total[a, s, t] = p * says[s][0] * says[s][2] * says[t][1]
    found = net.query({"word_1": "goal", "word_2": "team", "word_3": "vote"})
    assert found["author"]["ann"] == pytest.approx(total[0].sum() / total.sum())
    assert found["topic_2"]["politics"] == pytest.approx(total[..., 1].sum() / total.sum())


def test_bayes_theorem_cancer():
    """F9: a positive test leaves cancer improbable; two make it likely."""
    given = {"states": ["+", "-"], "parents": ["cancer"], "table": {"yes": 0.98, "no": 0.03}}
    net = model({"cancer": {"states": ["yes", "no"], "table": 0.008}, "first": given, "second": given})
    once = net.query({"first": "+"})
    assert once["cancer"]["yes"] == pytest.approx(0.208511, abs=5e-7)
    assert np.exp(once.log_evidence) == pytest.approx(0.00784 + 0.02976)
    assert net.query({"first": "+", "second": "+"})["cancer"]["yes"] == pytest.approx(
        0.008 * 0.98**2 / (0.008 * 0.98**2 + 0.992 * 0.03**2)
    )
    assert net.most_probable({"first": "+", "second": "-"})[0].assignment["cancer"] == "no"


# F1: posterior of the five bags after so many limes, and P(next lime).
CANDIES = {
    0: ([0.1, 0.2, 0.4, 0.2, 0.1], 0.5),
    1: ([0, 0.1, 0.4, 0.3, 0.2], 0.65),
    2: ([0, 0.038462, 0.307692, 0.346154, 0.307692], 0.730769),
    5: ([0, 0.001220, 0.078049, 0.296341, 0.624390], 0.885976),
    10: ([0, 0.000002, 0.003499, 0.100872, 0.895628], 0.973031),
}


def test_candy_bags_as_a_network():
    """F1: eleven candies are children of the bag; which bag is hidden."""
    lime = {"cherry, only": 1, "h2": 0.75, "h3": 0.5, "h4": 0.25, "lime, only": 0}
    candy = {"states": ["cherry", "lime"], "parents": ["bag"], "table": lime}
    bag = {"states": list(lime), "table": [0.1, 0.2, 0.4, 0.2, 0.1]}
    net = model({"bag": bag} | {f"candy {i}": candy for i in range(1, 12)})
    for n, (bags, predicted) in CANDIES.items():
        found = net.query({f"candy {i}": "lime" for i in range(1, n + 1)})
        np.testing.assert_allclose(list(found["bag"].values()), bags, atol=6e-7)
        assert found["candy 11"]["lime"] == pytest.approx(predicted, abs=6e-7)
    assert net.query({f"candy {i}": "lime" for i in range(1, 11)}).log_evidence == pytest.approx(-2.192355, abs=5e-7)
