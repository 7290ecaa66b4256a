"""Scores against their formulas written out slowly, against chain rules of predictions, and against equivalence."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import stats
from scipy.special import gammaln

from bayeslab.structure import score_table
from bayeslab.structure.constraints import mask_of, members_of
from bayeslab.structure.counts import CliqueCounter
from bayeslab.structure.data import Observations
from bayeslab.structure.scores import Work, load
from tests.refusals import refused
from tests.structure._dags import all_dags

DISCRETE = ["bdeu", "bds", "k2", "bic", "aic", "mdl", "log_likelihood"]
CARDS = (2, 3, 4, 2, 3)


def table(n_rows=200, cards=CARDS, seed=1):
    """Rows of a chain with noise, as codes; every state occurs, not every combination does."""
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, cards[0], n_rows)]
    for card in cards[1:]:
        follow = rng.random(n_rows) < 0.6
        columns.append(np.where(follow, columns[-1] % card, rng.integers(0, card, n_rows)))
    codes = np.column_stack(columns)
    codes[: max(cards)] = np.arange(max(cards))[:, None] % np.array(cards)
    return codes


def frame(codes):
    return pd.DataFrame({f"v{i}": [f"s{x}" for x in column] for i, column in enumerate(codes.T)})


def observations(codes, cards=CARDS, weights=None):
    return Observations.of_codes(
        codes, {f"v{i}": [f"s{x}" for x in range(r)] for i, r in enumerate(cards)}, weights=weights
    )


def counts(codes, child, parents, cards, weights=None):
    """One row for each configuration of the parents, one column a state; in floating point."""
    out = np.zeros((math.prod(cards[u] for u in parents), cards[child]))
    for row, w in zip(codes, np.ones(len(codes)) if weights is None else weights, strict=True):
        j = 0
        for u in parents:
            j = j * cards[u] + row[u]
        out[j, row[child]] += w
    return out


def dirichlet(n, a):
    """Log marginal likelihood of rows of counts under Dirichlet(a) for each row."""
    return (gammaln(a.sum(1)) - gammaln((n + a).sum(1)) + (gammaln(n + a) - gammaln(a)).sum(1)).sum()


def twin(score, codes, child, parents, cards=CARDS, ess=10.0, weights=None):
    """The local score from its formula."""
    n = counts(codes, child, parents, cards, weights)
    q, r = n.shape
    total, k, n_variables = n.sum(), len(parents), len(cards)
    if score == "bdeu":
        return dirichlet(n, np.full((q, r), ess / (q * r)))
    if score == "bds":
        seen = n[n.sum(1) > 0]
        return dirichlet(seen, np.full(seen.shape, ess / seen.size))
    if score == "k2":
        return dirichlet(n, np.ones((q, r)))
    some = n > 0
    fit = (n[some] * np.log((n / np.maximum(n.sum(1, keepdims=True), 1e-300))[some])).sum()
    free = q * (r - 1)
    graph = math.log(n_variables) + math.log(math.comb(n_variables, k))
    return {
        "log_likelihood": fit,
        "bic": fit - 0.5 * math.log(total) * free,
        "aic": fit - free,
        "mdl": fit - 0.5 * math.log(total) * free - graph,
    }[score]


def families(n, largest):
    for child in range(n):
        others = [u for u in range(n) if u != child]
        for k in range(largest + 1):
            for parents in itertools.combinations(others, k):
                yield child, parents


@pytest.fixture(scope="module")
def codes():
    return table()


# ---------------------------------------------------------------------- discrete scores and their formulas


@pytest.mark.parametrize("name", DISCRETE)
def test_every_family_equals_the_formula(name, codes):
    score = load(name, observations(codes))
    for child, parents in families(5, 4):
        want = twin(name, codes, child, parents)
        assert score.local(child, parents) == pytest.approx(want, abs=1e-9)
        assert score.local(child, parents[::-1]) == score.local(child, parents)


@pytest.mark.parametrize("name", DISCRETE)
@pytest.mark.parametrize("n_rows", [7, 60, 3000])
def test_all_sets_at_once_equal_the_formula(name, n_rows):
    """Few rows are counted by codes, many by bits; some rows are equal and become one with a weight."""
    codes = table(n_rows)
    score = load(name, observations(codes))
    allowed = ~np.eye(5, dtype=bool)
    found = score.all_sets(np.arange(5), np.array([3, 3, 2, 4, 0]), allowed)
    for child, (sets, scores) in enumerate(found):
        parents = [members_of(mask) for mask in sets]
        limit = (3, 3, 2, 4, 0)[child]
        assert sorted(parents) == sorted(p for v, p in families(5, limit) if v == child)
        want = [twin(name, codes, child, p) for p in parents]
        np.testing.assert_allclose(scores, want, rtol=0, atol=1e-9 * max(1, n_rows / 100))


@pytest.mark.parametrize("name", DISCRETE)
def test_candidates_of_each_child_give_the_same_scores(name, codes):
    """Few candidates are walked child by child, not over all sets of all variables."""
    wide = np.column_stack([codes, table(seed=2), table(seed=3)])
    cards = CARDS * 3
    score = load(name, observations(wide, cards))
    allowed = np.zeros((15, 15), dtype=bool)
    for v in range(15):
        allowed[v, [(v + 3) % 15, (v + 7) % 15, (v + 11) % 15]] = True
    for child, (sets, scores) in enumerate(score.all_sets(np.arange(15), np.full(15, 2), allowed)):
        assert len(sets) == 7
        for mask, value in zip(sets, scores, strict=True):
            parents = members_of(mask)
            assert allowed[child, list(parents)].all()
            assert value == pytest.approx(twin(name, wide, child, parents, cards), abs=1e-9)


@pytest.mark.parametrize("name", DISCRETE)
@pytest.mark.parametrize("bits", [True, False])
def test_both_ways_to_count_agree(name, bits, codes, monkeypatch):
    monkeypatch.setattr(CliqueCounter, "by_bits", lambda *_: bits)
    score = load(name, observations(codes))
    for child, (sets, scores) in enumerate(score.all_sets(np.arange(5), np.full(5, 3), ~np.eye(5, dtype=bool))):
        want = [twin(name, codes, child, members_of(mask)) for mask in sets]
        np.testing.assert_allclose(scores, want, atol=1e-9)
        np.testing.assert_allclose(score.many(child, sets), want, atol=1e-9)


@pytest.mark.parametrize("name", DISCRETE)
def test_weights_that_are_not_whole(name, codes):
    """Expected counts, as structural EM has them; one row has weight zero."""
    weights = np.random.default_rng(0).gamma(2.0, 1.0, len(codes))
    weights[3] = 0.0
    score = load(name, observations(codes, weights=weights))
    for child, (sets, scores) in enumerate(score.all_sets(np.arange(5), np.full(5, 3), ~np.eye(5, dtype=bool))):
        want = [twin(name, codes, child, members_of(mask), weights=weights) for mask in sets]
        np.testing.assert_allclose(scores, want, atol=1e-9)
        np.testing.assert_allclose(score.many(child, sets), want, atol=1e-9)


def test_weights_are_repetitions(codes):
    """A row of weight three is three rows, in every score."""
    weights = np.random.default_rng(4).integers(0, 4, len(codes))
    for name in DISCRETE:
        once = load(name, observations(codes, weights=weights))
        again = load(name, observations(np.repeat(codes, weights, axis=0)))
        for child, parents in families(5, 2):
            assert once.local(child, parents) == pytest.approx(again.local(child, parents), abs=1e-9)


def test_more_than_64_variables():
    rng = np.random.default_rng(5)
    codes = rng.integers(0, 2, (40, 70))
    cards = (2,) * 70
    score = load("bdeu", observations(codes, cards))
    allowed = np.zeros((70, 70), dtype=bool)
    allowed[3, [1, 64, 69]] = allowed[66, [3, 65, 68]] = True
    found = score.all_sets(np.arange(70), np.full(70, 3), allowed)
    for child in (3, 66):
        sets, scores = found[child]
        assert sets.shape == (8, 2)
        for mask, value in zip(sets, scores, strict=True):
            assert value == pytest.approx(twin("bdeu", codes, child, members_of(mask), cards), abs=1e-9)
            assert score.many(child, mask[None])[0] == pytest.approx(value, abs=1e-9)


@pytest.mark.parametrize("bits", [True, False])
def test_tables_of_odd_shapes(bits, monkeypatch):
    """Single states, hundreds of states, row numbers about the size of a machine word, rows of weight zero."""
    monkeypatch.setattr(CliqueCounter, "by_bits", lambda *_: bits)
    rng = np.random.default_rng(1)
    for n_rows in (1, 5, 63, 64, 65, 200):
        n = int(rng.integers(1, 5))
        cards = tuple(int(c) for c in rng.choice([1, 2, 3, 40, 200], n, p=[0.1, 0.4, 0.3, 0.1, 0.1]))
        codes = np.column_stack([rng.integers(0, card, n_rows) for card in cards])
        weights = rng.integers(0, 4, n_rows) + (np.arange(n_rows) == 0)
        for name in DISCRETE:
            score = load(name, observations(codes, cards, weights))
            allowed, limits = rng.random((n, n)) < 0.8, rng.integers(0, n + 2, n)
            for child, (sets, scores) in enumerate(score.all_sets(np.arange(n), limits, allowed)):
                for mask, value in zip(sets, scores, strict=True):
                    parents = members_of(mask)
                    if math.prod(cards[u] for u in (*parents, child)) > 20_000:
                        continue
                    want = twin(name, codes, child, parents, cards, weights=weights)
                    assert value == pytest.approx(want, abs=1e-8)
                    assert score.local(child, parents) == pytest.approx(want, abs=1e-8)


def test_threads_change_nothing(codes):
    wide = np.column_stack([table(seed=s) for s in range(4)])
    score = load("bdeu", observations(wide, CARDS * 4))
    arguments = np.arange(20), np.full(20, 3), ~np.eye(20, dtype=bool)
    for one, many in zip(score.all_sets(*arguments, Work(1)), score.all_sets(*arguments, Work(4)), strict=True):
        assert np.array_equal(one[0], many[0]) and np.array_equal(one[1], many[1])


@pytest.mark.parametrize("ess", [0.1, 1.0, 7.5])
def test_equivalent_sample_sizes(ess, codes):
    for name in ("bdeu", "bds"):
        score = load(name, observations(codes), equivalent_sample_size=ess)
        assert score.local(2, (0, 4)) == pytest.approx(twin(name, codes, 2, (0, 4), ess=ess), abs=1e-9)


def test_bds_is_bdeu_where_all_configurations_occur(codes):
    seen = counts(codes, 0, (3, 4), CARDS)
    assert np.all(seen.sum(1) > 0)
    bdeu, bds = load("bdeu", observations(codes)), load("bds", observations(codes))
    assert bds.local(0, (3, 4)) == pytest.approx(bdeu.local(0, (3, 4)), abs=1e-9)
    few = codes[:9]
    assert abs(load("bds", observations(few)).local(0, (1, 2)) - load("bdeu", observations(few)).local(0, (1, 2))) > 0.1


# ---------------------------------------------------------------------- what scores promise


def equivalence_class(graph):
    """Skeleton and v-structures, which say everything (Verma, Pearl 1990)."""
    skeleton = frozenset(frozenset(edge) for edge in graph.edges)
    colliders = frozenset(
        (frozenset((a, b)), v)
        for v in graph
        for a, b in itertools.combinations(sorted(graph.predecessors(v)), 2)
        if frozenset((a, b)) not in skeleton
    )
    return skeleton, colliders


def gaussian_table(n_rows=60, n=4, seed=3):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_rows, n))
    for v in range(1, n):
        x[:, v] += 0.8 * x[:, v - 1] + v
    return pd.DataFrame(x, columns=[f"x{v}" for v in range(n)])


@pytest.mark.parametrize("n", [3, 4])
@pytest.mark.parametrize("name", ["bdeu", "bic", "aic", "log_likelihood", "bge", "gaussian_bic"])
def test_equivalent_dags_score_equally(name, n):
    data = gaussian_table(n=n) if name in ("bge", "gaussian_bic") else observations(table(60)[:, :n], CARDS[:n])
    score = load(name, data)
    classes: dict = {}
    for graph in all_dags(range(n)):
        total = sum(score.local(v, tuple(graph.predecessors(v))) for v in graph)
        classes.setdefault(equivalence_class(graph), []).append(total)
    assert (sum(map(len, classes.values())), len(classes)) == {3: (25, 11), 4: (543, 185)}[n]
    for values in classes.values():
        np.testing.assert_allclose(values, values[0], rtol=0, atol=1e-9)
    # Different classes have different scores (but the complete graph's, whose class is one).
    means = sorted(values[0] for values in classes.values())
    assert np.min(np.diff(means)) > 1e-7


@pytest.mark.parametrize("name", ["k2", "bds"])
def test_k2_and_bds_do_not_score_equivalent_dags_equally(name):
    """So the test above can fail: the complete graphs in two orders, all of one class."""
    score = load(name, observations(table(12)))
    totals = [sum(score.local(v, order[:i]) for i, v in enumerate(order)) for order in ((0, 1, 2, 3), (2, 3, 1, 0))]
    assert abs(totals[0] - totals[1]) > 1e-3


@pytest.mark.parametrize("name", ["log_likelihood"])
def test_likelihood_monotone(name):
    """Adding a link cannot lower the maximised likelihood: random tables, every family and every further parent."""
    for seed in range(5):
        score = load(name, observations(table(50, seed=seed)))
        for child, parents in families(5, 3):
            for u in set(range(5)) - {child, *parents}:
                assert score.local(child, (*parents, u)) >= score.local(child, parents) - 1e-9


def test_score_penalised():
    """Of rows from a chain the complete graph has the larger likelihood, and the chain the better BIC."""
    codes = table(5000)
    chain = {v: (v - 1,) if v else () for v in range(5)}
    full = {v: tuple(range(v)) for v in range(5)}
    fit, bic = load("log_likelihood", observations(codes)), load("bic", observations(codes))

    def total(score, parents):
        return sum(score.local(v, p) for v, p in parents.items())

    assert total(fit, full) > total(fit, chain) + 1
    assert total(bic, chain) > total(bic, full) + 100


def test_score_penalised_latent_class():
    """Candies: a hidden bag (7 parameters, -2003.537) beats independent columns (3 parameters, -2073.522)."""
    cells = np.array(list(itertools.product(range(2), repeat=3)))
    counted = np.array([273, 93, 104, 90, 79, 100, 94, 167])
    data = Observations.of_codes(cells, dict.fromkeys(("flavour", "wrapper", "hole"), ("a", "b")), weights=counted)
    bic, fit = load("bic", data), load("log_likelihood", data)
    independent = sum(bic.local(v, ()) for v in range(3))
    assert independent == pytest.approx(-2073.522, abs=5e-4)
    # The latent class model: its likelihood at the limit of EM less 7 parameters.
    latent = -1979.360127 - 3.5 * math.log(1000)
    assert latent == pytest.approx(-2003.537, abs=1e-3) and latent > independent
    # Nothing beats the complete graph in likelihood, which is that of the cells' own shares.
    complete = sum(fit.local(v, tuple(range(v))) for v in range(3))
    assert complete == pytest.approx(float((counted * np.log(counted / 1000)).sum()), abs=1e-9)
    assert complete == pytest.approx(-1979.360127, abs=1e-6)  # the latent class has as many parameters as cells


def test_score_bayesian():
    """The chain rule: each row predicted from the rows before it, (n_jk + a_jk) / (n_j + a_j)."""
    codes = table(80)
    ess = 4.0
    for name in ("bdeu", "k2"):
        options = {"equivalent_sample_size": ess} if name == "bdeu" else {}
        score = load(name, observations(codes), **options)
        for child, parents in [(2, ()), (1, (0,)), (4, (1, 3)), (0, (1, 2, 4))]:
            q, r = math.prod(CARDS[u] for u in parents), CARDS[child]
            seen = np.full((q, r), ess / (q * r) if name == "bdeu" else 1.0)
            log_p = 0.0
            for row in codes:
                j = 0
                for u in parents:
                    j = j * CARDS[u] + row[u]
                log_p += math.log(seen[j, row[child]] / seen[j].sum())
                seen[j, row[child]] += 1
            assert score.local(child, parents) == pytest.approx(log_p, abs=1e-9)


def test_graph_score_components():
    """Log likelihood less penalty times parameters, counted by hand: 78 with the disease, 708 without it.

    Three causes, a disease and three symptoms of three states each. With it: 3 * 2 + 27 * 2 + 3 * 3 * 2; without it
    the symptoms depend on the causes and each other: 3 * 2 + 27 * 2 + 81 * 2 + 243 * 2.
    """
    rng = np.random.default_rng(8)
    codes = rng.integers(0, 3, (400, 7))
    data = observations(codes, (3,) * 7)
    bic, aic, fit = (load(name, data) for name in ("bic", "aic", "log_likelihood"))
    small = {0: (), 1: (), 2: (), 3: (0, 1, 2), 4: (3,), 5: (3,), 6: (3,)}
    large = {0: (), 1: (), 2: (), 4: (0, 1, 2), 5: (0, 1, 2, 4), 6: (0, 1, 2, 4, 5)}
    for parents, parameters in ((small, 78), (large, 708)):
        likelihood = sum(fit.local(v, p) for v, p in parents.items())
        assert sum(aic.local(v, p) for v, p in parents.items()) == pytest.approx(likelihood - parameters, abs=1e-8)
        want = likelihood - 0.5 * math.log(400) * parameters
        assert sum(bic.local(v, p) for v, p in parents.items()) == pytest.approx(want, abs=1e-8)


# ---------------------------------------------------------------------- noisy-OR


def noisy_or_table(n_rows, strengths, leak=0.02, seed=0):
    """Causes that are on now and then, and an effect that each turns on with its strength."""
    rng = np.random.default_rng(seed)
    causes = (rng.random((n_rows, len(strengths))) < 0.3).astype(int)
    off = (1 - leak) * np.prod(np.where(causes == 1, 1 - np.array(strengths), 1.0), axis=1)
    codes = np.column_stack([causes, rng.random(n_rows) > off])
    return observations(codes.astype(int), (2,) * (len(strengths) + 1)), codes.astype(int)


@pytest.mark.slow(why="statistical")
def test_noisy_or_bic_is_the_maximum():
    """Against a bounded optimiser that knows nothing of concavity; parents that prevent are at the bound."""
    from scipy.optimize import minimize

    data, codes = noisy_or_table(400, (0.9, 0.4, 0.6), seed=5)
    score = load("noisy_or_bic", data)
    for child, parents in families(4, 3):
        on = np.column_stack([np.ones(400), codes[:, list(parents)]])
        y = codes[:, child]

        def loss(theta, on=on, y=y):
            eta = on @ theta
            return (eta[y == 0]).sum() - np.log(-np.expm1(-eta[y == 1])).sum()

        bounds = [(1e-12, 50.0)] * on.shape[1]
        best = min(minimize(loss, np.full(on.shape[1], s), bounds=bounds, tol=1e-14).fun for s in (0.05, 0.3, 1.0))
        price = 0.5 * math.log(400) * (len(parents) + 1)
        assert score.local(child, parents) == pytest.approx(-best - price, abs=1e-4)
        assert score.local(child, parents) >= -best - price - 1e-6


def test_noisy_or_without_parents_is_a_table():
    data, _ = noisy_or_table(300, (0.7,))
    assert load("noisy_or_bic", data).local(1, ()) == pytest.approx(load("bic", data).local(1, ()), abs=1e-8)
    # One parent that only turns on: leak and strength fit the two rows of a table exactly.
    assert load("noisy_or_bic", data).local(1, (0,)) == pytest.approx(load("bic", data).local(1, (0,)), abs=1e-8)


def test_noisy_or_of_effects_that_always_or_never_come():
    rows = np.array([[0, 0, 0], [1, 1, 0], [0, 0, 0], [1, 1, 0]] * 5)
    score = load("noisy_or_bic", observations(rows, (2, 2, 2)))
    assert score.local(1, (0,)) == pytest.approx(-math.log(20), abs=1e-6)
    assert score.local(2, ()) == pytest.approx(-0.5 * math.log(20), abs=1e-6)


def test_structure_noisy_or():
    """The same rows: the noisy-OR score admits at least as many parents as the table's, and here more."""
    more = 0
    for seed in range(4):
        data, _ = noisy_or_table(150, (0.8, 0.7, 0.7, 0.6, 0.6), seed=seed)
        best = {}
        for name in ("bic", "noisy_or_bic"):
            score = load(name, data)
            sets, scores = score.all_sets(np.array([5]), np.array([5]), ~np.eye(6, dtype=bool)[5:])[0]
            best[name] = len(members_of(sets[int(np.argmax(scores))]))
        assert best["noisy_or_bic"] >= best["bic"]
        more += best["noisy_or_bic"] - best["bic"]
    assert more >= 4


