"""What is wrong with a model is said in one line, the same from Python classes, mappings and files."""

from __future__ import annotations

import pytest

import bayeslab as bl
from bayeslab.errors import BayeslabError, ModelError
from tests.refusals import refused

ASIA = """network asia {}
variable smoke { type discrete [ 2 ] { yes, no }; }
variable lung { type discrete [ 2 ] { yes, no }; }
probability ( smoke ) { table 0.5, 0.5; }
probability ( lung | smoke ) { (yes) 0.1, 0.9; (no) 0.01, 0.99; }
"""

WRONG = {
    "key": ("Mixture", {"columns": ["y"], "colums": ["z"]}),
    "key of an hmm": ("HMM", {"columns": ["y"], "state": 2}),
    "type": ("Mixture", {"columns": 3, "components": 2}),
    "missing": ("GaussianProcess", {"target": "y"}),
    "nodes": ("Graph", {"nodes": {}}),
    "formula": ("Regression", {"formula": 7}),
    "likelihood": ("Regression", {"formula": "y ~ x", "likelihood": "normel"}),
    "circle": ("BayesNet", {"variables": {
        "a": {"states": ["u", "v"], "parents": ["b"]}, "b": {"states": ["u", "v"], "parents": ["a"]},
    }}),
    "unknown parent": ("BayesNet", {"variables": {"a": {"states": ["u", "v"], "parents": ["c"]}}}),
    "nested": ("BayesNet", {"variables": {"a": {"states": ["u", "v"], "tabel": 0.5}}}),
    "hypotheses": ("Hypotheses", {"observed": "y"}),
    "topics": ("Topics", {"number": -1}),
    "features": ("LatentFeatures", {"columns": []}),
    "learner": ("Learner", {"learner": "nosuch", "target": "y"}),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_python_classes_mappings_and_files_say_the_same(name, tmp_path):
    word, content = WRONG[name]
    family = getattr(bl, word)
    with pytest.raises(ModelError) as of_class:
        family(**content)
    assert "\n" not in str(of_class.value)
    assert "pydantic" not in str(of_class.value)
    kind = family.model_fields["family"].default
    with pytest.raises(ModelError) as of_mapping:
        bl.Model(model={"family": kind} | content)
    assert str(of_mapping.value) == str(of_class.value)
    file = tmp_path / "model.yaml"
    file.write_text(f"bayeslab: 1\nmodel: { ({'family': kind} | content)!r}\n")
    with pytest.raises(ModelError) as of_file:
        bl.load(file)
    assert of_file.value.message == of_class.value.message
    assert of_file.value.where.startswith(f"{file}:2:")


def test_a_network_file_may_be_named_in_python_too(tmp_path, monkeypatch):
    (tmp_path / "asia.bif").write_text(ASIA)
    (tmp_path / "model.yaml").write_text("bayeslab: 1\nmodel: {family: bayes_net, network: asia.bif}\n")
    filed = bl.load(tmp_path / "model.yaml")
    assert bl.Model(model={"family": "bayes_net", "network": tmp_path / "asia.bif"}).digest() == filed.digest()
    monkeypatch.chdir(tmp_path)
    own = {"smoke": {"states": ["yes", "no"], "table": 0.2}}
    mixed = bl.Model(model={"family": "bayes_net", "network": "asia.bif", "variables": own})
    assert mixed.model.variables["smoke"].table == 0.2
    assert mixed.model.variables["lung"] == filed.model.variables["lung"]
    for wrong, code, match in (
        ("nosuch.bif", "model.no-such-file", r"nosuch\.bif"),
        (3, "model.wrong-type", r"^model\.network: .*3"),
    ):
        with refused(code, match):
            bl.Model(model={"family": "bayes_net", "network": wrong})


def test_words_of_python_are_called_reserved():
    for nodes in ({"lambda": "Gamma(1, 1)"}, {"a[class]": "Gamma(1, 1)"}, {"y": "Poisson(lambda)"}, {"y": "class + 1"}):
        with refused("model.reserved-name", "'(lambda|class)'"):
            bl.check(bl.Model(model={"family": "graph", "nodes": nodes}))
    with refused("model.syntax", "lambda", where="model.nodes.y"):
        bl.check(bl.Model(model={"family": "graph", "nodes": {"y": "lambda x: 1"}}))


def test_a_family_that_is_no_model_says_how_to_make_one():
    with refused("model.wrong-type", r"Regression.*bl\.Model\(model=\.\.\.\)"):
        bl.fit(bl.Regression(formula="y ~ x"), {"x": [1.0, 2.0], "y": [1.0, 2.0]}, runs=None)


def test_a_very_long_key_is_cut():
    key = "k" * 3000
    for model in (
        {"family": "regression", "formula": "y ~ x", key: 1},
        {"family": "graph", "nodes": {key: "Nrmal(0, 1)"}},
    ):
        with pytest.raises(BayeslabError) as error:
            bl.check(bl.Model(model=model), {"x": [1.0, 2.0], "y": [2.0, 1.0]})
        assert "kkk" in str(error.value) and len(str(error.value)) < 600
