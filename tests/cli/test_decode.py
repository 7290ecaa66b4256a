"""``bayeslab decode`` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.cli.calls import call, refused

MODELS = Path(__file__).parents[2] / "models"


def test_a_model_whose_numbers_are_given_needs_no_fit(capsys):
    code, out, err = call(capsys, "decode", str(MODELS / "umbrella.yaml"))
    assert code == 0
    assert [line.split()[1] for line in out.splitlines()[1:]] == ["rain", "rain", "dry", "rain", "rain"]
    assert "at the given parameters" in err


def test_json_has_a_record_a_time(capsys):
    code, out, _ = call(capsys, "decode", str(MODELS / "umbrella.yaml"), "--method", "filter", "--json")
    rows = json.loads(out)
    assert code == 0
    np.testing.assert_allclose([row["P(state=rain)"] for row in rows][:2], [0.861386, 0.890832], atol=5e-7)


def test_other_data_and_a_file(capsys, tmp_path):
    (tmp_path / "new.csv").write_text("day,umbrella\n1,yes\n2,yes\n")
    out = tmp_path / "states.csv"
    words = ("--data", str(tmp_path / "new.csv"), "-m", "smooth", "--out", str(out))
    code, said, _ = call(capsys, "decode", str(MODELS / "umbrella.yaml"), *words)
    assert code == 0
    assert said == f"written {out}\n"
    np.testing.assert_allclose(pd.read_csv(out)["P(state=rain)"], [0.912726, 0.890832], atol=5e-7)


def test_best_paths(capsys):
    code, out, _ = call(capsys, "decode", str(MODELS / "umbrella.yaml"), "--best", "2", "--json")
    assert code == 0
    assert [row["path"] for row in json.loads(out)] == [1] * 5 + [2] * 5


@pytest.mark.slow(why="statistical")
def test_a_run_a_sequence_and_a_picture(capsys, tmp_path):
    assert call(capsys, "fit", str(MODELS / "ozone_regimes.yaml"), "--method", "em", "--runs", str(tmp_path))[0] == 0
    run = str(tmp_path / "ozone_regimes")
    code, out, _ = call(capsys, "decode", run, "--sequence", "6", "--json")
    rows = json.loads(out)
    assert code == 0
    assert len(rows) == 30
    assert {row["month"] for row in rows} == {6}
    picture = tmp_path / "june.svg"
    assert call(capsys, "decode", run, "-s", "6", "-o", str(picture))[0] == 0
    text = picture.read_text()
    assert "<svg" in text
    assert len(text) > 10_000


@pytest.mark.parametrize(
    ("words", "code", "match"),
    [
        (("umbrella.yaml", "-m", "viterbo"), "option.unknown-word", "'viterbo'.*'viterbi'"),
        (("coal_regimes.yaml",), "model.not-learned", "'initial'"),
        (("asia.yaml",), "model.other-family", "bayes_net"),
        (("umbrella.yaml", "--best", "0"), "option.out-of-range", "best.*0"),
        (("umbrella.yaml", "--draws", "0"), "option.out-of-range", "draws.*0"),
    ],
)
def test_errors_are_one_line(capsys, words, code, match):
    refused(capsys, code, match, "decode", MODELS / words[0], *words[1:])


@pytest.mark.slow(why="statistical")
def test_rows_of_words_are_asked_for_their_states(capsys, tmp_path):
    """Words have no mean: codes are not numbers."""
    model = MODELS / "role_conflict.yaml"
    assert call(capsys, "fit", str(model), "--method", "em", "--runs", str(tmp_path))[0] == 0
    code, out, _ = call(capsys, "predict", str(tmp_path / "role-conflict"), "--json")
    rows = json.loads(out)
    assert code == 0
    assert {"P(1)", "P(2)"} <= rows[0].keys()
    assert len(rows) == 216
