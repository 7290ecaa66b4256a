"""Networks on the command line: query, convert, decide, and starting a file."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from tests.cli.calls import call, refused

MODELS = Path(__file__).parents[2] / "models"
# A name with = inside, as BIF allows in quotes.
BIF = """\
network small { }
variable a { type discrete [ 2 ] { yes, no }; }
variable "b=1" { type discrete [ 3 ] { x, "y=2", None }; }
variable c { type discrete [ 2 ] { 1, 2 }; }
probability ( a ) { table 0.3, 0.7; }
probability ( "b=1" | a ) {
  (yes) 0.2, 0.3, 0.5;
  (no) 0.6, 0.4, 0.0;
}
probability ( c | "b=1" ) {
  (x) 0.1, 0.9;
  ("y=2") 0.25, 0.75;
  (None) 1.0, 0.0;
}
"""
STATES = {"a": ("yes", "no"), "b=1": ("x", "y=2", "None"), "c": ("1", "2")}
CELLS = [(v, s) for v, states in STATES.items() for s in states]
JOINT = np.einsum(
    "a,ab,bc->abc", [0.3, 0.7], [[0.2, 0.3, 0.5], [0.6, 0.4, 0.0]], [[0.1, 0.9], [0.25, 0.75], [1.0, 0.0]]
)


def answer(weights: dict[str, list[float]]) -> tuple[float, dict[str, dict[str, float]]]:
    """Log evidence and marginals from the joint written out."""
    joint = JOINT.copy()
    for k, v in enumerate(STATES):
        if v in weights:
            joint = joint * np.reshape(weights[v], [-1 if i == k else 1 for i in range(3)])
    marginals = {}
    for k, (v, states) in enumerate(STATES.items()):
        own = joint.sum(axis=tuple(i for i in range(3) if i != k)) / joint.sum()
        marginals[v] = dict(zip(states, own.tolist(), strict=True))
    return float(np.log(joint.sum())), marginals


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("net")
    (path / "small.bif").write_text(BIF)
    return path


def one_line(err: str) -> bool:
    return err.count("\n") == 1 and err.startswith("error: ") and "Traceback" not in err


# --------------------------------------------------------------------------------- query


@pytest.mark.parametrize(
    ("words", "evidence", "weights"),
    [
        ([], {}, {}),
        (["-g", "a=yes"], {"a": "yes"}, {"a": [1, 0]}),
        (["--given", "b=1=y=2", "--given", "c=1"], {"b=1": "y=2", "c": "1"}, {"b=1": [0, 1, 0], "c": [1, 0]}),
        (["-g", "a = no"], {"a": "no"}, {"a": [0, 1]}),
        (["-g", "a={yes: 0.2, no: 0.9}"], {"a": {"yes": 0.2, "no": 0.9}}, {"a": [0.2, 0.9]}),
        (["-g", "c={1: 1, 2: 0.5}"], {"c": {"1": 1, "2": 0.5}}, {"c": [1, 0.5]}),
    ],
)
def test_json_is_the_contract_at_full_precision(folder, capsys, words, evidence, weights):
    code, out, err = call(capsys, "query", folder / "small.bif", "--json", *words)
    assert code == 0 and err == ""
    found = json.loads(out)
    assert list(found) == ["evidence", "log_evidence", "marginals"]
    assert found["evidence"] == evidence
    log_evidence, marginals = answer(weights)
    assert found["log_evidence"] == pytest.approx(log_evidence, abs=1e-13)
    assert [list(own) for own in found["marginals"].values()] == [list(own) for own in STATES.values()]
    for v, s in CELLS:
        assert found["marginals"][v][s] == pytest.approx(marginals[v][s], abs=1e-13)


def test_the_table(folder, capsys):
    code, out, _ = call(capsys, "query", folder / "small.bif", "-g", "a=yes")
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == f"log evidence  {np.log(0.3):.6g}"
    assert lines[2:5] == ["a   * yes 1  no 0", "b=1   x 0.2  y=2 0.3  None 0.5", "c     1 0.595  2 0.405"]
    assert lines[-1] == "* given"
    _, out, _ = call(capsys, "query", folder / "small.bif", "-t", "c", "-t", "a")
    assert out.splitlines() == ["c   1 0.2905  2 0.7095", "a   yes 0.3  no 0.7"]


def test_do_cuts_what_given_does_not(folder, capsys):
    _, out, _ = call(capsys, "query", folder / "small.bif", "--do", "b=1=x", "--json")
    found = json.loads(out)["marginals"]
    assert found["a"]["yes"] == pytest.approx(0.3) and found["c"]["1"] == pytest.approx(0.1)
    _, out, _ = call(capsys, "query", folder / "small.bif", "--given", "b=1=x", "--json")
    assert json.loads(out)["marginals"]["a"]["yes"] == pytest.approx(0.06 / 0.48)


def test_most_probable(folder, capsys):
    code, out, _ = call(capsys, "query", folder / "small.bif", "--most-probable", 2, "-g", "c=2", "--json")
    found = json.loads(out)
    given = JOINT[..., 1]
    order = sorted(product(range(2), range(3)), key=lambda i: -given[i])[:2]
    assert code == 0
    for one, (i, j) in zip(found, order, strict=True):
        assert one["assignment"] | {"c": "2"} == {"a": STATES["a"][i], "b=1": STATES["b=1"][j], "c": "2"}
        assert one["log_probability"] == pytest.approx(np.log(given[i, j] / given.sum()))
    _, out, _ = call(capsys, "query", folder / "small.bif", "--most-probable", 2, "-g", "c=2")
    assert out.splitlines()[0].startswith("log probability  ") and len(out.splitlines()) == 4
    # A variable with virtual evidence is not known: its state is part of the explanation.
    i, j, k = np.unravel_index(np.argmax(JOINT * [0.2, 0.7]), JOINT.shape)
    _, out, _ = call(capsys, "query", folder / "small.bif", "--most-probable", 1, "-g", "c={1: 0.2, 2: 0.7}")
    shown = dict(line.split() for line in out.splitlines()[2:])
    assert shown == {"a": STATES["a"][i], "b=1": STATES["b=1"][j], "c": STATES["c"][k]}


def test_batches(folder, capsys, tmp_path):
    (tmp_path / "rows.csv").write_text("a,c,b=1\nyes,,\n,2,\n,,None\nno,1,y=2\n,,\n")
    code, out, _ = call(capsys, "query", folder / "small.bif", "--batch", tmp_path / "rows.csv", "--json")
    rows = json.loads(out)
    weights = [{"a": [1, 0]}, {"c": [0, 1]}, {"b=1": [0, 0, 1]}, {"a": [0, 1], "c": [1, 0], "b=1": [0, 1, 0]}, {}]
    assert code == 0 and len(rows) == 5
    for row, given in zip(rows, weights, strict=True):
        log_evidence, marginals = answer(given)
        assert row["log_evidence"] == pytest.approx(log_evidence, abs=1e-13)
        for v, s in CELLS:
            assert row[f"P({v}={s})"] == pytest.approx(marginals[v][s], abs=1e-13)
    words = ["--batch", tmp_path / "rows.csv", "-t", "a", "-o", tmp_path / "out.csv"]
    code, out, _ = call(capsys, "query", folder / "small.bif", *words)
    assert code == 0 and out == f"written {tmp_path / 'out.csv'}\n"
    assert (tmp_path / "out.csv").read_text().splitlines()[0] == "log_evidence,P(a=yes),P(a=no)"
    (tmp_path / "none.csv").write_text("a,b=1\nno,None\n")
    _, out, _ = call(capsys, "query", folder / "small.bif", "--batch", tmp_path / "none.csv", "--json")
    assert json.loads(out)[0]["log_evidence"] is None  # probability zero: JSON has no -inf


@pytest.mark.parametrize(
    ("words", "code", "match"),
    [
        (["-g", "a=maybe"], "evidence.unknown-state", "'maybe'.*'a'"),
        (["-g", "aa=yes"], "evidence.unknown-variable", "'aa'.*'a'"),
        (["-g", "a=no", "-g", "b=1=None"], "evidence.probability-zero", "a = no, b=1 = None"),
        (["-g", "a={yes: -1}"], "evidence.not-probabilities", "'a'"),
        (["-g", "a={yes: much}"], "evidence.wrong-type", "'a=yes'.*'much'"),
        (["-g", "a={yes: "], "model.malformed", "YAML"),
        (["-t", "aa"], "evidence.unknown-variable", "'aa'"),
        (["--do", "a=maybe"], "evidence.unknown-state", "'maybe'.*'a'"),
        (["--do", "zz=yes"], "evidence.unknown-variable", "'zz'"),
        (["-g", "a"], "option.usage", "--given.*VARIABLE=STATE.*'a'"),
        (["-g", "a=yes", "-g", "a=no"], "option.usage", "--given.*'a'"),
        (["-o", "x.csv"], "option.usage", "--out.*--batch"),
        (["--batch", "x.csv", "-g", "a=yes"], "option.usage", "--batch.*--given"),
        (["--most-probable", "2", "-t", "a"], "option.usage", "--most-probable.*--target"),
        (["--batch", "x.csv", "--approximate", "gibbs"], "option.usage", "--approximate.*--batch"),
        (["--most-probable", "2", "--approximate", "gibbs"], "option.usage", "--approximate.*--most-probable"),
        (["--most-probable", "0"], "option.usage", "--most-probable.*1"),
    ],
)
def test_what_is_wrong_is_one_line(folder, capsys, words, code, match):
    status = 2 if code == "option.usage" else 1
    err = refused(capsys, code, match, "query", folder / "small.bif", *words, status=status)
    assert call(capsys, "query", folder / "small.bif", *words) == (status, "", err)
    assert status == 1 or "Error: " in err


def test_batches_that_are_wrong(folder, capsys, tmp_path):
    for text, code, match in (
        ("a,q\nyes,\n", "evidence.unknown-variable", "column 'q'"),
        ("a\nyes\nmaybe\n", "data.unknown-state", "column 'a', row 2.*'maybe'"),
    ):
        (tmp_path / "bad.csv").write_text(text)
        refused(capsys, code, match, "query", folder / "small.bif", "--batch", tmp_path / "bad.csv")
    code, _, err = call(capsys, "query", folder / "small.bif", "--batch", tmp_path / "none.csv")
    assert code == 1 and one_line(err)


@pytest.mark.parametrize("ending", [".bif", ".xmlbif", ".xdsl", ".net", ".dsc", ".uai", ".yaml"])
def test_broken_and_missing_files(capsys, tmp_path, ending):
    code, _, err = call(capsys, "query", tmp_path / f"no{ending}")
    assert code == 1 and one_line(err) and f"no{ending}" in err
    (tmp_path / f"bad{ending}").write_text("variable a {\n type discrete [2] { yes, no \n")
    code, _, err = call(capsys, "query", tmp_path / f"bad{ending}")
    assert code == 1 and one_line(err) and f"bad{ending}" in err


@pytest.mark.slow(why="processes")
def test_rows_that_do_not_sum_to_one_are_normalised_with_one_line(tmp_path):
    """Past a thousandth with a warning, as a person reads it; before without."""
    text = BIF.replace("table 0.3, 0.7", "table 0.3, 0.6")
    (tmp_path / "off.bif").write_text(text)
    words = [sys.executable, "-m", "bayeslab.cli", "query", "off.bif", "--json", "-t", "a"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["marginals"]["a"]["yes"] == pytest.approx(1 / 3)
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("warning: off.bif:5: ")
    assert "'a' sums to 0.9" in done.stderr
    (tmp_path / "off.bif").write_text(BIF.replace("table 0.3, 0.7", "table 0.3, 0.7005"))
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stderr == "" and json.loads(done.stdout)["marginals"]["a"]["yes"] == pytest.approx(0.3 / 1.0005)


@pytest.mark.slow(why="processes")
def test_a_query_loads_nothing_heavy(tmp_path):
    """Neither PyMC nor pandas nor SciPy's statistics: a query is a fresh process of about a second."""
    program = (
        "import sys\nfrom bayeslab.cli import main\ntry:\n    main(['query', sys.argv[1], '--json'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'pymc', 'pytensor', 'arviz', 'xarray', 'pandas', 'sklearn', 'matplotlib', 'scipy.stats', 'zarr'}\n"
        "print(sorted(heavy & sys.modules.keys()), file=sys.stderr)"
    )
    (tmp_path / "small.bif").write_text(BIF)
    for file in (MODELS / "asia.yaml", tmp_path / "small.bif"):
        done = subprocess.run([sys.executable, "-c", program, str(file)], capture_output=True, text=True, check=True)
        assert done.stderr == "[]\n"


