"""The job: the same draws however it is cut, wherever it runs, and whatever happens to it; edges as sums over DAGs."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from bayeslab.results.structure_checks import edge_diagnostics
from bayeslab.run_folder.folder import RunFolder
from bayeslab.run_folder.segments import SegmentStore
from bayeslab.structure.exact_posterior import dag_posterior, order_posterior
from bayeslab.structure.jobs import MemorySegments, Sampler, Work, Workers, run
from tests.refusals import refused
from tests.structure._dags import drawn, random_scores, table_of

TABLE = table_of(6, random_scores(3, 1.0), max_parents=3)
SAMPLERS = {
    "structure": Sampler("structure", (1.0, 0.6, 0.3), 100, {"reversal": 0.05}),
    "plain": Sampler("structure"),
    "order": Sampler("order"),
    "partition": Sampler("partition", options={"reversal": 0.1}),
}
WORK = Work(draws=60, tune=25, thin=40, chains=3, segment=10, seed=5)


def scores(chains):
    return np.stack([np.concatenate(chain.scores) for chain in chains])


def whole(sampler, work=WORK, table=TABLE):
    """The draws of a job that nothing happens to."""
    return drawn(run(table, sampler, work, MemorySegments(), Workers()))


@pytest.mark.parametrize("word", SAMPLERS)
def test_draws_do_not_depend_on_how_the_job_is_cut(word):
    from dataclasses import replace

    expected = whole(SAMPLERS[word])
    assert expected.shape == (3, 60, 6)
    for segment in (1, 7, 1000):
        np.testing.assert_array_equal(whole(SAMPLERS[word], replace(WORK, segment=segment)), expected)
    # Chains have numbers of their own, and their lengths nothing to do with each other.
    np.testing.assert_array_equal(whole(SAMPLERS[word], replace(WORK, chains=1, draws=20)), expected[:1, :20])
    assert not np.array_equal(whole(SAMPLERS[word], replace(WORK, seed=6)), expected)


@pytest.mark.parametrize("workers", [Workers(2), Workers(2, threads=True)], ids=["processes", "threads"])
def test_draws_do_not_depend_on_where_they_are_made(workers):
    chains = run(TABLE, SAMPLERS["structure"], WORK, MemorySegments(), workers)
    np.testing.assert_array_equal(drawn(chains), whole(SAMPLERS["structure"]))


def test_scores_and_counts_are_those_of_the_draws():
    (chain,) = run(TABLE, Sampler("structure"), Work(50, 10, 30, 1, 20, 1), MemorySegments(), Workers())
    np.testing.assert_allclose(scores([chain])[0], TABLE.scores[drawn([chain])[0]].sum(axis=1), rtol=1e-14)
    # Steps after tuning only.
    assert sum(chain.proposed.values()) == 50 * 30
    assert set(chain.acceptance) <= {"edge", "reversal", "renewal"} and 0 < chain.acceptance["edge"] < 1


@pytest.mark.parametrize("word", ["structure", "order", "partition"])
def test_edges_are_as_probable_as_sums_over_all_structures_say(word):
    table = table_of(4, random_scores(2, 1.2, -500.0))
    sampler = Sampler(word, (1.0, 0.5), 50) if word == "structure" else Sampler(word)
    chains = run(table, sampler, Work(4000, 200, 20, 4, 5000, 3), MemorySegments(), Workers())
    choice = drawn(chains)
    member = (table.sets[:, :1] >> np.arange(4, dtype=np.uint64) & np.uint64(1)).astype(bool)
    found = edge_diagnostics(table.names, member, choice)
    exact = (order_posterior(table) if word == "order" else dag_posterior(table)).edges
    other = (dag_posterior(table) if word == "order" else order_posterior(table)).edges
    off = ~np.eye(4, dtype=bool)
    assert np.all(found.mcse[off] < 0.012)
    assert np.all(np.abs(found.probability - exact)[off] < 4.5 * found.mcse[off])
    assert np.any(np.abs(found.probability - other)[off] > 6 * found.mcse[off])


# --------------------------------------------------------------------------------- what is kept


def test_a_job_goes_on_from_what_was_kept(tmp_path):
    store, sampler = SegmentStore(tmp_path), SAMPLERS["structure"]
    from dataclasses import replace

    short = run(TABLE, sampler, replace(WORK, draws=33), store, Workers())
    files = sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*.npz"))
    assert files[:2] == ["chains/chain-0/000000.npz", "chains/chain-0/000001.npz"]
    before = {file: (tmp_path / file).stat().st_mtime_ns for file in files}
    more = run(TABLE, sampler, WORK, store, Workers())
    np.testing.assert_array_equal(drawn(more), whole(sampler))
    np.testing.assert_array_equal(drawn(more)[:, :33], drawn(short))
    assert {file: (tmp_path / file).stat().st_mtime_ns for file in files} == before
    again = run(TABLE, sampler, WORK, store, Workers())
    np.testing.assert_array_equal(drawn(again), drawn(more))
    assert again[0].proposed == more[0].proposed and again[0].accepted == more[0].accepted


@pytest.mark.parametrize("damage", ["cut", "garbage", "empty", "flipped", "gone"])
def test_a_damaged_last_segment_is_drawn_again(tmp_path, damage):
    store, sampler = SegmentStore(tmp_path), SAMPLERS["order"]
    run(TABLE, sampler, WORK, store, Workers())
    last = sorted((tmp_path / "chains" / "chain-1").glob("*.npz"))[-1]
    content = last.read_bytes()
    middle = len(content) // 2
    changed = {
        "cut": content[:middle],
        "garbage": b"\x00" * len(content),
        "empty": b"",
        "flipped": content[:middle] + bytes([content[middle] ^ 255]) + content[middle + 1 :],
    }
    if damage == "gone":
        last.unlink()
    else:
        last.write_bytes(changed[damage])
    (last.parent / f".{last.name}.partial").write_bytes(content[:50])
    np.testing.assert_array_equal(drawn(run(TABLE, sampler, WORK, store, Workers())), whole(sampler))


def test_segments_of_another_job_are_refused(tmp_path):
    from dataclasses import replace

    store = SegmentStore(tmp_path)
    run(TABLE, SAMPLERS["order"], replace(WORK, draws=5), store, Workers())
    for table, sampler, work in (
        (table_of(6, random_scores(4, 1.0), max_parents=3), SAMPLERS["order"], WORK),
        (TABLE, SAMPLERS["partition"], WORK),
        (TABLE, SAMPLERS["order"], replace(WORK, seed=6)),
        (TABLE, SAMPLERS["order"], replace(WORK, thin=41)),
    ):
        with refused("run.other-run", "chain 0"):
            run(table, sampler, work, store, Workers())


@pytest.mark.parametrize("change", ["copied chain", "swapped", "earlier", "edited", "unmarked"])
def test_a_segment_of_another_place_is_drawn_again(tmp_path, change):
    """Copies of a chain agree perfectly: R-hat would pass, with half of the draws that it says."""
    store, sampler = SegmentStore(tmp_path), SAMPLERS["structure"]
    run(TABLE, sampler, WORK, store, Workers())
    first, second = tmp_path / "chains" / "chain-0", tmp_path / "chains" / "chain-1"
    if change == "copied chain":
        for file in first.glob("*.npz"):
            (second / file.name).write_bytes(file.read_bytes())
    elif change == "swapped":
        one, other = (first / "000001.npz").read_bytes(), (second / "000001.npz").read_bytes()
        (first / "000001.npz").write_bytes(other)
        (second / "000001.npz").write_bytes(one)
    elif change == "earlier":
        (first / "000002.npz").write_bytes((first / "000001.npz").read_bytes())
    else:
        arrays = dict(np.load(first / "000001.npz"))
        if change == "edited":
            arrays["scores"] = arrays["scores"] + 1
        else:
            del arrays["job"], arrays["origin"]
        np.savez(first / "000001.npz", **arrays)
    with pytest.warns(UserWarning, match="segment .* of chain .* drawn again"):
        chains = run(TABLE, sampler, WORK, store, Workers())
    np.testing.assert_array_equal(drawn(chains), whole(sampler))
    np.testing.assert_array_equal(drawn(run(TABLE, sampler, WORK, store, Workers())), whole(sampler))


def test_a_table_of_another_run_is_built_again(tmp_path):
    other = table_of(6, random_scores(4, 1.0), max_parents=3)
    SegmentStore(tmp_path, lambda: "another model").table(lambda: other)
    store = SegmentStore(tmp_path, lambda: "this model")
    assert store.table(lambda: TABLE).digest() == TABLE.digest() != other.digest()
    assert store.table(lambda: pytest.fail("it was kept")).digest() == TABLE.digest()


PROGRESS = {"chains": [{"done": 3, "acceptance": {}}], "draws": 5, "tune": 1}


@pytest.mark.parametrize(
    "content",
    ["[" * 100_000, "5", '{"chains": 5}', '{"chains": [{}]}', json.dumps(PROGRESS | {"seconds": "x"}),
     json.dumps(PROGRESS | {"tune": None}), json.dumps({"chains": PROGRESS["chains"]}), b"\xff", None],
)  # fmt: skip
def test_damaged_progress_is_no_progress(tmp_path, content):
    store, file = SegmentStore(tmp_path), tmp_path / "progress.json"
    file.write_text(json.dumps(PROGRESS | {"state": "done"}))
    assert store.standing("complete") == PROGRESS | {"state": "complete"}
    file.unlink()
    if content is None:
        os.mkfifo(file)  # nobody writes to it: reading would wait for ever
    else:
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert store.standing("complete") == {"state": "complete", "chains": []}


def test_nothing_is_written_through_links(tmp_path):
    """A run folder by somebody else may have links to any file of the user's."""
    outside = tmp_path / "outside"
    (outside / "chain-0").mkdir(parents=True)
    for precious in (outside / "log", outside / ".chain-0", outside / "chain-0" / ".a.npz"):
        precious.write_text("precious")
    folder = RunFolder.create(tmp_path, "run")
    (folder.path / "log.txt").symlink_to(outside / "log")
    with refused("run.cannot-write", "link"):
        folder.segments().opened_log()
    (folder.path / "chains" / "chain-0").symlink_to(outside / "chain-0")
    with refused("run.damaged", "link", where=str(folder.path / "chains" / "chain-0")), folder.locked():
        pytest.fail("it works outside of its folder")
    (folder.path / "chains" / "chain-0").unlink()
    (folder.path / "chains").rmdir()
    (folder.path / "chains").symlink_to(outside)
    with refused("run.damaged", "link", where=str(folder.path / "chains")), folder.locked():
        pytest.fail("it works outside of its folder")
    assert all(file.read_text() == "precious" for file in outside.rglob("*") if file.is_file())
    assert sum(file.is_file() for file in outside.rglob("*")) == 3


