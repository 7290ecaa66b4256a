"""Sum-product, max-product and loopy belief propagation against enumeration, dynamic programming and a textbook."""

from __future__ import annotations

import numpy as np
import pytest

from bayeslab.errors import EngineRefusal, EvidenceError
from bayeslab.latents.networks.belief_propagation import loopy, loopy_max_product, max_product, sum_product
from bayeslab.latents.networks.factors import FactorGraph
from bayeslab.latents.networks.network import DiscreteNetwork
from tests.latents._enumeration import (
    joint,
    marginals,
    max_marginals,
    random_evidence,
    random_network,
    random_polytree,
    random_tree_factors,
)
from tests.refusals import refused


def random_cases(seed, n=300):
    """Trees of factors and polytrees, with and without evidence, some of it impossible."""
    rng = np.random.default_rng(seed)
    for k in range(n):
        size = int(rng.integers(1, 9))
        model = random_polytree(rng, size) if k % 3 == 0 else random_tree_factors(rng, size)
        yield model, random_evidence(rng, model.states) if k % 2 else None


def grid(n, coupling, rng, field=0.5, n_states=2):
    """Attractive and repulsive neighbours on an n × n grid."""
    names = np.array([[f"x{i}_{j}" for j in range(n)] for i in range(n)])
    pairs = [
        *zip(names[:-1].flat, names[1:].flat, strict=True),
        *zip(names[:, :-1].flat, names[:, 1:].flat, strict=True),
    ]
    alone = [(v,) for v in names.flat]
    tables = [np.exp(rng.normal(0, field, n_states)) for _ in alone]
    tables += [np.exp(coupling * rng.uniform(-1, 1) * (2 * np.eye(n_states) - 1)) for _ in pairs]
    return FactorGraph({v: tuple("abc"[:n_states]) for v in names.flat}, (*alone, *pairs), tuple(tables))


def test_sum_product_equals_enumeration():
    possible = 0
    for model, given in random_cases(1):
        product = joint(model, given)
        if product.sum() == 0:
            with refused("evidence.probability-zero"):
                sum_product(model, given)
            continue
        possible += 1
        found = sum_product(model, given)
        assert list(found.marginals) == list(model.states)
        assert found.log_evidence == pytest.approx(np.log(product.sum()), abs=1e-10)
        for variable, truth in marginals(product, model.states).items():
            np.testing.assert_allclose(found.marginals[variable], truth, atol=1e-12)
    assert 150 < possible < 295


def test_max_product_equals_brute_force_argmax():
    possible = 0
    for model, given in random_cases(2):
        product = joint(model, given)
        if product.max() == 0:
            with refused("evidence.probability-zero"):
                max_product(model, given)
            continue
        possible += 1
        found = max_product(model, given)
        place = tuple(own.index(found.assignment[v]) for v, own in model.states.items())
        assert product[place] == pytest.approx(product.max(), rel=1e-10)
        assert found.log_score == pytest.approx(np.log(product.max()), abs=1e-10)
        with np.errstate(divide="ignore"):
            for variable, truth in max_marginals(product, model.states).items():
                np.testing.assert_allclose(found.max_marginals[variable], np.log(truth), atol=1e-10)
    assert 150 < possible < 295


def test_max_product_does_not_mix_ties():
    """Two equally good assignments; states chosen one by one without regard to each other would give neither."""
    states = dict.fromkeys("abcd", ("0", "1"))
    differ = 1 - np.eye(2)
    found = max_product(FactorGraph(states, (("a", "b"), ("b", "c"), ("c", "d")), (differ,) * 3))
    assert "".join(found.assignment.values()) in {"0101", "1010"}


def hidden_markov(rng, n, k, m):
    """An HMM as a chain of hidden h0..hn-1 and observed o0..on-1."""
    start, move, emit = rng.dirichlet(np.ones(k)), rng.dirichlet(np.ones(k), k), rng.dirichlet(np.ones(m), k)
    states = {f"h{t}": tuple(f"s{i}" for i in range(k)) for t in range(n)}
    states |= {f"o{t}": tuple(f"y{i}" for i in range(m)) for t in range(n)}
    parents = {f"h{t}": (f"h{t - 1}",) for t in range(1, n)} | {f"o{t}": (f"h{t}",) for t in range(n)}
    tables = {"h0": start} | {f"h{t}": move for t in range(1, n)} | {f"o{t}": emit for t in range(n)}
    return DiscreteNetwork(states, parents, tables), (start, move, emit)


