"""The score table: what is in it, what pruning may drop, what a file keeps."""

from __future__ import annotations

import itertools
import math

import networkx as nx
import numpy as np
import pytest

from bayeslab.structure.constraints import Constraints, mask_of, members_of
from bayeslab.structure.data import Observations
from bayeslab.structure.priors import EdgePrior
from bayeslab.structure.score_table import ScoreTable
from bayeslab.structure.scores import load
from tests.refusals import refused
from tests.structure._dags import all_dags

N = 5
CARDS = (2, 3, 2, 4, 2)


def observations(n_rows=150, seed=0):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 4, (n_rows, N))
    codes[:, 2] = codes[:, 0] + (rng.random(n_rows) < 0.1)
    codes[:, 4] = codes[:, 1] + codes[:, 2]
    return Observations.of_codes(
        codes % np.array(CARDS), {f"v{i}": [f"s{x}" for x in range(r)] for i, r in enumerate(CARDS)}
    )


@pytest.fixture(scope="module")
def score():
    return load("bdeu", observations())


@pytest.fixture(scope="module")
def table(score):
    return ScoreTable.build(score, max_parents=3)


def subsets(child, largest, n=N):
    others = [u for u in range(n) if u != child]
    return [p for k in range(largest + 1) for p in itertools.combinations(others, k)]


def test_every_set_is_there_with_its_score_best_first(score, table):
    assert table.names == score.names and table.n == N and table.max_parents == 3
    assert table.n_sets.tolist() == [15] * N
    for v in range(N):
        own = range(table.pointer[v], table.pointer[v + 1])
        assert sorted(table.parents(i) for i in own) == sorted(subsets(v, 3))
        assert np.all(np.diff(table.scores[own]) <= 0)
        for i in own:
            assert table.scores[i] == pytest.approx(score.local(v, table.parents(i)), abs=1e-9)
            assert table.number(v, table.parents(i)) == i
            assert table.local(v, table.parents(i)) == table.scores[i]
            assert table.sizes[i] == len(table.parents(i))


def test_sets_that_are_not_there(table):
    assert table.local(0, (1, 2, 3, 4)) == -math.inf
    assert table.number(0, (0,)) == -1
    assert table.numbers(1, np.array([mask_of(p, N) for p in ((0,), (1,), ())])).tolist()[1] == -1


def test_graphs_and_choices(score, table):
    graph = nx.DiGraph([("v0", "v2"), ("v1", "v4"), ("v2", "v4")])
    graph.add_node("v3")
    choice = table.choice(graph)
    assert choice.dtype == np.int64
    assert set(table.graph(choice).edges) == set(graph.edges) and list(table.graph(choice)) == list(table.names)
    want = score.local(0, ()) + score.local(1, ()) + score.local(2, (0,)) + score.local(3, ()) + score.local(4, (1, 2))
    assert table.of_graph(graph) == pytest.approx(want, abs=1e-9)
    assert table.of_graph(graph) == pytest.approx(table.scores[choice].sum(), abs=1e-9)
    # Variables that the graph does not mention have no parents.
    assert table.choice(nx.DiGraph())[0] == table.number(0, ())


def test_graphs_that_are_not_in_the_table(table):
    full = nx.DiGraph([(u, "v4") for u in ("v0", "v1", "v2", "v3")])
    assert table.of_graph(full) == -math.inf
    with refused("model.contradiction", "'v4'"):
        table.choice(full)
    with refused("model.unknown-variable", "'vO'.*'v0'"):
        table.of_graph(nx.DiGraph([("vO", "v1")]))
    with refused("model.out-of-range", "'v0'"):
        table.graph([len(table.scores) - 1] * N)


def test_arrays_are_read_only(table):
    for array in (table.pointer, table.sets, table.scores):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


# ---------------------------------------------------------------------- priors over structures


def test_the_sparse_prior(score, table):
    sparse = ScoreTable.build(score, max_parents=3, prior="sparse")
    for v in range(N):
        for p in subsets(v, 3):
            want = table.local(v, p) - math.log(math.comb(N - 1, len(p)))
            assert sparse.local(v, p) == pytest.approx(want, abs=1e-10)
    assert sparse.prior == "sparse"


