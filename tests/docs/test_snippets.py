"""What a reader pastes from the README and the pages works on the data that come with bayeslab."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bayeslab.fitting import check
from bayeslab.language.model_file import read

ROOT = Path(__file__).parents[2]
DATA = ROOT / "models" / "data"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCKS = [
    pytest.param(block, id=f"{page.name}-{number}")
    for page in PAGES
    for number, block in enumerate(re.findall(r"```yaml\n(.*?)```", page.read_text(), re.DOTALL))
    if block.startswith("bayeslab: 1")
]
# Tables of the reader's own: there is nothing like them among the data.
OWN = {
    "debates.csv", "gait.csv", "lines.csv", "patients.csv", "doses.csv", "tree.csv", "twins.csv", "urns.csv", "geyser.csv",
    "winds.csv", "borders.csv", "pupils.csv",
}  # fmt: skip
# One line of a file each; the comment names the data.
README = (ROOT / "README.md").read_text()
LINES = re.findall(r"^model: (\{.*?\}) +# (?:models/data/)?(\w+\.csv)", README, re.MULTILINE)


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("block", BLOCKS)
def test_model_files_of_the_pages_fit_their_data(block, tmp_path):
    (tmp_path / "model.yaml").write_text(block)
    (tmp_path / "data").symlink_to(DATA)
    model = read(tmp_path / "model.yaml").model
    tables = {name for name in (model.data.table, model.data.arrays, *model.data.tables.values()) if name}
    if not tables:
        return  # a network, or nodes that are simulated; reading it has checked it
    for name in tables:
        if name in OWN:
            assert not (DATA / name).exists()
            return
        if not (tmp_path / name).exists():
            (tmp_path / name).symlink_to(DATA / name)
    assert check(tmp_path / "model.yaml").dataset.columns


def test_every_line_of_a_model_names_its_data():
    assert len(LINES) == len(re.findall(r"^model: \{", README, re.MULTILINE)) >= 5


@pytest.mark.parametrize(("line", "table"), LINES, ids=[f"{table}-{n}" for n, (_, table) in enumerate(LINES)])
def test_lines_of_the_readme_fit_their_data(line, table, tmp_path):
    content = f"bayeslab: 1\ndata: {{table: {DATA / table}}}\nmodel: {line}\n"
    (tmp_path / "model.yaml").write_text(content)
    assert check(tmp_path / "model.yaml").dataset.columns


def test_commands_name_files_that_there_are():
    """The README's own commands; ``typo.yaml``, ``alarm.bif`` and ``data.csv`` stand for the reader's files."""
    named = set()
    for page in PAGES:
        for line in re.findall(r"^\$ (bayeslab .*)$", page.read_text(), re.MULTILINE):
            named |= set(re.findall(r"\bmodels/[\w/.]+\.(?:yaml|csv)\b", line))
    assert len(named) > 5
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_files_that_python_snippets_load_are_there():
    named = set(re.findall(r"[\"'](models/[\w/.]+)[\"']", "".join(page.read_text() for page in PAGES)))
    assert named
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []
