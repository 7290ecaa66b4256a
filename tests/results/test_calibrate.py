"""Calibration: right computations pass, wrong ones fail, killed ones go on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bayeslab as bl
from bayeslab.cli import main
from bayeslab.data.bound import Data
from bayeslab.progress import Progress
from bayeslab.results.calibrate import N_RANKED, Calibration, calibrate, calibrated, chi_square, rank_of, uniform_bands
from tests.refusals import refused

N_LEVELS = N_RANKED + 1


def conjugate_ranks(n: int, seed: int, *, fitted_sd: float = 1.0, spread: float = 1.0, n_obs: int = 5) -> np.ndarray:
    """Ranks of standard normal means under the posterior of a normal prior with ``fitted_sd``.

    The posterior's sd is multiplied by ``spread``.
    """
    rng = np.random.default_rng(seed)
    mu = rng.normal(size=n)
    mean = mu + rng.normal(size=n) / np.sqrt(n_obs)
    precision = n_obs + 1 / fitted_sd**2
    draws = rng.normal(n_obs * mean / precision, spread * precision**-0.5, size=(N_RANKED, n))
    return rank_of(mu, draws, rng)


def calibration_of(ranks: np.ndarray) -> Calibration:
    n = len(ranks)
    return Calibration("m", "exact", ("mu",), ranks[:, None], np.full((n, 1), 1000.0), ("pass",) * n, 1)


# --------------------------------------------------------------------------------- statistics


def test_right_posterior_passes():
    found = calibration_of(conjugate_ranks(500, 1))
    assert found.verdict.status == "pass" and found.table.loc["mu", "p_chi2"] > 0.01


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"fitted_sd": 0.3, "n_obs": 1}, "too narrow"),
        ({"spread": 0.7}, "too narrow"),
        ({"spread": 1.5}, "too wide"),
    ],
)
def test_wrong_posterior_fails(wrong, said):
    found = calibration_of(conjugate_ranks(500, 2, **wrong))
    assert found.verdict.status == "fail" and said in found.verdict.findings[-1].message
    assert found.table.loc["mu", "p_chi2"] < 0.001


def test_shift_is_named():
    rng = np.random.default_rng(3)
    truth, draws = rng.normal(0.5, 1, size=400), rng.normal(size=(N_RANKED, 400))
    found = calibration_of(rank_of(truth, draws, rng))
    assert found.verdict.status == "fail" and "too low" in found.verdict.findings[-1].message


def test_rank_counts_draws_below_and_splits_ties():
    draws = np.array([[1.0, 0.0], [2.0, 0.0], [3.0, 0.0]])
    assert rank_of(np.array([2.5, -1.0]), draws, np.random.default_rng(1)).tolist() == [2, 0]
    tied = [int(rank_of(np.array([0.0]), draws[:, 1:], np.random.default_rng(s))[0]) for s in range(400)]
    assert stats.chisquare(np.bincount(tied, minlength=4)).pvalue > 0.001


def test_bands_hold_together_as_often_as_they_say():
    """New uniform ranks leave a 95 % band in 5 % of cases; single points leave theirs far less."""
    n, cases = 100, 2000
    bands = uniform_bands(n, N_LEVELS, np.random.default_rng(4))
    ranks = np.random.default_rng(5).integers(0, N_LEVELS, size=(cases, n))
    counts = np.stack([np.bincount(r, minlength=N_LEVELS).cumsum()[:-1] for r in ranks])
    outside = ((counts < bands.lower) | (counts > bands.upper)).any(axis=1)
    assert outside.mean() == pytest.approx(0.05, abs=4 * np.sqrt(0.05 * 0.95 / cases) + 0.01)
    p = np.array([bands.p_value(r) for r in ranks])
    # Bands and p-values are one test: they differ only by the ties of discrete counts.
    assert p[outside].max() < 0.06 and p[~outside].min() > 0.04
    assert stats.kstest(p, "uniform").statistic < 0.05
    single = stats.binom.cdf(bands.lower - 1, n, bands.points) + stats.binom.sf(bands.upper, n, bands.points)
    assert single.max() < 0.02


def test_chi_square_by_hand():
    ranks = np.repeat([5, 15, 25, 35, 45, 55, 65, 75, 85, 95], [3, 7, 5, 5, 5, 5, 5, 5, 5, 5])
    assert chi_square(ranks, 100) == pytest.approx(stats.chi2(9).sf(8 / 5))


def test_failed_fits_are_counted():
    ranks = conjugate_ranks(100, 6)
    ranks[:20] = -1
    statuses = ("error: no",) * 20 + ("fail",) * 20 + ("pass",) * 60
    found = Calibration("m", "", ("mu",), ranks[:, None], np.full((100, 1), 1000.0), statuses, 1)
    messages = [f.message for f in found.verdict.findings]
    assert found.verdict.status == "fail"
    assert "20 of 100 replications could not be fitted (error: no)" in messages
    assert "20 of 100 fits have the verdict fail" in messages
    nothing = Calibration("m", "", ("mu",), np.full((20, 1), -1), np.full((20, 1), np.nan), ("error: no",) * 20, 1)
    assert nothing.verdict.status == "fail"


# ------------------------------------------------------------------------------------ the job


def line(sd: float = 1.0, **more) -> bl.Model:
    priors = {"x": f"Normal(0, {sd})", "Intercept": "Normal(0, 1)", "sigma": "HalfNormal(1)"}
    return bl.Model(name="line", model=bl.Regression(formula="y ~ x", priors=priors), seed=4, **more)


DATA = {"x": np.linspace(-1, 1, 8), "y": np.cos(np.arange(8.0))}


def bound(model: bl.Model) -> Data:
    return bl.check(model, DATA)


@pytest.mark.slow(why="statistical")
def test_exact_engine_is_calibrated(tmp_path):
    found = calibrate(line(), 200, DATA, "exact", runs=tmp_path, progress=False)
    assert found.verdict.status == "pass", found
    assert set(found.quantities) >= {"sigma"} and found.ranks.shape[0] == 200
    assert (found.ranks >= 0).all() and (found.ranks <= N_RANKED).all()


@pytest.mark.slow(why="statistical")
def test_fitting_under_another_prior_fails():
    wide, narrow = line(2.0), line(0.3)
    found = calibrated(wide, narrow, bound(wide), 200, "exact", 4, 1, None, Progress(None), {})
    bad = {f.where for f in found.verdict.findings if f.status == "fail"}
    assert found.verdict.status == "fail" and any("x" in where for where in bad)


@pytest.mark.slow(why="statistical")
def test_more_replications_add_to_those_that_are_there(tmp_path):
    few = calibrate(line(), 12, DATA, "exact", runs=tmp_path, progress=False)
    times = {p: p.stat().st_mtime_ns for p in few.folder.glob("replications/*")}
    more = calibrate(line(), 20, DATA, "exact", runs=tmp_path, progress=False)
    assert more.folder == few.folder and np.array_equal(more.ranks[:12], few.ranks)
    assert all(p.stat().st_mtime_ns == t for p, t in times.items())
    alone = calibrate(line(), 20, DATA, "exact", runs=None, progress=False)
    assert np.array_equal(alone.ranks, more.ranks)


@pytest.mark.slow(why="statistical")
def test_other_seed_or_model_has_another_folder(tmp_path):
    first = calibrate(line(), 10, DATA, "exact", runs=tmp_path, progress=False)
    second = calibrate(line(), 10, DATA, "exact", seed=5, runs=tmp_path, progress=False)
    third = calibrate(line(3.0), 10, DATA, "exact", runs=tmp_path, progress=False)
    assert len({first.folder, second.folder, third.folder}) == 3
    assert not np.array_equal(first.ranks, second.ranks)


_SCRIPT = """
import sys, bayeslab as bl
if __name__ == "__main__":
    bl.calibrate(sys.argv[1], 40, None, "exact", runs=sys.argv[2], progress=False, draws=20000)