def test_the_edge_prior(score, table):
    p = np.random.default_rng(1).uniform(0.1, 0.9, (N, N))
    for prior in (p, EdgePrior(p)):
        edges = ScoreTable.build(score, max_parents=3, prior=prior)
        for v in range(N):
            for own in subsets(v, 3):
                weight = sum(math.log(p[u, v] if u in own else 1 - p[u, v]) for u in range(N) if u != v)
                assert edges.local(v, own) == pytest.approx(table.local(v, own) + weight, abs=1e-10)


def test_edge_priors_by_name():
    prior = EdgePrior.of(("a", "b", "c"), {("a", "b"): 0.9}, rest=0.2)
    assert prior.probability[0, 1] == 0.9 and prior.probability[1, 0] == 0.2
    with refused("option.unknown-variable", "'d'"):
        EdgePrior.of(("a", "b"), {("a", "d"): 0.9})
    with refused("option.out-of-range", "edges"):
        EdgePrior.of(("a", "b"), {("a", "b"): 1.0})


def test_unknown_priors(score):
    with refused("option.unknown-word", "'sparse'"):
        ScoreTable.build(score, prior="sparce")
    with refused("option.wrong-length", "prior.*2.*5"):
        ScoreTable.build(score, prior=np.full((2, 2), 0.5))


# ---------------------------------------------------------------------- constraints, candidates


def test_constraints_leave_exactly_the_allowed_sets(score):
    known = Constraints.of(
        score.names,
        required=[("v0", "v2")],
        forbidden=[("v1", "v4")],
        tiers=[("v0", "v1"), ("v3",)],
        max_parents={"v4": 2},
    )
    table = ScoreTable.build(score, max_parents=3, constraints=known)
    for v in range(N):
        want = {p for p in subsets(v, 3) if known.allows(v, p)}
        assert {table.parents(i) for i in range(table.pointer[v], table.pointer[v + 1])} == want
        for p in want:
            assert table.local(v, p) == pytest.approx(score.local(v, p), abs=1e-9)


def test_candidates(score, table):
    named = ScoreTable.build(score, max_parents=3, candidates={"v4": ["v1", "v2"], "v0": []})
    assert named.n_sets.tolist() == [1, 15, 15, 15, 4]
    best = ScoreTable.build(score, max_parents=2, candidates=2)
    assert best.n_sets.tolist() == [4] * N
    for v in range(N):
        gain = {u: score.local(v, (u,)) for u in range(N) if u != v}
        top = set(sorted(gain, key=gain.__getitem__)[-2:])
        assert {u for i in range(best.pointer[v], best.pointer[v + 1]) for u in best.parents(i)} == top


def test_more_required_parents_than_allowed(score):
    known = Constraints.of(score.names, required=[("v0", "v4"), ("v1", "v4")])
    with refused("model.contradiction", "'v4'"):
        ScoreTable.build(score, max_parents=1, constraints=known)


def test_constraints_of_other_variables(score):
    with refused("model.different-data", "constraints"):
        ScoreTable.build(score, constraints=Constraints.of(score.names[::-1]))


# ---------------------------------------------------------------------- pruning


@pytest.mark.parametrize("nats", [0.0, 1.0, 5.0])
def test_pruning_is_what_it_says(table, nats):
    """Against the definition: all proper subsets in the table are looked at."""
    pruned = table.pruned(nats)
    dropped = 0
    for v in range(N):
        for p in subsets(v, 3):
            best = max(
                (table.local(v, q) for k in range(len(p)) for q in itertools.combinations(p, k)), default=-math.inf
            )
            own = table.local(v, p)
            keep = best < own if nats == 0 else best - own <= nats
            assert (pruned.number(v, p) >= 0) == keep
            if keep:
                assert pruned.local(v, p) == own
            dropped += not keep
    assert 0 < dropped < len(table.scores)
    assert np.array_equal(ScoreTable.build(load("bdeu", observations()), max_parents=3, prune=nats).sets, pruned.sets)


