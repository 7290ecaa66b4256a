"""Learners whose solver is scikit-learn's: a whole fit and its predictions against scikit-learn alone, in one run.

Both sides standardise the inputs where the learner needs it and make probabilities in the same way; ours also reads
and encodes the table, and gives predictions as a table. Asked: at most 1.2 times the time.
"""

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[_name] = "1"

import time  # noqa: E402
from typing import Any  # noqa: E402

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402
from sklearn.calibration import CalibratedClassifierCV  # noqa: E402
from sklearn.compose import TransformedTargetRegressor  # noqa: E402
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor  # noqa: E402
from sklearn.linear_model import Lasso, LogisticRegression, Ridge  # noqa: E402
from sklearn.model_selection import StratifiedKFold  # noqa: E402
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402
from sklearn.svm import SVC, SVR  # noqa: E402

import bayeslab as bl  # noqa: E402


def table(n: int, d: int, classes: bool) -> pd.DataFrame:
    """Rows of normal inputs; the target bends in two of them."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, d))
    score = x @ rng.normal(size=d) + 2 * x[:, 0] * x[:, 1] + rng.normal(size=n)
    out = pd.DataFrame(x, columns=[f"x{j}" for j in range(d)])
    return out.assign(y=np.where(score > 0, "up", "down") if classes else score)


def platt(estimator: Any) -> Any:
    """The scores of rows left out calibrated, the machine trained on all rows."""
    return CalibratedClassifierCV(estimator, cv=StratifiedKFold(5, shuffle=True, random_state=0), ensemble=False)


def compare(what: str, options: dict[str, Any], peer: Any, n: int, d: int, *, classes: bool = True) -> None:
    """One line: seconds of the processor for fit and predictions of a quarter more rows, and how good they are."""
    rows = table(n + n // 4, d, classes)
    known, new = rows[:n], rows[n:]
    model = bl.Model(model={"family": "learner", "target": "y", **options})
    begun = time.process_time()
    said = bl.fit(model, known, "train", folds=0, seed=0, runs=None, progress=False).predict(new)
    ours = time.process_time() - begun
    begun = time.process_time()
    peer.fit(known.drop(columns="y").to_numpy(), known["y"].to_numpy())
    inputs = new.drop(columns="y").to_numpy()
    answers = peer.predict_proba(inputs) if classes else peer.predict(inputs)
    theirs = time.process_time() - begun
    truth = new["y"].to_numpy()
    if classes:
        ours_right, theirs_right = (
            np.mean(np.array(["down", "up"])[p.argmax(axis=1)] == truth)
            for p in (said[["P(y=down)", "P(y=up)"]].to_numpy(), answers)
        )
        quality = "accuracy", ours_right, theirs_right
    else:
        quality = "rmse", rmse(said["mean"].to_numpy(), truth), rmse(answers, truth)
    note = f"{quality[0]} {quality[1]:.4f} / {quality[2]:.4f}"
    print(f"{what:<50}{ours:>9.2f}{theirs:>11.2f}{ours / theirs:>8.2f}   {note}", flush=True)


def rmse(said: np.ndarray, truth: np.ndarray) -> float:
    return float(np.sqrt(np.mean((said - truth) ** 2)))


def main() -> None:
    """Every learner that scikit-learn solves."""
    compare("warming up", {"learner": "knn"}, KNeighborsClassifier(5), 500, 4)
    print(f"{'':50}{'ours, s':>9}{'theirs, s':>11}{'ratio':>8}")
    scaled = StandardScaler
    compare("knn, 40,000 × 6", {"learner": "knn"}, make_pipeline(scaled(), KNeighborsClassifier(5)), 40_000, 6)
    numbers = make_pipeline(scaled(), KNeighborsRegressor(5))
    compare("knn of numbers, 40,000 × 6", {"learner": "knn"}, numbers, 40_000, 6, classes=False)
    compare("svm with Platt, 6,000 × 10", {"learner": "svm"}, platt(make_pipeline(scaled(), SVC())), 6_000, 10)
    machine = TransformedTargetRegressor(make_pipeline(scaled(), SVR()), transformer=scaled())
    compare("svm of numbers, 8,000 × 10", {"learner": "svm"}, machine, 8_000, 10, classes=False)
    options = {"learner": "linear", "penalty": "ridge", "alpha": 1.0}
    compare("ridge, 400,000 × 40", options, make_pipeline(scaled(), Ridge(1.0)), 400_000, 40, classes=False)
    options = {"learner": "linear", "penalty": "lasso", "alpha": 0.05}
    compare("lasso, 400,000 × 40", options, make_pipeline(scaled(), Lasso(0.05)), 400_000, 40, classes=False)
    compare(
        "logistic, 400,000 × 40", {"learner": "logistic"}, make_pipeline(scaled(), LogisticRegression()), 400_000, 40
    )
    trees = {"learner": "random_forest", "n_estimators": 100}
    forest = RandomForestClassifier(100, random_state=0)
    compare("random forest, 20,000 × 10", trees, forest, 20_000, 10)
    regressor = RandomForestRegressor(100, max_features=1 / 3, random_state=0)
    compare("random forest of numbers, 10,000 × 10", trees, regressor, 10_000, 10, classes=False)


if __name__ == "__main__":
    main()
    print("seconds of the processor, one thread; ratios are ours / theirs: small is good")
