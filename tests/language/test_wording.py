"""Wrong values of every key: what is said is about the file, and never in pydantic's words."""

from __future__ import annotations

import json
import re
from inspect import isabstract

import pytest
from pydantic import ValidationError

import bayeslab as bl
from bayeslab import registry
from bayeslab.errors import BayeslabError, ModelError
from bayeslab.language.spec import DataSource, Model, Problem, Spec
from bayeslab.language.wording import expected
from tests.refusals import refused

_JARGON = re.compile(
    r"function-|0x[0-9a-f]|instance of|Input should|pattern|validation error|of another kind|dict\[|valid "
)
WRONG = [None, True, -1, 0.5, 10**400, float("nan"), "", "x y?", [], [1], ["a", None], {}, {"": 1}, {"a": [{}]}, {1: 2}]


def specs(kind=Spec):
    for sub in kind.__subclasses__():
        yield from (sub, *specs(sub))


for _family in registry.names("families"):
    registry.load("families", _family)
for _engine in registry.names("engines"):
    registry.load("engines", _engine)
# What estimators are made of has its own words, which tests of learners read.
KINDS = {
    kind.__qualname__ + kind.__module__: kind
    for kind in specs()
    if kind.__module__.startswith("bayeslab") and not isabstract(kind)
}


@pytest.mark.parametrize("name", sorted(KINDS))
def test_wrong_values_of_every_key(name):
    kind = KINDS[name]
    for key in kind.model_fields:
        for value in WRONG:
            content = {key: value}
            try:
                kind.model_validate(content)
            except ValidationError as error:
                errors = [e for e in error.errors() if e["type"] not in ("missing", "value_error", "extra_forbidden")]
                if errors:
                    assert not _JARGON.search(expected(errors)), errors
                message = Problem.first(error, {(): kind.model_fields}, content).message
            except BayeslabError as error:
                message = str(error)
            else:
                continue
            assert not _JARGON.search(message), message


@pytest.mark.parametrize(
    ("nodes", "code", "match"),
    [
        ({"tau": {"": 1}}, "model.wrong-type", r"^model\.nodes\.tau.*\{'': 1\}"),
        ({"tau": None}, "model.wrong-type", r"^model\.nodes\.tau.*'None'"),
        ([], "model.wrong-type", r"^model\.nodes.*'\[\]'"),
        ({f"v{i}": "1" for i in range(2001)}, "model.wrong-length", r"^model\.nodes.*2,000"),
    ],
)
def test_the_value_is_named_by_its_key(nodes, code, match):
    with refused(code, match):
        bl.Model(model={"family": "graph", "nodes": nodes})


def test_entries_are_counted_from_one():
    with refused("model.wrong-type", "1.*2.*'columns'.*'5'"):
        bl.Model(model={"family": "mixture", "columns": ["a", 5], "components": 2})


@pytest.mark.parametrize("name", ["?", "a" * 100, ""])
def test_names_of_models(name):
    with pytest.raises(BayeslabError) as caught:
        bl.Model(name=name, model={"family": "graph", "nodes": {"a": "Normal(0, 1)"}})
    assert not _JARGON.search(str(caught.value))


@pytest.mark.parametrize("nodes", [{"a" * 5000 + "!": "1"}, {"a": "Normal(" + "b " * 3000 + ")"}, {"a": ["b " * 3000]}])
def test_long_values_are_cut(nodes):
    with pytest.raises(ModelError) as caught:
        bl.check(bl.Model(model={"family": "graph", "nodes": nodes}))
    assert len(caught.value.message) < 1500


def test_damaged_runs_are_named(tmp_path):
    model = bl.Model(model={"family": "graph", "nodes": {"a": "Normal(0, 1)", "y[obs_id]": "Normal(a, 1)"}})
    fit = bl.fit(model, {"y": [1.0, 2.0]}, runs=tmp_path, draws=10, chains=2, progress=False, seed=1)
    file = next(tmp_path.glob("*/run.json"))
    info = json.loads(file.read_text())
    assert fit.model.name == info["name"]
    for change, code, match in (({"verdict": 3}, "run.damaged", "verdict"), ({"seed": -1}, "run.damaged", "seed")):
        file.write_text(json.dumps(info | change))
        with refused(code, match):
            bl.open(file.parent)


def test_a_missing_run_is_not_its_own_suggestion(tmp_path):
    (tmp_path / "tr" / "run.json").mkdir(parents=True)
    with pytest.raises(BayeslabError) as caught:
        bl.open(tmp_path / "tr")
    assert "did you mean" not in str(caught.value)


def test_sections_of_data_are_named():
    assert issubclass(DataSource, Spec) and issubclass(Model, Spec)
    with refused("model.wrong-type", "'table'"):
        bl.Model(data={"table": 3}, model={"family": "graph", "nodes": {"a": "Normal(0, 1)"}})
