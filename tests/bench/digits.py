"""Real handwritten digits: error, time, memory and rejections of each learner, as in the table of the source.

    python tests/bench/digits.py [WORD ...]

Without words all rows. The images are the 10,000 of the MNIST test set, 8,000 to learn from and 2,000 to be tested on,
in the folder that ``BAYESLAB_MNIST`` names, else ``../shared/data/mnist`` beside the project; where there are none,
scikit-learn's 1,797 digits of 8 × 8 pixels (1,400 and 397). Seconds are of the processor, on one thread.
"""

from __future__ import annotations

import gzip
import itertools
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[_name] = "1"

import numpy as np  # noqa: E402

from bayeslab import registry  # noqa: E402
from bayeslab.decisions.rejection import margin, share_rejected  # noqa: E402

# Error %, and % rejected for 0.5 % error, as textbooks print them for 60,000 digits to learn from.
PRINTED = {
    "3-NN": (2.4, 8.1), "300 hidden": (1.6, 3.2), "LeNet": (0.9, 1.8), "boosted LeNet": (0.7, 0.5), "SVM": (1.1, 1.8),
    "virtual SVM": (0.56, None), "shape matching": (0.63, None),
}  # fmt: skip

TRAINED: list[Any] = []
"""Rows and classes that the row of the table was trained on."""

Split = tuple[tuple[Any, Any], tuple[Any, Any]]


def digits() -> tuple[str, Split]:
    """What the images are, and the two parts of them."""
    beside = Path(__file__).parents[3] / "shared" / "data" / "mnist"
    folder = Path(os.environ.get("BAYESLAB_MNIST", beside))
    if (folder / "t10k-images-idx3-ubyte.gz").exists():
        raw = gzip.decompress((folder / "t10k-images-idx3-ubyte.gz").read_bytes())
        x = np.frombuffer(raw, np.uint8, offset=16).reshape(-1, 784) / 255
        y = np.frombuffer(gzip.decompress((folder / "t10k-labels-idx1-ubyte.gz").read_bytes()), np.uint8, offset=8)
        name, n = "MNIST, 28 x 28 pixels", 8000
    else:
        from sklearn.datasets import load_digits

        x, y = load_digits(return_X_y=True)
        x, name, n = x / 16, "scikit-learn's, 8 x 8 pixels", 1400
    order = np.random.default_rng(0).permutation(len(x))
    a, b = order[:n], order[n:]
    return name, ((x[a], y[a].astype(int)), (x[b], y[b].astype(int)))


def made(word: str, **options: Any) -> Callable[[], Any]:
    """The learner of a word, not trained."""

    def build() -> Any:
        module = registry.load("learners", word)
        estimator = module.build(module.Options(**options), "classification", ())
        return estimator.set_params(random_state=0) if "random_state" in estimator.get_params() else estimator

    return build


def confidence(estimator: Any, said: Any, x: Any) -> Any:
    """How sure of each answer: how much nearer its class is, or its lead; None of shapes."""
    if hasattr(estimator, "shapes_"):
        return None
    if hasattr(estimator, "n_neighbors"):
        return _nearer(estimator, said, x)
    if hasattr(estimator, "predict_proba"):
        return margin(estimator.predict_proba(x))
    if hasattr(estimator, "solver_"):
        return _least_lead(estimator, said, x)
    return margin(estimator.decision_function(x))


def _nearer(estimator: Any, said: Any, x: Any) -> Any:
    """How much farther the nearest row of another class is than the nearest of this one."""
    rows, targets = TRAINED
    apart = np.sqrt(np.maximum((x**2).sum(axis=1)[:, None] - 2 * x @ rows.T + (rows**2).sum(axis=1), 0))
    own = targets == said[:, None]
    return np.where(own, np.inf, apart).min(axis=1) - np.where(own, apart, np.inf).min(axis=1)


def _least_lead(estimator: Any, said: Any, x: Any) -> Any:
    """The least of the decisions between the class and each other one."""
    estimator.solver_.set_params(decision_function_shape="ovo", break_ties=False)
    pairs = estimator.decision_function(x)
    k = len(estimator.classes_)
    at = np.searchsorted(estimator.classes_, said)
    lead = np.full(len(x), np.inf)
    for column, (i, j) in enumerate(itertools.combinations(range(k), 2)):
        lead = np.where(at == i, np.minimum(lead, pairs[:, column]), lead)
        lead = np.where(at == j, np.minimum(lead, -pairs[:, column]), lead)
    return lead


def bytes_of(estimator: Any, x: Any) -> int:
    """What has to be kept, with a byte a pixel and four for any other number."""
    if hasattr(estimator, "network_"):
        return 4 * len(estimator.network_.values)
    if hasattr(estimator, "weights_"):
        return 4 * len(estimator.weights_)
    if hasattr(estimator, "sets_"):
        return sum(4 * len(net.weights_) for net in estimator.estimators_)
    machine = getattr(estimator, "solver_", estimator)
    if hasattr(machine, "support_vectors_"):
        return int(machine.support_vectors_.size + 4 * np.size(machine.dual_coef_))
    return int(x.size)


ROWS: dict[str, Callable[[], Any]] = {
    "3-NN": made("knn", n_neighbors=3, weights="distance", algorithm="brute"),
    "300 hidden": made("neural_network", hidden_layer_sizes=[300], batch_size=100, max_iter=30),
    "LeNet": made("convolutional", max_iter=40),
    "SVM": made("svm", kernel="rbf", C=10.0),
    "boosted LeNet": made("convolutional", boosted=True, max_iter=40),
    "virtual SVM": made("virtual_svm"),
    "shape matching": made("shape_context"),
}
FEWER = {"shape matching": (8000, 300)}
"""It takes long: fewer images to be tested on."""


def row(name: str, split: Split) -> str:
    """Train, test, and a line of the table."""
    (x, y), (new, truth) = split
    n, m = FEWER.get(name, (len(x), len(new)))
    x, y, new, truth = x[:n], y[:n], new[:m], truth[:m]
    estimator = ROWS[name]()
    begun = time.process_time()
    estimator.fit(x, y)
    trained = time.process_time() - begun
    begun = time.process_time()
    said = estimator.predict(new)
    asked = time.process_time() - begun
    wrong = said != truth
    TRAINED[:] = [x, y]
    kept = bytes_of(estimator, x)
    size = f"{kept / 1e6:.3f}"
    error, rejected = PRINTED[name]
    printed = f"{error:>10}{'' if rejected is None else rejected:>10}"
    sure = confidence(estimator, said, new)
    rejects = "" if sure is None else f"{100 * share_rejected(sure, wrong):.2f}"
    return (
        f"{name:<16}{100 * wrong.mean():>8.2f}{1000 * asked / m:>10.3f}{size:>10}{trained:>10.1f}{rejects:>10}"
        f"{printed}   {f'of {n:,} and {m:,}' if name in FEWER else ''}"
    )


def main() -> None:
    what, split = digits()
    (x, _), (new, _) = split
    print(f"{what}: {len(x):,} to learn from, {len(new):,} to be tested on")
    print(
        f"{'':16}{'error %':>8}{'ms/digit':>10}{'MB':>10}{'train s':>10}{'reject %':>10}{'(printed':>10}{'reject)':>10}"
    )
    for name in ROWS:
        if sys.argv[1:] and not any(word in name for word in sys.argv[1:]):
            continue
        print(row(name, split), flush=True)


if __name__ == "__main__":
    main()
