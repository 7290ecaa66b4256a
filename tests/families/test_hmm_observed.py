"""Observed Markov chains: counts, and every engine in agreement with them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.special import gammaln

import bayeslab as bl
from bayeslab.families import hmm
from tests.refusals import refused

WEATHER = ["sun", "sun", "rain", "sun", "rain", "rain", "sun", "sun", "sun", "rain"]


def chain(**content):
    own = {"family": "hmm", "columns": ["weather"], "states": ["sun", "rain"], "emission": "observed"}
    return bl.Model(name="weather", model=own | content)


def test_posterior_is_counted():
    fit = bl.fit(chain(), {"weather": WEATHER}, runs=None, progress=False, seed=1)
    assert fit.method == "exact"
    table = fit.summary()
    # sun -> sun 3 times, sun -> rain 3, rain -> sun 2, rain -> rain 1; prior of one each.
    assert table.loc["transition[sun, sun]", "mean"] == pytest.approx(4 / 8)
    assert table.loc["transition[rain, sun]", "mean"] == pytest.approx(3 / 5)
    assert table.loc["initial[sun]", "mean"] == pytest.approx(2 / 3)
    assert table.loc["transition[rain, sun]", "sd"] == pytest.approx(np.sqrt(3 * 2 / (25 * 6)))
    b = [gammaln(a).sum() - gammaln(np.sum(a)) for a in ([4, 4], [3, 2], [2, 1])]
    assert fit.data_tree["exact_posterior"].attrs["log_evidence"] == pytest.approx(sum(b))  # priors have B = 1
    draws = fit.posterior["transition"].to_numpy().reshape(-1, 2, 2)
    assert abs(draws[:, 1, 0].mean() - 0.6) < 4 * draws[:, 1, 0].std() / np.sqrt(len(draws))


def test_em_is_the_share_and_a_missing_state_is_summed_out():
    fit = bl.fit(chain(), {"weather": WEATHER}, method="em", runs=None, progress=False, seed=1)
    np.testing.assert_allclose(
        fit.posterior["transition"].to_numpy()[0, 0], [[1 / 2, 1 / 2], [2 / 3, 1 / 3]], atol=1e-8
    )
    gap = [*WEATHER[:4], None, *WEATHER[5:]]
    data = bl.check(chain(), {"weather": gap})
    assert "states are missing" in hmm.compile(chain(), data).exact_plan
    values = {"initial": np.array([[0.5, 0.5]]), "transition": np.array([[[0.6, 0.4], [0.3, 0.7]]])}
    _, found = hmm.compile(chain(), data).log_likelihoods(values)["row"]
    a, codes = values["transition"][0], [0 if w == "sun" else 1 for w in WEATHER]
    total = 0.0
    for lost in (0, 1):
        path = [*codes[:4], lost, *codes[5:]]
        total += 0.5 * np.prod([a[i, j] for i, j in itertools.pairwise(path)])
    assert found.sum() == pytest.approx(np.log(total))


def test_second_order_counts_triples():
    fit = bl.fit(chain(order=2), {"weather": WEATHER}, runs=None, progress=False, seed=1)
    group = fit.data_tree["exact_posterior"].to_dataset()
    mean = group["transition"].sel(statistic="mean").to_numpy()
    codes = [0 if w == "sun" else 1 for w in WEATHER]
    counts = np.ones((2, 2, 2))
    for i, j, k in zip(codes[:-2], codes[1:-1], codes[2:], strict=True):
        counts[i, j, k] += 1
    np.testing.assert_allclose(mean, counts / counts.sum(axis=-1, keepdims=True))


def test_impossible_steps_and_unknown_states_are_named():
    with refused("data.probability-zero", "row 3"):
        bl.fit(chain(topology="left_right"), {"weather": ["sun", "rain", "sun"]}, runs=None, progress=False)
    with refused("data.unknown-state", "row 2.*'snow'"):
        bl.fit(chain(), {"weather": ["sun", "snow"]}, runs=None, progress=False)
    with refused("model.unsupported", "observed", where="model"):
        chain(columns=["weather", "wind"])


def test_numbers_can_be_states():
    fit = bl.fit(chain(states=3), {"weather": [1, 2, 3, 1, 2]}, runs=None, progress=False, seed=1)
    assert fit.summary().loc["transition[1, 2]", "mean"] == pytest.approx(3 / 5)
