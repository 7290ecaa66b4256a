"""Learners and cross-validation on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bayeslab.cli import main

MODELS = Path(__file__).parents[2] / "models"
TREE, NET = str(MODELS / "play_tennis_rule.yaml"), str(MODELS / "play_tennis.yaml")


def said(capsys, *words: str, code: int = 0) -> tuple[str, str]:
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    out = capsys.readouterr()
    assert (ended.value.code or 0) == code, out
    return out.out, out.err


def test_fit_show_predict(tmp_path, capsys):
    out, _ = said(capsys, "fit", TREE, "--quiet", "--runs", str(tmp_path))
    assert "accuracy (left out)" in out
    assert "78.6 % right on rows left out (14 folds)" in out
    run = str(tmp_path / "play-tennis-rule")
    shown, _ = said(capsys, "show", run)
    assert "accuracy (left out)" in shown
    (tmp_path / "new.csv").write_text(
        "outlook,temperature,humidity,wind\nSunny,Cool,High,Strong\nRain,Mild,High,Weak\n"
    )
    predicted, _ = said(capsys, "predict", run, "--data", str(tmp_path / "new.csv"), "--json")
    # The tree of the source: sunny and humid, no; rain and a weak wind, yes.
    assert [row["P(play=Yes)"] for row in json.loads(predicted)] == [0.0, 1.0]
    (tmp_path / "bad.csv").write_text("outlook,temperature,humidity,wind\nFoggy,Cool,High,Strong\n")
    _, err = said(capsys, "predict", run, "--data", str(tmp_path / "bad.csv"), code=1)
    assert "'Foggy' is not a level of the dimension 'outlook'" in err
    _, err = said(capsys, "simulate", TREE, code=1)
    assert "no probability model" in err


def test_compare_files(capsys):
    """A net and a tree on the same days left out; a margin; JSON."""
    out, _ = said(capsys, "compare", TREE, NET, "--folds", "7", "--quiet", "--margin", "0.05")
    assert "'play', 14 rows, 7 folds, 7 splits" in out
    assert "better by more than 0.05" in out
    found, _ = said(capsys, "compare", TREE, NET, "--folds", "7", "--quiet", "--json")
    content = json.loads(found)
    assert set(content["models"]) == {"play_tennis", "play_tennis_rule"}
    (difference,) = content["differences"].values()
    assert difference["better"] + difference["same"] + difference["worse"] == pytest.approx(1)


def test_compare_refuses(capsys):
    _, err = said(capsys, "compare", TREE, NET, "--criterion", "bic", code=1)
    assert "criterion bic is for fitted posteriors" in err
    _, err = said(capsys, "compare", TREE, "--folds", "20", "--quiet", code=1)
    assert "between 2 and the number of rows, 14" in err
    _, err = said(capsys, "compare", TREE, "--folds", "many", "--quiet", code=2)
    assert "--folds takes a number" in err
