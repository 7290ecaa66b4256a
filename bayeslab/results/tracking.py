"""Records of fits in an experiment tracker: MLflow."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeslab.errors import BayeslabError, OptionError
from bayeslab.plots.svg import shorten
from bayeslab.results.fitted import log_evidence

if TYPE_CHECKING:
    from bayeslab.results.fit import Fit

__all__ = ["check_tracker", "log_to_mlflow"]

# Maximum length of a parameter in MLflow.
_LONGEST = 6_000


def check_tracker(name: str | None) -> None:
    """Check the name of a tracker, that its package is installed and that its store answers, before any work.

    Raises
    ------
    OptionError
        The tracker is unknown.
    BayeslabError
        The package is not installed, or its store cannot be used.
    """
    if name is None:
        return
    if name != "mlflow":
        raise OptionError(f"log_to is mlflow or None, not {name!r}", code="unknown-word")
    try:
        import mlflow
    except ImportError:
        raise BayeslabError(
            "log_to='mlflow' needs MLflow: pip install 'bayeslab[mlflow]'", code="not-installed"
        ) from None
    try:
        mlflow.MlflowClient().search_experiments(max_results=1)
    except mlflow.MlflowException as error:
        reason = " ".join(str(error).split())
        raise BayeslabError(
            f"the store of MLflow at {mlflow.get_tracking_uri()} cannot be used: {shorten(reason, 200)}; the variable"
            " MLFLOW_TRACKING_URI names another",
            code="cannot-write",
        ) from None


def log_to_mlflow(fit: Fit) -> str:
    """Write a fit into the store of MLflow; the identifier of MLflow's run.

    Parameters of the run are the model, the method, the seed and the options; metrics are the verdict as numbers, the
    largest R-hat, the smallest effective sample sizes, the log evidence and the seconds of each phase; tags are the
    verdict and the digest of the model. Artifacts are the report, the summary as CSV, the model file, and the run
    folder if there is one. An active run of MLflow is used, else a new one of the model's name.

    Examples
    --------
    >>> import bayeslab as bl
    >>> bl.fit("models/trees.yaml", log_to="mlflow", runs=None)  # doctest: +SKIP
    """
    import mlflow

    active = mlflow.active_run()
    run = active or mlflow.start_run(run_name=fit.model.name)
    try:
        mlflow.log_params({name: str(value)[:_LONGEST] for name, value in _parameters(fit).items()})
        mlflow.log_metrics(_metrics(fit))
        mlflow.set_tags({"bayeslab.verdict": fit.verdict.status, "bayeslab.digest": fit.model.digest()})
        mlflow.log_text(fit.report().html, "report.html")
        mlflow.log_text(fit.summary().to_csv(), "summary.csv")
        mlflow.log_dict(fit.model.to_dict(), "model.yaml")
        if fit.folder is not None:
            mlflow.log_artifacts(str(fit.folder), "run")
    finally:
        if active is None:
            mlflow.end_run()
    return str(run.info.run_id)


def _parameters(fit: Fit) -> dict[str, Any]:
    content = {"model": fit.model.name, "family": fit.model.model.family, "method": fit.method, "seed": fit.seed}
    return content | {f"option.{name}": value for name, value in fit.info.get("options", {}).items()}


def _metrics(fit: Fit) -> dict[str, float]:
    """Finite numbers by the names that MLflow allows."""
    statuses = [finding.status for finding in fit.verdict.findings]
    out = {f"findings_{status}": float(statuses.count(status)) for status in ("pass", "warn", "fail")}
    out |= {f"seconds_{name}": float(value) for name, value in fit.timings.items()}
    table = fit.summary()
    for column, name, extreme in (
        ("r_hat", "r_hat_max", np.nanmax),
        ("ess_bulk", "ess_bulk_min", np.nanmin),
        ("ess_tail", "ess_tail_min", np.nanmin),
    ):
        values = table[column].to_numpy(float) if column in table else np.zeros(0)
        if np.isfinite(values).any():
            out[name] = float(extreme(values))
    out["log_evidence"] = log_evidence(fit)
    return {name: value for name, value in out.items() if math.isfinite(value)}
