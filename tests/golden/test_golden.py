"""Nothing changes by itself: shipped models give the answers, and their graphs the densities, that they gave before.

A change for a good reason is made known by ``python tests/golden/answers.py --anew MODEL`` and the commit's message.
"""

from __future__ import annotations

import pytest

from tests.golden import answers

ANSWERS, DENSITIES = answers.read("answers.json"), answers.read("densities.json")
# Answers that took more seconds of CPU are compared by ``answers.py --compare``.
MOST = 3.0


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("model", sorted(ANSWERS))
def test_answers_are_those_of_before(model):
    quick = {engine: before for engine, before in ANSWERS[model].items() if before["cpu"] <= MOST}
    if not quick:
        pytest.skip("its answers take long")
    for engine, before in quick.items():
        assert answers.differences(before, answers.made(model, engine)) == [], engine


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("model", sorted(name for name, values in DENSITIES.items() if values))
def test_densities_are_those_of_before(model):
    now = answers.densities(model)
    assert now is not None
    assert now.keys() == DENSITIES[model].keys()
    for name, values in DENSITIES[model].items():
        for old, new in zip(values, now[name], strict=True):
            assert (old is None) == (new is None), name
            assert old is None or new == pytest.approx(old, rel=1e-7, abs=1e-7), name


def test_every_model_has_its_answers():
    assert set(answers.models()) == set(DENSITIES)


@pytest.mark.parametrize(
    ("before", "now", "differ"),
    [
        ({"mean": 1.0, "mcse_mean": 0.1}, {"mean": 1.5, "mcse_mean": 0.1}, False),
        ({"mean": 1.0, "mcse_mean": 0.01}, {"mean": 1.5, "mcse_mean": 0.01}, True),
        ({"mean": 1.0, "mcse_mean": None}, {"mean": 1.0 + 1e-5, "mcse_mean": None}, True),
        ({"mean": 1.0}, {"mean": None}, True),
    ],
)
def test_a_change_shows(before, now, differ):
    both = ({"rows": 1, "verdict": "pass", "quantities": {"b": values}} for values in (before, now))
    assert bool(answers.differences(*both)) == differ


def test_a_point_that_is_no_mode_has_no_value_to_compare():
    def point(verdict, value):
        return {"rows": 1, "verdict": verdict, "quantities": {"b": {"value": value}}}

    assert answers.differences(point("fail", 1.0), point("fail", 2.0)) == []
    assert answers.differences(point("pass", 1.0), point("fail", 2.0)) != []
    assert answers.differences(point("pass", 1.0), point("pass", 2.0)) != []
