"""The main job end to end: seeds, resuming, run folders, predictions, and what ArviZ makes of it."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

import bayeslab as bl
from tests.refusals import refused

SCHOOLS = {
    "school": list("ABCDEFGH"),
    "y": [28.0, 8, -3, 7, -1, 1, 18, 12],
    "se": [15.0, 10, 16, 11, 9, 11, 10, 18],
}


def schools() -> bl.Model:
    return bl.Model(
        name="eight schools",
        data={"rows": "school"},
        model=bl.Graph(
            nodes={
                "mu": "Normal(0, 5)",
                "tau": "HalfCauchy(5)",
                "z[school]": "Normal(0, 1)",
                "theta[school]": "mu + tau * z",
                "y[school]": "Normal(theta, se)",
            }
        ),
        inference={"method": "nuts", "target_accept": 0.95, "draws": 500, "tune": 500},
        seed=7,
    )


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    return bl.fit(schools(), SCHOOLS, progress=False, runs=tmp_path_factory.mktemp("runs"))


def same_draws(a, b) -> bool:
    return all(
        np.array_equal(a.data_tree[group][name].values, b.data_tree[group][name].values)
        for group in ("posterior", "sample_stats", "unconstrained_posterior")
        for name in a.data_tree[group].data_vars
    )


# ------------------------------------------------------------------------------- the posterior


def exact_schools() -> tuple[float, float, np.ndarray]:
    """Posterior means of mu, tau and theta by quadrature over (mu, tau)."""
    y, se = np.array(SCHOOLS["y"]), np.array(SCHOOLS["se"])
    mu = np.linspace(-25, 30, 801)[:, None]
    tau = np.tan(np.linspace(1e-4, np.pi / 2 - 2e-3, 1601))[None, :] * 5  # equal steps of the Cauchy's own scale
    log_post = -0.5 * (mu / 5) ** 2 + np.zeros_like(tau)
    for yj, sj in zip(y, se, strict=True):
        v = sj**2 + tau**2
        log_post = log_post - 0.5 * np.log(v) - 0.5 * (yj - mu) ** 2 / v
    w = np.exp(log_post - log_post.max())
    w /= w.sum()
    theta = np.array([(w * (yj * tau**2 + mu * sj**2) / (tau**2 + sj**2)).sum() for yj, sj in zip(y, se, strict=True)])
    return float((w * mu).sum()), float((w * np.minimum(tau, 100)).sum()), theta


@pytest.mark.slow(why="statistical")
def test_nuts_agrees_with_quadrature(fitted):
    mu, _, theta = exact_schools()
    table = fitted.summary()
    assert abs(table.loc["mu", "mean"] - mu) < 4 * table.loc["mu", "mcse_mean"]
    for name, exact in zip("ABCDEFGH", theta, strict=True):
        row = table.loc[f"theta[{name}]"]
        assert abs(row["mean"] - exact) < 4 * row["mcse_mean"]
    tau = fitted.posterior["tau"].values
    assert np.mean(np.minimum(tau, 100)) == pytest.approx(exact_schools()[1], abs=4 * table.loc["tau", "mcse_mean"])


def test_the_verdict_is_about_this_run(fitted):
    assert fitted.verdict.status in ("pass", "warn")
    assert fitted.diagnose() is fitted.verdict
    assert {finding.check for finding in fitted.verdict.findings} >= {"R-hat", "bulk ESS", "divergences", "E-BFMI"}
    assert fitted.method == "nuts" and fitted.reason == "nuts was asked for"


def test_groups_follow_arviz(fitted):
    tree = fitted.data_tree
    assert set(tree.children) >= {"posterior", "sample_stats", "observed_data", "constant_data"}
    assert tree["posterior"]["theta"].dims == ("chain", "draw", "school")
    assert list(tree["posterior"]["school"].values) == list("ABCDEFGH")
    stats = {
        "lp",
        "energy",
        "diverging",
        "tree_depth",
        "reached_max_treedepth",
        "acceptance_rate",
        "n_steps",
        "step_size",
    }
    assert stats <= set(tree["sample_stats"].data_vars)
    np.testing.assert_array_equal(tree["observed_data"]["y"], SCHOOLS["y"])
    np.testing.assert_array_equal(tree["constant_data"]["se"], SCHOOLS["se"])


def test_the_stored_density_is_the_models(fitted):
    """lp of a draw equals PyMC's own log density there."""
    model = bl.to_pymc(fitted.model, SCHOOLS)
    raw = fitted.data_tree["unconstrained_posterior"].to_dataset()
    logp = model.compile_logp(mode="FAST_COMPILE")
    for draw in (0, 100, 499):
        point = {str(n): v.values[1, draw] for n, v in raw.data_vars.items()}
        assert logp(point) == pytest.approx(float(fitted.data_tree["sample_stats"]["lp"][1, draw]), rel=1e-10)


