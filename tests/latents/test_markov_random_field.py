"""Undirected models: separation, normalisers, the way from and to directed nets, and cleaning an image."""

from __future__ import annotations

from itertools import combinations

import networkx as nx
import numpy as np
import pytest

from bayeslab.latents.networks.belief_propagation import loopy, loopy_max_product, sum_product
from bayeslab.latents.networks.factors import FactorGraph
from bayeslab.latents.networks.network import DiscreteNetwork
from bayeslab.latents.networks.sampling import gibbs
from tests.latents._enumeration import joint, marginals, random_network, random_tree_factors


def random_field(rng, n, p_edge=0.4, n_states=2):
    """A positive table for each edge of a random graph."""
    names = [f"x{k}" for k in range(n)]
    edges = [pair for pair in combinations(names, 2) if rng.random() < p_edge]
    tables = tuple(rng.gamma(2.0, size=(n_states, n_states)) for _ in edges)
    return FactorGraph({v: tuple("abc"[:n_states]) for v in names}, tuple(edges), tables)


def conditional(product, a, b, given):
    """P(a, b | given), NaN where the condition has probability zero."""
    kept = (a, b, *given)
    table = product.sum(axis=tuple(k for k in range(product.ndim) if k not in kept))
    table = np.transpose(table, np.argsort(np.argsort(kept)))
    with np.errstate(invalid="ignore"):
        return table / table.sum(axis=(0, 1), keepdims=True)


def dependence(product, a, b, given):
    """Largest |P(a, b | c) - P(a | c) P(b | c)| over all states: zero if and only if independent."""
    table = conditional(product, a, b, given)
    return np.nanmax(np.abs(table - table.sum(axis=1, keepdims=True) * table.sum(axis=0, keepdims=True)), initial=0)


def test_mrf_separation_is_conditional_independence():
    """Nodes with no path left when C is removed are independent given C; for tables at random, no others are."""
    rng = np.random.default_rng(0)
    seen = {True: 0, False: 0}
    for _ in range(25):
        model = random_field(rng, 6)
        names = list(model.states)
        product = joint(model)
        for a, b in combinations(range(6), 2):
            rest = [k for k in range(6) if k not in (a, b)]
            given = [k for k in rest if rng.random() < 0.4]
            left = model.graph
            left.remove_nodes_from([names[k] for k in given])
            separated = not nx.has_path(left, names[a], names[b])
            assert (dependence(product, a, b, given) < 1e-12) == separated
            seen[separated] += 1
    assert min(seen.values()) > 80


def test_mrf_separation_in_the_moral_graph_holds_in_the_net():
    """What the Markov graph of a Bayes net separates is independent; marrying parents only loses some of it."""
    rng = np.random.default_rng(1)
    n_separated = 0
    for _ in range(60):
        network = random_network(rng, 6, most_parents=2)
        product, graph = joint(network), FactorGraph.of(network).graph
        names = list(network.states)
        for a, b in combinations(range(6), 2):
            given = [k for k in range(6) if k not in (a, b) and rng.random() < 0.4]
            left = graph.copy()
            left.remove_nodes_from([names[k] for k in given])
            if not nx.has_path(left, names[a], names[b]):
                assert dependence(product, a, b, given) < 1e-10
                n_separated += 1
    assert n_separated > 100


def test_markov_random_field_has_its_brute_force_normaliser():
    """Equations 14.31-14.32 of Alpaydın: potentials over Z sum to one; Z by messages where there is no loop."""
    rng = np.random.default_rng(2)
    for _ in range(100):
        model = random_tree_factors(rng, int(rng.integers(1, 8)))
        z = joint(model).sum()
        if z == 0:
            continue
        assert np.exp(sum_product(model).log_evidence) == pytest.approx(z, rel=1e-10)
        assert (joint(model) / z).sum() == pytest.approx(1, rel=1e-12)


