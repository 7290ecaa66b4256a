"""The table of digits, on scikit-learn's small ones."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from bayeslab.learners.toolbox.layers import n_weights

FILE = Path(__file__).parents[1] / "bench" / "digits.py"


@pytest.fixture(scope="module")
def table():
    spec = importlib.util.spec_from_file_location("digits_table", FILE)
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
            patch.setenv(name, "1")
        spec.loader.exec_module(module)
    return module


@pytest.mark.slow(why="large")
def test_rows(table, monkeypatch):
    """digit-compare, digit-reject: error, time, memory and rejections of real digits, next to the printed (F27)."""
    monkeypatch.setenv("BAYESLAB_MNIST", "/nowhere")
    name, split = table.digits()
    assert "8 x 8" in name
    found = {}
    for row in ("3-NN", "300 hidden", "SVM"):
        error, milliseconds, megabytes, seconds, rejected, *printed = map(float, table.row(row, split)[16:].split())
        assert tuple(printed) == table.PRINTED[row]
        assert 0 < error < 5
        assert 0 < rejected < 30
        assert milliseconds > 0
        found[row] = (error, megabytes, seconds)
    assert found["3-NN"][1] == pytest.approx(1400 * 64 / 1e6, abs=1e-3)
    assert found["300 hidden"][1] == pytest.approx(4 * n_weights((64, 300, 10)) / 1e6, abs=1e-3)
    assert found["3-NN"][2] < found["300 hidden"][2]


def test_printed_table(table):
    """digit-compare (F27, F25): the printed order of errors, and 0.49 MB as four bytes for each of 123,300 weights."""
    errors = {row: printed[0] for row, printed in table.PRINTED.items()}
    assert sorted(errors, key=errors.get) == [
        "virtual SVM", "shape matching", "boosted LeNet", "LeNet", "SVM", "300 hidden", "3-NN",
    ]  # fmt: skip
    assert round(4 * n_weights((400, 300, 10), output_bias=False) / 1e6, 2) == 0.49
