"""Fits in the store of MLflow."""

from __future__ import annotations

import importlib.util
import json

import numpy as np
import pytest

import bayeslab as bl
from bayeslab.errors import BayeslabError
from tests.refusals import refused

X = np.linspace(-1, 1, 30)
DATA = {"x": X, "y": 1 + 2 * X + np.random.default_rng(1).normal(size=30)}
MODEL = bl.Model(name="line", model=bl.Regression(formula="y ~ x"), seed=1)
needs_mlflow = pytest.mark.skipif(importlib.util.find_spec("mlflow") is None, reason="mlflow is not installed")


def test_an_unknown_tracker_is_refused_before_any_work(tmp_path):
    with refused("option.unknown-word", "log_to is mlflow or None, not 'wandb'"):
        bl.fit(MODEL, DATA, runs=tmp_path, log_to="wandb", progress=False)
    assert not list(tmp_path.iterdir())


def test_without_the_package(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "mlflow", None)
    with pytest.raises(BayeslabError, match=r"pip install 'bayeslab\[mlflow\]'") as caught:
        bl.fit(MODEL, DATA, runs=tmp_path, log_to="mlflow", progress=False)
    assert caught.value.code == "run.not-installed" and not list(tmp_path.iterdir())


@needs_mlflow
@pytest.mark.slow(why="processes")
@pytest.mark.filterwarnings("default")
def test_a_store_that_cannot_be_used_is_refused_before_the_fit(tmp_path):
    import mlflow

    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri("carrier-pigeon://loft")
    try:
        with refused("run.cannot-write", "carrier-pigeon://loft cannot be used"):
            bl.fit(MODEL, DATA, runs=tmp_path, log_to="mlflow", progress=False)
    finally:
        mlflow.set_tracking_uri(before)
    assert not list(tmp_path.iterdir())


@needs_mlflow
@pytest.mark.slow(why="processes")
@pytest.mark.filterwarnings("default")
def test_a_fit_in_the_store_of_mlflow(tmp_path, monkeypatch):
    import mlflow

    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "store").as_uri())
    fit = bl.fit(
        MODEL, DATA, "nuts", runs=tmp_path / "runs", log_to="mlflow", progress=False, draws=200, chains=2, cores=1
    )
    (run,) = mlflow.MlflowClient().search_runs(["0"])
    assert run.info.status == "FINISHED" and run.info.run_name == "line" and mlflow.active_run() is None
    wanted = {"model": "line", "family": "regression", "method": "nuts", "seed": "1", "option.draws": "200"}
    assert run.data.params.items() >= wanted.items()
    summary = fit.summary()
    assert run.data.metrics["r_hat_max"] == pytest.approx(summary["r_hat"].max())
    assert run.data.metrics["ess_bulk_min"] == pytest.approx(summary["ess_bulk"].min())
    assert run.data.metrics["findings_fail"] == 0
    assert run.data.tags["bayeslab.verdict"] == fit.verdict.status
    folder = tmp_path / "artifacts"
    mlflow.artifacts.download_artifacts(run_id=run.info.run_id, dst_path=str(folder))
    assert (folder / "report.html").read_text() == fit.report().html
    assert json.loads((folder / "run" / "run.json").read_text())["name"] == "line"
    assert (folder / "summary.csv").read_text().splitlines()[0].startswith(",mean,sd")
    assert (folder / "model.yaml").exists()
    # A run that is active is used, and stays so.
    with mlflow.start_run() as active:
        bl.fit(MODEL, DATA, "exact", runs=None, log_to="mlflow", progress=False)
        assert mlflow.active_run().info.run_id == active.info.run_id
    assert len(mlflow.MlflowClient().search_runs(["0"])) == 2