def test_noisy_or_is_of_two_states():
    with refused("data.not-applicable", "'v1'.*3"):
        load("noisy_or_bic", observations(table()))


# ---------------------------------------------------------------------- Gaussian and mixed scores


def predictive_chain(x, alpha_mu, alpha_w, nu, scale):
    """log p(x) as a product of Student t predictions under the normal-Wishart prior of these columns."""
    n = x.shape[1]
    mu, kappa, df, t = np.asarray(nu, float).copy(), alpha_mu, alpha_w, np.diag(scale)
    total = 0.0
    for row in x:
        own = df - n + 1
        shape = t * (kappa + 1) / (kappa * own)
        total += stats.multivariate_t(mu, shape, own).logpdf(row)
        away = row - mu
        t = t + kappa / (kappa + 1) * np.outer(away, away)
        mu, kappa, df = (kappa * mu + row) / (kappa + 1), kappa + 1, df + 1
    return total


@pytest.mark.parametrize(
    ("alpha_mu", "extra", "scale"),
    [(1.0, None, 1.0), (0.5, 3.5, 1.0), (4.0, 1.2, [0.5, 2.0, 30.0, 1e-3]), (1.0, None, None), (2.0, 0.7, None)],
)
def test_bge_is_the_chain_rule_of_predictions(alpha_mu, extra, scale):
    data = gaussian_table(25)
    n = 4
    alpha_w = n + alpha_mu + 1 if extra is None else n + 1 + extra
    nu = [0.3, -1.0, 2.0, 0.0]
    options = {} if extra is None else {"alpha_w": alpha_w}
    options |= {} if scale is None else {"scale": scale}
    score = load("bge", data, alpha_mu=alpha_mu, nu=nu, **options)
    unit = data.std(ddof=1).to_numpy() if scale is None else np.broadcast_to(scale, n)
    t = alpha_mu * (alpha_w - n - 1) / (alpha_mu + 1) * unit**2
    x = data.to_numpy()

    def marginal(members):
        own = list(members)
        # A subset of l of n variables has alpha_w - n + l degrees of freedom and that part of T.
        return predictive_chain(x[:, own], alpha_mu, alpha_w - n + len(own), np.array(nu)[own], t[own]) if own else 0.0

    for child, parents in families(4, 3):
        want = marginal((*parents, child)) - marginal(parents)
        assert score.local(child, parents) == pytest.approx(want, abs=1e-9)


