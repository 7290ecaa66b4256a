"""Run folders that were damaged, tampered with, or used by two processes at once."""

from __future__ import annotations

import gzip
import io
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import bayeslab as bl
from bayeslab.cli import main
from bayeslab.files import read_npz
from bayeslab.labelled import grouped
from bayeslab.run_folder import lock
from bayeslab.run_folder.folder import RunFolder
from tests.refusals import refused

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A finished run with chains and a result; nothing is compiled for it."""
    rng = np.random.default_rng(1)
    data = {"x": np.concatenate([rng.normal(-3, 1, 20), rng.normal(3, 1, 20)])}
    model = bl.Model(
        name="two",
        data={"rows": "obs"},
        model=bl.Mixture(columns=["x"], component="gaussian", components=2),
    )
    fit = bl.fit(
        model, data, "gibbs", seed=1, draws=40, tune=20, chains=2, progress=False, runs=tmp_path_factory.mktemp("runs")
    )
    return fit.folder


@pytest.fixture
def run(whole, tmp_path):
    shutil.copytree(whole, tmp_path / "two")
    return tmp_path / "two"


def draws(folder: Path) -> dict[str, np.ndarray]:
    return {str(n): v.to_numpy() for n, v in bl.open(folder).posterior.data_vars.items()}


def same(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[n], b[n]) for n in a)


def call(capsys, *words) -> tuple[int, str, str]:
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        with pytest.raises(SystemExit) as ended:
            main([str(word) for word in words])
    captured = capsys.readouterr()
    return int(ended.value.code or 0), captured.out, captured.err


# ------------------------------------------------------------------------------------- tampering


def truncated(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def shorter_by_one(file: Path) -> None:
    os.truncate(file, file.stat().st_size - 1)


def emptied(file: Path) -> None:
    os.truncate(file, 0)


def garbled(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0xFF
    file.write_bytes(bytes(content))


def zeros(file: Path) -> None:
    file.write_bytes(bytes(file.stat().st_size))


def removed(file: Path) -> None:
    file.unlink()


def a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def a_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def endless(file: Path) -> None:
    file.unlink()
    file.symlink_to("/dev/zero")


OPERATIONS = (
    truncated, garbled, removed, a_pipe,
    *(pytest.param(o, marks=pytest.mark.slow(why="large")) for o in (shorter_by_one, emptied, zeros, a_folder, endless)),
)  # fmt: skip
FILES = (
    "run.json",
    "model.yaml",
    "data.npz",
    "chains/chain-0.npz",
    "result.zarr/zarr.json",
    "result.zarr/posterior/zarr.json",
    "result.zarr/posterior/weights/zarr.json",
    "result.zarr/posterior/weights/c/*",
)


def the_file(run: Path, pattern: str) -> Path:
    if not pattern.endswith("*"):
        return run / pattern
    return min(p for p in (run / pattern).parent.rglob("*") if p.is_file())


@pytest.mark.slow(why="large")
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("pattern", FILES)
def test_a_damaged_file_is_said_in_one_line_and_made_again_where_it_can_be(run, whole, capsys, pattern, operation):
    operation(the_file(run, pattern))
    in_result, in_chains = pattern.startswith("result.zarr"), pattern.startswith("chains")
    code, out, err = call(capsys, "show", run)
    if in_chains or (operation is shorter_by_one and pattern in ("run.json", "model.yaml")):  # the end of a line
        assert code in (0, 3)
    else:
        assert code == 1 and not out
        assert err.startswith("error: ") and err.count("\n") == 1 and "unexpected" not in err, err
    code, out, err = call(capsys, "fit", "--resume", run, "--quiet")
    if in_result or in_chains:
        assert code in (0, 3) and "unexpected" not in err
        assert same(draws(run), draws(whole))
    if in_result:
        assert err.count("\n") == 1 and "it is made again" in err
    elif not in_chains and code == 1:
        assert err.startswith("error: ") and err.count("\n") == 1 and "unexpected" not in err, err


@pytest.mark.slow(why="large")
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("format", "1"), ("format", [1]), ("status", 3), ("status", "done"), ("name", None), ("method", []),
        ("method", "nosuch"), ("method", "../fitting"), ("reason", {}), ("options", [1]), ("options", {"draws": "many"}),
        ("seed", "1"), ("seed", -3), ("seed", 1e300), ("model_digest", None), ("data_digests", []),
        ("data_digests", {"x": 1}), ("memory", {"levels": 1}), ("memory", {"levels": {"obs": 3}}), ("memory", 7),
        ("timings", "long"), ("verdict", "pass"), ("verdict", {}), ("verdict", {"status": "pass", "findings": [{}]}),
        ("verdict", {"status": "great", "findings": []}), ("result_digests", "none"), ("result_digests", {}),
        ("result_digests", {"posterior": "0"}), ("versions", None),
    ],
)  # fmt: skip
def test_wrong_types_in_run_json_are_said_in_one_line(run, capsys, key, value):
    info = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(info | {key: value}))
    for words in (("show", run), ("fit", "--resume", run, "--quiet"), ("watch", run, "--once")):
        code, _, err = call(capsys, *words)
        assert "unexpected" not in err and "Traceback" not in err
        assert code in (0, 3) or (err.startswith("error: ") and err.count("\n") == 1), err
    if key not in ("options", "seed", "result_digests"):  # options and seed are of the next time
        assert call(capsys, "show", run)[0] == 1


@pytest.mark.parametrize("text", ["[]", "7", "null", "[" * 100_000, '{"format": 1' + "0" * 5000 + "}", '{"format": 1}'])
def test_run_json_that_is_no_description_of_a_run(run, capsys, text):
    (run / "run.json").write_text(text)
    code, _, err = call(capsys, "show", run)
    assert code == 1 and err.startswith("error: ") and err.count("\n") == 1 and "unexpected" not in err
    assert len(err) < 1000


def _npz(**arrays: object) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


class _Trap:
    def __reduce__(self):
        return (os.system, ("touch pwned",))


def _claims(count: int) -> bytes:
    """An archive with an array that says it has so many numbers."""
    honest = _npz(meta=np.zeros(10))
    old, new = b"(10,)", f"({count},)".encode()
    return honest.replace(old + b" " * (len(new) - len(old)), new)


@pytest.mark.slow(why="large")
@pytest.mark.parametrize(
    "content",
    [
        _npz(meta=np.array({"a": 1}, dtype=object)),
        _npz(meta=np.array([_Trap()], dtype=object)),
        _npz(meta=np.array("{}")),
        _npz(meta=np.array("7")),
        _npz(meta=np.array('{"columns": {"x": 3}, "rows": "obs", "levels": []}')),
        _npz(meta=np.array('{"columns": {"x": {"at": 0, "dims": 5, "missing": false}}, "rows": "o", "levels": []}')),
        _npz(meta=np.array('{"columns": {}, "rows": "obs", "levels": ["a"]}')),
        _npz(nothing=np.zeros(3)),
        _claims(10**12),
        _claims(10**9),
        b"PK\x05\x06" + bytes(18),
    ],
)
@pytest.mark.parametrize("file", ["data.npz", "chains/chain-0.npz"])
def test_archives_of_something_else(run, whole, capsys, tmp_path, monkeypatch, file, content):
    monkeypatch.chdir(tmp_path)
    (run / file).write_bytes(content)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if file == "data.npz":
        for words in (("show", run), ("fit", "--resume", run, "--quiet")):
            code, _, err = call(capsys, *words)
            assert code == 1 and err.startswith("error: ") and err.count("\n") == 1 and "unexpected" not in err
    else:
        shutil.rmtree(run / "result.zarr")
        code, _, err = call(capsys, "fit", "--resume", run, "--quiet")
        assert code in (0, 3), err
        assert same(draws(run), draws(whole))
    assert not (tmp_path / "pwned").exists()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000  # kilobytes


@pytest.mark.parametrize("kept", [True, False], ids=["with digests", "without"])
@pytest.mark.parametrize("shape", [[10**15], [10**40], [-1], "x", [2, 10**8, 10**8]])
def test_stores_with_shapes_beyond_memory(run, capsys, shape, kept):
    file = run / "result.zarr/posterior/weights/zarr.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"shape": shape}))
    if not kept:
        info = json.loads((run / "run.json").read_text())
        del info["result_digests"]
        (run / "run.json").write_text(json.dumps(info))
    code, out, err = call(capsys, "show", run)
    assert code == 1 and not out and "the stored result is damaged" in err and err.count("\n") == 1


@pytest.mark.slow(why="large")
@pytest.mark.parametrize("kind", ["gzip", "zstd", "lz4", "wide", "chunk", "format 2"])
def test_stores_that_hold_more_than_they_say(run, capsys, kind):
    place = run / "result.zarr/posterior/weights"
    content = json.loads((place / "zarr.json").read_text())
    (chunk,) = (file for file in (place / "c").rglob("*") if file.is_file())
    if kind == "gzip":
        with gzip.open(chunk, "wb") as stream:
            for _ in range(512):
                stream.write(bytes(1 << 20))
        content["codecs"].append({"name": "gzip", "configuration": {"level": 1}})
    elif kind in ("zstd", "lz4"):
        from numcodecs import LZ4, Zstd

        chunk.write_bytes((Zstd if kind == "zstd" else LZ4)().encode(bytes(1 << 29)))
        name = kind if kind == "zstd" else "numcodecs.lz4"
        content["codecs"].append({"name": name, "configuration": {}})
    elif kind == "wide":
        content |= {"data_type": {"name": "fixed_length_utf32", "configuration": {"length_bytes": 10**12}}}
        content["fill_value"] = ""
    elif kind == "chunk":
        content["chunk_grid"]["configuration"]["chunk_shape"][-1] = 10**14
    else:
        (place / ".zarray").write_text("{}")
    (place / "zarr.json").write_text(json.dumps(content))
    info = json.loads((run / "run.json").read_text())
    del info["result_digests"]
    (run / "run.json").write_text(json.dumps(info))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    code, out, err = call(capsys, "show", run)
    assert code == 1 and not out and err.count("\n") == 1
    why = {"lz4": "with which no run is written", "format 2": "Zarr format 2", "wide": "GiB", "chunk": "GiB"}
    assert "the stored result is damaged" in err and why.get(kind, "more than its array") in err
    if kind == "gzip":
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kilobytes


def test_stores_of_older_runs_are_read(run, capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = xr.open_datatree(run / "result.zarr", engine="zarr", consolidated=False).load()
        for node in tree.subtree:
            for name in list(node.variables):
                node[name].encoding.clear()
        shutil.rmtree(run / "result.zarr")
        tree.to_zarr(run / "result.zarr", consolidated=False)
    used = {c["name"] for f in run.rglob("zarr.json") for c in json.loads(f.read_text()).get("codecs", ())}
    assert "zstd" in used
    info = json.loads((run / "run.json").read_text())
    del info["result_digests"]
    (run / "run.json").write_text(json.dumps(info))
    code, out, _ = call(capsys, "show", run)
    assert code in (0, 3) and "verdict" in out


# --------------------------------------------------------------------------------------- digests


def every_chunk(run: Path) -> list[Path]:
    return sorted(p for p in (run / "result.zarr").rglob("*") if p.is_file())


@pytest.mark.slow(why="large")
def test_every_file_of_the_result_counts(run, whole):
    """The loss of any one, in whichever group, is noticed; nothing else in the store is needed for that."""
    assert {p.relative_to(run / "result.zarr").parts[0] for p in every_chunk(run)} > {"posterior", "observed_data"}
    for file in every_chunk(run):
        content = file.read_bytes()
        file.unlink()
        parts = file.relative_to(run / "result.zarr").parts
        what = f"'{parts[0]}'" if len(parts) > 1 else "the store"
        with refused("run.damaged", what, where=str(run / "result.zarr")):
            bl.open(run)
        file.write_bytes(content)
    assert same(draws(run), draws(whole))


def test_groups_that_were_lost_or_added_are_named(run):
    shutil.copytree(run / "result.zarr/posterior", run / "result.zarr/other")
    with refused("run.damaged", "'other'"):
        bl.open(run)
    shutil.rmtree(run / "result.zarr/other")
    shutil.rmtree(run / "result.zarr/observed_data")
    with refused("run.damaged", "'observed_data'"):
        bl.open(run)


def test_runs_from_before_the_digests_open(run, whole):
    info = json.loads((run / "run.json").read_text())
    assert set(info["result_digests"]) > {"/", "posterior"}
    del info["result_digests"], info["digests"], info["origins"]
    (run / "run.json").write_text(json.dumps(info))
    chain = read_npz(run / "chains/chain-0.npz")
    del chain["sha256"], chain["origin"]
    np.savez(run / "chains/chain-0.npz", **chain)
    assert same(draws(run), draws(whole))
    shutil.rmtree(run / "result.zarr/posterior")
    with refused("run.damaged", "'posterior'"):
        bl.open(run)
    shutil.rmtree(run / "result.zarr")
    with pytest.warns(UserWarning, match="it is made again"):
        bl.resume(run, progress=False)
    assert same(draws(run), draws(whole))


def test_a_chain_with_other_draws_is_drawn_again(run, whole):
    """A file that reads well but is not what was written."""
    chain = read_npz(run / "chains/chain-1.npz")
    name = next(n for n, a in chain.items() if a.dtype.kind == "f" and a.size > 1)
    chain[name] = chain[name] + 1.0
    np.savez(run / "chains/chain-1.npz", **chain)
    shutil.rmtree(run / "result.zarr")
    with pytest.warns(UserWarning, match="again") as said:
        bl.resume(run, progress=False)
    assert [str(w.message).rpartition(": ")[2] for w in said] == ["it is made again", "it is drawn again"]
    assert same(draws(run), draws(whole))


def test_a_chain_of_another_place_is_drawn_again(run, whole):
    """Two chains that are one and the same would agree as no two chains do."""
    shutil.copy(run / "chains/chain-0.npz", run / "chains/chain-1.npz")
    shutil.rmtree(run / "result.zarr")
    with pytest.warns(UserWarning, match="again") as given:
        bl.resume(run, progress=False)
    assert [str(w.message)[:33] for w in given][1:] == ["chain 1 was drawn as another chain"[:33]]
    assert same(draws(run), draws(whole))


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("change", [{"seed": 2}, {"options": {"draws": 50}}, {"options": {"tune": 30}}], ids=str)
def test_chains_of_another_seed_or_other_options_are_drawn_again(run, whole, change):
    """What is resumed is the run that run.json describes, never a mixture of two."""
    fresh = bl.open(whole)
    info = json.loads((run / "run.json").read_text())
    options = info["options"] | change.get("options", {})
    (run / "run.json").write_text(json.dumps(info | {"seed": change.get("seed", 1), "options": options}))
    shutil.rmtree(run / "result.zarr")
    (run / "chains/chain-1.npz").unlink()
    with pytest.warns(UserWarning, match="again") as given:
        bl.resume(run, progress=False)
    assert [str(w.message)[:17] for w in given][1:] == ["chain 0 was drawn"]
    settings = {name: options[name] for name in ("draws", "tune", "chains")}
    data = {"x": fresh.data.dataset.columns["x"].values}
    anew = bl.fit(fresh.model, data, "gibbs", seed=change.get("seed", 1), runs=None, progress=False, **settings)
    assert same(draws(run), {str(n): v.to_numpy() for n, v in anew.posterior.data_vars.items()})


def test_a_lost_result_is_made_again_from_the_inputs(run, whole):
    shutil.rmtree(run / "result.zarr")
    shutil.rmtree(run / "chains")
    with refused("run.no-result", "`bayeslab fit --resume`"):
        bl.open(run)
    with pytest.warns(UserWarning, match="it is made again"):
        bl.resume(run, progress=False)
    assert same(draws(run), draws(whole))
    bl.resume(run, progress=False)  # and then there is nothing to do


def test_what_a_killed_process_left_is_cleared_away(run, whole):
    (run / ".result.abc").mkdir()
    (run / ".result.abc" / "new").touch()
    (run / ".result.new").mkdir()
    (run / "chains" / ".chain-0.npz.abc").touch()
    (run / "lock").write_text(json.dumps(lock.this_process() | {"pid": 2**22 + 1}))
    shutil.rmtree(run / "result.zarr")
    with pytest.warns(UserWarning, match="it is made again"):
        bl.resume(run, progress=False)
    assert not [p for p in run.rglob(".*") if p.is_relative_to(run)] and not (run / "lock").exists()
    assert same(draws(run), draws(whole))


# ------------------------------------------------------------------------------------------ lock

HOLD = """
import sys, time
from pathlib import Path
from bayeslab.run_folder.lock import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(run):
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(run)], env=env, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_run_that_is_going_on_is_refused_and_left_alone(run, whole, holder, capsys):
    shutil.rmtree(run / "result.zarr")
    before = {p: p.stat().st_mtime_ns for p in run.rglob("*") if p.is_file()}
    code, out, err = call(capsys, "fit", "--resume", run, "--quiet")
    assert code == 1 and not out and err.count("\n") == 1
    assert f"the run is going on (process {holder.pid})" in err
    assert {p: p.stat().st_mtime_ns for p in run.rglob("*") if p.is_file()} == before