def viterbi(start, move, emit, seen):
    """Rabiner (1989), section III.B, on logs."""
    best, back = np.log(start) + np.log(emit[:, seen[0]]), []
    for y in seen[1:]:
        paths = best[:, None] + np.log(move)
        back.append(paths.argmax(0))
        best = paths.max(0) + np.log(emit[:, y])
    path = [int(best.argmax())]
    for arrows in reversed(back):
        path.append(int(arrows[path[-1]]))
    return path[::-1], float(best.max())


@pytest.mark.parametrize("n", [1, 2, 10, 2000])
def test_hmm_as_graph_max_product_equals_viterbi(n):
    rng = np.random.default_rng(n)
    network, (start, move, emit) = hidden_markov(rng, n, 3, 4)
    seen = rng.integers(4, size=n)
    path, best = viterbi(start, move, emit, seen)
    found = max_product(network, {f"o{t}": f"y{y}" for t, y in enumerate(seen)})
    assert [found.assignment[f"h{t}"] for t in range(n)] == [f"s{k}" for k in path]
    assert found.log_score == pytest.approx(best, rel=1e-12)


@pytest.mark.parametrize("n", [1, 7, 2000])
def test_hmm_as_graph_sum_product_equals_forward_backward(n):
    """The scaled recursions of Rabiner (1989), section V.A."""
    rng = np.random.default_rng(n)
    network, (start, move, emit) = hidden_markov(rng, n, 3, 4)
    seen = rng.integers(4, size=n)
    forward, scale = np.empty((n, 3)), np.empty(n)
    for t, y in enumerate(seen):
        row = (start if t == 0 else forward[t - 1] @ move) * emit[:, y]
        scale[t] = row.sum()
        forward[t] = row / scale[t]
    backward = np.ones((n, 3))
    for t in range(n - 2, -1, -1):
        backward[t] = move @ (emit[:, seen[t + 1]] * backward[t + 1]) / scale[t + 1]
    found = sum_product(network, {f"o{t}": f"y{y}" for t, y in enumerate(seen)})
    np.testing.assert_allclose([found.marginals[f"h{t}"] for t in range(n)], forward * backward, atol=1e-11)
    assert found.log_evidence == pytest.approx(np.log(scale).sum(), rel=1e-12)


UMBRELLA = [
    ("u", [0.861386], [0.797030], -0.500875),
    ("uu", [0.912726, 0.890832], [0.814733], -0.929832),
    ("uuuu", [0.922757, 0.938948, 0.935330, 0.896585], [0.818192], -1.760488),
    ("uunuu", [0.900286, 0.831156, 0.310307, 0.820933, 0.867470], [0.810443], -3.261365),
]


@pytest.mark.parametrize(("seen", "smoothed", "before", "log_p"), UMBRELLA)
def test_sum_product_on_the_umbrella_world(seen, smoothed, before, log_p):
    """Rain with P(rain on day 0) = 0.7 and umbrellas from day 1: smoothed by hand to six digits."""
    n = len(seen)
    move, carry = np.array([[0.7, 0.3], [0.3, 0.7]]), np.array([[0.9, 0.1], [0.2, 0.8]])
    states = {f"rain{t}": ("yes", "no") for t in range(n + 1)} | {f"umbrella{t}": ("u", "n") for t in range(1, n + 1)}
    parents = {f"rain{t}": (f"rain{t - 1}",) for t in range(1, n + 1)}
    parents |= {f"umbrella{t}": (f"rain{t}",) for t in range(1, n + 1)}
    tables = {"rain0": np.array([0.7, 0.3])}
    tables |= {f"rain{t}": move for t in range(1, n + 1)} | {f"umbrella{t}": carry for t in range(1, n + 1)}
    network = DiscreteNetwork(states, parents, tables)
    given = {f"umbrella{t}": s for t, s in enumerate(seen, 1)}
    found = sum_product(network, given)
    rain = [found.marginals[f"rain{t}"][0] for t in range(n + 1)]
    assert rain == pytest.approx([*before, *smoothed], abs=5e-7)
    assert found.log_evidence == pytest.approx(log_p, abs=5e-7)
    if seen == "uunuu":
        best = max_product(network, given).assignment
        assert [best[f"rain{t}"] for t in range(1, 6)] == ["yes", "yes", "no", "yes", "yes"]


def test_sum_product_keeps_what_a_hub_makes_very_unlikely():
    """Without logs 1,000 factors of 10 to 1 round the other state to impossible."""
    states = {"h": ("a", "b"), "e": ("a", "b")} | {f"c{k}": ("t", "f") for k in range(1000)}
    scopes = [("h", f"c{k}") for k in range(1000)] + [("h", "e")]
    model = FactorGraph(states, tuple(scopes), (*[np.array([[10.0, 1.0], [1.0, 1.0]])] * 1000, np.eye(2)))
    given = {f"c{k}": "t" for k in range(1000)} | {"e": "b"}
    assert sum_product(model, given).marginals["h"] == pytest.approx([0, 1])
    assert sum_product(model, given).log_evidence == pytest.approx(0, abs=1e-9)
    assert max_product(model, given).assignment["h"] == "b"