@pytest.mark.parametrize("units", [(1e3, 1, 0.05, 20), (1e150, 1e-150, 1e-150, 1e150), (-1, 1e-200, 1e200, 1e-9)])
@pytest.mark.parametrize("name", ["bge", "gaussian_bic", "mixed_bic"])
def test_gaussian_scores_compare_structures_alike_in_all_units(name, units):
    """Scores change by a constant of each variable alone, -N log |unit|: posteriors of structures do not change."""
    data = gaussian_table(50)
    moved = (data + np.array([0.0, 7.0, -3.0, 100.0])) * np.array(units)
    before, after = load(name, data), load(name, moved)
    for child, parents in families(4, 3):
        want = before.local(child, parents) - 50 * math.log(abs(units[child]))
        assert after.local(child, parents) == pytest.approx(want, abs=1e-9)
    at_once = after.all_sets(np.arange(4), np.full(4, 3), ~np.eye(4, dtype=bool))
    for child, (sets, scores) in enumerate(at_once):
        np.testing.assert_allclose(scores, after.many(child, sets), atol=1e-9)


@pytest.mark.parametrize(
    ("scale", "code", "match"),
    [
        ([1.0, 2.0], "option.wrong-length", "scale.*2"),
        (0.0, "option.out-of-range", "scale"),
        (1e-200, "option.out-of-range", "'x0'.*1e150"),
    ],
)
def test_bge_scales_that_cannot_be(scale, code, match):
    with refused(code, match):
        load("bge", gaussian_table(), scale=scale)


