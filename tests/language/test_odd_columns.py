"""Columns with spaces, points, accents, keywords and quotes in their names: they work, or an error names the remedy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

import bayeslab as bl

N = 24
RNG = np.random.default_rng(0)
OTHERS = pd.DataFrame(
    {"y": RNG.normal(size=N), "g": np.tile(["a", "b"], N // 2), "w": RNG.choice(list("pqr"), N), "one": 1.0}
)
NUMBERS, WORDS, TEXTS = (
    RNG.normal(size=N),
    np.repeat(["s", "t"], N // 2),
    ["some words here", "other things"] * (N // 2),
)
NAMES = ["my col", "a.b", "été", "class", 'x"y']

FIELDS: dict[str, tuple[Callable[[str], object], object]] = {
    "mixture": (lambda c: bl.Mixture(columns=[c], components=2, component={c: "gaussian"}), NUMBERS),
    "mixture labels": (lambda c: bl.Mixture(columns=["y"], components=2, labels=c), WORDS),
    "hmm": (lambda c: bl.HMM(columns=[c], states=2, emission={c: "categorical"}), WORDS),
    "hmm sequence": (lambda c: bl.HMM(columns=["y"], states=2, sequence=c), WORDS),
    "kernel": (lambda c: bl.GaussianProcess(target="y", kernel=f"ExpQuad(`{c}`)"), NUMBERS),
    "process target": (lambda c: bl.GaussianProcess(target=c, kernel="ExpQuad(y)"), NUMBERS),
    "documents": (lambda c: bl.Topics(document=c, word="w", topics=2), WORDS),
    "texts": (lambda c: bl.Topics(text=c, topics=2), TEXTS),
    "features": (lambda c: bl.LatentFeatures(columns=[c, "y"], features=1), NUMBERS),
    "learner target": (lambda c: bl.Learner(learner="knn", target=c), WORDS),
    "learner input": (lambda c: bl.Learner(learner="knn", target="g", inputs=[c]), NUMBERS),
    "net": (lambda c: bl.BayesNet(variables={c: ["s", "t"], "g": {"states": ["a", "b"], "parents": [c]}}), WORDS),
    "formula": (lambda c: bl.Regression(formula=f"y ~ `{c}`"), NUMBERS),
    "response": (lambda c: bl.Regression(formula=f"`{c}` ~ y"), NUMBERS),
    "group": (lambda c: bl.Regression(formula=f"y ~ (1 | `{c}`)"), WORDS),
    "weights": (lambda c: bl.Regression(formula="y ~ g", weights=c), np.ones(N)),
}


def check(field: str, name: str) -> None:
    make, cells = FIELDS[field]
    bl.check(bl.Model(model=make(name)), OTHERS.assign(**{name: cells}))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("field", FIELDS)
def test_a_column_of_any_name_in_every_field(field, name):
    if (field, name) == ("kernel", "class"):
        with pytest.raises(bl.BayeslabError, match=r"data\.rename"):
            check(field, name)
    else:
        check(field, name)


@pytest.mark.parametrize("field", sorted(FIELDS.keys() - {"net", "kernel", "formula", "response", "group"}))
def test_a_backtick_in_a_name_needs_another_name(field):
    with pytest.raises(bl.BayeslabError, match=r"data\.rename") as refused:
        check(field, "x`y")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", ["my col", "a.b", 'x"y', "x`y"])
def test_a_kernel_or_a_formula_without_backticks_says_what_to_do(name):
    process = bl.Model(model=bl.GaussianProcess(target="y", kernel=f"ExpQuad({name})"))
    with pytest.raises(bl.BayeslabError, match=r"backticks.*data\.rename"):
        bl.check(process, OTHERS.assign(**{name: NUMBERS}))
    if name in ("my col", "a.b", "x`y"):
        with pytest.raises(bl.BayeslabError, match="backtick"):
            bl.check(bl.Model(model=bl.Regression(formula=f"y ~ {name}")), OTHERS.assign(**{name: NUMBERS}))


def test_renaming_gives_a_column_with_a_backtick_a_name():
    model = bl.Model(model=bl.Mixture(columns=["z"], components=2), data={"rename": {"z": "x`y"}})
    bl.check(model, OTHERS.assign(**{"x`y": NUMBERS}))