def ring(n):
    table = np.array([[2.0, 1.0], [1.0, 3.0]])
    states = {f"x{k}": ("0", "1") for k in range(n)}
    return FactorGraph(states, tuple((f"x{k}", f"x{(k + 1) % n}") for k in range(n)), (table,) * n)


@pytest.mark.parametrize("run", [sum_product, max_product])
def test_sum_product_refuses_a_loop_and_names_it(run):
    model = ring(4)
    with refused("engine.refused.loops") as refusal:
        run(model)
    loop = str(refusal.value).split("loop: ")[1].split(";")[0].split(" - ")
    assert sorted(loop[:-1]) == ["x0", "x1", "x2", "x3"] and loop[0] == loop[-1]


def test_sum_product_is_exact_where_evidence_cuts_every_loop():
    rng = np.random.default_rng(6)
    n_cut = 0
    for _ in range(300):
        network = random_network(rng, 6, most_parents=2)
        given = {v: own[rng.integers(len(own))] for v, own in network.states.items() if rng.random() < 0.5}
        product = joint(network, given)
        try:
            found = sum_product(network, given)
        except EngineRefusal:
            continue
        except EvidenceError:
            assert product.sum() == 0
            continue
        n_cut += not _is_forest(network)
        assert max_product(network, given).log_score == pytest.approx(np.log(product.max()), abs=1e-10)
        assert found.log_evidence == pytest.approx(np.log(product.sum()), abs=1e-10)
        for variable, truth in marginals(product, network.states).items():
            np.testing.assert_allclose(found.marginals[variable], truth, atol=1e-12)
    assert n_cut > 30


def _is_forest(network):
    try:
        sum_product(network)
    except EngineRefusal:
        return False
    return True


@pytest.mark.parametrize("schedule", ["sequential", "residual"])
@pytest.mark.parametrize("damping", [None, 0.3])
def test_loopy_bp_is_exact_on_trees(schedule, damping):
    n_possible = 0
    for model, given in random_cases(3, 150):
        product = joint(model, given)
        if product.sum() == 0:
            with refused("evidence.probability-zero"):
                loopy(model, given, schedule=schedule, damping=damping)
            continue
        n_possible += 1
        found = loopy(model, given, schedule=schedule, damping=damping, tolerance=1e-13)
        assert found.converged
        assert damping or schedule == "residual" or found.n_sweeps <= 2
        assert found.bethe_log_evidence == pytest.approx(np.log(product.sum()), abs=1e-9)
        for variable, truth in marginals(product, model.states).items():
            np.testing.assert_allclose(found.marginals[variable], truth, atol=1e-9)
    assert n_possible > 70


def test_loopy_bp_gives_beliefs_of_factors():
    """Exact on a tree; at a fixed point with loops they sum to the beliefs of their variables."""
    for model, given in random_cases(4, 60):
        product = joint(model, given)
        if product.sum() == 0 or isinstance(model, DiscreteNetwork):
            continue
        for scope, belief in zip(model.scopes, loopy(model, given).factor_beliefs, strict=True):
            names = list(model.states)
            axes = tuple(k for k, v in enumerate(names) if v not in scope)
            truth = np.transpose(product.sum(axis=axes), np.argsort(np.argsort([names.index(v) for v in scope])))
            np.testing.assert_allclose(belief, truth / truth.sum(), atol=1e-9)
    model = grid(4, 0.6, np.random.default_rng(1))
    found = loopy(model, tolerance=1e-12)
    for scope, belief in zip(model.scopes, found.factor_beliefs, strict=True):
        for axis, v in enumerate(scope):
            other = tuple(k for k in range(len(scope)) if k != axis)
            np.testing.assert_allclose(belief.sum(axis=other), found.marginals[v], atol=1e-10)


@pytest.mark.parametrize("schedule", ["sequential", "residual"])
@pytest.mark.parametrize("n_states", [2, 3])
def test_loopy_bp_is_close_on_weakly_coupled_grids(schedule, n_states):
    """Loops cost what is of fourth order in the coupling on a grid: tolerances shrink with it."""
    rng = np.random.default_rng(n_states)
    for coupling, tolerance in [(0.4, 2e-2), (0.1, 1e-4), (0.02, 2e-7)]:
        model = grid(4 if n_states == 2 else 3, coupling, rng, n_states=n_states)
        found = loopy(model, schedule=schedule, tolerance=1e-12)
        assert found.converged
        product = joint(model)
        assert found.bethe_log_evidence == pytest.approx(np.log(product.sum()), abs=5 * tolerance)
        for variable, truth in marginals(product, model.states).items():
            np.testing.assert_allclose(found.marginals[variable], truth, atol=tolerance)