def test_gaussian_bic_is_least_squares():
    data = gaussian_table(80)
    score = load("gaussian_bic", data)
    x = data.to_numpy()
    for child, parents in families(4, 3):
        design = np.column_stack([np.ones(80), x[:, list(parents)]])
        residual = x[:, child] - design @ np.linalg.lstsq(design, x[:, child], rcond=None)[0]
        fit = stats.norm(0, residual.std()).logpdf(residual).sum()
        assert score.local(child, parents) == pytest.approx(fit - 0.5 * math.log(80) * (len(parents) + 2), abs=1e-8)


@pytest.mark.parametrize("name", ["bge", "gaussian_bic"])
def test_gaussian_sets_at_once(name):
    data = gaussian_table(40, n=7)
    score = load(name, data)
    for child, (sets, scores) in enumerate(score.all_sets(np.arange(7), np.full(7, 4), ~np.eye(7, dtype=bool))):
        assert len(sets) == 57
        np.testing.assert_allclose(scores, score.many(child, sets), atol=1e-8)
    allowed = np.zeros((7, 7), dtype=bool)
    allowed[2, [5, 6]] = True
    sets, scores = score.all_sets(np.array([2]), np.array([2]), allowed[2:3])[0]
    np.testing.assert_allclose(scores, [score.local(2, p) for p in ((), (5,), (6,), (5, 6))], atol=1e-8)


