"""The documentation's model files are right, and its tables are complete."""

from __future__ import annotations

import doctest
import importlib.util
import re
from pathlib import Path

import pytest

from bayeslab import registry
from bayeslab.distributions import DISTRIBUTIONS
from bayeslab.language.functions import FUNCTIONS
from bayeslab.language.model_file import read

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [*DOCS.glob("*.md"), DOCS.parent / "README.md"]
BLOCKS = [
    (page.name, number, block)
    for page in PAGES
    for number, block in enumerate(re.findall(r"```yaml\n(.*?)```", page.read_text(), re.DOTALL))
    if block.startswith("bayeslab: 1")
]


def test_there_are_examples():
    assert len(BLOCKS) >= 5


@pytest.mark.parametrize(("page", "number", "block"), BLOCKS, ids=[f"{p}-{n}" for p, n, _ in BLOCKS])
def test_examples_are_model_files(page, number, block, tmp_path):
    file = tmp_path / "model.yaml"
    file.write_text(block)
    read(file)


@pytest.fixture(scope="module")
def reference():
    place = importlib.util.spec_from_file_location("reference", DOCS / "_ext" / "reference.py")
    module = importlib.util.module_from_spec(place)
    place.loader.exec_module(module)
    return module


@pytest.mark.slow(why="large")
def test_the_reference_is_complete(reference):
    assert all(f"`{name}`" in reference.distributions() for name in DISTRIBUTIONS)
    assert all(f"`{name}`" in reference.functions() for name in FUNCTIONS)
    assert "target_accept" in reference.engines() and "restarts" in reference.engines()
    assert "--resume" in reference.commands()
    keys = reference.keys()
    assert "`derive`" in keys and "`dims`" in keys


def test_every_learner_has_its_place(reference):
    """The guide says when to choose it; its words, options and sources are written in Markdown."""
    guide = (DOCS / "learners.md").read_text().partition("## Which one")[2].partition("\n## ")[0]
    words = reference.learner_words()
    for name in registry.names("learners"):
        assert f"`{name}`" in guide
        assert not re.search(r":\w+:`|``|\.\. (\[|\w+::)|\]_", words[name]), name
        assert all(f"| `{key}` |" in words[name] for key in registry.load("learners", name).Options.model_fields)
        assert f"| `{name}` |" in reference.learners()
    assert r"$z = \log((1-\epsilon)/\epsilon)$" in words["adaboost"]
    assert "$$\n\\mathrm{Gain}(A)" in words["decision_tree"]
    assert "Sources: [1] Quinlan (1986)" in words["decision_tree"]


def test_theory_is_written_in_markdown(reference):
    for folder, made in (("theory", reference.theory()), ("decisions", reference.decisions())):
        assert list(made) == [f"bayeslab.{folder}.{name}" for name in registry.names(folder)]
        for name, text in made.items():
            assert not re.search(r":\w+:`|``|\.\. (\[|\w+::)|\]_", text), name


def test_examples_of_theory_run():
    blocks = re.findall(r"```pycon\n(.*?)```", (DOCS / "theory.md").read_text(), re.DOTALL)
    shown = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, "theory.md", None, 0)
    assert len(shown.examples) > 5
    assert doctest.DocTestRunner().run(shown).failed == 0


def test_generated_parts_of_pages_are_there(reference):
    """Each ``{reference} NAME`` of a page names a part that the build can write, and the part is not empty."""
    texts = [page.read_text(encoding="utf-8") for page in DOCS.glob("*.md")]
    named = {name for text in texts for name in re.findall(r"\{reference\} (\w+)", text)}
    assert named
    assert named <= reference.PARTS.keys()
    assert all(reference.PARTS[name]() for name in named)
