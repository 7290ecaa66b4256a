"""Learners and cross-validation on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bayeslab.cli import main
from tests.cli.calls import refused

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
    assert "78.6 % correct on held-out rows (14 folds)" in out
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
    words = ("predict", run, "--data", tmp_path / "bad.csv")
    refused(capsys, "data.unknown-level", "'outlook', row 1.*'Foggy'", *words)
    refused(capsys, "model.no-graph", "decision_tree", "simulate", TREE)


@pytest.mark.slow(why="statistical")
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


@pytest.mark.slow(why="statistical")
def test_compare_by_another_score(tmp_path, capsys):
    """Where the accuracy has no answer, or the log score is −∞, the table is followed by what to do."""
    copy = tmp_path / "same.yaml"
    copy.write_text(Path(TREE).read_text().replace("data/", f"{MODELS}/data/"))
    out, _ = said(capsys, "compare", TREE, str(copy), "--folds", "2", "--quiet")
    assert "differs by the same in all 2 splits" in out
    assert "NaN" in out
    out, _ = said(capsys, "compare", TREE, NET, "--folds", "loo", "--quiet", "--score", "brier")
    assert "probability that brier is better by more than 0.01, about" in out
    assert "→ play_tennis_rule: the class of 3 held-out rows had the predicted probability 0" in out
    refused(capsys, "option.unknown-word", "'brire'.*'brier'", "compare", TREE, NET, "--score", "brire")
    refused(capsys, "option.conflict", "repeats", "compare", TREE, "--folds", "loo", "--repeats", "3", "--quiet")


def test_compare_refuses(capsys):
    refused(capsys, "option.conflict", "criterion bic", "compare", TREE, NET, "--criterion", "bic")
    refused(capsys, "option.out-of-range", "folds.*2.*14.*20", "compare", TREE, "--folds", "20", "--quiet")
    refused(capsys, "option.usage", "--folds.*'many'", "compare", TREE, "--folds", "many", "--quiet", status=2)


LOSS = "{go: {Yes: 0, No: 3}, stay: {Yes: 1, No: 0}}"


def test_compare_by_cost(tmp_path, capsys):
    """A loss matrix, written out or in a file, adds the cost of the best actions."""
    words = ("compare", TREE, "--folds", "7", "--seed", "3", "--quiet", "--json", "--loss")
    first, _ = said(capsys, *words, LOSS)
    (tmp_path / "loss.yaml").write_text(LOSS)
    second, _ = said(capsys, *words, str(tmp_path / "loss.yaml"))
    assert first == second
    # The tree says all or nothing, and is wrong on two days: one that it would have gone, one that it would have stayed.
    cost = json.loads(first)["models"]["play_tennis_rule"]["cost"] * 14
    assert cost == pytest.approx(4)
    refused(capsys, "option.incomplete", "'go'.*'No'", *words, "{go: {Yes: 0, Nope: 3}}")
    refused(capsys, "option.wrong-type", "{ACTION: {STATE: NUMBER}}", *words, "{go: 3}")
    refused(capsys, "option.wrong-type", "'go'.*'Yes'.*'dear'", *words, "{go: {Yes: dear, No: 1}}")


def test_learning_curves(capsys):
    out, _ = said(capsys, "compare", TREE, NET, "--sizes", "6,10", "--repeats", "3", "--quiet")
    assert "accuracy of 'play' on all other rows" in out
    assert "brier of 'play'" in out
    found, _ = said(capsys, "compare", TREE, "--sizes", "6,10", "--repeats", "3", "--quiet", "--json")
    assert [row["size"] for row in json.loads(found)["accuracy"]] == [6, 10]
    refused(capsys, "option.out-of-range", "sizes.*1 to 13.*14", "compare", TREE, "--sizes", "14", "--quiet")
    refused(capsys, "option.usage", "--sizes.*'few'", "compare", TREE, "--sizes", "few", "--quiet", status=2)
    words = ("compare", TREE, "--sizes", "6", "--folds", "3", "--quiet")
    refused(capsys, "option.conflict", "--sizes.*--folds.*--criterion", *words)


def test_predict_actions(tmp_path, capsys):
    said(capsys, "fit", TREE, "--quiet", "--runs", str(tmp_path))
    run = str(tmp_path / "play-tennis-rule")
    out, _ = said(capsys, "predict", run, "--loss", LOSS, "--json")
    rows = json.loads(out)
    # Pure leaves: the first two days are no, the third is yes.
    assert [row["action"] for row in rows[:3]] == ["stay", "stay", "go"]
    assert rows[2]["E[stay]"] == 1
    refused(capsys, "option.conflict", "--loss.*--kind mean", "predict", run, "--loss", LOSS, "--kind", "mean")