def test_gaussian_weights_are_repetitions():
    data = gaussian_table(30)
    weights = np.random.default_rng(0).integers(1, 4, 30)
    once = Observations.of(data, kind="continuous").reweighted(weights)
    again = data.loc[np.repeat(np.arange(30), weights)]
    for name in ("bge", "gaussian_bic"):
        a, b = load(name, once), load(name, again)
        assert a.local(2, (0, 3)) == pytest.approx(b.local(2, (0, 3)), abs=1e-8)


def mixed_table(n_rows=150, seed=2):
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, 2, n_rows), rng.integers(0, 3, n_rows)
    x = rng.normal(size=n_rows) + a
    y = rng.normal(size=n_rows) * (1 + b) + 2 * x * a - 50
    return pd.DataFrame({"a": [f"s{i}" for i in a], "x": x, "b": [f"s{i}" for i in b], "y": 1000 * y})


def test_mixed_bic_is_one_regression_a_configuration():
    data = mixed_table()
    score = load("mixed_bic", data)
    price = 0.5 * math.log(len(data))
    y, x = data["y"].to_numpy(), data["x"].to_numpy()
    for states in ((), ("a",), ("a", "b")):
        for slopes in (0, 1):
            fit = 0.0
            groups = data.groupby(list(states)).indices.values() if states else [np.arange(len(data))]
            for rows in groups:
                design = np.column_stack([np.ones(len(rows)), x[rows]])[:, : 1 + slopes]
                residual = y[rows] - design @ np.linalg.lstsq(design, y[rows], rcond=None)[0]
                fit += stats.norm(0, residual.std()).logpdf(residual).sum()
            q = math.prod({"a": 2, "b": 3}[v] for v in states)
            parents = tuple({"a": 0, "b": 2}[v] for v in states) + ((1,) if slopes else ())
            assert score.local(3, parents) == pytest.approx(fit - price * q * (slopes + 2), abs=1e-7)


def test_mixed_bic_of_states_alone_and_of_numbers_alone():
    codes = table(100)
    bic, mixed = load("bic", observations(codes)), load("mixed_bic", observations(codes))
    assert mixed.local(2, (0, 3)) == pytest.approx(bic.local(2, (0, 3)), abs=1e-9)
    numbers = gaussian_table(50)
    assert load("mixed_bic", numbers).local(1, (0, 3)) == pytest.approx(
        load("gaussian_bic", numbers).local(1, (0, 3)), abs=1e-8
    )


def test_mixed_bic_rules_out_what_is_no_such_net():
    score = load("mixed_bic", mixed_table())
    assert score.local(0, (1,)) == -math.inf
    sets, scores = score.all_sets(np.array([0]), np.array([3]), ~np.eye(4, dtype=bool)[:1])[0]
    assert [members_of(mask) for mask in sets] == [(), (2,)] and np.all(np.isfinite(scores))
    # Three rows of one configuration lie on a plane of three coefficients.
    few = mixed_table(6)
    assert load("mixed_bic", few).local(3, (0, 1, 2)) == -math.inf


# ---------------------------------------------------------------------- reading tables


def test_tables_of_any_kind_give_the_same_scores(codes):
    pandas = frame(codes)
    want = load("bdeu", pandas).local(2, (0, 1))
    columns = {name: pandas[name].tolist() for name in pandas}
    arrays = {name: np.array(column) for name, column in columns.items()}
    for data in (pl.DataFrame(columns), pl.DataFrame(columns).to_arrow(), columns, arrays, pandas.astype("category")):
        assert load("bdeu", data).local(2, (0, 1)) == want
    assert load("bdeu", observations(codes)).local(2, (0, 1)) == want


