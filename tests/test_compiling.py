"""Compiling is announced: in a terminal by a line that goes away, in a log by two lines, and never for cached code."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import time
from pathlib import Path
from typing import ClassVar

import pytest

from bayeslab.compiling import Clock, Stream

SLOW = """
import sys, time
import numba
from bayeslab import compiling
compiling.announce()
from numba.core import event
time.sleep(0.5)
with event.trigger_event("numba:compile"):
    with event.trigger_event("numba:compile"):
        time.sleep(0.5)
    time.sleep({seconds})
time.sleep(1.5)
print("answer")
"""


def ran(seconds: float, terminal: bool) -> tuple[str, str]:
    code = [sys.executable, "-c", SLOW.format(seconds=seconds)]
    if not terminal:
        done = subprocess.run(code, capture_output=True, text=True, check=True)
        return done.stdout, done.stderr
    outer, inner = pty.openpty()
    done = subprocess.run(code, stdout=subprocess.PIPE, stderr=inner, text=True, check=True)
    os.close(inner)
    return done.stdout, os.read(outer, 100_000).decode()


@pytest.mark.slow(why="processes")
def test_a_log_says_that_code_is_compiled():
    answer, words = ran(3.5, terminal=False)
    assert answer == "answer\n"
    first, last = words.splitlines()
    assert first == "compiling, once on this machine …" and last.startswith("compiled in ")


@pytest.mark.slow(why="processes")
def test_short_compiling_is_not_mentioned():
    assert ran(0.1, terminal=False) == ("answer\n", "")


@pytest.mark.slow(why="processes")
def test_a_terminal_shows_a_line_that_goes_away():
    words = ran(1.5, terminal=True)[1]
    assert "compiling, once on this machine … 1 s" in words
    assert words.endswith("\r\x1b[2K")


@pytest.mark.slow(why="notebook")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::DeprecationWarning")
def test_nothing_of_it_is_saved_in_a_notebook():
    import nbformat
    from nbclient import NotebookClient

    class Watching(NotebookClient):
        """Keeps the texts of all messages, those that later ones replace as well."""

        texts: ClassVar[list[str]] = []

        def process_message(self, msg, cell, cell_index):
            self.texts.append(str(msg["content"].get("data", {}).get("text/plain", msg["content"].get("text", ""))))
            return super().process_message(msg, cell, cell_index)

    # It ends with the cell that compiles, as it does where code is compiled for the last line of a cell.
    at_once = SLOW.format(seconds=2).replace("time.sleep(1.5)\n", "")
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(at_once)])
    client = Watching(book, timeout=100)
    client.execute()
    assert any("compiling, once on this machine … 1 s" in text for text in client.texts)
    outputs = book.cells[0].outputs
    assert "compil" not in "".join(str(output.get("text", output.get("data"))) for output in outputs)
    assert "answer" in "".join(output.get("text", "") for output in outputs)


@pytest.mark.slow(why="processes")
def test_small_questions_compile_nothing():
    """A network whose joint table is small is answered without numba."""
    code = """
import sys
import bayeslab as bl
net = bl.Model(model=bl.BayesNet(variables={"a": {"states": ["x", "y"], "table": 0.5},
                                            "b": {"states": ["u", "v"], "parents": ["a"], "table": {"x": 0.1, "y": 0.5}}}))
net = bl.network(net)
net.query({"b": "u"}), net.most_probable({"b": "u"}), net.joint(["b", "a"]), net._repr_html_()
print("numba" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


@pytest.mark.slow(why="statistical")
def test_a_check_of_a_net_with_hidden_variables_compiles_nothing():
    """Expected counts are for the fit; what can be wrong shows before."""
    code = f"""
import sys
import bayeslab as bl
bl.check({str(Path(__file__).parents[1] / "models" / "candy_hidden.yaml")!r})
print([name for name in ("numba", "pymc") if name in sys.modules])
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_clock_bridges_the_pauses_between_kernels():
    clock = Clock()
    clock.on_start(None)
    clock.on_end(None)
    time.sleep(0.05)
    assert clock.running() > 0
    clock.ended -= 1.0
    assert clock.running() == 0


@pytest.mark.parametrize("seconds", [4.0])
def test_words_for_a_log(seconds, capsys):
    log = Stream(sys.stdout)
    log.show(seconds, first=True)
    log.show(seconds, first=False)
    log.end(seconds)
    assert capsys.readouterr().out == "compiling, once on this machine …\ncompiled in 4 s\n"
