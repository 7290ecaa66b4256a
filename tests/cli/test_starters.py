"""``bayeslab new``: what it writes can be read and, from a table, checked as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

import bayeslab as bl
from bayeslab import registry
from bayeslab.errors import BayeslabError, DataError
from bayeslab.starters import FAMILIES, starter
from tests.cli.calls import call, refused

DATA = Path(__file__).parents[2] / "models" / "data"
# Eight rows are too few for the ten folds of a learner.
TOO_FEW = {("eight_schools.csv", "learner")}


def test_every_family_has_a_starter():
    assert set(FAMILIES) == set(registry.names("families"))


@pytest.mark.parametrize("family", FAMILIES)
def test_templates_are_model_files(family, tmp_path):
    file = tmp_path / "begin.yaml"
    file.write_text(starter(family, "begin", str(file)))
    model = bl.load(file)
    assert (model.name, model.model.family) == ("begin", family)


def checked(table: Path, folder: Path) -> int:
    """Number of families whose starters for a table pass the check; the others refuse the table by name."""
    n = 0
    for family in FAMILIES:
        file = folder / f"{family}.yaml"
        try:
            text = starter(family, "begin", str(file), table)
        except BayeslabError as error:
            assert error.code in {"data.no-columns", "data.bad-name", "option.unsupported"}, error
            continue
        file.write_text(text)
        if (table.name, family) not in TOO_FEW:
            bl.check(file)
        n += 1
    return n


@pytest.mark.parametrize("name", ["birth_weight", "notes"])
def test_starters_of_a_table_pass_the_check(name, tmp_path):
    assert checked(DATA / f"{name}.csv", tmp_path) >= (1 if name == "notes" else 5)


@pytest.mark.slow(why="large")
@pytest.mark.parametrize("table", sorted(DATA.glob("*.csv")), ids=lambda path: path.stem)
def test_starters_of_every_table_pass_the_check(table, tmp_path):
    checked(table, tmp_path)


def test_a_regression_follows_the_columns(tmp_path):
    table = tmp_path / "the data.csv"
    rows = [f"{'ab'[i % 2]},{i / 7:.3f},{i % 3},g{i % 9},id{i},{'yes' if i % 5 < 2 else 'no'}" for i in range(60)]
    table.write_text("\n".join(["kind,dose mg,count,clinic,patient,well", *rows]) + "\n")
    model = tmp_path / "m.yaml"
    model.write_text(starter("regression", "m", str(model), table))
    spec = bl.load(model).model
    assert spec.likelihood == "bernoulli"
    assert spec.formula == "well ~ kind + `dose mg` + count + (1 | clinic)"
    bl.check(model)
    model.write_text(starter("regression", "m", str(model), table, "dose mg"))
    assert bl.load(model).model.formula == "`dose mg` ~ kind + count + well + (1 | clinic)"
    assert bl.load(model).model.likelihood == "gaussian"
    bl.check(model)
    with pytest.raises(DataError) as error:
        starter("regression", "m", str(model), table, "patient")
    assert error.value.code == "data.impossible-value"


@pytest.mark.parametrize("name", ["a", "sigma", "b_x", "True", "two\nlines", "tick`", "x!", "z\n  family: hmm"])
def test_odd_names_of_columns_neither_break_nor_change_a_starter(name, tmp_path):
    """Columns with names of the starter's nodes, and names that no model can use, which are left out."""
    table = tmp_path / "t.csv"
    quoted = name.replace('"', '""')
    rows = [f"{i * 0.7:.2f},{(i * 37 % 11) / 3:.3f},{(i * 17 % 13) / 5:.3f}" for i in range(30)]
    table.write_text("\n".join([f'x,"{quoted}",y', *rows]) + "\n")
    for family in ("regression", "graph"):
        file = tmp_path / f"{family}.yaml"
        file.write_text(starter(family, "begin", str(file), table, "y"))
        assert bl.load(file).model.family == family
        bl.check(file)


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("family", ["regression", "graph", "mixture", "gaussian_process", "learner"])
@pytest.mark.parametrize("name", ["sigma", "Intercept", "offset", "b", "Normal", "mean", "exp", "obs", "component"])
def test_columns_with_another_meaning_in_models_are_renamed(name, family, tmp_path):
    table, file = tmp_path / "t.csv", tmp_path / "m.yaml"
    rows = [f"{i * 37 % 11 / 3:.3f},{i * 17 % 13 / 5:.3f},{i * 23 % 17 / 7:.3f}" for i in range(30)]
    table.write_text("\n".join([f"x,{name},z", *rows]) + "\n")
    for target in (None,) if family == "mixture" else (name, "z"):
        file.write_text(starter(family, "m", str(file), table, target))
        bl.check(file)
        assert f"#   {name}: numbers" in file.read_text()


def test_columns_of_numbers_and_words_are_not_guessed(tmp_path):
    table, file = tmp_path / "t.csv", tmp_path / "m.yaml"
    table.write_text("x,y\n0.5,2\n0.7,oops\n")
    with pytest.raises(DataError) as error:
        starter("regression", "m", str(file), table, "y")
    assert error.value.code == "data.impossible-value"
    assert bl.load(file_of(starter("regression", "m", str(file), table), file)).model.formula == "x ~ 1"


def file_of(text: str, file: Path) -> Path:
    file.write_text(text)
    return file


def test_no_file_is_written_for_columns_that_a_family_refuses(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("x,dose mg\n" + "".join(f"{i / 7:.3f},{i / 3:.3f}\n" for i in range(20)))
    Path("m.yaml").write_text("mine")
    refused(capsys, "data.bad-name", "'dose mg'", "new", "m", "--family", "graph", "-d", "t.csv", "--force")
    assert Path("m.yaml").read_text() == "mine"


def test_the_command(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = DATA / "trees.csv"
    assert call(capsys, "new", "timber", "--data", table, "--target", "volume")[0] == 0
    assert bl.load("timber.yaml").model.formula == "volume ~ girth + height"
    written = Path("timber.yaml").read_text()
    refused(capsys, "", "timber.yaml", "new", "timber", "--data", table)
    assert Path("timber.yaml").read_text() == written
    refused(capsys, "", "'volum'.*'volume'", "new", "other", "--data", table, "--target", "volum")
    refused(capsys, "", "'regresion'.*'regression'", "new", "other", "--family", "regresion")
    refused(capsys, "", "--data", "new", "other", "--target", "volume")
    assert not Path("other.yaml").exists()
