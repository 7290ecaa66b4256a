"""What the README and the pages print is what the commands print.

Each block that begins with ``$ bayeslab`` is run. Its lines must be lines of the output, in this order, word for word;
a line of three points stands for lines that are left out, three points at the end of a line for its rest. Numbers
may differ by what Monte Carlo error, other processors and rounding do; times and folders are not compared.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.printed import missing, same

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
# Pages whose printed outputs are held to a run; the others are brought up to date one by one.
HELD = ("README", "clusters", "latent_features", "learners", "topics")
# Shown for their form: they need a cluster of machines, a terminal, or a table that is not shipped.
NOT_RUN = ("--detach", "watch ", "stop ", "--scheduler", "--counts duckdb")


def fenced(page: Path, *languages: str) -> list[str]:
    """Code blocks of a page in some languages."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)
    return [text for language, text in found if language in languages]


def blocks(page: Path) -> list[list[tuple[str, list[str]]]]:
    """The page's shell blocks: commands with the lines shown below them."""
    found = []
    for text in fenced(page, "text", "console", ""):
        lines = text.splitlines()
        if not lines or not lines[0].startswith("$ "):
            continue
        commands: list[tuple[str, list[str]]] = []
        for line in lines:
            if line.startswith("$ "):
                commands.append((line[2:].split("  #")[0], []))
            else:
                commands[-1][1].append(line)
        found.append(commands)
    return found


def models(page: Path) -> dict[str, str]:
    """Model files that the page shows whole, by their name."""
    found = {}
    for text in fenced(page, "yaml"):
        name = re.search(r"^name: (.+)$", text, re.MULTILINE)
        if text.startswith("bayeslab: 1") and name:
            found[name[1].strip()] = text
    return found


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
    ],
)
def test_how_lines_are_compared(shown, found, equal):
    assert same(shown, found) == equal


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if page.stem in HELD], ids=lambda page: page.stem)
def test_printed_outputs_are_those_of_a_run(page, tmp_path):
    (tmp_path / "models").symlink_to(ROOT / "models")
    for name, text in models(page).items():
        (tmp_path / f"{name}.yaml").write_text(text)
    wrong, compared = [], 0
    for commands in blocks(page):
        for command, shown in commands:
            words = shlex.split(command)
            if words[0] != "bayeslab" or any(mark in command for mark in NOT_RUN) or not there(words, tmp_path):
                continue
            done = subprocess.run(
                [sys.executable, "-m", "bayeslab.cli", *words[1:]],
                cwd=tmp_path, capture_output=True, text=True, check=False, timeout=600,
            )  # fmt: skip
            output = [*done.stdout.splitlines(), *done.stderr.splitlines()]
            compared += 1
            if lost := missing(shown, done.stdout.splitlines(), done.stderr.splitlines()):
                wrong.append(f"$ {command}\n" + "\n".join(lost) + "\n--- printed\n" + "\n".join(output))
    assert not wrong, "\n\n".join(wrong)
    assert compared or page.stem not in ("README", "bayes_nets", "command_line", "regression")


def there(words: list[str], folder: Path) -> bool:
    """Whether the files that a command reads are there."""
    reads = [w for w in words[1:] if w.endswith((".yaml", ".csv", ".bif", ".json")) or w.startswith("runs/")]
    written = {words[i + 1] for i, w in enumerate(words[:-1]) if w in ("-o", "--out")}
    if words[1] == "convert":
        written.add(words[-1])
    return all((folder / w).exists() for w in reads if w not in written)
