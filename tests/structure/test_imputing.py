"""Missing cells inside chains, against sums over every completion of small tables and every DAG."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
from scipy.special import gammaln
from scipy.stats import norm

from bayeslab.structure.chains import load
from bayeslab.structure.imputing import Cells, Imputing, completed
from bayeslab.structure.jobs import MemorySegments, Sampler, Work, Workers, run
from bayeslab.structure.priors import EdgePrior, Uniform
from bayeslab.structure.score_table import ScoreTable
from tests.refusals import refused
from tests.structure._dags import Everything

STATES = {"a": ("0", "1"), "b": ("0", "1", "2"), "c": ("0", "1")}
PRIORS = {"uniform": Uniform(), "edges": EdgePrior.of(tuple(STATES), {("a", "b"): 0.8, ("c", "a"): 0.1})}


def full_rows() -> np.ndarray:
    """Dependent columns."""
    rng = np.random.default_rng(3)
    a = rng.integers(0, 2, 14)
    b = np.where(rng.random(14) < 0.75, a, 2)
    c = np.where(rng.random(14) < 0.8, b == 0, a).astype(int)
    return np.column_stack([a, b, c])


def rows() -> np.ndarray:
    """Two of the rows lack two cells, one lacks one."""
    codes = full_rows()
    for row, column in ((2, 0), (2, 1), (5, 1), (9, 1), (9, 2)):
        codes[row, column] = -1
    return codes


def cells(score="bdeu", prior="uniform"):
    options = {"equivalent_sample_size": 4.0} if score == "bdeu" else {}
    return Cells(STATES, rows(), score, options, PRIORS[prior])


def table_of(known: Cells, seed: int = 0, **options) -> ScoreTable:
    first = completed(known, np.random.default_rng(seed))
    return ScoreTable.build(known.scored(first), prior=known.prior, **options)


def log_family(codes, cards, child, parents, score):
    """Log marginal likelihood of a family, from the formula."""
    q = int(np.prod([cards[u] for u in parents]))
    alpha = 4.0 / (q * cards[child]) if score == "bdeu" else 1.0
    total = 0.0
    for at in itertools.product(*(range(cards[u]) for u in parents)):
        inside = np.all(codes[:, list(parents)] == at, axis=1)
        n = np.bincount(codes[inside, child], minlength=cards[child])
        total += gammaln(cards[child] * alpha) - gammaln(cards[child] * alpha + n.sum())
        total += np.sum(gammaln(alpha + n) - gammaln(alpha))
    return float(total)


def weighed(known: Cells, by_orders: bool = False) -> tuple[np.ndarray, list[tuple[int, ...]], Everything]:
    """The posterior of every completion with every DAG, one by one; the completions; the DAGs."""
    table = table_of(known)
    every, cards = Everything.of(table), known.cards
    where = np.argwhere(known.codes < 0)
    families = [(v, table.parents(i)) for v in range(3) for i in range(table.pointer[v], table.pointer[v + 1])]
    prior = np.concatenate(
        [known.prior.log_weights(v, table.sets[a:b], 3) for v, (a, b) in enumerate(itertools.pairwise(table.pointer))]
    )
    completions = list(itertools.product(*(range(cards[v]) for _, v in where)))
    logs = np.empty((len(completions), len(every.choices)))
    for i, filled in enumerate(completions):
        codes = known.codes.astype(int)
        codes[tuple(where.T)] = filled
        own = prior + [log_family(codes, cards, v, parents, known.score) for v, parents in families]
        logs[i] = own[every.choices].sum(axis=1)
    if by_orders:
        logs += np.log(every.n_orders)
    weight = np.exp(logs - logs.max())
    return weight / weight.sum(), completions, every


def truth(known: Cells, by_orders: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Edge probabilities and probabilities of the missing cells."""
    weight, completions, every = weighed(known, by_orders)
    where = np.argwhere(known.codes < 0)
    filled = np.array([weight.sum(axis=1) @ (np.array(completions)[:, j] == 1) for j in range(len(where))])
    return np.tensordot(weight.sum(axis=0), every.adjacency, axes=1), filled


CASES = {
    "structure": (Sampler("structure"), "bdeu", "uniform"),
    "k2": (Sampler("structure"), "k2", "uniform"),
    "prior of edges": (Sampler("structure"), "bdeu", "edges"),
    "tempered": (Sampler("structure", (1.0, 0.5), 60), "bdeu", "uniform"),
    "order": (Sampler("order"), "bdeu", "uniform"),
    "partition": (Sampler("partition"), "bdeu", "uniform"),
    "tempered orders": (Sampler("order", (1.0, 0.4), 20), "bdeu", "uniform"),
}