def test_arviz_takes_the_result_unchanged(fitted):
    import arviz as az

    assert set(az.summary(fitted.data_tree, round_to="none").index) == set(fitted.summary().index)
    assert float(az.rhat(fitted.posterior)["mu"]) < 1.05
    assert float(az.ess(fitted.data_tree)["mu"]) > 100
    fitted.log_likelihood()
    loo = az.loo(fitted.data_tree)
    # Published PSIS-LOO of eight schools: elpd_loo about -30.8 (Vehtari, Gelman and Gabry 2017).
    assert loo.elpd == pytest.approx(-30.8, abs=0.4)


def test_pointwise_log_likelihood_is_the_normal_density(fitted):
    from scipy.stats import norm

    found = fitted.log_likelihood()["y"].values
    theta = fitted.posterior["theta"].values
    np.testing.assert_allclose(found, norm.logpdf(SCHOOLS["y"], theta, SCHOOLS["se"]), rtol=1e-12)


def test_posterior_predictive_has_the_right_moments(fitted):
    draws = fitted.posterior_predictive()["y"].values.reshape(-1, 8)
    theta = fitted.posterior["theta"].values.reshape(-1, 8)
    noise = (draws - theta) / np.array(SCHOOLS["se"])
    assert abs(noise.mean()) < 4 / np.sqrt(noise.size)
    assert abs(noise.std() - 1) < 4 / np.sqrt(2 * noise.size)


def test_prior_predictive_is_the_prior(fitted):
    fitted.prior_predictive(draws=2000)
    mu = fitted.data_tree["prior"]["mu"].values
    assert abs(mu.mean()) < 4 * 5 / np.sqrt(mu.size)
    assert abs(mu.std() - 5) < 4 * 5 / np.sqrt(2 * mu.size)
    assert fitted.data_tree["prior_predictive"]["y"].shape == (1, 2000, 8)


def test_html_repr_is_complete_and_static(fitted):
    html = fitted._repr_html_()
    assert "eight schools" in html and "theta[A]" in html and "<script" not in html


# ------------------------------------------------------------------------------- seeds and cores


@pytest.mark.slow(why="processes")
def test_same_seed_same_draws_on_any_number_of_cores(fitted):
    for cores in (1, 2, 3):
        again = bl.fit(schools(), SCHOOLS, progress=False, runs=None, cores=cores)
        assert same_draws(fitted, again)


def test_a_chain_does_not_depend_on_how_many_there_are(fitted):
    two = bl.fit(schools(), SCHOOLS, progress=False, runs=None, chains=2)
    np.testing.assert_array_equal(two.posterior["mu"].values, fitted.posterior["mu"].values[:2])


def test_another_seed_gives_other_draws(fitted):
    other = bl.fit(schools(), SCHOOLS, progress=False, runs=None, seed=8, chains=1)
    assert not np.array_equal(other.posterior["mu"].values[0], fitted.posterior["mu"].values[0])


SCRIPT = """
import sys, bayeslab as bl
sys.path.insert(0, {tests!r})
from test_fitting import SCHOOLS, schools
fit = bl.fit(schools(), SCHOOLS, progress=False, runs=None, chains=1, seed=11)
print(fit.posterior["tau"].values.sum().hex())
"""