# --------------------------------------------------------------------------------- convert


def test_convert_and_back(folder, capsys, tmp_path):
    for ending in ("yaml", "xmlbif", "xdsl", "net"):
        there, back = tmp_path / f"n.{ending}", tmp_path / f"back_{ending}.bif"
        assert call(capsys, "convert", folder / "small.bif", there)[0] == 0
        assert call(capsys, "convert", there, back)[0] == 0
        _, out, _ = call(capsys, "query", back, "--json")
        found = list(json.loads(out)["marginals"].values())
        for own, (v, states) in zip(found, STATES.items(), strict=True):
            np.testing.assert_allclose(list(own.values()), list(answer({})[1][v].values()), atol=1e-12)
            assert list(own) == list(states) or ending in ("xdsl", "net")


def test_convert_reports_what_is_lost(capsys, tmp_path):
    code, out, err = call(capsys, "convert", MODELS / "asia.yaml", tmp_path / "a.uai")
    assert code == 0 and out == f"written {tmp_path / 'a.uai'}\n"
    assert err and all(line.startswith("note: ") for line in err.splitlines())
    code, _, err = call(capsys, "convert", MODELS / "asia.yaml", tmp_path / "a.docx")
    assert code == 1 and one_line(err)
    refused(capsys, "model.not-learned", "'play'", "convert", MODELS / "play_tennis.yaml", tmp_path / "a.bif")


