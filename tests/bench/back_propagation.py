"""Back-propagation against scikit-learn's MLP: equal nets, equal passes and batches, one thread each, in one run."""

from __future__ import annotations

import os
import time
import warnings
from typing import Any

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[_name] = "1"

import numpy as np  # noqa: E402
from sklearn.datasets import load_digits  # noqa: E402
from sklearn.neural_network import MLPClassifier  # noqa: E402

from bayeslab.learners.neural_network import NeuralNetworkClassifier  # noqa: E402

warnings.filterwarnings("ignore")

Case = tuple[str, Any, Any, dict[str, Any]]


def cases() -> list[Case]:
    """What, rows, classes, options."""
    x, y = load_digits(return_X_y=True)
    x = x / 16
    rng = np.random.default_rng(0)
    wide, ten = rng.random((8000, 784)), rng.integers(10, size=8000)
    once = {"solver": "sgd", "batch_size": 1, "learning_rate_init": 0.01}
    return [
        ("64-100-10, batches of 200", x, y, {"hidden_layer_sizes": (100,), "max_iter": 20, "batch_size": 200}),
        ("64-64-64-32-10, tanh", x, y, {"hidden_layer_sizes": (64, 64, 32), "max_iter": 20, "activation": "tanh"}),
        ("64-30-10, row by row", x, y, {"hidden_layer_sizes": (30,), "max_iter": 3, **once}),
        ("784-300-10, 8,000 rows", wide, ten, {"hidden_layer_sizes": (300,), "max_iter": 3, "batch_size": 200}),
    ]


def seconds(kind: Any, x: Any, y: Any, options: dict[str, Any]) -> tuple[float, float]:
    """Of the processor, the least of three; and the last loss."""
    best, last = np.inf, np.nan
    for seed in range(3):
        net = kind(**({"batch_size": 64} | options), tol=0, n_iter_no_change=10**6, random_state=seed)
        begun = time.process_time()
        net.fit(x, y)
        best, last = min(best, time.process_time() - begun), net.loss_curve_[-1]
    return best, last


def main() -> None:
    x, y = load_digits(return_X_y=True)
    for solver in ("adam", "sgd"):
        NeuralNetworkClassifier((2,), max_iter=1, solver=solver).fit(x, y)
    print(f"{'':32}{'ours, s':>10}{'theirs, s':>12}{'ratio':>8}{'losses':>18}")
    for what, rows, classes, options in cases():
        ours, one = seconds(NeuralNetworkClassifier, rows, classes, options)
        theirs, other = seconds(MLPClassifier, rows, classes, options)
        print(f"{what:<32}{ours:>10.3f}{theirs:>12.3f}{theirs / ours:>8.2f}{one:>10.4f}{other:>8.4f}", flush=True)


if __name__ == "__main__":
    main()
