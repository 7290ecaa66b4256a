"""The shipped Markov random fields: against printed numbers, enumeration, and the transfer matrix of an image."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.special import logsumexp

import bayeslab as bl
from tests.models.shipped import MODELS, fitted, table

PAIRS = [((0, 1), [[30, 5], [1, 10]]), ((1, 2), [[100, 1], [1, 100]])]
PAIRS += [((2, 3), [[1, 100], [100, 1]]), ((3, 0), [[100, 1], [1, 100]])]


def test_misconception_as_printed(fits):
    """Koller and Friedman (2009), section 4.2: the partition function 7,201,840, and the table of figure 4.2."""
    fit = fits("misconception")
    product = np.array([np.prod([t[x[i]][x[j]] for (i, j), t in PAIRS]) for x in itertools.product((0, 1), repeat=4)])
    assert fit.verdict.status == "pass"
    assert np.exp(fit.field.log_partition) == pytest.approx(7_201_840) == product.sum()
    best = fit.field.most_probable()
    # a0, b1, c1, d0 has 5,000,000 of the sum: 0.69.
    assert [str(best[v].item()) for v in ("anna", "bodo", "carl", "dora")] == ["right", "wrong", "wrong", "right"]
    assert float(fit.data_tree["most_probable"]["log_probability"]) == pytest.approx(np.log(5_000_000 / 7_201_840))
    # The rows of figure 4.2 with b1 sum to 5,301,510; section 4.2 has P(b1 | c0) as about 0.06.
    assert fit.summary().loc["bodo[wrong]", "mean"] == pytest.approx(5_301_510 / 7_201_840)
    answer = bl.network(MODELS / "misconception.yaml").query({"carl": "right"})
    assert answer["bodo"]["wrong"] == pytest.approx(0.06, abs=1e-3)


def noisy_digit() -> np.ndarray:
    """The pixels as they were made from the first 3 of the digits; 1 is ink."""
    digits = table("digits")
    ink = digits.loc[digits["digit"] == 3].iloc[0, :64].to_numpy().reshape(8, 8) >= 8
    at = np.arange(12) * 8 // 12
    clean = ink[np.ix_(at, at)].astype(int)
    return clean ^ (np.random.default_rng(3).random(clean.shape) < 0.1)


def test_noisy_digit_is_made_as_told():
    pixels = table("noisy_digit").pivot(index="row", columns="column", values="pixel").to_numpy()
    np.testing.assert_array_equal((pixels == "ink").astype(int), noisy_digit())


@pytest.mark.slow(why="statistical")
def test_noisy_digit_by_the_transfer_matrix(fits):
    """Forward and backward sums over the 4,096 states of a line of pixels."""
    pixels = noisy_digit()
    lines = (np.arange(4096)[:, None] >> np.arange(12)) & 1
    inside = (lines[:, 1:] == lines[:, :-1]).sum(axis=1).astype(float)
    same = 12 - (lines[:, None, :] != lines[None]).sum(axis=2).astype(float)
    each = [inside + np.where(lines == row, np.log(0.9), np.log(0.1)).sum(axis=1) for row in pixels]
    forward, backward = [each[0]], [np.zeros(4096)]
    for one in each[1:]:
        forward.append(one + logsumexp(forward[-1][:, None] + same, axis=0))
    for one in each[:0:-1]:
        backward.insert(0, logsumexp(same + (one + backward[0])[None], axis=1))
    truth = np.empty((12, 12))
    for r in range(12):
        p = np.exp(forward[r] + backward[r] - logsumexp(forward[-1]))
        truth[r] = p @ lines
    free = [inside]
    for _ in range(11):
        free.append(inside + logsumexp(free[-1][:, None] + same, axis=0))
    fit = fits("noisy_digit")
    assert fit.verdict.status == "pass"
    chances = fit.field.probabilities()["label"].sel(label_state="ink").to_numpy()
    np.testing.assert_allclose(chances, truth, rtol=1e-8)
    assert fit.field.log_partition == pytest.approx(logsumexp(free[-1]))
    assert fit.log_evidence == pytest.approx(logsumexp(forward[-1]) - logsumexp(free[-1]))
    sampled = fitted("noisy_digit", "gibbs")
    assert sampled.verdict.status == "pass", str(sampled.verdict)
    shares = sampled.summary()
    ink = shares[shares.index.str.endswith(", ink]")]
    worst = np.abs(ink["mean"].to_numpy() - truth.ravel()) / ink["mcse_mean"].to_numpy()
    assert worst.max() < 5