def test_a_damaged_table_is_built_again(tmp_path):
    store = SegmentStore(tmp_path)
    first = store.table(lambda: TABLE)
    assert store.table(lambda: pytest.fail("it was kept")).digest() == first.digest()
    (tmp_path / "scores.npz").write_bytes(b"PK")
    assert store.table(lambda: TABLE).digest() == first.digest()


# --------------------------------------------------------------------------------- stopped, killed, out of room


def test_a_job_that_is_asked_to_stops_and_goes_on(tmp_path):
    store, sampler = SegmentStore(tmp_path), SAMPLERS["structure"]
    seen = []

    def report(chains, done):
        seen.append(done)
        if sum(chain.done for chain in chains) >= 120:
            store.ask_to_stop()

    chains = run(TABLE, sampler, WORK, store, Workers(), report)
    done = [chain.done for chain in chains]
    assert done == [45, 45, 45] and seen.count(True) == 1 + 5
    store.begin()
    np.testing.assert_array_equal(drawn(run(TABLE, sampler, WORK, store, Workers())), whole(sampler))


@pytest.mark.slow(why="statistical")
def test_ctrl_c_keeps_the_running_segments(tmp_path):
    sampler, store = SAMPLERS["plain"], SegmentStore(tmp_path)
    work = Work(draws=400, tune=0, thin=20_000, chains=2, segment=4, seed=1)
    before = signal.getsignal(signal.SIGINT)
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    chains = run(TABLE, sampler, work, store, Workers())
    timer.join()
    done = [chain.done for chain in chains]
    assert done[0] == done[1] and 0 < done[0] < 400
    kept = drawn(run(TABLE, sampler, Work(done[0], 0, 20_000, 2, 4, 1), store, Workers()))
    np.testing.assert_array_equal(kept, drawn(chains))
    assert signal.getsignal(signal.SIGINT) is before


