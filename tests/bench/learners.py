"""Classical learners against scikit-learn, brute force and plain Python, one thread each, in one run.

Give words to run parts only: ``lsh boosting tree perceptron``.
"""

from __future__ import annotations

import os
import sys

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[_name] = "1"

import time  # noqa: E402
from collections.abc import Callable  # noqa: E402
from typing import Any  # noqa: E402

import _lsh_case  # noqa: E402
import _tree_case  # noqa: E402
import numpy as np  # noqa: E402


def lsh(n: int = 1_000_000, n_queries: int = 500) -> None:
    """10⁶ × 64: recall of at least 0.9 at ten times the speed of brute force or more."""
    for make in (_lsh_case.planted, _lsh_case.clustered):
        rng = np.random.default_rng(0)
        case = make(n, n_queries, rng)
        found = _lsh_case.measured(case, rng)
        note = f"recall {found.recall:.3f}, {found.examined:.0f} candidates, {found.tables} tables"
        line(
            f"lsh, {n:,} × 64, {case[0]}",
            found.ours,
            found.brute,
            f"brute force ({note}, built in {found.built:.1f} s)",
        )
        assert found.recall >= 0.9, found


def timed(work: Callable[[], Any], repeats: int = 1) -> tuple[float, Any]:
    """Least CPU seconds, and what came out."""
    best, made = np.inf, None
    for _ in range(repeats):
        begun = time.process_time()
        made = work()
        best = min(best, time.process_time() - begun)
    return float(best), made


def boosting(n: int = 100_000, d: int = 20, rounds: int = 100) -> None:
    """AdaBoost of stumps: a third of scikit-learn's time or less, as good on other rows."""
    from sklearn.ensemble import AdaBoostClassifier

    from bayeslab.learners.adaboost import AdaBoost

    rng = np.random.default_rng(0)
    x = rng.normal(size=(n + 20_000, d))
    y = x[:, :8] @ rng.normal(size=8) + x[:, 8] * x[:, 9] + rng.normal(size=len(x)) > 0
    AdaBoost(n_estimators=2).fit(x[:500], y[:500])  # compiled
    ours, own = timed(lambda: AdaBoost(n_estimators=rounds).fit(x[:n], y[:n]))
    theirs, peer = timed(lambda: AdaBoostClassifier(n_estimators=rounds).fit(x[:n], y[:n]))
    scores = f"accuracy {own.score(x[n:], y[n:]):.4f} / {peer.score(x[n:], y[n:]):.4f}"
    line(f"AdaBoost of stumps, {n:,} × {d}, {rounds} rounds", ours, theirs, f"scikit-learn ({scores})")


def tree(n: int = 20_000, d: int = 12) -> None:
    """A multiway tree: five times the speed of a plain-Python twin or more, the same answers."""
    from bayeslab.learners.decision_tree import MultiwayTree

    rng = np.random.default_rng(1)
    x = rng.integers(4, size=(n, d)).astype(float)
    y = (x[:, 0] == 1) ^ (x[:, 1] + x[:, 2] > 3) ^ (rng.random(n) < 0.1)
    columns = tuple(range(d))
    MultiwayTree(columns).fit(x[:100], y[:100])  # compiled
    ours, own = timed(lambda: MultiwayTree(columns).fit(x, y), 2)
    rows, labels = x.astype(int).tolist(), y.tolist()
    theirs, plain = timed(lambda: _tree_case.PlainTree([4] * d).fit(rows, labels))
    said = np.array([plain.predict_one(row) for row in rows[:2000]])
    same = np.mean(said == own.predict(x[:2000]))
    line(f"multiway tree, {n:,} × {d}, {own.n_nodes_:,} nodes", ours, theirs, f"plain Python ({same:.4f} the same)")


def perceptron(n: int = 4000, passes: int = 5) -> None:
    """A kernel perceptron against the same passes with each score summed anew by NumPy."""
    from bayeslab.learners.kernel_perceptron import KernelPerceptron

    rng = np.random.default_rng(2)
    x = rng.normal(size=(n, 10))
    y = (x**2).sum(axis=1) > 9.3
    gram = np.exp(-0.1 * ((x[:, None] - x) ** 2).sum(axis=2))
    made = KernelPerceptron(kernel="precomputed", max_iter=passes, averaged=False, random_state=0)
    made.fit(gram[:50, :50], y[:50])  # compiled
    ours, own = timed(lambda: made.fit(gram, y), 2)
    draws = np.random.RandomState(0)
    orders = [draws.permutation(n) for _ in range(passes)]
    side = np.where(y, 1.0, -1.0)
    theirs, counts = timed(lambda: _tree_case.plain_kernel_perceptron(gram, side, orders))
    assert np.array_equal(own.support_, np.flatnonzero(counts))
    line(f"kernel perceptron, {n:,} rows, {passes} passes", ours, theirs, "NumPy, row by row (the same weights)")


def line(what: str, ours: float, theirs: float, peer: str) -> None:
    print(f"{what:<56}{1e3 * ours:>10.3f}{1e3 * theirs:>12.3f}{theirs / ours:>9.1f}   {peer}", flush=True)


if __name__ == "__main__":
    print(f"{'':56}{'ours, ms':>10}{'theirs, ms':>12}{'ratio':>9}")
    parts = {"lsh": lsh, "boosting": boosting, "tree": tree, "perceptron": perceptron}
    for word in sys.argv[1:] or list(parts):
        parts[word]()
    print("milliseconds of the processor, one thread; ratios are theirs / ours: large is good")