@pytest.mark.slow(why="processes")
def test_cold_and_warm_processes_draw_the_same(tmp_path):
    """The code compiled in memory and the code from the disk cache give the same bits."""
    env = os.environ | {"PYTENSOR_FLAGS": f"base_compiledir={tmp_path / 'cache'}"}
    code = SCRIPT.format(tests=str(Path(__file__).parent))
    runs = [
        subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    assert runs[0].stdout == runs[1].stdout
    assert runs[0].stdout.startswith(("0x", "-0x"))


# ------------------------------------------------------------------------------- run folders


@pytest.mark.slow(why="statistical")
def test_a_second_fit_never_overwrites_a_first(tmp_path, fitted):
    first = bl.fit(schools(), SCHOOLS, progress=False, runs=tmp_path, chains=1)
    second = bl.fit(schools(), SCHOOLS, progress=False, runs=tmp_path, chains=1)
    assert first.folder.name == "eight-schools" and second.folder.name == "eight-schools-2"
    assert same_draws(bl.open(first.folder), bl.open(second.folder))


def test_reopening_gives_the_same_result(fitted):
    again = bl.open(fitted.folder)
    assert same_draws(fitted, again)
    pd.testing.assert_frame_equal(again.summary(), fitted.summary())
    assert again.verdict == fitted.verdict
    assert again.model == fitted.model
    pd.testing.assert_frame_equal(again.predict(), fitted.predict())


def test_reopening_checks_model_and_data_and_names_the_field(fitted, tmp_path):
    bl.open(fitted.folder, model=schools(), data=SCHOOLS)
    nodes = dict(schools().model.nodes) | {"mu": "Normal(0, 6)"}
    with refused("run.other-run", r"'Normal\(0, 5\)'.*6"):
        bl.open(fitted.folder, model=bl.Model(data={"rows": "school"}, model=bl.Graph(nodes=nodes)))
    with refused("run.other-run", "'y'"):
        bl.open(fitted.folder, data=SCHOOLS | {"y": [0.0] * 8})
    with refused("run.other-run", "'se'"):
        bl.open(fitted.folder, data={k: v for k, v in SCHOOLS.items() if k != "se"})


def test_a_changed_run_folder_is_refused(tmp_path):
    fit = bl.fit(schools(), SCHOOLS, progress=False, runs=tmp_path, chains=1)
    file = fit.folder / "model.yaml"
    file.write_text(file.read_text().replace("Normal(0, 5)", "Normal(0, 9)"))
    with refused("run.damaged", r"model\.yaml"):
        bl.open(fit.folder)


def test_run_json_says_what_was_done(fitted):
    info = json.loads((fitted.folder / "run.json").read_text())
    assert info["status"] == "complete" and info["seed"] == 7 and info["method"] == "nuts"
    assert info["options"]["target_accept"] == 0.95
    assert info["verdict"]["status"] == fitted.verdict.status
    assert {"pymc", "nutpie", "bayeslab"} <= info["versions"].keys()
    assert {"compile", "sample"} <= info["timings"].keys()


def test_a_run_moves(fitted, tmp_path):
    import shutil

    shutil.copytree(fitted.folder, tmp_path / "elsewhere")
    assert same_draws(bl.open(tmp_path / "elsewhere"), fitted)


# ------------------------------------------------------------------------------- interruption

SLOW = """
bayeslab: 1
name: slow
data: {table: slow.csv, rows: obs}
model:
  family: graph
  nodes:
    a: Normal(0, 10)
    b: Normal(0, 1)
    g[group]: Normal(0, 1)
    s: HalfNormal(5)
    y[obs]: StudentT(4, a + b * x + g[group], s)
inference: {draws: 150, tune: 150, cores: 1, backend: pytensor}
seed: 3
"""


@pytest.fixture(scope="module")
def slow(tmp_path_factory):
    """A model of which a chain takes about a second."""
    folder = tmp_path_factory.mktemp("slow")
    rng = np.random.default_rng(1)
    group = rng.integers(0, 20, 12_000)
    table = pd.DataFrame({"x": rng.normal(size=12_000), "group": [f"g{i:02d}" for i in group]})
    table["y"] = rng.normal(size=12_000) + group / 100
    table.to_csv(folder / "slow.csv", index=False)
    (folder / "slow.yaml").write_text(SLOW)
    whole = bl.fit(folder / "slow.yaml", progress=False, runs=None, cores=2)
    return folder / "slow.yaml", whole


def start(file: Path, runs: Path) -> subprocess.Popen:
    command = [sys.executable, "-m", "bayeslab.cli", "fit", str(file), "--runs", str(runs), "--quiet"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for_chains(runs: Path, number: int, process: subprocess.Popen) -> None:
    for _ in range(6000):
        if len(list(runs.glob("slow/chains/chain-*.npz"))) >= number:
            return
        if process.poll() is not None:
            break
        time.sleep(0.02)
    raise AssertionError(f"the run ended early: {process.communicate()}")


@pytest.mark.slow(why="processes")
def test_a_killed_run_resumes_to_the_same_draws(slow, tmp_path):
    file, whole = slow
    process = start(file, tmp_path)
    wait_for_chains(tmp_path, 1, process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    kept = {p.name: p.read_bytes() for p in (tmp_path / "slow" / "chains").glob("chain-*.npz")}
    assert 1 <= len(kept) < 4
    with refused("run.no-result", "`bayeslab fit --resume`"):
        bl.open(tmp_path / "slow")
    resumed = bl.resume(tmp_path / "slow", progress=False)
    assert same_draws(resumed, whole)
    for name, content in kept.items():
        assert (tmp_path / "slow" / "chains" / name).read_bytes() == content
    assert bl.open(tmp_path / "slow").verdict == whole.verdict


@pytest.mark.slow(why="processes")
@pytest.mark.parametrize(("sent", "codes"), [(signal.SIGINT, (0, 3)), (signal.SIGTERM, (143,))], ids=["ctrl-c", "term"])
def test_an_interrupted_run_keeps_what_is_there_and_resumes(slow, tmp_path, sent, codes):
    """SIGTERM is what schedulers and containers end a process with."""
    file, whole = slow
    process = start(file, tmp_path)
    wait_for_chains(tmp_path, 1, process)
    process.send_signal(sent)
    out, err = process.communicate(timeout=60)
    assert process.returncode in codes, err
    assert "interrupted" in out and "--resume" in out and "Traceback" not in err
    partial = bl.open(tmp_path / "slow")
    n_chains, n_draws = partial.posterior.sizes["chain"], partial.posterior.sizes["draw"]
    np.testing.assert_array_equal(
        partial.posterior["a"].values, whole.posterior["a"].values[partial.posterior["chain"].values, :n_draws]
    )
    assert n_chains >= 1 and any(f.check == "interrupted" for f in partial.verdict.findings)
    assert same_draws(bl.resume(tmp_path / "slow", progress=False), whole)


def test_resuming_a_finished_run_changes_nothing(fitted):
    before = {p: p.stat().st_mtime_ns for p in fitted.folder.rglob("*") if p.is_file()}
    assert same_draws(bl.resume(fitted.folder, progress=False), fitted)
    assert before == {p: p.stat().st_mtime_ns for p in fitted.folder.rglob("*") if p.is_file()}


@pytest.mark.slow(why="processes")
def test_keyboard_interrupt_in_process_returns_a_fit(slow, tmp_path):
    file, _ = slow

    def interrupt() -> None:
        wait = time.monotonic() + 60
        while time.monotonic() < wait and not list(tmp_path.glob("slow/chains/chain-*.npz")):
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Thread(target=interrupt)
    timer.start()
    fit = bl.fit(file, progress=False, runs=tmp_path)
    timer.join()
    assert any(finding.check == "interrupted" for finding in fit.verdict.findings)


# ------------------------------------------------------------------------------- predictions


@pytest.fixture(scope="module")
def line():
    """A regression with a group factor and a standardised predictor; known truth."""
    rng = np.random.default_rng(5)
    n = 240
    frame = pd.DataFrame({"height": rng.normal(170, 10, n), "group": rng.choice(["a", "b", "c"], n)})
    z = (frame["height"] - frame["height"].mean()) / frame["height"].std()
    effect = frame["group"].map({"a": -2.0, "b": 0.0, "c": 2.0})
    frame["weight"] = 70 + 5 * z + effect + rng.normal(0, 1.5, n)
    model = bl.Model(
        name="line",
        data={"rows": "person", "derive": {"z": "(height - mean(height)) / sd(height)"}},
        model=bl.Graph(
            nodes={
                "a[group]": "Normal(70, 20)",
                "b": "Normal(0, 20)",
                "sigma": "HalfNormal(10)",
                "weight[person]": "Normal(a[group] + b * z, sigma)",
            }
        ),
        inference={"draws": 1000, "tune": 500},
        seed=2,
    )
    return model, frame, bl.fit(model, frame, progress=False, runs=None)


def test_new_rows_are_read_as_in_the_fit(line):
    """Levels keep their codes and mean/sd their values: one row alone predicts as in the crowd."""
    _, frame, fit = line
    new = pd.DataFrame({"height": [170.0, 190.0], "group": ["c", "a"]})
    table = fit.predict(new)
    mean, sd = frame["height"].mean(), frame["height"].std()
    draws = fit.posterior
    for row, (height, level) in enumerate([(170.0, "c"), (190.0, "a")]):
        exact = float((draws["a"].sel(group=level) + draws["b"] * (height - mean) / sd).mean())
        spread = float(draws["sigma"].mean())
        assert table.loc[row, "mean"] == pytest.approx(exact, abs=4 * spread / np.sqrt(4000))
        assert table.loc[row, "sd"] == pytest.approx(spread, rel=0.1)
    single = fit.predict(new.iloc[1:])
    assert single.loc[0, "mean"] == pytest.approx(table.loc[1, "mean"], abs=6 * 1.6 / np.sqrt(4000))


def test_predictions_cover_new_data(line):
    _, frame, fit = line
    table = fit.predict(frame.drop(columns="weight"), ci_prob=0.8)
    inside = (table["eti80_lb"] < frame["weight"]) & (frame["weight"] < table["eti80_ub"])
    assert abs(inside.mean() - 0.8) < 4 * np.sqrt(0.8 * 0.2 / len(frame))


def test_predictions_come_back_in_the_callers_kind(line):
    _, _, fit = line
    new = {"height": [170.0], "group": ["b"]}
    assert isinstance(fit.predict(pl.DataFrame(new)), pl.DataFrame)
    assert isinstance(fit.predict(pd.DataFrame(new)), pd.DataFrame)
    assert fit.predict(new, kind="draws")["weight"].dims == ("chain", "draw", "person")


def test_an_unseen_level_is_an_error_with_its_row(line):
    _, _, fit = line
    with refused("data.unknown-level", "'group'.*row 2.*'d'"):
        fit.predict({"height": [170.0, 171.0], "group": ["a", "d"]})


def test_a_missing_column_of_levels_is_named():
    nodes = {"a[group]": "Normal(0, 1)", "y[obs_id]": "Normal(a[group], 1)"}
    data = {"group": ["a", "b", "a"], "y": [0.1, 1.0, 0.2]}
    fit = bl.fit(bl.Model(model=bl.Graph(nodes=nodes), seed=1), data, progress=False, runs=None)
    assert len(fit.predict({"group": ["b"]})) == 1
    with refused("data.unknown-column", "'group'"):
        fit.predict({"y": [0.0, 0.0]})


def test_a_missing_predictor_is_named(line):
    _, _, fit = line
    with refused("model.unknown-column", "'z'", where="model.nodes.weight[person]"):
        fit.predict({"group": ["a"]})


@pytest.mark.slow(why="statistical")
def test_probabilities_of_a_discrete_outcome():
    rng = np.random.default_rng(0)
    x = rng.normal(size=400)
    y = rng.random(400) < 1 / (1 + np.exp(-(0.5 + 1.5 * x)))
    model = bl.Model(
        model=bl.Graph(nodes={"a": "Normal(0, 2)", "b": "Normal(0, 2)", "y[obs_id]": "Bernoulli(logit_p=a + b * x)"}),
        seed=1,
    )
    fit = bl.fit(model, {"x": x, "y": y}, progress=False, runs=None)
    table = fit.predict({"x": [0.0, 2.0]}, kind="probabilities")
    draws = fit.posterior
    for row, value in enumerate((0.0, 2.0)):
        exact = float((1 / (1 + np.exp(-(draws["a"] + draws["b"] * value)))).mean())
        assert table.loc[row, "P(y=1)"] == pytest.approx(exact, abs=4 * np.sqrt(0.25 / 4000))
        assert table.loc[row, "P(y=0)"] + table.loc[row, "P(y=1)"] == pytest.approx(1.0)


@pytest.mark.slow(why="compiles")
def test_what_depends_on_a_recovered_node_comes_back_with_it():
    """A mixture with its memberships summed out: the count of a cluster follows the memberships."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 40)
    y = np.where(truth == 1, 3.0, -3.0) + rng.normal(size=40)
    model = bl.Model(
        dims={"k": 2},
        model=bl.Graph(
            nodes={
                "p[k]": "Dirichlet(2)",
                "mu[k]": "Ordered(Normal(0, 5))",
                "z[obs_id]": "Categorical(p)",
                "n_high": "sum(z)",
                "y[obs_id]": "Normal(mu[z], 1)",
            }
        ),
        seed=1,
    )
    fit = bl.fit(model, {"y": y}, progress=False, runs=None)
    z = fit.posterior["z"].values
    np.testing.assert_array_equal(fit.posterior["n_high"].values, z.sum(axis=-1))
    # The clusters are six standard deviations apart: memberships are all but known.
    np.testing.assert_array_equal(np.round(z.mean(axis=(0, 1))), truth)
    # The likelihood of a row has its membership summed out.
    weights, means = fit.posterior["p"].values[0, :3], fit.posterior["mu"].values[0, :3]
    terms = weights[:, None] * np.exp(-0.5 * (y[:, None] - means[:, None]) ** 2) / np.sqrt(2 * np.pi)
    found = fit.log_likelihood()["y"].values[0, :3]
    np.testing.assert_allclose(found, np.log(terms.sum(axis=-1)), rtol=1e-9)
    assert fit.data_tree["observed_data"]["y"].dims == ("obs_id",)


def test_options_are_checked():
    with refused("option.unknown-option", "'draws'", where="inference.drawz"):
        bl.fit(schools(), SCHOOLS, runs=None, drawz=10)
    with refused("option.unknown-word", "'nutz'.*'nuts'"):
        bl.fit(schools(), SCHOOLS, "nutz", runs=None)
    with refused("option.out-of-range", where="inference.chains"):
        bl.fit(schools(), SCHOOLS, runs=None, chains=0)


def test_a_failed_fit_leaves_earlier_runs_alone(tmp_path):
    fit = bl.fit(schools(), SCHOOLS, progress=False, runs=tmp_path, chains=1)
    before = {p: p.read_bytes() for p in fit.folder.rglob("*") if p.is_file()}
    with pytest.raises(bl.BayeslabError):
        bl.fit(schools(), SCHOOLS | {"se": [-1.0] * 8}, progress=False, runs=tmp_path)
    assert before == {p: p.read_bytes() for p in fit.folder.rglob("*") if p.is_file()}


def test_a_model_changed_afterwards_does_not_change_its_fit():
    model = bl.Model(
        model={
            "family": "graph",
            "nodes": {"a": "Normal(0, 10)", "mu[obs_id]": "a + 2*x", "y[obs_id]": "Normal(mu, 1)"},
        }
    )
    fit = bl.fit(model, {"x": [0.0, 1.0, 2.0], "y": [1.0, 3.0, 5.0]}, seed=1, progress=False, runs=None)
    before = fit.predict({"x": [3.0]}, seed=1)
    model.model.nodes["mu[obs_id]"] = "a - 2*x"
    assert fit.predict({"x": [3.0]}, seed=1).equals(before)
    assert fit.model.model.nodes["mu[obs_id]"] == "a + 2*x"


def test_stray_cells_of_a_column_that_is_not_used_are_no_matter():
    table = {"m": ["?", "1", "2", "-9", "3.0"], "y": [1.0, 2.0, 3.0, 4.0, 5.0]}
    model = bl.Model(model={"family": "graph", "nodes": {"a": "Normal(0, 10)", "y[obs_id]": "Normal(a, 1)"}})
    assert "m" not in bl.fit(model, table, runs=None, progress=False).data_tree["observed_data"]


@pytest.mark.parametrize(
    "model", [bl.Regression(formula="y ~ x"), bl.Mixture(columns=["y"], components=2, component="gaussian")]
)
def test_a_fit_can_be_pickled_with_all_that_it_answers(model):
    table = pd.DataFrame({"x": [1.0, 2.0, 3.0, 4.0, 5.0], "y": [1.0, 2.2, 2.9, 4.1, 4.8]})
    method = "exact" if model.family == "regression" else "em"
    fit = bl.fit(bl.Model(model=model), table, method, seed=1, progress=False, runs=None)
    again = pickle.loads(pickle.dumps(fit))
    assert again.summary().equals(fit.summary())
    assert again.predict(table.head(2)).equals(fit.predict(table.head(2)))
