"""The notebooks run from top to bottom, and their stored outputs hold no errors."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.printed import LABEL, missing

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
# Their fits are made without progress.
QUIET = {"07_clusters", "09_gaussian_processes", "11_textbook_figures"}


def test_there_are_notebooks():
    assert NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_outputs_are_kept(path):
    cells = [cell for cell in nbformat.read(path, 4).cells if cell.cell_type == "code"]
    outputs = [output for cell in cells for output in cell.outputs]
    assert all(cell.execution_count for cell in cells)
    assert not [output for output in outputs if output.output_type == "error"]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    shown = "".join(str(output.get("data", {}).get("text/html", "")) for output in outputs)
    if path.stem not in QUIET:
        assert "4 of 4 chains done" in shown, "progress must survive saving"


# The kernel is another process: its sockets close when they close.
@pytest.mark.slow(why="notebook")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_runs_and_prints_what_is_stored(path):
    stored, notebook = nbformat.read(path, 4), nbformat.read(path, 4)
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(path.parent)}}).execute()
    for cell, again in zip(stored.cells, notebook.cells, strict=True):
        lost = missing(printed(cell), printed(again))
        assert not lost, f"{cell.source}\n\n" + "\n".join([*lost, "--- printed", *printed(again)])


def printed(cell):
    """The lines that a cell prints or shows as text, without those about times, places and objects in memory."""
    texts = [
        output["text"] if output.output_type == "stream" else output.data.get("text/plain", "")
        for output in cell.get("outputs", [])
        if output.output_type != "stream" or output.name == "stdout"
    ]
    lines = "\n".join(texts).splitlines()
    left_out = re.compile(r" at 0x|\bseconds?\b|\d m?s\b|<Figure|object>|Size: ")
    return [line for line in lines if not left_out.search(LABEL.sub("", line))]
