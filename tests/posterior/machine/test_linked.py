"""Machine code in files: loaded without numba, written again when damaged, the same in every process."""

from __future__ import annotations

import subprocess
import sys

import pytest

from bayeslab.posterior.machine import linked

PROGRAM = """
import sys
import numpy as np
from bayeslab.posterior.machine.program import Builder
builder = Builder()
x = builder.parameter(30)
builder.density("normal", np.arange(300.0) % 7, x[np.arange(300) % 30], builder.elementwise("exp", x[0]))
value, gradient = builder.finish().value_and_gradient(np.linspace(-1, 1, 30))
print(value.hex(), gradient.tobytes().hex(), "numba" in sys.modules)
"""


def run() -> list[str]:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.mark.slow(why="processes")
def test_a_process_loads_what_another_compiled() -> None:
    first, second = run(), run()
    assert first[:2] == second[:2]
    assert second[2] == "False"


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("damage", ["cut", "changed", "empty"])
def test_a_damaged_file_is_written_again(damage: str) -> None:
    group = "density exponential sum ss"
    linked.load([group])
    file = linked._file(group)
    whole = file.read_bytes()
    parts = {"cut": whole[: len(whole) // 2], "changed": whole[:-9] + b"\0" * 9, "empty": b""}
    file.write_bytes(parts[damage])
    assert linked._stored(group) is None
    linked._engines.pop(group)
    linked.load([group])
    assert linked._stored(group) is not None
    assert not list(file.parent.glob("*.part"))


def test_a_kernel_that_does_not_exist() -> None:
    with pytest.raises(KeyError):
        linked.address("operation exp", "nothing")