def test_markov_random_field_on_a_ring_has_the_trace_normaliser():
    """Z of a ring is the trace of a product of matrices; Gibbs and loopy messages agree with its marginals."""
    rng = np.random.default_rng(3)
    n = 40
    tables = [rng.gamma(3.0, size=(3, 3)) for _ in range(n)]
    states = {f"x{k}": tuple("abc") for k in range(n)}
    model = FactorGraph(states, tuple((f"x{k}", f"x{(k + 1) % n}") for k in range(n)), tuple(tables))
    around = np.linalg.multi_dot(tables)
    found = loopy(model)
    assert found.converged
    assert found.bethe_log_evidence == pytest.approx(np.log(np.trace(around)), abs=1e-6)  # long loops hardly matter
    truth = np.diag(around) / np.trace(around)
    np.testing.assert_allclose(found.marginals["x0"], truth, atol=1e-6)
    draws = gibbs(model, n=5000, rng=rng)
    assert np.all(np.abs(draws.marginals["x0"] - truth) < 4 * draws.standard_errors["x0"])


def test_directed_to_undirected_keeps_the_joint_with_z_one():
    """Each table becomes a potential: the product is the chain rule's joint, entry by entry, and Z = 1."""
    rng = np.random.default_rng(4)
    for _ in range(100):
        network = random_network(rng, int(rng.integers(1, 7)))
        names = list(network.states)
        product = joint(FactorGraph.of(network))
        assert product.sum() == pytest.approx(1, rel=1e-12)
        for place in rng.permutation(np.argwhere(np.ones(product.shape)))[:20]:
            at = dict(zip(names, place, strict=True))
            chain = [network.tables[v][(*(at[p] for p in network.parents[v]), at[v])] for v in names]
            assert product[tuple(place)] == pytest.approx(np.prod(chain), rel=1e-12)
        moral = nx.moral_graph(network.graph)
        assert {frozenset(e) for e in FactorGraph.of(network).graph.edges} == {frozenset(e) for e in moral.edges}


def test_factor_graph_round_trip_with_directed_and_undirected_forms():
    """Directed -> factors -> directed is the identity; factors gathered in maximal cliques keep the joint."""
    rng = np.random.default_rng(5)
    for _ in range(60):
        network = random_network(rng, int(rng.integers(1, 7)))
        factors = FactorGraph.of(network)
        back = DiscreteNetwork(
            factors.states,
            {scope[-1]: scope[:-1] for scope in factors.scopes},
            {scope[-1]: table for scope, table in zip(factors.scopes, factors.tables, strict=True)},
            factors.name,
        )
        assert dict(back.states) == dict(network.states) and dict(back.parents) == dict(network.parents)
        assert all(np.array_equal(back.tables[v], network.tables[v]) for v in network.states)
        cliques = [tuple(c) for c in nx.find_cliques(factors.graph)]
        potentials = [np.ones([len(factors.states[v]) for v in c]) for c in cliques]
        for scope, table in zip(factors.scopes, factors.tables, strict=True):
            home = next(k for k, c in enumerate(cliques) if set(scope) <= set(c))
            axes = [scope.index(v) for v in cliques[home] if v in scope]
            shape = [len(factors.states[v]) if v in scope else 1 for v in cliques[home]]
            potentials[home] = potentials[home] * table.transpose(axes).reshape(shape)
        undirected = FactorGraph(factors.states, tuple(cliques), tuple(potentials))
        np.testing.assert_allclose(joint(undirected), joint(network), atol=1e-14)
        assert {frozenset(e) for e in undirected.graph.edges} == {frozenset(e) for e in factors.graph.edges}


SIZE = 64
FLIPPED, COUPLING = 0.15, 0.9


@pytest.fixture(scope="module")
def picture():
    """Discs and bars in black and white, 15 % of pixels flipped, a patch covered, a few pixels known."""
    y, x = np.mgrid[:SIZE, :SIZE]
    clean = ((x - 20) ** 2 + (y - 22) ** 2 < 150) | ((x > 38) & (x < 48) & (y > 8)) | ((y > 48) & (y < 56))
    rng = np.random.default_rng(6)
    noisy = clean ^ (rng.random(clean.shape) < FLIPPED)
    covered = (y > 20) & (y < 28) & (x > 16) & (x < 24)  # inside the disc
    known = (rng.random(clean.shape) < 0.02) & ~covered
    return clean.astype(int), noisy.astype(int), covered, known


