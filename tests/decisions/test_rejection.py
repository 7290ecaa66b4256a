"""Rejecting unsure cases: by hand, and on digits."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

from bayeslab.decisions.rejection import margin, rejection_curve, share_rejected
from bayeslab.learners.neural_network import NeuralNetworkClassifier
from tests.refusals import refused


def test_by_hand():
    """digit-reject: cases with the same confidence go together."""
    shares, errors = rejection_curve([0.9, 0.1, 0.5, 0.5], [False, True, True, False])
    np.testing.assert_allclose(shares, [0, 0.25, 0.75])
    np.testing.assert_allclose(errors, [0.5, 1 / 3, 0])
    assert share_rejected([0.9, 0.1, 0.5, 0.5], [False, True, True, False], 0.4) == 0.25
    assert share_rejected([0.9, 0.1], [True, False], 0.1) == 1
    np.testing.assert_allclose(margin([[0.2, 0.7, 0.1], [0.5, 0.0, 0.5]]), [0.5, 0])


def test_printed_share():
    """digit-reject (F27): 1.8 % rejected and 0.5 % error of the rest are 0.491 % of all, the other 0.609 % are caught."""
    n = 100_000
    wrong = np.zeros(n, bool)
    wrong[:491], wrong[n - 1800 + np.arange(609) * 1800 // 609] = True, True
    confidence = np.linspace(1, 0, n)
    share = share_rejected(confidence, wrong)
    assert share == pytest.approx(0.018, abs=0.0001)


def test_error_falls():
    """digit-reject: where confidence is calibrated the error of accepted cases never rises with the share rejected."""
    rng = np.random.default_rng(0)
    p = rng.uniform(0.5, 1, 200_000)
    shares, errors = rejection_curve(p, rng.random(200_000) > p)
    at = np.interp(np.linspace(0, 0.95, 15), shares, errors)
    assert (np.diff(at) < 0).all()
    np.testing.assert_allclose(at[0], 0.25, atol=0.005)


def test_digits():
    """digit-reject: of real digits."""
    x, y = load_digits(return_X_y=True)
    net = NeuralNetworkClassifier((30,), max_iter=40, random_state=0).fit(x[:1000] / 16, y[:1000])
    scores = net.predict_proba(x[1000:] / 16)
    wrong = scores.argmax(axis=1) != y[1000:]
    shares, errors = rejection_curve(margin(scores), wrong)
    at = [errors[np.searchsorted(shares, s)] for s in (0, 0.1, 0.2, 0.4)]
    assert (np.diff(at) <= 0).all()
    assert 0 < share_rejected(margin(scores), wrong, 0.02) < 0.5


def test_errors():
    with refused("option.wrong-shape", r"\(1,\).*\(2,\)"):
        rejection_curve([0.5], [True, False])
