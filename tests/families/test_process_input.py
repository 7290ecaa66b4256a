"""Processes and topics with input that is wrong, or leaves nothing to tell: said in a line, never taken for data."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import bayeslab as bl
from bayeslab.latents.topics.topic_coherence import coherence_interval
from bayeslab.latents.topics.topics import Corpus
from bayeslab.results.clusters import listing
from bayeslab.results.render import prior_table
from tests.refusals import refused

X = np.array([-1.2, -0.9, 0.1, 1.4, 1.9])
PRIOR = {"components": {"mean": 0.0, "rows": 0.3, "dof": 4.0, "scale": 1.5}}


def fitted(spec, data, **options):
    given = {"draws": 20, "tune": 10, "chains": 2, "runs": None, "progress": False}
    return bl.fit(bl.Model(name="m", model=spec, seed=1), data, "gibbs", **(given | options))


def process(**spec):
    return {"family": "mixture", "columns": ["x"], "components": "dirichlet_process", **spec}


@pytest.mark.parametrize("value", [-2.0, 2.5])
def test_counts_of_a_process_are_checked(value):
    with refused("data.impossible-value", "'x', row 2"):
        fitted(process(component="poisson"), {"x": np.array([1.0, value, 3.0])})


def test_new_rows_without_a_column():
    fit = fitted(process(columns=["x", "y"], covariance="diagonal"), {"x": X, "y": X[::-1]})
    for ask in (lambda rows: fit.predict(rows, "probabilities"), fit.density):
        with refused("model.unknown-column", "'y'", where="model.columns.1"):
            ask({"x": [1.0], "why": [0.0]})
        ask({"x": [1.0], "y": [np.nan]})


def test_new_rows_with_text_in_a_column_of_numbers():
    """The cell is told, not how a model of text is written."""
    fit = fitted(process(), {"x": X})
    for ask in (lambda rows: fit.predict(rows, "probabilities"), fit.density):
        with refused("data.odd-cell", "'x'.*row 2.*'abc'"):
            ask({"x": ["1.5", "abc", "2"]})
        with refused("data.not-numbers", "'x'.*row 2.*'abc'"):
            ask({"x": ["1.5", "abc", "-"]})


def test_nothing_varies_because_there_is_one_cluster():
    """With next to no concentration: nothing to sample, which is no failure."""
    fit = fitted(process(concentration=1e-9, priors=PRIOR), {"x": X})
    movement = [f for f in fit.verdict.findings if f.check == "movement"]
    assert set(fit.posterior["n_clusters"].to_numpy().ravel()) == {1}
    assert [f.status for f in movement] == ["pass"], str(fit.verdict)


def test_new_rows_without_a_column_of_features():
    spec = {"family": "latent_features", "columns": ["x", "y"], "kind": "binary", "features": 1}
    fit = fitted(spec, {"x": X, "y": X[::-1]})
    with refused("model.unknown-column", "'x'", where="model.columns.0"):
        fit.features({"ex": [1.0]})
    assert fit.features({"x": [1.0], "y": [np.nan]})["active"].shape == (1, 1)


def blocks(n):
    """All partitions of n rows, as lists of blocks."""
    if not n:
        yield []
        return
    for rest in blocks(n - 1):
        yield [*rest, [n - 1]]
        for i in range(len(rest)):
            yield [[*b, n - 1] if i == j else b for j, b in enumerate(rest)]


def log_evidence(values):
    """Of rows of one cluster, by Student's t of each given those before (a normal-inverse-gamma prior)."""
    from scipy.stats import t

    total, mean, rows, dof, scale = 0.0, 0.0, 0.3, 4.0, 1.5
    for x in values:
        total += t.logpdf(x, dof, mean, np.sqrt(scale / dof * (rows + 1) / rows))
        scale, mean = scale + rows / (rows + 1) * (x - mean) ** 2, (rows * mean + x) / (rows + 1)
        rows, dof = rows + 1, dof + 1
    return total


