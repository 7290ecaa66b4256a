"""The gallery of reports: pages, links and thumbnails."""

from __future__ import annotations

import importlib.util
import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def reports():
    place = importlib.util.spec_from_file_location("reports", ROOT / "docs" / "_ext" / "reports.py")
    module = importlib.util.module_from_spec(place)
    place.loader.exec_module(module)
    return module


def test_every_report_has_a_place_and_a_small_thumbnail(reports):
    page = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    assert re.findall(r":target: reports/(\w+)\.html", page) == list(reports.REPORTS)
    assert re.findall(r"\{figure\} pictures/reports/(\w+)\.png", page) == list(reports.REPORTS)
    for name in reports.REPORTS:
        assert (ROOT / "models" / f"{name}.yaml").exists() or name == reports.NILE["name"]
        thumbnail = ROOT / "docs" / "pictures" / "reports" / f"{name}.png"
        assert thumbnail.stat().st_size <= 40_000 and thumbnail.read_bytes().startswith(b"\x89PNG")


def test_a_report_is_made_once(reports, tmp_path, monkeypatch):
    page = reports.write_report(ROOT / "models", "trees", tmp_path / "reports")
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    first = page.stat().st_mtime_ns
    reports.write_report(ROOT / "models", "trees", tmp_path / "reports")
    assert page.stat().st_mtime_ns == first
    os.utime(page, (0, 0))
    reports.write_report(ROOT / "models", "trees", tmp_path / "reports")
    assert page.stat().st_mtime_ns > first