def batch_error(x: np.ndarray, batches: int = 30) -> np.ndarray:
    """Monte Carlo standard errors from means of batches."""
    means = x[: len(x) // batches * batches].reshape(batches, -1, *x.shape[1:]).mean(axis=1)
    return means.std(axis=0, ddof=1) / np.sqrt(batches)


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("case", CASES)
def test_edges_are_as_probable_as_the_sum_over_all_completions_and_dags_says(case):
    sampler, score, prior = CASES[case]
    known = cells(score, prior)
    table = table_of(known)
    exact, _ = truth(known, by_orders=sampler.prior == "orders")
    chain = Imputing.of(sampler, known, imputation=20)
    state = chain.init(table, np.random.default_rng(1))
    state, draws, info = chain.run(table, state, 20 * 2_000, 20)
    members = (table.sets[:, :1] >> np.arange(3, dtype=np.uint64) & np.uint64(1)).astype(float)
    edges = members[draws].transpose(0, 2, 1)
    error = batch_error(edges)
    apart = ~np.eye(3, dtype=bool)
    z = (edges.mean(axis=0) - exact)[apart] / np.maximum(error[apart], 1e-4)
    assert np.abs(z).max() < norm.isf(1e-4 / 12), (z, exact)
    assert np.all(error[apart] < 0.04)
    # Missing cells do change what is known: the answer of the first completion alone is another one.
    alone = Everything.of(table).mean(Everything.of(table).adjacency, sampler.prior == "orders")
    assert np.abs(alone - exact).max() > 5 * error.max()
    assert info.proposed["imputation"] and info.accepted["imputation"]


@pytest.mark.slow(why="statistical")
def test_missing_cells_are_drawn_from_their_posterior():
    known = cells()
    table = table_of(known)
    _, exact = truth(known)
    chain = Imputing.of(Sampler("structure"), known, imputation=15)
    state, seen = chain.init(table, np.random.default_rng(2)), []
    for _ in range(1_500):
        state, _, _ = chain.run(table, state, 15, 15)
        seen.append(chain.codes(state)[known.codes < 0] == 1)
    drawn = np.array(seen, dtype=float)
    z = (drawn.mean(axis=0) - exact) / batch_error(drawn)
    assert np.abs(z).max() < norm.isf(1e-4 / 10), (z, exact)


@pytest.mark.slow(why="statistical")
def test_cells_one_by_one_where_a_row_has_too_many_completions(monkeypatch):
    from bayeslab.structure import imputing

    monkeypatch.setattr(imputing, "COMPLETIONS", 3)
    known = cells()
    assert len(known.blocks[0]) == 5
    table = table_of(known)
    exact, _ = truth(known)
    chain = Imputing.of(Sampler("structure"), known, imputation=20)
    _, draws, _ = chain.run(table, chain.init(table, np.random.default_rng(5)), 20 * 2_000, 20)
    members = (table.sets[:, :1] >> np.arange(3, dtype=np.uint64) & np.uint64(1)).astype(float)
    edges = members[draws].transpose(0, 2, 1)
    z = (edges.mean(axis=0) - exact) / np.maximum(batch_error(edges), 1e-4)
    assert np.abs(z).max() < norm.isf(1e-4 / 12)


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("sampler", [CASES["structure"][0], CASES["tempered"][0], CASES["order"][0]])
def test_a_run_in_pieces_and_from_a_file_is_the_whole_run(sampler):
    known = cells()
    table = table_of(known)
    chain = Imputing.of(sampler, known, imputation=7)
    whole_state, whole, info = chain.run(table, chain.init(table, np.random.default_rng(4)), 900, 11)
    state, pieces, scores, completions = chain.init(table, np.random.default_rng(4)), [], [], []
    for steps in (1, 33, 6, 360, 500):
        # Another process: nothing but tables and states is handed on.
        again = pickle.loads(pickle.dumps(chain))
        other = ScoreTable(table.names, table.pointer, table.sets, table.scores, table.score, table.prior)
        state, draws, part = again.run(other, {k: v.copy() for k, v in state.items()}, steps, 11)
        pieces.append(draws)
        scores.append(part.scores)
        completions.append(part.completions)
    np.testing.assert_array_equal(np.concatenate(pieces), whole)
    np.testing.assert_array_equal(np.concatenate(scores), info.scores)
    np.testing.assert_array_equal(np.concatenate(completions), info.completions)
    # What is kept of the cells is what the structures were scored with.
    for choice, filled, score in zip(whole[::9], info.completions[::9], info.scores[::9], strict=True):
        codes = known.codes.astype(int)
        codes[known.missing] = filled
        own = [log_family(codes, known.cards, v, table.parents(i), "bdeu") for v, i in enumerate(choice)]
        assert score == pytest.approx(sum(own), rel=1e-12)
    assert set(state) == set(whole_state)
    for word, array in whole_state.items():
        np.testing.assert_array_equal(array, state[word])


def test_scores_are_those_of_the_completed_rows():
    known = cells()
    table = table_of(known)
    chain = Imputing.of(Sampler("structure"), known, imputation=100)
    state, draws, info = chain.run(table, chain.init(table, np.random.default_rng(6)), 50, 50)
    codes = chain.codes(state)
    own = [log_family(codes.astype(int), known.cards, v, table.parents(i), "bdeu") for v, i in enumerate(draws[0])]
    assert info.scores[0] == pytest.approx(sum(own), rel=1e-12)
    assert chain.log_weight(table, state) == pytest.approx(sum(own), rel=1e-12)


def test_what_is_rescored_is_what_a_missing_cell_touches():
    """One column with missing cells of six: scores of the other families are left alone, all are right."""
    rng = np.random.default_rng(8)
    codes = rng.integers(0, 2, (60, 6))
    codes[:7, 0] = -1
    states = {f"v{i}": ("0", "1") for i in range(6)}
    known = Cells(states, codes)
    table = table_of(known)
    from bayeslab.structure.imputing import Book

    for at_once in (True, False):
        book = Book(table, known)
        book._at_once = at_once
        filled = completed(known, np.random.default_rng(9))
        fresh = ScoreTable.build(known.scored(filled))
        found = book.rescored(filled)
        assert 0 < book._affected.sum() < len(found)
        for v in range(6):
            for i in range(table.pointer[v], table.pointer[v + 1]):
                assert found[i] == pytest.approx(fresh.local(v, table.parents(i)), rel=1e-12)


def test_jobs_run_it_unchanged_and_know_whose_segments_they_are():
    known = cells()
    table = table_of(known)
    chain = Imputing.of(Sampler("structure"), known)
    whole = run(table, chain, Work(30, 10, 12, 2, 30, 1), MemorySegments(), Workers())
    cut = run(table, chain, Work(30, 10, 12, 2, 7, 1), MemorySegments(), Workers())
    for one, other in zip(whole, cut, strict=True):
        np.testing.assert_array_equal(np.concatenate(one.draws), np.concatenate(other.draws))
    assert whole[0].acceptance["imputation"] > 0
    from bayeslab.structure.jobs import identity

    elsewhere = known.codes.copy()
    elsewhere[0, 0] = 1 - elsewhere[0, 0]
    other = Imputing.of(Sampler("structure"), Cells(STATES, elsewhere, "bdeu", known.options))
    work = Work(1, 1, 1, 1, 1, 1)
    assert identity(table, chain, work) != identity(table, other, work)


def test_what_cannot_be_is_said():
    with refused("option.not-suited", "'bic'"):
        Cells(STATES, rows(), "bic")
    gone = rows()
    gone[:, 1] = -1
    with refused("data.no-values", "'b'"):
        Cells(STATES, gone)
    with refused("option.out-of-range", "cells.*given 0"):
        Imputing.of(Sampler("structure"), cells(), imputation=0)
    assert load("structure").PRIOR == "dags"


# ---------------------------------------------------------------------------- what follows from a fit


def selected():
    """`b` is missing where `c` is 0 only: rows without a missing cell show another world."""
    codes = full_rows()
    codes[np.flatnonzero(codes[:, 2] == 0)[:5], 1] = -1
    return Cells(STATES, codes, "bdeu", {"equivalent_sample_size": 4.0}, PRIORS["uniform"])


def holes():
    """The rows as a table, and the model."""
    pd, bl = pytest.importorskip("pandas"), pytest.importorskip("bayeslab")
    words = {v: np.array([*own, None], dtype=object) for v, own in STATES.items()}
    table = pd.DataFrame({v: words[v][selected().codes[:, k]] for k, v in enumerate(STATES)})
    spec = {"score": "bdeu", "equivalent_sample_size": 4, "temperatures": 1, "imputation_every": 60}
    variables = {v: list(own) for v, own in STATES.items()}
    return table, bl.Model(name="holes", model=bl.BayesNet(variables=variables, structure=spec))


OPTIONS = {"method": "structure", "seed": 3, "tune": 50, "chains": 2, "cores": 1, "thin": 60, "progress": False}


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    import bayeslab as bl

    table, model = holes()
    return bl.fit(model, table, draws=900, runs=tmp_path_factory.mktemp("runs"), **OPTIONS)


def joint(codes, adjacency, do=None):
    """Probability of every cell at the posterior means of the tables of one DAG on completed rows."""
    out = np.ones(tuple(map(len, STATES.values())))
    for v in range(3):
        family = [*np.flatnonzero(adjacency[:, v]), v]
        shape = [out.shape[u] for u in family]
        counts = np.full(shape, 4.0 / np.prod(shape))
        np.add.at(counts, tuple(codes[:, family].T), 1)
        table = counts / counts.sum(axis=-1, keepdims=True)
        if do and v in do:
            table = np.broadcast_to(np.eye(out.shape[v])[do[v]], shape)
        out = out * table.transpose(np.argsort(family)).reshape([out.shape[u] if u in family else 1 for u in range(3)])
    return out


def averaged(do=None):
    """The joint distribution of the next row: every DAG and every completion, by its posterior weight."""
    known = selected()
    weight, completions, every = weighed(known)
    out = np.zeros((2, 3, 2))
    for own, filled in zip(weight, completions, strict=True):
        codes = known.codes.astype(int)
        codes[known.missing] = filled
        out += sum(w * joint(codes, edges, do) for w, edges in zip(own, every.adjacency, strict=True))
    return out


@pytest.mark.slow(why="statistical")
def test_a_fit_with_missing_cells_has_the_edges_of_the_sum_over_completions(fitted):
    import bayeslab as bl

    table, model = holes()
    exact, _ = truth(selected())
    edges = fitted.posterior["edge"].to_numpy().astype(float)
    error = np.sqrt(sum(batch_error(chain, 15) ** 2 for chain in edges)) / 2
    apart = ~np.eye(3, dtype=bool)
    z = (edges.mean(axis=(0, 1)) - exact)[apart] / np.maximum(error[apart], 1e-4)
    assert np.abs(z).max() < norm.isf(1e-4 / 12)
    assert fitted.data_tree["sample_stats"].attrs["acceptance_imputation"] > 0
    with refused("option.not-applicable", "cells"):
        _ = fitted.structures.parameters
    with refused("engine.refused.no-closed-form", "exact"):
        bl.fit(model, table, method="exact")


@pytest.mark.slow(why="statistical")
def test_queries_are_averaged_over_structures_and_completions(fitted):
    """Without evidence, with evidence that itself weighs structures, and predicted row by row."""
    import pandas as pd

    exact = averaged()
    for given, want in (({}, exact.sum(axis=(0, 2))), ({"a": "1", "c": "0"}, exact[1, :, 0] / exact[1, :, 0].sum())):
        found = fitted.structures.query(given, ["b"])
        for state, p in zip(STATES["b"], want, strict=True):
            assert abs(found["b"][state] - p) < 4.5 * found.errors["b"][state], (given, state)
            low, high = found.intervals["b"][state]
            assert low < p < high
        assert max(found.errors["b"].values()) < 0.02
    seen = fitted.structures.query({}, ["c"])
    assert abs(seen["c"]["1"] - exact.sum(axis=(0, 1))[1]) < 4.5 * seen.errors["c"]["1"] < 0.05
    assert found.log_evidence == pytest.approx(np.log(exact[1, :, 0].sum()), abs=0.03)
    # The rows that lack nothing would give another answer: completions matter.
    whole = selected().codes[~selected().missing.any(axis=1)]
    weight, _, every = weighed(selected())
    alone = sum(w * joint(whole, edges) for w, edges in zip(weight.sum(axis=0), every.adjacency, strict=True))
    assert np.abs(alone - exact).sum(axis=(0, 1)).max() > 0.1
    frame = fitted.predict(pd.DataFrame({"a": ["1"], "c": ["0"]}), "probabilities")
    assert frame["P(b=2)"][0] == pytest.approx(found["b"]["2"], rel=1e-9)
    from bayeslab.fitting import open_run

    assert open_run(fitted.folder).structures.query({}, ["c"]).to_dict() == seen.to_dict()


@pytest.mark.slow(why="statistical")
def test_effects_are_averaged_over_structures_and_completions(fitted):
    first, second = (averaged({0: state}) for state in (0, 1))
    effect = fitted.structures.average_effect("a", "c")
    want = second.sum(axis=(0, 1))[1] - first.sum(axis=(0, 1))[1]
    assert abs(effect.mean - want) < 4.5 * effect.mcse and effect.mcse < 0.01
    frame = fitted.structures.interventional("a", "b").set_index(["treatment", "outcome"])
    for i, joint_ in enumerate((first, second)):
        for k, p in enumerate(joint_.sum(axis=(0, 2))):
            row = frame.loc[(str(i), str(k))]
            assert abs(row["probability"] - p) < 4.5 * row["mcse"]


@pytest.mark.slow(why="statistical")
def test_a_net_out_of_a_draw_has_the_tables_of_its_completion(fitted):
    group, draw = fitted.data_tree["completions"], 417
    codes = selected().codes.astype(int)
    codes[group["row"].to_numpy(), [list(STATES).index(v) for v in group["variable"].to_numpy()]] = group["state"][
        1, draw
    ]
    net = fitted.structures.network(1, draw)
    number = {v: i for i, v in enumerate(STATES)}
    adjacency = np.zeros((3, 3), bool)
    for u, v in net.graph.edges:
        adjacency[number[u], number[v]] = True
    found = np.array([np.exp(net.query(dict(zip(STATES, row, strict=True)), []).log_evidence)
                      for row in itertools.product(*STATES.values())])  # fmt: skip
    np.testing.assert_allclose(found, joint(codes, adjacency).ravel(), rtol=1e-9)


@pytest.mark.slow(why="statistical")
def test_rows_with_missing_cells_are_weighed_by_what_they_show(fitted):
    """The mean likelihood of a row is the probability of what is seen of it, as of the next row."""
    exact = averaged()
    terms = np.exp(fitted.log_likelihood()["evidence"].to_numpy())
    row = int(np.flatnonzero(selected().missing.any(axis=1))[0])
    seen = [int(c) if c >= 0 else slice(None) for c in selected().codes[row]]
    error = batch_error(np.moveaxis(terms[..., row], 0, 1), 15).mean() / np.sqrt(2)
    assert abs(terms[..., row].mean() - exact[tuple(seen)].sum()) < 5 * error


@pytest.mark.slow(why="statistical")
def test_completions_are_kept_in_the_run_and_go_on_exactly(fitted, tmp_path):
    import bayeslab as bl
    from bayeslab.fitting import resume

    table, model = holes()
    short = bl.fit(model, table, draws=500, runs=tmp_path, **OPTIONS)
    longer = resume(short.folder, draws="+400", progress=False)
    for group in ("posterior", "completions"):
        for name, values in fitted.data_tree[group].data_vars.items():
            np.testing.assert_array_equal(values, longer.data_tree[group][name])


@pytest.mark.slow(why="statistical")
def test_of_very_many_cells_some_draws_are_kept(monkeypatch, tmp_path):
    import bayeslab as bl
    from bayeslab.engines import structure as engine
    from bayeslab.structure import imputing

    monkeypatch.setattr(imputing, "KEPT_BYTES", 2)
    assert selected().keep == 3 and selected().packed == np.uint8
    table, model = holes()
    fit = bl.fit(model, table, draws=100, runs=tmp_path, **OPTIONS)
    draws = fit.data_tree["completions"]["draw"].to_numpy()
    assert list(draws) == [d for d in range(100) if (d + 50) % 3 == 0]
    assert fit.structures.query({}, ["c"])["c"]["1"] == pytest.approx(averaged().sum(axis=(0, 1))[1], abs=0.05)
    fit.structures.network(0, int(draws[4]))
    with refused("option.not-kept", f"draw {draws[4] + 1} .*{draws[4]}, {draws[5]}"):
        fit.structures.network(0, int(draws[4]) + 1)
    monkeypatch.setattr(engine, "half_of_memory", lambda: 1e-6)
    with refused("engine.refused.too-costly"):
        bl.fit(model, table, draws=100, runs=None, **OPTIONS)
