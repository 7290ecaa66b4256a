"""What the README and the pages print is what a run prints.

Every page is followed from top to bottom, in one folder and one Python session: model files that it shows whole are written
down under their names, its Python is executed, its commands are run. Below them is what they print. These lines must be
lines of the output, in this order, word for word; a line of three points stands for lines that are left out, three
points at the end of a line for its rest. Numbers may differ by what Monte Carlo error, other processors and rounding do.
"""

from __future__ import annotations

import doctest
import re
import shlex
import subprocess
import traceback
from dataclasses import dataclass, field
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import bayeslab as bl
from bayeslab.cli import main
from tests.models.shipped import keep, shared_runs
from tests.printed import missing, same

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
# What marks a command that is shown for its form, and why it is not run here.
NOT_RUN = {
    "--detach": "a job that goes on in the background",
    "--watch": "waits for changes of the file (tests/cli/test_refits.py runs it)",
    "bayeslab watch ": "looks at that job",
    "bayeslab stop ": "ends that job",
    "runs/long": "goes on with that job",
    "--scheduler": "a cluster of machines",
    "tests/bench/": "images that are not shipped, and minutes",
}
# Snippets that are no program: what marks them, and why.
FORMS = {
    "class Coin": "the outline of a module",
}


def doubts(shown: list[str], printed: list[str]) -> list[str]:
    """Warnings and failures that a fit printed, where the page shows none."""
    words = ("WARN", "FAIL")
    if any(line.startswith(words) for line in shown):
        return []
    return [line for line in printed if line.startswith(words)]


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    language: str
    text: str

    def commands(self) -> list[tuple[str, list[str]]]:
        """Commands after a prompt, each with the lines shown below it."""
        found: list[tuple[str, list[str]]] = []
        for line in self.text.splitlines():
            if line.startswith("$ "):
                found.append((line[2:].split("  #")[0].rstrip(), []))
            else:
                found[-1][1].append(line)
        return found


def blocks(page: Path) -> list[Block]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)
    return [Block(language, text) for language, text in found]


