"""Notebooks become pages of the documentation."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def pages():
    place = importlib.util.spec_from_file_location("notebooks", ROOT / "docs" / "_ext" / "notebooks.py")
    module = importlib.util.module_from_spec(place)
    place.loader.exec_module(module)
    return module


def test_every_notebook_has_a_page_and_a_place_in_the_gallery(pages, tmp_path):
    names = pages.write_pages(ROOT / "notebooks", tmp_path / "pages")
    assert names == [path.stem for path in sorted((ROOT / "notebooks").glob("*.ipynb"))]
    gallery = (tmp_path / "pages" / "index.md").read_text()
    for name in names:
        cells = json.loads((ROOT / "notebooks" / f"{name}.ipynb").read_text())["cells"]
        pictures = sum("image/png" in output.get("data", {}) for cell in cells for output in cell.get("outputs", []))
        assert len(list((tmp_path / "pages").glob(f"{name}-*.png"))) == pictures
        text = (tmp_path / "pages" / f"{name}.md").read_text()
        assert text.startswith("# ")
        assert text.count("```python\n") == sum(cell["cell_type"] == "code" and bool(cell["source"]) for cell in cells)
        assert f"({name}.md)" in gallery


def test_cells_and_outputs_are_kept_in_order(pages):
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "\n", "First\n", "paragraph.\n", "\n", "Second."]},
        {
            "cell_type": "code",
            "source": "print('```')",
            "outputs": [
                {"output_type": "stream", "text": ["```\n"]},
                {"output_type": "execute_result", "data": {"text/plain": "<x>", "text/html": "<b>x</b>"}},
                {"output_type": "display_data", "data": {"image/png": "iVBORw0KGgo=", "text/plain": "<Figure>"}},
            ],
        },
    ]
    text, pictures = pages.page({"cells": cells}, "one")
    assert pages.summary(text) == ("Title", "First paragraph.")
    assert pictures == {"one-1.png": b"\x89PNG\r\n\x1a\n"}
    order = [
        text.index(x)
        for x in ("````python\nprint('```')\n````", "````text\n```\n````", "```{raw} html\n<b>x</b>", "![")
    ]
    assert order == sorted(order)
    assert "<Figure>" not in text
