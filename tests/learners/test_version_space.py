"""Version spaces of conjunctions against all conjunctions, one by one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import bayeslab as bl
from bayeslab.learners.find_s import FindS
from bayeslab.learners.version_space import VersionSpace
from tests.learners.conjunctions import covers
from tests.refusals import refused


def enumerated(rows, y, sizes, prior, noise):
    """Every conjunction with its posterior probability; None covers nothing."""
    out = {}
    for h in [*itertools.product(*([*range(k), None] for k in sizes)), "nothing"]:
        said = np.zeros(len(rows), bool) if h == "nothing" else covers(h, rows)
        asked = len(sizes) + 1 if h == "nothing" else sum(c is not None for c in h)
        wrong = int(np.sum(said != y))
        out[h] = {"uniform": 1.0, "specific": 2.0, "general": 0.5}[prior] ** asked
        out[h] *= noise**wrong * (1 - noise) ** (len(y) - wrong)
    total = sum(out.values())
    return {h: p / total for h, p in out.items()}


def planted(rng, sizes, n):
    """Rows of a conjunction, each value of each input among them."""
    while True:
        concept = [None if rng.random() < 0.5 else int(rng.integers(k)) for k in sizes]
        rows = np.column_stack([rng.integers(k, size=n) for k in sizes])
        y = covers(concept, rows)
        if y.any() and not y.all() and all(len(set(c)) == k for c, k in zip(rows.T, sizes, strict=True)):
            return rows, y


@pytest.mark.parametrize(("prior", "noise"), [("uniform", 0.0), ("specific", 0.0), ("general", 0.1)])
def test_all_conjunctions(prior, noise):
    """brute-force-map, version-space-posterior: each of the hypotheses has the probability of enumeration."""
    rng = np.random.default_rng(0)
    sizes = (2, 3, 3)
    every = np.array(list(itertools.product(*map(range, sizes))))
    for _ in range(10):
        rows, y = planted(rng, sizes, 14)
        found = VersionSpace((0, 1, 2), prior, noise).fit(rows, y)
        truth = enumerated(rows, y, sizes, prior, noise)
        for h, p in truth.items():
            if h == "nothing":
                assert found.nothing_ == pytest.approx(p)
            else:
                at = tuple(k if c is None else c for c, k in zip(h, sizes, strict=True))
                assert found.posterior_[at] == pytest.approx(p, abs=1e-12)
        share = sum(p * (np.zeros(18) if h == "nothing" else covers(h, every)) for h, p in truth.items())
        np.testing.assert_allclose(found.predict_proba(every)[:, 1], share * (1 - noise) + (1 - share) * noise)
        plain = enumerated(rows, y, sizes, "uniform", 0.0)
        assert found.n_consistent_ == sum(p > 0 for p in plain.values())
        if prior == "uniform":
            assert set(np.round([p for p in truth.values() if p], 9)) == {round(1 / found.n_consistent_, 9)}
            assert found.map_probability_ == pytest.approx(1 / found.n_consistent_)


def test_find_s_is_the_map_of_specific_priors():
    """inductive-bias-as-prior: Find-S finds the most probable conjunction where specific ones are more probable."""
    rng = np.random.default_rng(1)
    for _ in range(20):
        rows, y = planted(rng, (2, 3, 3, 2), 20)
        best = VersionSpace((0, 1, 2, 3), "specific", use="map").fit(rows, y)
        find_s = FindS().fit(rows, y)
        np.testing.assert_array_equal(best.hypothesis_, find_s.hypothesis_)
        np.testing.assert_array_equal(best.predict(rows), find_s.predict(rows))


def test_rows_shrink_the_version_space():
    """posterior-evolution: hypotheses that a row contradicts are gone, and the others share their probability."""
    rng = np.random.default_rng(2)
    rows, y = planted(rng, (3, 3, 3), 30)
    order = np.argsort(rng.random(30))
    last = np.inf
    for n in range(12, 31, 3):
        some = order[:n]
        if y[some].all() or not y[some].any():
            continue
        size = VersionSpace((0, 1, 2)).fit(rows[some], y[some]).n_consistent_
        assert 1 <= size <= last
        last = size


def test_numbers_other_values_and_none_left():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(300, 3))
    y = (x[:, 0] > np.quantile(x[:, 0], 2 / 3)) & (x[:, 1] < np.quantile(x[:, 1], 1 / 3))
    found = VersionSpace(noise=0.05).fit(x, y)
    assert found.score(x, y) > 0.98
    np.testing.assert_array_equal(found.hypothesis_, [2, 0, np.nan])
    rows, y = np.array([[0, 1], [1, 1], [0, 0], [1, 0]]), np.array([True, True, False, False])
    found = VersionSpace((0, 1)).fit(rows, y)
    # A value that no row had is covered where nothing is asked of that input.
    assert found.predict_proba([[7, 1]])[0, 1] == 1
    with pytest.raises(ValueError, match="no conjunction agrees with all rows"):
        VersionSpace((0, 1)).fit(rows, [True, False, False, True])
    with pytest.raises(ValueError, match="more than 3,000,000"):
        VersionSpace().fit(rng.normal(size=(20, 30)), np.arange(20) % 2)
    with refused("option.out-of-range", "'noise'", kind=ValueError):
        VersionSpace(noise=0.7).fit(rows, y)
    assert VersionSpace((0, 1), positive=0).fit(rows, ["a", "a", "b", "b"]).predict([[0, 1]]).tolist() == ["a"]


def test_in_a_model():
    """brute-force-map: from a model file; the days for sport of the source of Find-S."""
    table = {
        "sky": ["Sunny", "Sunny", "Rainy", "Sunny"],
        "air": ["Warm", "Warm", "Cold", "Warm"],
        "humidity": ["Normal", "High", "High", "High"],
        "wind": ["Strong"] * 4,
        "water": ["Warm", "Warm", "Warm", "Cool"],
        "forecast": ["Same", "Same", "Change", "Change"],
        "sport": ["Yes", "Yes", "No", "Yes"],
    }
    model = bl.Model(model={"family": "learner", "learner": "version_space", "target": "sport"}, inference={"folds": 0})
    fit = bl.fit(model, table, runs=None)
    # Mitchell (1997), figure 2.3 and table 2.6: six hypotheses; of a new day all say yes, of another two of six do.
    assert float(fit.posterior["consistent"].squeeze()) == 6
    days = {"sky": "Sunny Sunny", "air": "Warm Cold", "humidity": "Normal Normal", "wind": "Strong Strong"}
    days |= {"water": "Cool Warm", "forecast": "Change Same"}
    said = fit.predict({name: words.split() for name, words in days.items()})
    np.testing.assert_allclose(said["P(sport=Yes)"], [1, 2 / 6])