def test_pairs_are_together_as_often_as_enumerated():
    alpha, n = 0.8, len(X)
    found, logs = list(blocks(n)), []
    for partition in found:
        seats = sum(np.log(alpha) + np.log(np.arange(1, len(b))).sum() for b in partition)
        logs.append(seats + sum(log_evidence(X[b]) for b in partition))
    weight = np.exp(np.array(logs) - max(logs))
    weight /= weight.sum()
    exact = sum(p * np.equal.outer(z, z) for p, z in ((p, label(b, n)) for p, b in zip(weight, found, strict=True)))
    fit = fitted(process(concentration=alpha, priors=PRIOR), {"x": X}, draws=2000, tune=50)
    error = np.abs(fit.clusters()["together"].to_numpy() - exact)
    # Draws of so few rows are next to independent; of 500 of them the error would be three times this.
    assert error.max() < 5 * np.sqrt(0.25 / 4000)
    table = listing(fit)
    for k, row in enumerate(table.itertuples()):
        own = np.flatnonzero(fit.clusters()["partition"].to_numpy() == k)
        pairs = [exact[i, j] for i in own for j in own if i < j]
        if not pairs:
            assert np.isnan(row.together)
        else:
            assert abs(row.together - np.mean(pairs)) < 5 * np.sqrt(0.25 / 4000)


def label(partition, n):
    out = np.empty(n, int)
    for k, block in enumerate(partition):
        out[block] = k
    return out


def test_days_as_text_are_dates():
    spec = {"family": "topics", "topics": 2, "time": "day"}
    text = ["cat dog purr", "bread oven flour", "oven dog bread"]
    with refused("data.impossible-value", "'day'.*row 2.*'13/1/2024'.*01"):
        fitted(spec, {"text": text, "day": ["2024-01-12", "13/1/2024", "2024-01-14"]})
    fit = fitted(spec, {"text": text, "day": ["2024-01-12", "2023-12-01", "2024-01-14"]})
    assert fit.topics.days().shape[0] >= 3


def test_no_topics_have_no_coherence():
    corpus = Corpus(np.array([0, 1, 1, 2], np.int32), np.array([0, 2, 4]), 3)
    found = coherence_interval(corpus, np.zeros((2, 5, 0, 3)))
    assert found.mean.shape == found.low.shape == found.high.shape == (0,)


def test_the_prior_shows_no_inner_variables():
    model = bl.Model(name="m", model=process(concentration=1.0, priors=PRIOR, most=4), seed=1)
    shown = prior_table(bl.simulate(model, {"x": X}, draws=20))
    assert "weights[...]" in shown.index
    assert not [name for name in shown.index if name.startswith("_")]


GAPS = {"x": [0.0, 1.0, None, 3.0], "g": ["a", "b", None, "a"], "y": [1.0, 2.0, 1.5, 0.5], "e": [0.1, None, 0.1, 0.1]}


@pytest.mark.parametrize(
    ("section", "code", "match"),
    [
        ({"kernel": "ExpQuad(x)"}, "data.missing", "'x'.*row 3"),
        ({"kernel": "Coregion(g)"}, "data.missing", "'g'.*row 3"),
        ({"kernel": "ExpQuad(z)", "errors": "e"}, "data.missing", "'e'.*row 2"),
    ],
)
def test_missing_cells_of_the_input_of_a_process(section, code, match):
    """What is said is about processes: there are no nodes to give."""
    table = pd.DataFrame(GAPS | {"z": [0.0, 1.0, 2.0, 4.0]})
    with refused(code, match) as caught:
        bl.check(bl.Model(name="m", model={"family": "gaussian_process", "target": "y"} | section), table)
    assert "node" not in str(caught.value) and "data.derive" in str(caught.value)


def test_the_remedy_for_missing_cells_of_an_input_works():
    section = {"family": "gaussian_process", "target": "y", "kernel": "ExpQuad(filled)"}
    spec = bl.Model(name="m", model=section, data={"derive": {"filled": "where(isnan(x), 2, x)"}})
    bound = bl.check(spec, pd.DataFrame(GAPS))
    np.testing.assert_array_equal(bound.term("filled").value, [0, 1, 2, 3])