# --------------------------------------------------------------------------------- decide


def test_decide(capsys):
    """The oil wildcatter: test, then drill unless the structure is diffuse (Raiffa 1968)."""
    code, out, _ = call(capsys, "decide", MODELS / "oil.yaml", "--json")
    found = json.loads(out)
    assert code == 0 and found["expected_utility"] == pytest.approx(22.5)
    assert found["options"]["test"] == pytest.approx({"yes": 22.5, "no": 20.0})
    assert found["policy"]["test"] == [{"test": "yes"}]
    # Only what can come about: no row without a test, and none in which a test shows nothing.
    rows = {(row["test"], row["seismic"]): row["drill"] for row in found["policy"]["drill"]}
    assert rows == {("yes", "open"): "yes", ("yes", "closed"): "yes", ("yes", "diffuse"): "no"}
    _, out, _ = call(capsys, "decide", MODELS / "oil.yaml")
    assert "expected utility  22.5" in out and "none" not in out
    assert "  no  if test=yes, seismic=diffuse" in out


def test_decide_given(capsys):
    code, out, _ = call(capsys, "decide", MODELS / "oil.yaml", "-g", "test=yes", "-g", "seismic=diffuse", "--json")
    found = json.loads(out)
    assert code == 0 and found["policy"] == {"drill": [{"drill": "no"}]}
    dry, wet, soaking = np.array([0.5 * 0.6, 0.3 * 0.3, 0.2 * 0.1]) / (0.5 * 0.6 + 0.3 * 0.3 + 0.2 * 0.1)
    assert found["options"]["drill"]["yes"] == pytest.approx(-70 * dry + 50 * wet + 200 * soaking - 10)
    code, out, _ = call(capsys, "decide", MODELS / "oil.yaml", "-g", "test=no", "--json")
    assert [row["drill"] for row in json.loads(out)["policy"]["drill"]] == ["yes"]
    assert json.loads(out)["expected_utility"] == pytest.approx(20.0)
    for words, code, match in (
        (["-g", "tst=yes"], "evidence.unknown-variable", "'tst'.*'test'"),
        (["-g", "test=maybe"], "evidence.unknown-state", "'maybe'.*'test'"),
        (["-g", "drill=yes"], "evidence.incomplete", "'drill'.*'test'"),
        (["-g", "test"], "option.usage", "--given.*NODE=STATE.*'test'"),
        (["-g", "test=no", "-g", "test=yes"], "option.usage", "--given.*'test'"),
    ):
        status = 2 if code == "option.usage" else 1
        refused(capsys, code, match, "decide", MODELS / "oil.yaml", *words, status=status)
    refused(capsys, "model.nothing-to-decide", "`decisions`", "decide", MODELS / "asia.yaml")
    refused(capsys, "model.other-family", "regression", "decide", MODELS / "trees.yaml")


