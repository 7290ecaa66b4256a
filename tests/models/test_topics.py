"""The shipped topics against the subjects that their notes were written on."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import bayeslab as bl
from bayeslab.latents.labels.clusters import adjusted_rand_index
from tests.models.shipped import MODELS


@pytest.fixture(scope="module")
def fit():
    return bl.fit(MODELS / "notes.yaml", progress=False, runs=None)


@pytest.mark.slow(why="statistical")
def test_notes_have_the_topics_they_were_written_on(fit):
    """The 48 notes on one subject by their main topic; the other eight have two topics of a fifth or more."""
    assert fit.verdict.status == "pass", str(fit.verdict)
    subject = pd.read_csv(MODELS / "data" / "notes.csv")["subject"]
    main = fit.topics.theta.argmax(axis=1)
    alone = ~subject.str.contains("+", regex=False)
    assert adjusted_rand_index(main[alone], pd.factorize(subject[alone])[0]) > 0.8
    second = np.sort(fit.topics.theta, axis=1)[:, -2]
    assert second[~alone].mean() > 0.2 > 0.1 > second[alone].mean()
    names = dict(zip(subject[alone], main[alone], strict=False))
    for words, name in (("stars", "stars"), ("ship", "sea"), ("soil", "garden"), ("butter", "kitchen")):
        assert words in fit.topics.top_words(3)[names[name]]


def test_variational_topics_of_the_notes_are_their_subjects():
    fit = bl.fit(MODELS / "notes.yaml", method="variational", seed=1, progress=False, runs=None)
    subject = pd.read_csv(MODELS / "data" / "notes.csv")["subject"]
    alone = ~subject.str.contains("+", regex=False)
    main = fit.topics.theta.argmax(axis=1)
    assert adjusted_rand_index(main[alone], pd.factorize(subject[alone])[0]) > 0.8