def test_loopy_bp_stands_at_a_stationary_point_of_the_bethe_free_energy():
    """The value equals -F computed from the beliefs: sum of table energies and Bethe entropies (Yedidia et al. 2005)."""
    model = grid(5, 0.8, np.random.default_rng(5))
    found = loopy(model, tolerance=1e-13)
    assert found.converged
    value, degree = 0.0, dict.fromkeys(model.states, 0)
    for scope, table, belief in zip(model.scopes, model.tables, found.factor_beliefs, strict=True):
        value += (belief * (np.log(table) - np.log(belief))).sum()
        for v in scope:
            degree[v] += 1
    value += sum((degree[v] - 1) * (b * np.log(b)).sum() for v, b in found.marginals.items())
    assert found.bethe_log_evidence == pytest.approx(value, abs=1e-9)


def test_loopy_bp_on_a_single_loop_has_the_right_beliefs_by_symmetry():
    """On one loop of binary variables the most likely states are right (Weiss 2000, section 4)."""
    rng = np.random.default_rng(8)
    for _ in range(50):
        n = int(rng.integers(3, 9))
        tables = tuple(rng.gamma(1.0, size=(2, 2)) for _ in range(n))
        model = FactorGraph(ring(n).states, ring(n).scopes, tables)
        found = loopy(model)
        assert found.converged
        for variable, truth in marginals(joint(model), model.states).items():
            assert np.argmax(found.marginals[variable]) == np.argmax(truth)


def test_loopy_bp_says_when_it_has_not_converged():
    model = grid(6, 3.0, np.random.default_rng(2), field=0.1)
    found = loopy(model, damping=0.0, max_sweeps=20)
    assert not found.converged and found.n_sweeps == 20 and found.largest_change > 1e-8
    assert all(b.sum() == pytest.approx(1) for b in found.marginals.values())


@pytest.mark.parametrize("schedule", ["sequential", "residual"])
def test_loopy_bp_never_calls_possible_evidence_impossible(schedule):
    """On random nets with loops and zeros: an error is proof; finite beliefs never exclude a possible state."""
    rng = np.random.default_rng(12)
    n_errors = 0
    for _ in range(300):
        network = random_network(rng, int(rng.integers(2, 8)))
        given = random_evidence(rng, network.states)
        product = joint(network, given)
        try:
            found = loopy(network, given, schedule=schedule, max_sweeps=50)
        except EvidenceError:
            n_errors += 1
            assert product.sum() == 0
            continue
        if product.sum() > 0:
            for variable, truth in marginals(product, network.states).items():
                assert np.all(found.marginals[variable][truth > 0] > 0)
    assert n_errors > 5


def test_loopy_bp_max_product_equals_the_best_on_trees_and_is_good_on_grids():
    for model, given in random_cases(9, 60):
        product = joint(model, given)
        if product.max() > 0:
            assert loopy_max_product(model, given).log_score == pytest.approx(np.log(product.max()), abs=1e-9)
    rng = np.random.default_rng(4)
    hits = 0
    for _ in range(20):
        model = grid(4, 0.5, rng, field=1.0)
        found = loopy_max_product(model)
        product = joint(model)
        place = tuple(own.index(found.assignment[v]) for v, own in model.states.items())
        assert found.log_score == pytest.approx(np.log(product[place]), abs=1e-9)
        hits += found.log_score > np.log(product.max()) - 1e-9
    assert hits >= 18


@pytest.mark.parametrize(
    ("options", "code", "match"),
    [
        ({"schedule": "residul"}, "option.unknown-word", "'residul'.*'residual'"),
        ({"damping": 1.0}, "option.out-of-range", r"damping.*1\.0"),
        ({"tolerance": 0.0}, "option.out-of-range", r"tolerance.*0\.0"),
        ({"max_sweeps": 0}, "option.out-of-range", "max_sweeps"),
    ],
)
def test_options_of_loopy_are_checked(options, code, match):
    with refused(code, match):
        loopy(ring(3), **options)


def test_a_product_that_is_zero_everywhere_is_an_error():
    states = {"a": ("0", "1")}
    for tables in [(np.array([0.0, 1.0]), np.array([1.0, 0.0])), (np.array(0.0), np.ones(2))]:
        scopes = tuple(("a",) if t.ndim else () for t in tables)
        with refused("evidence.probability-zero"):
            sum_product(FactorGraph(states, scopes, tables))