def test_a_dataset_of_a_model_is_read(codes):
    from bayeslab.data.dataset import Dataset

    data = Dataset.from_table({name: column.tolist() for name, column in frame(codes).items()}, "row")
    assert load("bdeu", data).local(2, (0, 1)) == load("bdeu", frame(codes)).local(2, (0, 1))


def test_states_are_sorted_unless_given():
    data = {"a": ["y", "x", "y", "z"], "b": [2, 10, 2, 10], "c": [True, False, True, True]}
    found = Observations.of(data)
    assert found.states == (("x", "y", "z"), ("2", "10"), ("False", "True"))
    given = Observations.of(data, states={"a": ["z", "y", "x", "w"], "b": [1, 2, 10]})
    assert given.states[:2] == (("z", "y", "x", "w"), ("1", "2", "10"))
    np.testing.assert_array_equal(given.codes[:, 0], [1, 2, 1, 0])
    np.testing.assert_array_equal(given.codes[:, 1], [1, 2, 1, 2])


def test_equal_rows_become_one():
    data = {"a": ["x", "y"] * 500, "b": ["u", "v"] * 500}
    found = Observations.of(data)
    assert found.codes.shape == (2, 2) and found.weights.tolist() == [500, 500]
    assert found.n_rows == 1000


@pytest.mark.parametrize("hole", [None, float("nan")])
@pytest.mark.parametrize("name", ["bdeu", "bge", "mixed_bic"])
def test_missing_cells_are_refused_by_name(name, hole):
    data = {"a": [1.0, 2.0, 1.0, 2.0, 1.0], "bad": [1.0, 2.0, hole, 1.0, 2.0]}
    with refused("data.missing", "'bad'.*1.*row 3"):
        load(name, data)