def test_decide_given_states_that_look_like_mappings(capsys, tmp_path):
    """The name of a state is that state, whatever else it could be read as."""
    states = ["{b: 1}", "b", "1"]
    model = {
        "family": "bayes_net",
        "variables": {"x": {"states": states, "table": [0.5, 0.3, 0.2]}},
        "decisions": {"d": {"options": ["go", "stay"]}},
        "utilities": {"u": {"parents": ["x", "d"], "table": {s: {"go": k, "stay": 0} for k, s in enumerate(states)}}},
    }
    file = tmp_path / "d.yaml"
    file.write_text(json.dumps({"bayeslab": 1, "name": "d", "model": model}))
    for given, expected in (
        ("{b: 1}", 0.0),
        ("b", 1.0),
        ("1", 2.0),
        ("{1: 1, b: 2}", (0.2 * 2 + 0.6 * 1) / 0.8),  # virtual evidence, one of its states a number
    ):
        code, out, _ = call(capsys, "decide", file, "-g", f"x={given}", "--json")
        assert code == 0 and json.loads(out)["expected_utility"] == pytest.approx(expected)


# --------------------------------------------------------------------------------- around them


def test_a_net_without_a_target_predicts_what_a_row_leaves_open(capsys, tmp_path):
    """Not the mean of the positions of states; Beta(3, 2) under a uniform prior, known by 4,000 draws."""
    (tmp_path / "net.yaml").write_text(
        "bayeslab: 1\nname: net\nmodel:\n  family: bayes_net\n"
        "  variables: {a: [x, y], b: {states: [u, v], parents: [a]}}\n"
    )
    (tmp_path / "t.csv").write_text("a,b\nx,u\nx,u\nx,v\ny,v\n")
    (tmp_path / "new.csv").write_text("a,b\nx,\n")
    code, *_ = call(capsys, "fit", tmp_path / "net.yaml", "-d", tmp_path / "t.csv", "--runs", tmp_path, "--quiet")
    assert code == 0
    code, out, _ = call(capsys, "predict", tmp_path / "net", "-d", tmp_path / "new.csv", "--json")
    [row] = json.loads(out)
    assert code == 0 and set(row) == {"obs_id", "P(b=u)", "P(b=v)"}
    assert row["P(b=u)"] == pytest.approx(3 / 5, abs=4 * np.sqrt(6 / 25 / 6 / 4000))