"""


@pytest.mark.slow(why="processes")
def test_killed_and_run_again(tmp_path):
    """Killed after a few replications; the rest are added and the result is that of an uninterrupted run."""
    import pandas as pd

    pd.DataFrame(DATA).to_csv(tmp_path / "d.csv", index=False)
    model = line(data={"table": "d.csv"})
    bl.save(model, tmp_path / "line.yaml")
    runs = tmp_path / "runs"
    process = subprocess.Popen([sys.executable, "-c", _SCRIPT, str(tmp_path / "line.yaml"), str(runs)])
    deadline = time.monotonic() + 60
    while len(list(runs.glob("*/replications/r*.npz"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    there = len(list(runs.glob("*/replications/r*.npz")))
    assert 3 <= there < 40
    found = calibrate(tmp_path / "line.yaml", 40, None, "exact", runs=runs, progress=False, draws=20000)
    whole = calibrate(tmp_path / "line.yaml", 40, None, "exact", runs=None, progress=False, draws=20000)
    assert np.array_equal(found.ranks, whole.ranks) and found.folder.parent == runs
    assert len(list(runs.iterdir())) == 1


@pytest.mark.slow(why="compiles")
def test_nuts_in_processes(tmp_path):
    """Counts and words; in two processes and in one the same."""
    nodes = {"p": "Beta(2, 2)", "r": "Gamma(2, 1)", "k[obs_id]": "Poisson(r + 0.1)", "w[obs_id]": "Bernoulli(p)"}
    model = bl.Model(name="mixed", model=bl.Graph(nodes=nodes), seed=2)
    data = {"k": np.arange(12), "w": np.array(["no", "yes"] * 6)}
    options = {"draws": 150, "tune": 150, "chains": 2, "progress": False}
    two = calibrate(model, 10, data, "nuts", jobs=2, runs=tmp_path, **options)
    one = calibrate(model, 10, data, "nuts", jobs=1, runs=None, **options)
    assert set(two.quantities) == {"p", "r"} and not any(s.startswith("error") for s in two.statuses)
    assert np.array_equal(two.ranks, one.ranks) and np.array_equal(two.ess, one.ess)


# -------------------------------------------------------------------------------- the borders


@pytest.mark.parametrize(
    ("change", "code", "match"),
    [
        ({"n": 5}, "option.out-of-range", "^n, .*10.*5"),
        ({"jobs": 0}, "option.out-of-range", "jobs"),
        ({"method": "exact", "draws": 5, "chains": 2}, "option.too-few", "99.*draws"),
        ({"method": "exakt"}, "option.unknown-word", "'exakt'.*'exact'"),
    ],
)
def test_nonsense_is_refused(change, code, match):
    with refused(code, match):
        calibrate(line(), **({"n": 10, "data": DATA, "runs": None, "progress": False} | change))


def test_flat_priors_are_refused():
    nodes = {"a": "Flat()", "y[obs_id]": "Normal(a, 1)"}
    with refused("model.improper", "'a'.*HalfFlat"):
        calibrate(bl.Model(model=bl.Graph(nodes=nodes)), 10, {"y": np.zeros(3)}, runs=None, progress=False)


@pytest.mark.slow(why="processes")
def test_command(tmp_path, capsys):
    import pandas as pd

    pd.DataFrame(DATA).to_csv(tmp_path / "d.csv", index=False)
    bl.save(line(data={"table": "d.csv"}), tmp_path / "line.yaml")
    words = [
        "calibrate",
        str(tmp_path / "line.yaml"),
        "-n",
        "20",
        "-m",
        "exact",
        "--runs",
        str(tmp_path / "runs"),
        "-q",
    ]
    with pytest.raises(SystemExit) as stopped:
        main([*words, "--json", "--plot", str(tmp_path / "ranks")])
    content = json.loads(capsys.readouterr().out)
    assert stopped.value.code in (0, 3) and content["replications"] == 20
    assert Path(content["folder"]).is_dir() and (tmp_path / "ranks-ecdf.png").stat().st_size > 5000
    assert (tmp_path / "ranks-histogram.png").stat().st_size > 5000


def test_shown_in_a_notebook():
    found = calibration_of(conjugate_ranks(100, 1))
    assert "<table" in found._repr_html_() and "100 replications" in repr(found)
    assert found.plot("ecdf").axes and found.plot("histogram", ["mu"]).axes
    with refused("option.unknown-parameter", "'nu'"):
        found.plot("ecdf", ["nu"])


def test_a_point_is_not_calibrated():
    nodes = {"m": "Normal(0, 1)", "y[row]": "Normal(m, 1)"}
    model = bl.Model(name="m", data={"rows": "row"}, dims={"row": 5}, model=bl.Graph(nodes=nodes))
    with refused("option.not-applicable", "map"):
        bl.calibrate(model, n=10, method="map", seed=1, runs=None, jobs=1)


COUNTS = {"y": [0, 1, 5, 6, 2, 9]}


@pytest.mark.slow(why="statistical")
def test_states_that_trade_places_are_not_ranked():
    """Draws are renamed to agree with each other, and the truth has no names: ranks would say that a right sampler errs."""
    declared = bl.Model(name="m", model=bl.Mixture(columns=["y"], components=2, component="poisson"))
    with refused("option.not-applicable", "`order"):
        calibrate(declared, 10, COUNTS, "gibbs", draws=100, seed=1, jobs=1, runs=None, progress=False)


@pytest.mark.slow(why="statistical")
def test_components_in_order_are_calibrated():
    """By 600 replications each with two other seeds the smallest p was 0.34 and 0.40; with seed 3 one in 120 is 0.01."""
    declared = bl.Model(name="m", model=bl.Mixture(columns=["y"], components=2, component="poisson", order="y"))
    found = calibrate(declared, 120, COUNTS, "gibbs", draws=300, chains=2, seed=4, jobs=1, runs=None, progress=False)
    assert found.verdict.status == "pass"


@pytest.mark.slow(why="compiles")
def test_rates_in_order_are_ranked_once():
    """What they are sorted from is no quantity of the posterior."""
    rates = {"rate": "PositiveOrdered(Gamma(2, 0.5))"}
    declared = bl.Model(name="m", model=bl.HMM(columns=["y"], states=2, emission="poisson", parameters=rates))
    found = calibrate(declared, 10, COUNTS, "nuts", draws=100, tune=200, seed=1, jobs=1, runs=None, progress=False)
    assert {name.split("[")[0] for name in found.quantities} == {"initial", "transition", "rate"}


@pytest.mark.parametrize(("key", "cells"), [("weights", 25.0), ("censored", "right")])
def test_likelihoods_that_are_not_of_what_is_simulated_are_refused(key, cells):
    """With weights of 25 the posterior is a fifth as wide as that of the simulated rows."""
    table = pd.DataFrame({"x": np.arange(6.0), "y": np.arange(6.0), "w": cells})
    model = bl.Model(name="m", model=bl.Regression(formula="y ~ x", **{key: "w"}))
    with refused("option.not-applicable", key):
        bl.calibrate(model, 10, table, runs=None, progress=False)


def test_weights_of_one_are_no_weights():
    table = pd.DataFrame({"x": np.arange(6.0), "y": np.arange(6.0), "w": 1.0})
    priors = {"Intercept": "Normal(0, 1)", "x": "Normal(0, 1)", "sigma": 1}
    model = bl.Model(name="m", model=bl.Regression(formula="y ~ x", weights="w", priors=priors))
    assert bl.calibrate(model, 20, table, runs=None, progress=False, seed=1).verdict.status != "fail"


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("states", [[1, 5], [1, 0], ["b", "a"]])
def test_states_that_are_numbers_are_simulated_as_these_numbers(states):
    """Positions were taken for the numbers: with [1, 0] every simulated state was the other one."""
    table = {"a": [states[i] for i in (0, 1, 0, 0, 1, 0)], "b": [states[i] for i in (0, 0, 1, 0, 1, 1)]}
    variables = {"a": {"states": states}, "b": {"states": states, "parents": ["a"]}}
    declared = bl.Model(name="m", model=bl.BayesNet(variables=variables))
    found = calibrate(declared, 40, table, "exact", seed=1, jobs=1, runs=None, progress=False)
    words = {"a": ["x", "y", "x", "x", "y", "x"], "b": ["x", "x", "y", "x", "y", "y"]}
    named = {v: {**one, "states": ["x", "y"]} for v, one in variables.items()}
    same = bl.Model(name="m", model=bl.BayesNet(variables=named))
    expected = calibrate(same, 40, words, "exact", seed=1, jobs=1, runs=None, progress=False)
    np.testing.assert_array_equal(found.ranks, expected.ranks)


@pytest.mark.slow(why="statistical")
def test_values_of_hypotheses_that_are_numbers_are_simulated_as_these_numbers():
    def declared(values):
        shares = {"h": (0.9, 0.1), "g": (0.2, 0.8)}
        tables = {h: {"prior": 0.5, "likelihood": dict(zip(values, p, strict=True))} for h, p in shares.items()}
        return bl.Model(name="m", model=bl.Hypotheses(observed="z", hypotheses=tables))

    options = {"seed": 1, "jobs": 1, "runs": None, "progress": False}
    found = calibrate(declared(["1", "0"]), 20, {"z": [1, 0, 1, 1, 0]}, **options)
    expected = calibrate(declared(["x", "y"]), 20, {"z": list("xyxxy")}, **options)
    np.testing.assert_array_equal(found.ranks, expected.ranks)
    drawn = bl.simulate(declared(["1", "0"]), {"z": [1, 0, 1]}, 2000, seed=1)["prior_predictive"]["z"]
    assert abs(float(drawn.mean()) - 0.55) < 0.03


@pytest.mark.slow(why="statistical")
def test_priors_on_the_scale_of_the_columns_stay_those_of_the_given_columns():
    """Each replication had the prior on the scale of its own columns: posteriors of sds were too low (p = 0.0002)."""
    variables = {"a": {"linear_gaussian": {}}, "b": {"parents": ["a"], "linear_gaussian": {}}}
    declared = bl.Model(name="m", model=bl.BayesNet(variables=variables))
    rng = np.random.default_rng(0)
    data = {"a": rng.normal(size=8), "b": rng.normal(size=8)}
    found = calibrate(declared, 60, data, "exact", seed=1, jobs=1, runs=None, progress=False)
    assert found.verdict.status == "pass"


def test_without_data_or_draws_of_what_is_ranked():
    declared = bl.Model(name="m", model=bl.BayesNet(variables={"a": {"states": ["x", "y"]}}))
    with refused("option.incomplete", "data"):
        calibrate(declared, 10, None, "exact", seed=1, jobs=1, runs=None, progress=False)


@pytest.mark.slow(why="compiles")
def test_what_a_process_sums_out_is_not_ranked():
    process = bl.Mixture(columns=["y"], components="dirichlet_process", component="poisson")
    with refused("option.not-applicable", "rate"):
        calibrate(
            bl.Model(name="m", model=process), 10, COUNTS, "gibbs", draws=100, seed=1, jobs=1, runs=None, progress=False
        )