def test_a_reader_does_not_call_a_run_damaged_that_is_being_written(run, holder):
    info = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(info | {"status": "running", "result_digests": {"/": "of before"}}))
    with refused("run.no-result", "is going on"):
        bl.open(run)


def test_a_reader_between_the_result_and_its_description_reads_again(run, monkeypatch):
    info = json.loads((run / "run.json").read_text())
    descriptions = iter([info | {"result_digests": {"/": "of before"}}])
    read = RunFolder.info
    monkeypatch.setattr(RunFolder, "info", lambda folder: next(descriptions, None) or read(folder))
    assert bl.open(run).posterior.sizes["draw"] == 40


def test_why_a_run_failed_is_shown(run, capsys):
    info = json.loads((run / "run.json").read_text())
    changed = info | {"status": "failed", "error": "no step size", "verdict": None, "result_digests": None}
    (run / "run.json").write_text(json.dumps(changed))
    shutil.rmtree(run / "result.zarr")
    code, out, err = call(capsys, "show", run)
    assert code == 1 and not out and err.count("\n") == 1 and "the run failed: no step size" in err


def test_the_list_of_runs_tells_a_killed_run_from_one_that_is_going_on(run, holder, capsys):
    info = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(info | {"status": "running", "verdict": None}))
    shutil.rmtree(run / "result.zarr")

    def listed() -> str:
        (row,) = json.loads(call(capsys, "runs", run.parent, "--json")[1])
        return row["status"]

    assert listed() == "running"
    _, _, err = call(capsys, "fit", "--resume", run, "--quiet")
    assert "watch" not in err  # which has nothing to show of a run by NUTS
    assert "RUNNING" in report_of(run, capsys)
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert listed() == "killed"
    assert "UNFINISHED" in report_of(run, capsys)
    (run / "lock").unlink()
    assert listed() == "killed"
    (run / "lock").symlink_to(run / "run.json")
    assert listed() == "killed"
    (run / "log.txt").touch()  # of a job that is being started in the background
    assert listed() == "starting"