def test_missing_text_is_refused_by_name():
    with refused("data.missing", "'bad'.*2.*rows 1.*3"):
        load("bdeu", pd.DataFrame({"a": list("xyxy"), "bad": [None, "u", None, "v"]}))
    with refused("data.missing", "'v1'.*1.*row 2"):
        observations(np.array([[0, 0, 0, 0, 0], [0, -1, 0, 0, 0]]))


def test_a_constant_column_is_told():
    with pytest.warns(UserWarning, match="'b' is constant"):
        score = load("bdeu", {"a": list("xyxyxy"), "b": list("uuuuuu")})
    assert score.local(1, ()) == pytest.approx(0, abs=1e-12)
    assert score.local(0, (1,)) == pytest.approx(score.local(0, ()), abs=1e-12)
    for name in ("bge", "gaussian_bic", "mixed_bic"):
        with refused("data.constant", "'b'"):
            load(name, {"a": [1.0, 2.5, 3.0], "b": [2.0, 2.0, 2.0]})


def test_a_column_of_names_is_told():
    with pytest.warns(UserWarning, match=r"'id' has 12 states in 12 rows.*name of rows"):
        load("bdeu", {"a": list("xy") * 6, "id": list("abcdefghijkl")})


def test_wrong_kinds_of_columns():
    with refused("data.not-states", "'b'.*3.*'bge'"):
        load("bic", {"a": [1, 2, 1], "b": [0.5, 1.5, 2.5]})
    with refused("data.not-numbers", "'b'"):
        load("bge", {"a": [1.0, 2.0, 1.5], "b": ["x", "y", "x"]})
    with refused("data.not-suited", "'x0'.*'bdeu'"):
        load("bdeu", Observations.of(gaussian_table(), kind="continuous"))
    with refused("data.dependent-columns", "'x3'"):
        load("gaussian_bic", gaussian_table().assign(x3=lambda d: 2 * d.x0 - d.x1 + 1))
    with refused("data.not-finite", "row 2"):
        load("bge", {"a": [1.0, np.inf, 1.5], "b": [1.0, 3.0, 2.0]})


def test_wrong_options():
    data = {"a": ["x", "y", "x", "y"]}
    with refused("option.unknown-word", "'bdeu'"):
        load("bdue", data)
    with refused("option.unknown-option", "'ess'.*equivalent_sample_size"):
        load("bdeu", data, ess=1)
    with refused("option.out-of-range", "equivalent_sample_size"):
        load("bdeu", data, equivalent_sample_size=0)
    with refused("option.wrong-type", "equivalent_sample_size.*'x'"):
        load("bdeu", data, equivalent_sample_size="x")
    with refused("data.not-finite", "'b'.*row 2"):
        load("bdeu", {"a": [1, 2, 1], "b": [1.0, np.inf, 2.0]})
    with refused("option.out-of-range", "alpha_w"):
        load("bge", gaussian_table(), alpha_w=3)
    with refused("data.unknown-state", "'q'"):
        load("bdeu", {"a": ["x", "q"]}, states={"a": ["x", "y"]})
    with refused("data.unknown-column", "'a1'"):
        load("bdeu", {"a1": ["x", "y"]}, states={"a11": ["x", "y"]})


def test_every_score_offers_what_the_contract_says():
    from bayeslab import registry

    names = registry.names("structure/scores")
    assert set(names) == set(DISCRETE) | {"noisy_or_bic", "bge", "gaussian_bic", "mixed_bic"}
    for name in names:
        data = gaussian_table() if name in ("bge", "gaussian_bic") else observations(table(60, (2, 2, 2)), (2, 2, 2))
        score = load(name, data)
        assert score.score == name
        assert score.seconds(1000) > 0
        n = len(score.names)
        sets, scores = score.all_sets(np.array([1]), np.array([2]), ~np.eye(n, dtype=bool)[1:2])[0]
        np.testing.assert_allclose(scores, [score.local(1, members_of(mask)) for mask in sets], atol=1e-8)
        np.testing.assert_allclose(scores, score.many(1, sets), atol=1e-8)
        assert np.array_equal(sets[0], mask_of((), n))
        assert score_table.ScoreTable.build(score, max_parents=2).score == name
