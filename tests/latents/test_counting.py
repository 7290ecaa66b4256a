"""Counts against NumPy, and rows with missing cells against every completion written out."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from bayeslab.latents.networks.counting import Families, family_counts, skipped_weight
from bayeslab.latents.networks.incomplete_rows import IncompleteRows
from bayeslab.latents.networks.network import DiscreteNetwork
from tests.refusals import refused


def random_structure(rng, n, most_parents=3, most_states=4):
    names = [f"v{k}" for k in rng.permutation(n)]
    states = {v: tuple("abcd"[: rng.integers(1, most_states + 1)]) for v in names}
    order = rng.permutation(names)
    parents = {v: tuple(rng.permutation(order[:i])[: rng.integers(0, most_parents + 1)]) for i, v in enumerate(order)}
    return states, parents


def random_network(rng, n, zeros=0.0, **options):
    states, parents = random_structure(rng, n, **options)
    tables = {}
    for v, own in states.items():
        table = rng.gamma(1.0, size=(*(len(states[p]) for p in parents[v]), len(own))) + 1e-3
        gone = rng.random(table.shape) < zeros
        gone[..., 0] = False
        table[gone] = 0.0
        tables[v] = table / table.sum(axis=-1, keepdims=True)
    return DiscreteNetwork(states, parents, tables)


def random_codes(rng, states, n, missing=0.0):
    codes = np.stack([rng.integers(0, len(s), n) for s in states.values()], axis=1)
    codes[rng.random(codes.shape) < missing] = -1
    return codes


def by_completion(network, codes, weights):
    """Log probability of each row and expected counts, every completion of every row written out."""
    names = list(network.states)
    counts = {v: np.zeros_like(t) for v, t in network.tables.items()}
    logs = []
    for row, weight in zip(codes, weights, strict=True):
        spaces = [range(len(network.states[v])) if row[i] < 0 else [row[i]] for i, v in enumerate(names)]
        found = []
        for full in product(*spaces):
            value = dict(zip(names, full, strict=True))
            at = {v: (*(value[p] for p in network.parents[v]), value[v]) for v in names}
            found.append((np.prod([network.tables[v][at[v]] for v in names]), at))
        total = sum(p for p, _ in found)
        logs.append(np.log(total) if total > 0 else -np.inf)
        for p, at in found if total > 0 else ():
            for v in names:
                counts[v][at[v]] += weight * p / total
    return np.array(logs), counts


@pytest.mark.parametrize("layout", ["C int64", "C int8", "F int8", "F int64", "C uint8"])
@pytest.mark.parametrize("weighted", [False, True])
def test_counts_are_those_of_numpy(layout, weighted):
    rng = np.random.default_rng(1)
    states, parents = random_structure(rng, 9)
    codes = random_codes(rng, states, 5003)
    weights = rng.gamma(1.0, size=len(codes)) if weighted else None
    families = Families.of(states, parents)
    order, kind = layout.split()
    found = family_counts(np.asarray(codes, order=order, dtype=kind), families.cards, families.families, weights)
    for family, counts in zip(families.families, found, strict=True):
        want = np.zeros([families.cards[v] for v in family])
        np.add.at(want, tuple(codes[:, v] for v in family), 1.0 if weights is None else weights)
        np.testing.assert_allclose(counts, want, rtol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_rows_with_a_missing_cell_are_skipped_and_counted(weighted):
    rng = np.random.default_rng(2)
    states, parents = random_structure(rng, 6)
    codes = random_codes(rng, states, 700, missing=0.2)
    weights = rng.gamma(1.0, size=len(codes)) if weighted else np.ones(len(codes))
    families = Families.of(states, parents)
    given = (families.cards, families.families, weights if weighted else None)
    skipped = skipped_weight(codes, *given)
    for f, (family, counts) in enumerate(zip(families.families, family_counts(codes, *given), strict=True)):
        whole = (codes[:, family] >= 0).all(axis=1)
        assert skipped[f] == pytest.approx(weights[~whole].sum())
        want = np.zeros(counts.shape)
        np.add.at(want, tuple(codes[whole][:, v] for v in family), weights[whole])
        np.testing.assert_allclose(counts, want, rtol=1e-12)


def test_many_states_and_no_rows():
    codes = np.array([[299, 1], [0, 0], [299, 1]])
    pair = family_counts(codes, [300, 2], [(1, 0)])[0]
    assert pair[1, 299] == 2 and pair[0, 0] == 1 and pair.sum() == 3
    assert family_counts(np.empty((0, 2), dtype=int), [300, 2], [(1, 0)])[0].sum() == 0
    wide = family_counts(np.array([[5000]]), [70_000], [(0,)])[0]
    assert wide[5000] == 1


@pytest.mark.parametrize("bad", [[[2, 0]], [[-2, 0]]])
def test_codes_out_of_range_are_refused(bad):
    with refused("data.out-of-range", "column 0"):
        family_counts(np.array(bad), [2, 2], [(0, 1)])


def test_codes_of_another_shape_or_kind_are_refused():
    with refused("data.wrong-shape", r"\(1, 1\).*2"):
        family_counts(np.array([[1]]), [2, 2], [(0, 1)])
    with refused("data.wrong-type", "codes.*-1"):
        family_counts(np.array([[1.0, 0.0]]), [2, 2], [(0, 1)])
    with refused("data.wrong-length", "3.*1"):
        family_counts(np.array([[1, 0]]), [2, 2], [(0, 1)], np.ones(3))


@pytest.mark.parametrize(("completions", "budget"), [(10**6, 0), (0, 10**6), (8, 10**6), (0, 0), (8, 0), (4, 30)])
@pytest.mark.parametrize("zeros", [0.0, 0.4])
def test_expected_counts_are_sums_over_completions(completions, budget, zeros):
    """By going through the completions, by summing out one by one, by the junction tree, and by mixes of them."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        network = random_network(rng, 6, zeros, most_states=3)
        codes, weights = random_codes(rng, network.states, 12, missing=0.4), rng.gamma(1.0, size=12)
        logs, want = by_completion(network, codes, weights)
        possible = np.isfinite(logs)
        rows = IncompleteRows.of(
            network.states, network.parents, codes[possible], weights[possible], completions, budget
        )
        total, counts = rows.expected_counts([network.tables[v] for v in network.states])
        _, want = by_completion(network, codes[possible], weights[possible])
        assert total == pytest.approx(weights[possible] @ logs[possible], rel=1e-12)
        np.testing.assert_allclose(
            IncompleteRows.of(network.states, network.parents, np.repeat(codes, 2, axis=0), None, completions, budget)
            .log_evidence([network.tables[v] for v in network.states]),
            np.repeat(logs, 2), rtol=1e-11, atol=1e-14,
        )  # fmt: skip
        for v, found in zip(network.states, counts, strict=True):
            np.testing.assert_allclose(found, want[v], rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("n", [40, 200])
def test_long_hidden_chains_are_summed_out_in_order(n):
    """A hidden Markov chain with improbable observations: the forward algorithm; 2^n completions, tiny products."""
    rng = np.random.default_rng(n)
    first, move = np.array([0.3, 0.7]), np.array([[0.9, 0.1], [0.2, 0.8]])
    see = np.array([[1e-12, 1 - 1e-12], [1e-9, 1 - 1e-9]])
    states = {f"{k}{i}": ("0", "1") for i in range(n) for k in "hx"}
    parents = {f"h{i}": (f"h{i - 1}",) for i in range(1, n)} | {f"x{i}": (f"h{i}",) for i in range(n)}
    tables = {v: first if v == "h0" else move if v[0] == "h" else see for v in states}
    seen = rng.integers(0, 2, n)
    codes = np.stack([np.full(n, -1), seen], axis=1).reshape(1, -1)
    rows = IncompleteRows.of(states, parents, codes)
    assert len(rows.wide) == (n > 64)
    total, counts = rows.expected_counts(list(tables.values()))
    forward, log_evidence = first * see[:, seen[0]], 0.0
    for code in seen[1:]:
        log_evidence += np.log(forward.sum())
        forward = (forward / forward.sum()) @ move * see[:, code]
    last = forward / forward.sum()
    assert total == pytest.approx(log_evidence + np.log(forward.sum()), rel=1e-12)
    found = dict(zip(states, counts, strict=True))
    np.testing.assert_allclose(found[f"h{n - 1}"].sum(axis=0), last, rtol=1e-10)
    np.testing.assert_allclose([c.sum() for c in counts], 1.0, rtol=1e-10)


def test_impossible_rows_are_minus_infinity():
    network = DiscreteNetwork(
        {"a": ("0", "1"), "b": ("0", "1")},
        {"b": ("a",)},
        {"a": np.array([0.5, 0.5]), "b": np.array([[1.0, 0], [1, 0]])},
    )
    for row in ([0, 1], [-1, 1]):
        rows = IncompleteRows.of(network.states, network.parents, np.array([row]))
        assert rows.expected_counts([network.tables["a"], network.tables["b"]])[0] == -np.inf


def test_gradient_is_that_of_the_log_probability():
    """In the entries of the tables, as if each were free: central differences."""
    from bayeslab.latents.networks.counting_kernels import evidence_of_tables

    rng = np.random.default_rng(5)
    network = random_network(rng, 5)
    rows = IncompleteRows.of(network.states, network.parents, random_codes(rng, network.states, 30, missing=0.3))
    assert not len(rows.wide)

    def value(flat):
        return evidence_of_tables(flat, *rows.kernel_arrays)

    flat = np.concatenate([network.tables[v].ravel() for v in network.states])
    gradient = value(flat)[1]
    for i, h in enumerate(1e-4 * flat):
        step = h * np.eye(flat.size)[i]
        slope = (value(flat + step)[0] - value(flat - step)[0]) / (2 * h)
        assert gradient[i] == pytest.approx(slope, rel=1e-6, abs=1e-6)