@dataclass
class Reader:
    """Someone who does what a page says."""

    folder: Path
    capture: pytest.CaptureFixture[str]
    shared: Path | None = None  # where fits of shipped models are kept for other tests
    names: dict[str, object] = field(default_factory=lambda: {"bl": bl, "np": np, "pd": pd})
    wrong: list[str] = field(default_factory=list)

    def follow(self, page: Path) -> None:
        printed = None  # by the Python above the block
        for block in blocks(page):
            start = block.text[:4]
            if block.language == "yaml":
                self.write(block.text)
            elif block.language == "python":
                printed = self.python(block.text)
                continue
            elif block.language in ("text", "console", "") and start.startswith("$ "):
                for command, shown in block.commands():
                    self.command(command, shown)
            elif block.language in ("text", "") and start == ">>> ":
                for example in doctest.DocTestParser().get_examples(block.text):
                    self.python(example.source, example.want.splitlines())
            elif block.language in ("text", ""):
                if printed is None:
                    self.wrong.append(f"nothing above prints\n{block.text}")
                else:
                    self.compare("the Python above", block.text.splitlines(), printed)
            printed = None

    def write(self, text: str) -> None:
        name = re.search(r"^name: (.+)$", text, re.MULTILINE)
        if text.startswith("bayeslab: 1") and name:
            (self.folder / f"{name[1].strip()}.yaml").write_text(text)

    def command(self, command: str, shown: list[str]) -> None:
        if any(mark in command for mark in NOT_RUN):
            return
        words = shlex.split(command)
        if words[0] == "cat":  # how a page shows a file of its own
            (self.folder / words[1]).write_text("\n".join(shown) + "\n")
            return
        if words[0] != "bayeslab":
            done = subprocess.run(command, shell=True, cwd=self.folder, capture_output=True, text=True, check=False)
            self.compare(f"$ {command}", shown, done.stdout.splitlines(), done.stderr.splitlines())
            return
        if not any(line.strip() for line in shown):
            return
        with pytest.raises(SystemExit) as ended:
            main(words[1:])
        printed = self.printed()
        self.compare(f"$ {command}", shown, *printed)
        if words[1:2] == ["fit"] and words[2].endswith(".yaml") and "family: graph" in Path(words[2]).read_text():
            found = doubts(shown, [line for stream in printed for line in stream])
            self.wrong += [f"$ {command}\nthe page shows no doubt, and the verdict has: {line}" for line in found]
        shipped = re.fullmatch(r"bayeslab fit models/(\w+)\.yaml", command)
        if shipped and self.shared and not ended.value.code:
            keep(shipped[1], self.folder / "runs" / bl.load(f"models/{shipped[1]}.yaml").name, self.shared)
        fails = any(line.startswith(("error:", ' "error": {', "FAIL", "verdict     fail")) for line in shown)
        if (ended.value.code or 0) != 0 and not fails:
            self.wrong.append(f"$ {command}\nended with {ended.value.code}")

    def python(self, text: str, shown: list[str] | None = None) -> list[str] | None:
        """Lines that a piece of Python prints; with lines that are shown, of an interactive session."""
        if any(mark in text for mark in FORMS):
            return None
        try:
            exec(compile(text, "<page>", "exec" if shown is None else "single"), self.names)
        except Exception:  # noqa: BLE001 - whatever a page's Python raises is a fault of the page
            self.wrong.append(f"{text}\n{traceback.format_exc(limit=-2)}")
        plt.close("all")
        printed = self.printed()[0]
        if shown is not None:
            self.compare(f">>> {text}", shown, printed)
        return printed

    def printed(self) -> tuple[list[str], list[str]]:
        captured = self.capture.readouterr()
        return captured.out.splitlines(), captured.err.splitlines()

    def compare(self, what: str, shown: list[str], *streams: list[str]) -> None:
        if lost := missing(shown, *streams):
            self.wrong.append("\n".join([what, *lost, "--- printed", *(line for stream in streams for line in stream)]))


@pytest.mark.parametrize(
    ("shown", "found", "equal"),
    [
        ("tau   0.181  0.070", "tau  0.184  0.071", True),
        ("tau   0.181  0.070", "tau  0.251  0.071", False),
        ("tau   0.181", "nu  0.181", False),
        ("yes 0.7079  no 0.2921", "yes 0.7080 no 0.2920", True),
        ("PASS  exact  solved exactly: normal ...", "PASS exact solved exactly: normal coefficients", True),
        ("PASS  exact  solved exactly: normal ...", "WARN exact solved exactly: normal coefficients", False),
        ("3 clusters", "4 clusters", False),
        ("PASS R-hat all 5 ≤ 1.01 (worst 1.002, a[x])", "PASS R-hat all 5 ≤ 1.01 (worst 1.007, b)", True),
        ("x  -0.02 1.00 -1.6 1.6", "x  0.01 1.01 -1.6 1.6", True),
        ("x  -0.22 1.00 -1.6 1.6", "x  0.11 1.01 -1.6 1.6", False),
        ("x[5]  237  88  96  378  6463  3165  1.000", "x[5]  235  86  103  372  5921  3374  1.001", True),
        ("x[5]  237  88  96  378  6463  3165  1.000", "x[5]  235  86  150  372  5921  3374  1.001", False),
        ("x[5]  237  88  96  378  6463  3165  1.000", "x[6]  237  88  96  378  6463  3165  1.000", False),
        ("4 chains of 1,000 draws", "3 chains of 1,000 draws", False),
        (" 1890      2       0.6425", " 1890      2       0.6373", True),
        (" 1890      2       0.6425", " 1891      2       0.6425", False),
        ("log evidence  -1078.4924", "log evidence  -1078.4926", True),
        ("log evidence  -1078.4924", "log evidence  -1098.4924", False),
        ("transition[b, a]  2.787e-08", "transition[b, a]  0", True),
    ],
)
def test_how_lines_are_compared(shown, found, equal):
    assert same(shown, found) == equal