def image_model(noisy, covered):
    """Ising prior on four neighbours, and what the noise says of each pixel that is not covered (section 14.6)."""
    names = np.array([[f"p{i}_{j}" for j in range(SIZE)] for i in range(SIZE)])
    pairs = [
        *zip(names[:-1].flat, names[1:].flat, strict=True),
        *zip(names[:, :-1].flat, names[:, 1:].flat, strict=True),
    ]
    seen = [(v,) for v in names[~covered]]
    noise = np.array([[1 - FLIPPED, FLIPPED], [FLIPPED, 1 - FLIPPED]])
    tables = [noise[:, pixel] for pixel in noisy[~covered]] + [np.exp(COUPLING * np.eye(2))] * len(pairs)
    return names, FactorGraph(dict.fromkeys(names.flat, ("0", "1")), (*seen, *pairs), tuple(tables))


def clean_by_gibbs(model, given, names):
    found = gibbs(model, given, n=200, warmup=100, chains=2, rng=np.random.default_rng(7))
    return np.array([[found.marginals[v][1] > 0.5 for v in row] for row in names])


def clean_by_loopy(model, given, names):
    found = loopy(model, given, tolerance=1e-4)
    assert found.converged
    return np.array([[found.marginals[v][1] > 0.5 for v in row] for row in names])


def clean_by_max_product(model, given, names):
    found = loopy_max_product(model, given, tolerance=1e-4, max_sweeps=200)
    return np.array([[found.assignment[v] == "1" for v in row] for row in names])


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("clean_up", [clean_by_gibbs, clean_by_loopy, clean_by_max_product])
def test_mrf_image_is_denoised_and_filled(picture, clean_up):
    """Fewer wrong pixels than in the noisy image, the covered patch filled, known pixels left as they are."""
    clean, noisy, covered, known = picture
    names, model = image_model(noisy, covered)
    given = {names[i, j]: str(clean[i, j]) for i, j in np.argwhere(known)}
    found = clean_up(model, given, names)
    open_pixels = ~covered & ~known
    assert np.mean((found != clean)[open_pixels]) < 0.35 * np.mean((noisy != clean)[open_pixels])
    assert np.mean((found != clean)[covered]) < 0.05
    assert np.array_equal(found[known], clean[known].astype(bool))


@pytest.mark.slow(why="statistical")
def test_mrf_image_posterior_of_clamped_pixels_is_fixed(picture):
    clean, noisy, covered, known = picture
    names, model = image_model(noisy, covered)
    given = {names[i, j]: str(1 - clean[i, j]) for i, j in np.argwhere(known)}  # even against the neighbours
    draws = gibbs(model, given, n=20, warmup=0, chains=2, rng=np.random.default_rng(8))
    beliefs = loopy(model, given, tolerance=1e-4)
    for i, j in np.argwhere(known):
        assert draws.marginals[names[i, j]][1 - clean[i, j]] == 1
        assert beliefs.marginals[names[i, j]][1 - clean[i, j]] == 1


def test_mrf_image_posterior_by_gibbs_and_by_messages_agree_with_enumeration():
    """A strip of 3 × 4 pixels, small enough to write out."""
    rng = np.random.default_rng(9)
    names = np.array([[f"p{i}_{j}" for j in range(4)] for i in range(3)])
    pairs = [
        *zip(names[:-1].flat, names[1:].flat, strict=True),
        *zip(names[:, :-1].flat, names[:, 1:].flat, strict=True),
    ]
    alone = [(v,) for v in names.flat]
    tables = [np.array([0.85, 0.15])[:: rng.choice([1, -1])] for _ in alone] + [np.exp(0.5 * np.eye(2))] * len(pairs)
    model = FactorGraph(dict.fromkeys(names.flat, ("0", "1")), (*alone, *pairs), tuple(tables))
    truth = marginals(joint(model), model.states)
    draws, beliefs = gibbs(model, n=5000, rng=rng), loopy(model)
    for v in model.states:
        assert abs(draws.marginals[v][0] - truth[v][0]) < 4 * draws.standard_errors[v][0]
        assert abs(beliefs.marginals[v][0] - truth[v][0]) < 0.01
