"""Local scores of well-known tables that another program computed, reproduced to 1e-9 of their size.

Every reference family is scored on its own, with some others in one call, and looked up in a score table.
"""

from __future__ import annotations

import csv
import json
from functools import cache

import numpy as np
import pytest

from bayeslab.structure.constraints import mask_of
from bayeslab.structure.data import Observations
from bayeslab.structure.score_table import ScoreTable
from bayeslab.structure.scores import load
from tests.conformance.references import SHARED, require

FOLDER = SHARED / "conformance" / "structure"
NAMES = ["alarm", "asia", "coronary", "insurance", "learning.test"]
SCORES = {
    "loglik": ("log_likelihood", {}),
    "bic": ("bic", {}),
    "aic": ("aic", {}),
    "k2": ("k2", {}),
    "bdeu_1": ("bdeu", {"equivalent_sample_size": 1.0}),
    "bdeu_10": ("bdeu", {"equivalent_sample_size": 10.0}),
    "bds_10": ("bds", {"equivalent_sample_size": 10.0}),
}


@cache
def reference(name):
    return json.loads((FOLDER / f"scores_{name}.json").read_text())


@cache
def observations(name):
    """The first rows of the table; states in the order of the reference, the word None is a state."""
    case = reference(name)
    with (SHARED / "data" / "tables" / case["table"]).open(newline="") as stream:
        rows = list(csv.DictReader(stream))[: case["rows"]]
    return Observations.of({v: [row[v] for row in rows] for v in case["states"]}, states=case["states"])


def test_every_reference_is_compared():
    require(FOLDER, "reference scores")
    assert {path.stem for path in FOLDER.glob("scores_*.json")} == {f"scores_{name}" for name in NAMES}
    for name in NAMES:
        assert all(family.keys() - {"child", "parents"} == SCORES.keys() for family in reference(name)["families"])


def numbers(name, family):
    number = {v: i for i, v in enumerate(observations(name).names)}
    return number[family["child"]], tuple(number[u] for u in family["parents"])


@pytest.mark.parametrize("key", SCORES)
@pytest.mark.parametrize("name", NAMES)
def test_local_scores_agree_with_the_reference(name, key):
    require(FOLDER, "reference scores")
    word, options = SCORES[key]
    score = load(word, observations(name), **options)
    assert len(reference(name)["families"]) >= 20
    for family in reference(name)["families"]:
        child, parents = numbers(name, family)
        want = pytest.approx(family[key], rel=1e-9, abs=1e-8)
        assert score.local(child, parents) == want
        assert score.many(child, np.array([mask_of(parents, len(score.names))] * 2)).tolist() == [want, want]


@pytest.mark.parametrize("key", ["bdeu_10", "bic", "k2"])
@pytest.mark.parametrize("name", NAMES)
def test_tables_agree_with_the_reference(name, key):
    require(FOLDER, "reference scores")
    word, options = SCORES[key]
    table = ScoreTable.build(load(word, observations(name), **options), max_parents=3)
    for family in reference(name)["families"]:
        child, parents = numbers(name, family)
        if len(parents) <= 3:
            assert table.local(child, parents) == pytest.approx(family[key], rel=1e-9, abs=1e-8)


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("method", ["hill_climbing", "tabu"])
def test_climbs_from_a_dataframe_reach_what_another_program_reaches(method):
    """pyAgrum 3.3's hill climbing ends at a BIC of -219,975.2 on these rows."""
    import pandas as pd

    import bayeslab as bl

    require(FOLDER, "reference scores")
    table = pd.read_csv(SHARED / "data" / "tables" / "alarm.csv", keep_default_na=False)
    assert bl.learn(table, method, "bic").score >= -219_975.2