def test_an_influence_diagram_is_drawn_and_not_fitted(capsys, tmp_path):
    code, out, _ = call(capsys, "graph", MODELS / "oil.yaml")
    assert code == 0 and out.startswith("<svg") and all(word in out for word in ("seismic", "drill", "gain"))
    refused(capsys, "model.not-applicable", r"oil\.yaml.*`bayeslab decide`", "query", MODELS / "oil.yaml")
    code, _, err = call(capsys, "fit", MODELS / "oil.yaml", "--runs", tmp_path)
    assert code == 1 and one_line(err)


def test_a_starter(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert call(capsys, "new", "net", "--family", "bayes_net")[0] == 0
    assert call(capsys, "check", "net.yaml")[0] == 0
    code, out, _ = call(capsys, "query", "net.yaml", "-g", "wet_grass=yes", "--json")
    # P(rain | wet) by hand from the starter's tables.
    rain = 0.2 * (0.01 * 0.99 + 0.99 * 0.8)
    dry = 0.8 * (0.4 * 0.9)
    assert code == 0 and json.loads(out)["marginals"]["rain"]["yes"] == pytest.approx(rain / (rain + dry))
    refused(capsys, "option.unknown-family", "'bayesnet'.*'bayes_net'", "new", "other", "--family", "bayesnet")


def test_the_schema_takes_the_network_models(capsys):
    jsonschema = pytest.importorskip("jsonschema")
    from ruamel.yaml import YAML

    _, out, _ = call(capsys, "schema")
    checker = jsonschema.Draft202012Validator(json.loads(out))
    files = [file for file in sorted(MODELS.glob("*.yaml")) if "family: bayes_net" in file.read_text()]
    for file in files:
        checker.validate(YAML(typ="safe", pure=True).load(file))
    part = {"family": "bayes_net"}
    for good in ({"network": "a.bif", "learn": "all"}, {"variables": {"a": [1, True, "x"]}, "prior": 2}):
        checker.validate({"bayeslab": 1, "model": part | good})
    for bad in ({}, {"variables": {"a": {"stats": ["x", "y"]}}}, {"variables": {"a": ["x"]}, "hiden": ["a"]}):
        assert not checker.is_valid({"bayeslab": 1, "model": part | bad})
