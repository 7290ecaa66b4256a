"""A fit of a net whose structure is unknown: asked, predicted from, drawn, from Python and from the command line."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bayeslab as bl
from bayeslab.cli import main
from bayeslab.fitting import open_run
from bayeslab.networks import network
from bayeslab.results.compare import held_out
from bayeslab.results.structures import PICTURES
from tests.refusals import refused


def words():
    rng = np.random.default_rng(6)
    a = rng.integers(0, 2, 80)
    b = np.where(rng.random(80) < 0.8, a, rng.integers(0, 2, 80))
    c = np.where(rng.random(80) < 0.7, b, rng.integers(0, 2, 80))
    return pd.DataFrame({name: np.array(["no", "yes"])[code] for name, code in zip("abc", (a, b, c), strict=True)})


def numbers():
    rng = np.random.default_rng(7)
    a = rng.normal(0, 1, 60)
    b = a + rng.normal(0, 0.5, 60)
    return pd.DataFrame({"a": a, "b": b, "c": rng.normal(2, 1, 60)})


@pytest.fixture(scope="module")
def fit(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    model = bl.Model(name="three", model=bl.BayesNet(structure={"score": "bdeu"}))
    return bl.fit(model, words(), "exact", seed=1, progress=False, runs=folder, draws=300)


@pytest.fixture(scope="module")
def gaussian():
    model = bl.Model(model=bl.BayesNet(structure={"score": "bge"}))
    return bl.fit(model, numbers(), "exact", seed=1, progress=False, runs=None, draws=300)


def call(capsys, *words):
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return int(ended.value.code or 0), capsys.readouterr().out


@pytest.mark.slow(why="statistical")
def test_a_fit_has_structures_and_so_has_its_folder(fit):
    again = open_run(fit.folder)
    pd.testing.assert_frame_equal(again.structures.edges(), fit.structures.edges())
    assert (
        again.structures.query({"a": "yes"}, ["c"], seed=3).to_dict()
        == fit.structures.query({"a": "yes"}, ["c"], seed=3).to_dict()
    )
    assert "3 variables: 4 chains × 300 draws" in repr(fit.structures)


def test_other_fits_have_none():
    net = bl.Model(model=bl.BayesNet(variables={"a": ["no", "yes"], "b": {"states": ["no", "yes"], "parents": ["a"]}}))
    known = bl.fit(net, words()[["a", "b"]], "exact", progress=False, runs=None, draws=10)
    with refused("option.other-family", r"bayes_net.*`structure: \{score: \.\.\.\}`"):
        _ = known.structures


def test_one_network_of_many_structures_is_refused(fit):
    with refused("model.several-structures"):
        network(fit)


@pytest.mark.slow(why="statistical")
def test_predictions_are_averaged_queries(fit):
    new = pd.DataFrame({"a": ["yes", "no", None], "b": ["yes", None, "no"]})
    frame = fit.predict(new, "probabilities")
    for k, given in enumerate([{"a": "yes", "b": "yes"}, {"a": "no"}, {"b": "no"}]):
        one = fit.structures.query(given)
        for v in "abc":
            assert frame[f"P({v}=yes)"][k] == pytest.approx(one[v]["yes"], rel=1e-9)
    with refused("option.not-applicable", "'probabilities'"):
        fit.predict(new, "mean")
    with refused("data.nothing-to-predict"):
        fit.predict(words(), "probabilities")


@pytest.mark.slow(why="statistical")
def test_predictions_of_numbers(gaussian):
    """With b all but surely a child or parent of a alone, it is the regression on a under the score's prior."""
    new = pd.DataFrame({"a": [1.0, -2.0, np.nan], "c": [0.0, 5.0, 1.0]})
    frame = gaussian.predict(new, ci_prob=0.9)
    found = gaussian.structures
    for k, given in enumerate([{"a": 1.0, "c": 0.0}, {"a": -2.0, "c": 5.0}]):
        one = found.query(given, ["b"])["b"]
        assert frame["b_mean"][k] == pytest.approx(one.mean, abs=0.05)
        assert frame["b_sd"][k] == pytest.approx(one.sd, rel=0.1)
        assert (frame["b_eti90_lb"][k], frame["b_eti90_ub"][k]) == pytest.approx(one.interval(0.9), abs=0.15)
    slope, intercept, *_ = stats.linregress(numbers()["a"], numbers()["b"])
    assert frame["b_mean"][0] == pytest.approx(intercept + slope, abs=0.1)
    assert (frame["a_mean"][0], frame["a_sd"][0]) == (1.0, 0.0)
    assert frame["a_sd"][2] > 0.5


@pytest.mark.parametrize("what", PICTURES)
def test_pictures(fit, what, tmp_path):
    fit.structures.plot(what).savefig(tmp_path / "picture.png", dpi=40)
    with refused("option.unknown-word", f"'{what}x'.*'{what}'"):
        fit.structures.plot(what + "x")


