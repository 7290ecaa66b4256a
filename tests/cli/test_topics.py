"""Topics on the command line: from a table of notes to topics, a page, and where new notes belong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bayeslab.cli import main
from tests.cli.calls import call, refused

MODELS = Path(__file__).parents[2] / "models"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    runs = tmp_path_factory.mktemp("runs")
    with pytest.raises(SystemExit):
        main(["fit", str(MODELS / "notes.yaml"), "--runs", str(runs), "--draws", "100", "--tune", "200", "-q"])
    return runs / "notes"


@pytest.mark.slow(why="statistical")
def test_topics_are_shown(capsys, run):
    _, out, _ = call(capsys, "show", str(run), "--topics", "--words", "6")
    assert "4 topics of 56 documents, 194 words" in out
    assert "butter" in out and "4 of 4" in out


def test_topics_as_json_with_documents_held_out_and_a_page(capsys, run, tmp_path):
    (tmp_path / "new.csv").write_text('text\n"the ship, the sea and the stars"\n"flour and butter, wholly unheard"\n')
    page = tmp_path / "topics.html"
    words = ("--held-out", str(tmp_path / "new.csv"), "--html", str(page), "--json", "--relevance", "0.5")
    _, out, _ = call(capsys, "show", str(run), "--topics", *words)
    found = json.loads(out)
    assert [topic["topic"] for topic in found["topics"]] == [1, 2, 3, 4]
    assert sum(topic["share"] for topic in found["topics"]) == pytest.approx(1)
    assert (found["held_out"]["n_words"], found["held_out"]["n_unknown"]) == (5, 2)
    assert -7 < found["held_out"]["log_probability"] < -3
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_new_documents_are_placed(capsys, run, tmp_path):
    (tmp_path / "new.csv").write_text('text\n"the captain of the ship"\n"salt and flour and butter"\n')
    code, out, _ = call(capsys, "predict", str(run), "--data", str(tmp_path / "new.csv"), "--json")
    rows = json.loads(out)
    assert code == 0 and [row["words"] for row in rows] == [2, 3]
    best = [max((p, name) for name, p in row.items() if name.startswith("P("))[1] for row in rows]
    assert best[0] != best[1]


def test_the_file_is_checked(capsys, tmp_path):
    code, out, _ = call(capsys, "check", str(MODELS / "notes.yaml"))
    assert code == 0 and "56 with 750 words of a vocabulary of 194" in out
    bad = tmp_path / "bad.yaml"
    bad.write_text("bayeslab: 1\nmodel: {family: topics, topics: 3, stopwords: none}\n")
    refused(capsys, "model.unknown-key", r"bad\.yaml:2:47.*'stopwords'.*'stop_words'", "check", bad)


def test_options_that_go_with_topics(capsys, run):
    refused(capsys, "option.usage", "--html.*--topics", "show", run, "--html", "page.html", status=2)
