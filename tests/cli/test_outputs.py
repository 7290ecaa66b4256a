"""What commands write: never over what they read, over other files only with --force; to a full disk; to a terminal."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bayeslab.cli import main
from bayeslab.errors import DataError, printable
from bayeslab.results.verdict import Finding
from tests.cli.calls import call, refused

ROOT = Path(__file__).parents[2]
MODEL = """\
bayeslab: 1
name: line
data: {table: t.csv, rows: obs}
model: {family: regression, formula: y ~ x}
inference: {method: exact}
seed: 1
"""
CALIBRATION = MODEL.replace(
    "family: regression, formula: y ~ x", "family: graph, nodes: {a: 'Normal(0, 1)', 'y[obs]': 'Normal(a, 1)'}"
)
ESCAPE = "\x1b[31mred\x1b]0;title\x07"


def written(folder: Path) -> Path:
    (folder / "m.yaml").write_text(MODEL)
    (folder / "c.yaml").write_text(CALIBRATION)
    (folder / "t.csv").write_text("x,y\n0,1.1\n1,2.9\n2,5.2\n3,6.8\n")
    (folder / "new.csv").write_text("x\n10\n20\n")
    (folder / "ab.csv").write_text("a,b\n1,2\n3,4\n1,2\n2,1\n1,1\n")
    net = "network n {}\nvariable a { type discrete [2] { y, n }; }\nprobability (a) { table 0.5, 0.5; }\n"
    (folder / "a.bif").write_text(net)
    (folder / "batch.csv").write_text("a\ny\n")
    (folder / "of_net.yaml").write_text("bayeslab: 1\nname: n\nmodel: {family: bayes_net, network: a.bif}\n")
    (folder / "loss.json").write_text('{"act": {"0": 1}}')
    return folder


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    folder = written(tmp_path_factory.mktemp("outputs"))
    with pytest.raises(SystemExit):
        main(["fit", str(folder / "m.yaml"), "--runs", str(folder / "runs"), "--quiet"])
    return folder


@pytest.fixture
def folder(fitted, tmp_path, monkeypatch):
    shutil.copytree(fitted, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


OVER_INPUTS = [
    "graph m.yaml -o m.yaml",
    "graph m.yaml -o t.csv",
    "graph m.yaml -d ab.csv -o ab.csv",
    "predict runs/line --data new.csv --out new.csv",
    "predict runs/line --data new.csv --out runs/../new.csv",
    "predict runs/line --out runs/line/run.json",
    "predict runs/line --data new.csv --out link.csv",
    "learn ab.csv -o ab.csv",
    "convert a.bif a.bif",
    "convert of_net.yaml a.bif",
    "learn ab.csv --compare of_net.yaml -o a.bif",
    "expand of_net.yaml -o a.bif",
    "predict runs/line --loss loss.json --out loss.json",
    "query a.bif --batch batch.csv --out batch.csv",
    "simulate m.yaml -o s.nc -d s.nc",
]


@pytest.mark.parametrize("line", OVER_INPUTS)
@pytest.mark.parametrize("force", [[], ["--force"]])
def test_nothing_is_written_over_what_is_read(folder, capsys, line, force):
    (folder / "link.csv").symlink_to("new.csv")
    before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    code, out, err = call(capsys, *line.split(), *force)
    assert code == 1 and not out and "this file is an input: give another name for the output" in err
    assert {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()} == before


OUTPUTS = [
    ("graph m.yaml -o out.svg", "out.svg"),
    ("predict runs/line --out out.csv", "out.csv"),
    ("simulate m.yaml --draws 3 -o out.nc", "out.nc"),
    ("learn ab.csv -o out.bif", "out.bif"),
    ("convert a.bif out.net", "out.net"),
    ("convert a.bif out.yaml", "out.yaml"),
    ("query a.bif --batch batch.csv --out out.csv", "out.csv"),
    ("plot runs/line -o out.png", "out.png"),
    ("report runs/line -o out.html", "out.html"),
    ("explore a.bif -o out.html", "out.html"),
    ("schema -o out.json", "out.json"),
    ("new out", "out.yaml"),
    ("calibrate c.yaml -n 20 --jobs 1 --plot out --runs runs --quiet", "out-ecdf.png"),
]


@pytest.mark.parametrize(("line", "name"), OUTPUTS, ids=lambda v: v.split()[0])
def test_a_file_that_is_there_is_replaced_only_with_force(folder, capsys, line, name):
    (folder / name).write_text("mine")
    code, out, err = call(capsys, *line.split())
    assert code == 1 and not out and err == f"error: {name}: the file exists; --force replaces it\n"
    assert (folder / name).read_text() == "mine"
    assert call(capsys, *line.split(), "--force")[0] in (0, 3)
    assert (folder / name).read_bytes() != b"mine"


@pytest.mark.parametrize(
    ("where", "code", "match"),
    [
        ("no/such.svg", "option.no-such-file", r"no/such\.svg"),
        ("m.svg", "option.not-a-file", r"m\.svg"),
        ("m.bmp", "option.unknown-format", r"m\.bmp.*\.svg"),
    ],
)
def test_places_that_cannot_be_written_to_are_refused_before_the_work(folder, capsys, where, code, match):
    (folder / "m.svg").mkdir()
    refused(capsys, code, match, "graph", "m.yaml", "-o", where)


@pytest.mark.slow(why="processes")
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("line", ["schema", "show runs/line", "graph m.yaml"])
def test_a_full_disk_behind_standard_output(folder, line):
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    with Path("/dev/full").open("w") as full:
        words = [sys.executable, "-m", "bayeslab.cli", *line.split()]
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, env=env, check=False)
    assert done.returncode == 1 and done.stderr == "error: standard output: No space left on device\n"


@pytest.mark.slow(why="processes")
@pytest.mark.parametrize(
    "line",
    ["plot runs/line --out old.png", "plot runs/line --out old.svg", "effects runs/line --of x --plot old.png"],
)
def test_a_disk_that_fills_up_leaves_the_old_picture(folder, capsys, monkeypatch, line):
    from matplotlib.figure import Figure

    def interrupted(self, file, **_):
        Path(file).write_bytes(b"half a picture")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Figure, "savefig", interrupted)
    old = Path(line.split()[-1])
    old.write_text("the old content")
    before = sorted(path.name for path in folder.iterdir())
    status, out, err = call(capsys, *line.split(), "--force")
    assert (status, out, err) == (1, "", f"error: {old}: cannot be written: No space left on device\n")
    assert old.read_text() == "the old content" and sorted(path.name for path in folder.iterdir()) == before


def test_a_file_is_not_written_through_a_link_and_has_the_permissions_of_the_mask(tmp_path, monkeypatch):
    from bayeslab.files import write_text

    (tmp_path / "other").write_text("of somebody else")
    (tmp_path / "page.html").symlink_to(tmp_path / "other")
    mask = os.umask(0o077)
    try:
        write_text(tmp_path / "page.html", "new")
    finally:
        os.umask(mask)
    assert (tmp_path / "other").read_text() == "of somebody else" and (tmp_path / "page.html").read_text() == "new"
    assert (tmp_path / "page.html").stat().st_mode & 0o777 == 0o600


@pytest.mark.slow(why="processes")
@pytest.mark.skipif(os.name != "posix", reason="pipes of POSIX")
@pytest.mark.parametrize("line", ["examples", "show runs/line", "schema", "--help"])
def test_a_reader_that_leaves_is_no_error(folder, line):
    """As of ``bayeslab show RUN | head -1`` in a shell with pipefail."""
    env = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    unread, writing = os.pipe()
    os.close(unread)
    words = [sys.executable, "-m", "bayeslab.cli", *line.split()]
    done = subprocess.run(words, stdout=writing, stderr=subprocess.PIPE, text=True, env=env, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow(why="processes")
def test_a_name_that_the_file_system_cannot_write(tmp_path):
    written(tmp_path)
    (tmp_path / "m.yaml").write_text(MODEL.replace("name: line", "name: größe"), encoding="utf-8")
    env = os.environ | {"PYTHONPATH": str(ROOT), "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    words = [sys.executable, "-m", "bayeslab.cli", "fit", "m.yaml", "--quiet"]
    done = subprocess.run(words, capture_output=True, env=env, cwd=tmp_path, check=False)
    if done.returncode:  # some systems have names in UTF-8 whatever the locale
        assert done.stderr.startswith(b"error: names of files are in ascii here") and done.stderr.count(b"\n") == 1


def test_a_terminal_without_unicode_shows_what_it_can(tmp_path):
    written(tmp_path)
    text = MODEL.replace("data:", "about: größer als zuvor\ndata:")
    (tmp_path / "m.yaml").write_text(text, encoding="utf-8")
    env = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "ascii"}
    words = [sys.executable, "-m", "bayeslab.cli", "fit", "m.yaml"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stderr
    assert "gr??er als zuvor" in done.stdout


LONG = "a" * 5000


@pytest.mark.parametrize(
    "line",
    [
        "check {}.yaml", "check m.yaml -d {}.csv", "check m.yaml -d {}.json", "check m.yaml -d {}.parquet", "show {}",
        "fit m.yaml --runs {} -q", "fit m.yaml --runs r --name {} -q", "fit --resume {}", "query {}.bif", "query {}",
        "predict runs/line --out {}.csv", "convert a.bif {}.net", "graph m.yaml -o {}", "new {}", "compare {} {}",
        "decode {}", "decide {}", "watch {}", "stop {}", "plot {}", "learn {}.csv", "schema -o {}",
        "report {}", "report runs/line -o {}", "predict runs/line --loss {}",
    ],
)  # fmt: skip
def test_paths_of_thousands_of_letters(folder, capsys, line):
    code, out, err = call(capsys, *line.format(*[LONG] * line.count("{}")).split())
    assert code == 1 and not out and err.startswith("error: ") and err.count("\n") == 1 and "unexpected" not in err


# -------------------------------------------------------------------------------- control characters


@pytest.mark.slow(why="statistical")
def test_controls_in_names_are_written_out(folder, capsys):
    """In tables, checks, errors, warnings and drawings."""
    rows = [
        (ESCAPE, 1, 1.1),
        ("b", 2, 2.2),
        (ESCAPE, 3, 2.9),
        ("b", 4, 4.2),
        ("c\x85PASS", 5, 5.1),
        ("c\x85PASS", 6, 5),
    ]
    # A file of commas may hold no controls at all.
    (folder / "t.json").write_text(json.dumps([{"g": g, "x": x, "y": y} for g, x, y in rows]))
    (folder / "m.yaml").write_text(
        MODEL.replace("y ~ x", "y ~ x + (1|g)")
        .replace("t.csv", "t.json")
        .replace("name: line", 'name: line\nabout: "\\e[2J [/b]"')
    )
    shown = []
    for line in ("fit m.yaml --runs r -q", "show r/line --all", "check m.yaml", "graph m.yaml", "predict r/line"):
        code, out, err = call(capsys, *line.split())
        assert code in (0, 3), err
        shown.append(out + err)
    for words in (("check", "m.yaml", "-d", f"{ESCAPE}.csv"), ("learn", "t.json", "-m", ESCAPE), ("show", ESCAPE)):
        code, out, err = call(capsys, *words)
        assert code == 1 and "\\x1b[31mred" in err
        shown.append(err)
    for text in shown:
        assert not set(text) & set("\x1b\x07\x85")
    assert "\\x1b[31mred" in shown[1] and "[/b]" in shown[0]


def test_printable_leaves_letters_of_all_languages_alone():
    assert (
        printable("größer 家 عربى a_b\N{COMBINING ACUTE ACCENT} 😀")
        == "größer 家 عربى a_b\N{COMBINING ACUTE ACCENT} 😀"
    )
    assert printable("a\x1bb\u202ec\x9bd\n") == "a\\x1bb\\u202ec\\x9bd\\n"
    assert printable("a\n\x00", keep="\n") == "a\n\\x00"


def test_errors_and_findings_are_printable():
    assert str(DataError("no \x1b[1mbold\u202e", where="\x1bf")) == "\\x1bf: no \\x1b[1mbold\\u202e"
    finding = Finding("pass", "R-hat", "a[\x1b]", 1.0, "a\x1b[2J\nFAIL", "\x07")
    assert (finding.where, finding.message, finding.advice) == ("a[\\x1b]", "a\\x1b[2J\\nFAIL", "\\x07")


# ------------------------------------------------------------------------------------------ workers


def _children(pid: int) -> set[int]:
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            rest = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(rest[1]) == pid:
            found.add(int(stat.parent.name))
    return found


def _running(pids: set[int]) -> set[int]:
    def state(pid: int) -> str:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return "X"

    return {pid for pid in pids if state(pid) not in "XZ"}


@pytest.fixture
def calibration(folder):
    """A calibration with two workers at work."""
    (folder / "m.yaml").write_text(CALIBRATION)
    words = ["calibrate", "m.yaml", "-n", "100000", "--jobs", "2", "--runs", "cal", "--quiet", "--seed", "1"]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, "-m", "bayeslab.cli", *words],
        env=env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        deadline = time.monotonic() + 300
        while not list(folder.glob("cal/*/replications/*.npz")):
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.1)
        yield process
        if process.poll() is None:
            process.kill()


@pytest.mark.slow(why="processes")
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are listed in /proc")
def test_a_killed_calibration_leaves_no_workers(calibration):
    workers = _children(calibration.pid)
    assert len(_running(workers)) >= 2
    calibration.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 60
    while _running(workers):
        assert time.monotonic() < deadline, "orphans"
        time.sleep(0.2)


@pytest.mark.slow(why="processes")
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are listed in /proc")
def test_a_killed_worker_is_said_in_one_line(calibration):
    for worker in _children(calibration.pid):
        if "resource_tracker" not in Path(f"/proc/{worker}/cmdline").read_text():
            os.kill(worker, signal.SIGKILL)
    said = calibration.communicate(timeout=120)[1].splitlines()
    assert calibration.returncode == 1
    assert [line for line in said if line.startswith("error")] == [
        "error: a worker process was killed, perhaps for lack of memory; what is finished is kept: run it again with the same"
        " seed, with fewer jobs"
    ]


@pytest.mark.parametrize("line", ["calibrate m.yaml -n " + "9" * 30, "fit m.yaml -q --draws " + "9" * 5000])
def test_numbers_of_replications_and_draws_have_bounds(folder, capsys, line):
    code, out, err = call(capsys, *line.split())
    assert code in (1, 2) and not out and "unexpected" not in err and len(err) < 1000