@pytest.mark.slow(why="processes")
def test_from_the_command_line(fit, tmp_path, capsys):
    code, out = call(capsys, "query", fit.folder, "-g", "a=yes", "-t", "c", "--json", "--seed", "3")
    assert code == 0
    got, want = json.loads(out), fit.structures.query({"a": "yes"}, ["c"], seed=3)
    assert got["marginals"]["c"]["yes"] == pytest.approx(want["c"]["yes"])
    assert got["intervals"]["c"]["yes"] == pytest.approx(want.intervals["c"]["yes"])
    _, out = call(capsys, "query", fit.folder, "--do", "b=yes", "-t", "a")
    assert "averaged over structures and parameters" in out and "[" in out
    pd.DataFrame({"a": ["yes"]}).to_csv(tmp_path / "new.csv", index=False)
    assert "P(c=yes)" in call(capsys, "query", fit.folder, "--batch", tmp_path / "new.csv")[1]
    assert "P(c=yes)" in call(capsys, "predict", fit.folder, "--data", tmp_path / "new.csv")[1]
    assert call(capsys, "query", fit.folder, "--most-probable", 2)[0] != 0


@pytest.mark.slow(why="large")
def test_rows_are_weighed_by_structures_and_parameters(fit):
    """The mean likelihood of a row is its probability as the next case; WAIC and LOO take the group as any other."""
    group = fit.log_likelihood()
    terms = group["evidence"]
    assert terms.dims == ("chain", "draw", "obs_id") and terms.shape == (4, 250, 80)
    mean = np.exp(terms.values).mean(axis=(0, 1))
    error = np.exp(terms.values).std(axis=(0, 1)) / np.sqrt(1000)
    rows = words().drop_duplicates()
    for k, row in rows.iterrows():
        want = np.exp(fit.structures.query(row.to_dict(), []).log_evidence)
        assert abs(mean[k] - want) < 4.5 * error[k]
    same = (words() == words().iloc[0]).all(axis=1).to_numpy()
    assert np.ptp(mean[same]) < 1e-12
    net = {v: {"states": ["no", "yes"]} for v in "abc"}
    apart = bl.fit(
        bl.Model(name="apart", model=bl.BayesNet(variables=net)), words(), "exact", progress=False, runs=None
    )
    table = bl.compare({"sampled": fit, "apart": apart}, progress=False).table
    assert list(table.index) == ["sampled", "apart"]
    assert np.isnan(table["n_parameters"]["sampled"]) and table["n_parameters"]["apart"] == 3
    shares = [(words()[v] == "yes").mean() for v in "abc"]
    highest = sum(80 * (p * np.log(p) + (1 - p) * np.log(1 - p)) for p in shares)
    assert table["max_log_likelihood"]["apart"] == pytest.approx(highest)
    assert table["bic"]["apart"] == pytest.approx(-2 * highest + 3 * np.log(80))
    assert table["log_evidence"]["sampled"] == fit.data_tree["exact_posterior"].attrs["log_evidence"]


@pytest.mark.slow(why="statistical")
def test_a_row_left_out_is_left_out_of_the_search(fit):
    """Its probability given the others, from chains without it: the ratio of two exact evidences."""
    model = bl.Model(model=bl.BayesNet(structure={"score": "bdeu"}))
    sampled = bl.fit(model, words(), "structure", seed=1, progress=False, runs=None, draws=250)
    sampled.log_likelihood()
    rare = int(words().groupby(list("abc"))["a"].transform("size").argmin())
    rest = bl.fit(model, words().drop(index=rare), "exact", seed=1, progress=False, runs=None, draws=10)
    want = (
        (fit.data_tree["exact_posterior"].attrs["log_evidence"])
        - rest.data_tree["exact_posterior"].attrs["log_evidence"]
    )
    assert held_out(sampled, "evidence", rare) == pytest.approx(want, abs=0.1)


def test_structures_have_no_number_of_parameters(fit):
    with refused("data.not-applicable", "bic"):
        bl.compare({"sampled": fit}, "bic", progress=False)


def test_a_state_that_only_the_row_left_out_has():
    table = words()
    table.loc[5, "b"] = "perhaps"
    model = bl.Model(model=bl.BayesNet(structure={"score": "bdeu"}))
    sampled = bl.fit(model, table, "structure", seed=1, progress=False, runs=None, draws=30, tune=10)
    sampled.log_likelihood()
    assert held_out(sampled, "evidence", 5) is None


@pytest.mark.slow(why="statistical")
def test_rows_are_replicated(fit, gaussian):
    group = fit.posterior_predictive()
    assert set(group.data_vars) == {"a", "b", "c"} and group["a"].shape == (4, 250, 80)
    share = fit.structures.query({}, ["b"])["b"]["yes"]
    assert group["b"].values.mean() == pytest.approx(share, abs=0.01)
    numbers_ = gaussian.posterior_predictive()
    assert numbers_["c"].values.mean() == pytest.approx(numbers()["c"].mean(), abs=0.05)
    assert gaussian.log_likelihood()["evidence"].shape == (4, 250, 60)