@pytest.mark.parametrize(
    ("row", "equal"),
    [
        ("a[3]  925.0  3.4  919.6  930.0  4123  0.999", True),
        ("a[3]  927.0  3.4  919.6  930.0  4123  0.999", False),
        ("a[3]  925.0  4.4  919.6  930.0  4123  0.999", False),
        ("a[3]  925.0  3.4  917.6  930.0  4123  0.999", False),
        ("a[3]  925.0  3.4  919.6  930.0  1123  0.999", False),
        ("a[4]  925.0  3.4  919.6  930.0  4123  0.999", False),
    ],
)
def test_rows_of_a_posterior_are_compared_in_its_standard_deviations(row, equal):
    shown = ["      mean  sd  5.5%  94.5%  ess_bulk  r_hat", "a[3]  924.7  3.3  919.5  930.1  5025  1.001"]
    assert (missing(shown, [shown[0], row]) == []) == equal


@pytest.mark.parametrize(
    ("row", "equal"),
    [
        ("0  6.351  6.11  -3.149  15.77", True),
        ("0  9.351  6.11  -3.149  15.77", False),
        ("0  6.351  6.11  -5.149  15.77", False),
        ("1  6.351  6.11  -3.149  15.77", False),
    ],
)
def test_rows_with_labels_are_compared_in_their_standard_deviations(row, equal):
    shown = ["car  mean    sd  eti89_lb  eti89_ub", "0 6.494 6.018    -2.502     15.72"]
    assert (missing(shown, [shown[0], row]) == []) == equal


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("```python\nprint(1)\n```\n```text\n1\n```", None),
        ("```python\nprint(1)\n```\n```text\n2\n```", "2"),
        ("```python\nbl.nothing\n```", "AttributeError"),
        ("```text\n>>> x = 2\n>>> x + 1\n4\n```", "4"),
        ("```text\n1\n```", "nothing above prints"),
        ("```text\n$ bayeslab convert nothing.bif n.yaml\nwritten n.yaml\n```", "no such file"),
        ("```text\n$ bayeslab convert nothing.bif n.yaml\nerror: nothing.bif: no such file\n```", None),
    ],
)
def test_what_a_reader_finds(text, complaint, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.md"
    page.write_text(text + "\n")
    reader = Reader(tmp_path, capsys)
    reader.follow(page)
    assert complaint in reader.wrong[0] if complaint else reader.wrong == []


def test_doubts_that_a_page_does_not_show_are_found():
    assert doubts(["b  1.0", "..."], ["PASS  R-hat", "WARN  tails  few"]) == ["WARN  tails  few"]
    assert doubts(["WARN  tails ..."], ["WARN  tails  few"]) == doubts(["..."], ["PASS  R-hat"]) == []


@pytest.mark.slow(why="compiles")
@pytest.mark.filterwarnings("default::UserWarning")  # of pages that show one
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.stem, marks=[] if page.stem == "README" else pytest.mark.slow(why="notebook"))
        for page in PAGES
    ],
)
def test_printed_outputs_are_those_of_a_run(page, tmp_path, tmp_path_factory, monkeypatch, capsys):
    (tmp_path / "models").symlink_to(ROOT / "models")
    (tmp_path / "data").symlink_to(ROOT / "models" / "data")
    for table in (ROOT / "models" / "data").glob("*.csv"):
        (tmp_path / table.name).symlink_to(table)
    monkeypatch.chdir(tmp_path)
    reader = Reader(tmp_path, capsys, shared_runs(tmp_path_factory))
    reader.follow(page)
    assert not reader.wrong, "\n\n".join(reader.wrong)