SCRIPT = textwrap.dedent(
    """
    import sys, resource
    from pathlib import Path
    import numpy as np
    from bayeslab.errors import RunError
    from bayeslab.run_folder.segments import SegmentStore
    from bayeslab.structure.jobs import Sampler, Work, Workers, run
    folder, cores, limit = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    store = SegmentStore(folder)
    table = store.table(lambda: None)
    if limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    sampler = Sampler("structure", (1.0, 0.6, 0.3), 100, {"reversal": 0.05})
    try:
        chains = run(table, sampler, Work(160, 40, 800, 3, 5, 5), store, Workers(cores))
    except RunError as error:
        print(error, file=sys.stderr)
        sys.exit(3)
    """
)
LONG = Work(160, 40, 800, 3, 5, 5)


def start(folder: Path, cores: int = 1, limit: int = 0) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-c", SCRIPT, str(folder), str(cores), str(limit)]
    return subprocess.Popen(words, stderr=subprocess.PIPE if limit else None, cwd=folder)


def workers_of(folder: Path) -> list[str]:
    """Processes whose working directory is the folder: the driver's, which began there, and its workers."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").resolve() == folder and "Loky" in (process / "cmdline").read_text():
                found.append(process.name)
        except OSError:
            continue
    return found


def files(folder: Path) -> int:
    """The number of complete files; a kill can leave one that is being written, whose name begins with a dot."""
    return sum(not file.name.startswith(".") for file in (folder / "chains").rglob("*.npz"))


@pytest.mark.slow(why="processes")
@pytest.mark.parametrize("cores", [1, 2])
def test_killed_at_any_moment_it_goes_on_exactly(tmp_path, cores):
    store, moment = SegmentStore(tmp_path), random.Random(cores)
    store.table(lambda: TABLE)
    killed, counts = 0, [0]
    while True:
        process = start(tmp_path, cores)
        begun = time.monotonic()
        if killed < (3 if cores == 1 else 2):
            while files(tmp_path) == counts[-1] and process.poll() is None and time.monotonic() - begun < 60:
                time.sleep(0.001)
            time.sleep(moment.uniform(0.0, 0.25))
            process.kill()
            killed += process.wait() == -signal.SIGKILL
            counts.append(files(tmp_path))
        if process.wait(timeout=60) == 0:
            break
    assert killed >= 2 and counts == sorted(counts) and counts[1] > 0
    if cores == 2 and Path("/proc").exists():
        until = time.monotonic() + 30
        while workers_of(tmp_path) and time.monotonic() < until:
            time.sleep(0.1)
        assert not workers_of(tmp_path)
    found = run(TABLE, SAMPLERS["structure"], LONG, store, Workers())
    assert files(tmp_path) == 3 * 40
    np.testing.assert_array_equal(drawn(found), whole(SAMPLERS["structure"], LONG))


@pytest.mark.slow(why="processes")
def test_without_room_it_says_so_and_goes_on_later(tmp_path):
    """A limit on the size of files stands for a full disk: half a segment is written, then an error comes."""
    store = SegmentStore(tmp_path)
    store.table(lambda: TABLE)
    run(TABLE, SAMPLERS["structure"], Work(2, 40, 800, 3, 5, 5), store, Workers())
    kept = files(tmp_path)
    process = start(tmp_path, limit=3000)
    said = process.communicate(timeout=60)[1].decode()
    assert process.returncode == 3 and said.count("\n") == 1
    assert "cannot be written" in said and "chain-0" in said
    assert files(tmp_path) == kept and not list((tmp_path / "chains").rglob("*.partial"))
    np.testing.assert_array_equal(
        drawn(run(TABLE, SAMPLERS["structure"], LONG, store, Workers())), whole(SAMPLERS["structure"], LONG)
    )


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "chains").write_text("a file where a folder should be")
    with refused("run.cannot-write"):
        run(TABLE, SAMPLERS["order"], WORK, SegmentStore(tmp_path), Workers())