def test_the_best_dag_survives_pruning():
    """Over all 543 DAGs of four variables; the sums lose no more than what was dropped."""
    data = observations()
    four = Observations.of_codes(data.codes[:, :4], dict(zip(data.names[:4], data.states[:4], strict=True)))
    table = ScoreTable.build(load("bdeu", four), max_parents=3)
    graphs = list(all_dags(table.names))
    every = np.array([table.of_graph(g) for g in graphs])
    searched = np.array([table.pruned(0).of_graph(g) for g in graphs])
    assert len(graphs) == 543 and searched.max() == pytest.approx(every.max(), abs=1e-12)
    summed = np.array([table.pruned(12).of_graph(g) for g in graphs])
    lost = 1 - np.exp(np.logaddexp.reduce(summed) - np.logaddexp.reduce(every))
    assert 0 <= lost < 543 * 4 * math.exp(-12)


def test_equal_scores_keep_the_smaller_set():
    """A parent that never varies changes nothing and goes."""
    codes = np.column_stack([np.arange(40) % 2, np.arange(40) // 2 % 2, np.zeros(40, int)])
    data = Observations.of_codes(codes, {"a": ("x", "y"), "b": ("x", "y"), "c": ("x",)})
    table = ScoreTable.build(load("bdeu", data), max_parents=2, prune=0)
    assert all(2 not in members_of(mask) for mask in table.sets)


def test_wrong_pruning(table):
    with refused("option.out-of-range", "prune.*-1"):
        table.pruned(-1)


# ---------------------------------------------------------------------- size, files


def test_a_table_too_large_is_refused_with_the_number():
    data = Observations.of_codes(np.zeros((2, 200), int), {f"v{i}": ("a", "b") for i in range(200)})
    score = load("bdeu", data)
    with refused("engine.refused.too-costly", "12.*940.*970.*200.*max_parents.*4"):
        ScoreTable.build(score, max_parents=4, memory=500)


def test_the_forecast_is_told(score):
    class Listener:
        lines: list[str] = []  # noqa: RUF012 - one test

        def note(self, text):
            self.lines.append(text)

    ScoreTable.build(score, max_parents=2, progress=Listener())
    assert Listener.lines and Listener.lines[0].startswith("score table: 55 parent sets, about")


def test_saved_and_loaded(table, tmp_path):
    path = tmp_path / "scores.npz"
    table.save(path)
    again = ScoreTable.load(path)
    assert again.digest() == table.digest()
    assert again.names == table.names and again.score == "bdeu" and again.prior == "uniform"
    assert np.array_equal(again.sets, table.sets) and np.array_equal(again.scores, table.scores)
    assert [p.name for p in tmp_path.iterdir()] == ["scores.npz"]
    table.pruned(0).save(path)  # replaces
    assert ScoreTable.load(path).digest() != table.digest()


def test_digests_tell_tables_apart(table, score):
    assert table.digest() == ScoreTable.build(score, max_parents=3).digest()
    assert table.digest() != ScoreTable.build(score, max_parents=2).digest()
    assert table.digest() != ScoreTable.build(score, max_parents=3, prior="sparse").digest()


def test_damaged_files_are_told(table, tmp_path):
    with refused("run.no-such-file"):
        ScoreTable.load(tmp_path / "none")
    path = tmp_path / "scores.npz"
    table.save(path)
    whole = path.read_bytes()
    for broken in (whole[: len(whole) // 2], b"", b"not a table", whole[:900] + b"\xff\xff\xff" + whole[903:]):
        path.write_bytes(broken)
        with refused("run.damaged"):
            ScoreTable.load(path)
    with refused("run.cannot-write"):
        table.save(tmp_path / "nowhere" / "scores.npz")


def test_no_variables_and_one():
    one = Observations.of_codes(np.array([[0], [1], [0]]), {"a": ("x", "y")})
    table = ScoreTable.build(load("bdeu", one))
    assert table.n_sets.tolist() == [1] and table.parents(0) == ()


def test_order_of_columns_changes_nothing(score, table):
    """The same sets with the same scores when the columns come in another order."""
    data = observations()
    order = np.array([3, 0, 4, 2, 1])
    other = Observations.of_codes(
        data.codes[:, order], {data.names[i]: data.states[i] for i in order}, weights=data.weights
    )
    shuffled = ScoreTable.build(load("bdeu", other), max_parents=3)
    for v in range(N):
        for p in subsets(v, 3):
            place = [int(np.flatnonzero(order == u)[0]) for u in p]
            assert shuffled.local(int(np.flatnonzero(order == v)[0]), place) == pytest.approx(
                table.local(v, p), abs=1e-9
            )