def report_of(run: Path, capsys) -> str:
    assert call(capsys, "report", run, "--force")[0] == 1
    return (run / "report.html").read_text()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no process table in files")
def test_a_process_that_ended_and_keeps_its_number_is_not_running():
    """Until its parent asks for the exit status."""
    code = "import json, sys\nfrom bayeslab.run_folder.lock import this_process\n"
    code += "print(json.dumps(this_process()), flush=True)\nsys.stdin.read()"
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    described = json.loads(process.stdout.readline())
    assert lock.alive(described)
    os.kill(process.pid, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert not lock.alive(described)
    process.communicate()


def test_the_lock_of_a_killed_process_is_taken_over(run, whole, holder):
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert json.loads((run / "lock").read_text())["pid"] == holder.pid
    shutil.rmtree(run / "result.zarr")
    with pytest.warns(UserWarning, match="it is made again"):
        bl.resume(run, progress=False)
    assert same(draws(run), draws(whole))
    assert not (run / "lock").exists()


def test_the_lock_of_another_machine_is_respected_until_it_is_removed(run):
    (run / "lock").write_text(json.dumps({"pid": 7, "host": "elsewhere", "began": 1}))
    with refused("run.in-use", "process 7 on elsewhere"):
        bl.resume(run, progress=False)
    (run / "lock").unlink()
    bl.resume(run, progress=False)


def test_without_locks_of_the_file_system_the_named_process_counts(run, monkeypatch):
    monkeypatch.setattr(lock, "flock", lambda handle: None)
    (run / "lock").write_text(json.dumps(lock.this_process()))
    with refused("run.in-use", str(os.getpid()), where=str(run)):
        bl.resume(run, progress=False)
    for gone in ({"pid": 2**22 + 1}, {"began": 1}, {"pid": "x"}, {"pid": 10**30}):
        (run / "lock").write_text(json.dumps(lock.this_process() | gone))
        bl.resume(run, progress=False)
        assert not (run / "lock").exists()


@pytest.mark.parametrize("content", ["", "{", "[]", "7", '{"pid": null}', "\x00" * 50])
def test_a_damaged_lock_that_nobody_holds_is_taken_over(run, content):
    (run / "lock").write_text(content)
    bl.resume(run, progress=False)


def test_a_lock_in_a_folder_that_cannot_be_written_to(run, capsys):
    (run / "lock").mkdir()
    code, _, err = call(capsys, "fit", "--resume", run, "--quiet")
    assert code == 1 and err.startswith("error: ") and err.count("\n") == 1 and "unexpected" not in err


@pytest.mark.slow(why="processes")
def test_of_two_that_resume_one_works_and_the_other_is_refused(run, whole):
    """Over and over: the run comes out whole, and as it would have alone."""
    words = [sys.executable, "-m", "bayeslab.cli", "fit", "--resume", str(run), "--quiet"]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    for _ in range(3):
        shutil.rmtree(run / "result.zarr")
        shutil.rmtree(run / "chains")
        (run / "chains").mkdir()
        both = [
            subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in "ab"
        ]
        said = [process.communicate()[1] for process in both]
        codes = [process.returncode for process in both]
        assert set(codes) <= {0, 1, 3} and set(codes) & {0, 3}, said
        assert all("going on" in err for err, code in zip(said, codes, strict=True) if code == 1), said
        assert same(draws(run), draws(whole))


def test_a_full_disk_before_run_json(run, monkeypatch):
    def full(*_: object, **__: object):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("bayeslab.run_folder.folder.write_text", full)
    with refused("run.cannot-write", r"run\.json.*No space left on device"):
        RunFolder(run).write_info({})


@pytest.mark.slow(why="large")
def test_opening_a_large_result_costs_little_more_than_reading_it(tmp_path):
    """The digest of 80 MB in about the CPU time of a few passes over them."""
    import hashlib

    folder = RunFolder(tmp_path)
    values = np.random.default_rng(0).normal(size=(4, 2500, 1000))
    digests = folder.write_result({"posterior": grouped({"x": (("chain", "draw", "k"), values)})})
    begun = time.process_time()
    hashlib.sha256(values.tobytes()).hexdigest()
    once = time.process_time() - begun
    begun = time.process_time()
    plain = folder.result(None)
    without = time.process_time() - begun
    begun = time.process_time()
    checked = folder.result(digests)
    assert time.process_time() - begun < 3 * without + 4 * once + 1.0
    assert plain.identical(checked)


def test_a_run_that_goes_on_with_another_version_says_so(run, whole):
    info = json.loads((run / "run.json").read_text())
    info["versions"] |= {"bayeslab": "0.0.1", "xarray": "1"}
    (run / "run.json").write_text(json.dumps(info))
    assert same(draws(run), draws(whole))  # nothing is drawn, nothing to say
    shutil.rmtree(run / "result.zarr")
    with pytest.warns(UserWarning, match="again|begun") as given:
        bl.resume(run, progress=False)
    assert next(text for w in given if "begun" in (text := str(w.message))).startswith(
        f"the run was begun with bayeslab 0.0.1, now {version('bayeslab')}: "
    )
