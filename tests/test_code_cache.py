"""Folders of compiled code: private, and no reason to fail."""

from __future__ import annotations

import errno
import importlib.util
import os
import subprocess
import sys
import time
from pathlib import Path

import numba
import numba.core.caching
import pytest

import bayeslab.code_cache as code_cache

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def _fresh(monkeypatch, tmp_path_factory):
    monkeypatch.setenv("TMPDIR", str(tmp_path_factory.mktemp("temporary")))
    monkeypatch.setattr("tempfile.tempdir", None)
    code_cache.temporary.cache_clear()
    code_cache.not_kept.cache_clear()


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


# --------------------------------------------------------------------------------------- folders


def test_a_folder_is_made_for_the_user_alone(tmp_path):
    assert code_cache.refused(tmp_path / "a" / "b") is None
    assert mode(tmp_path / "a" / "b") == 0o700


def test_a_folder_that_others_read_is_closed_to_them(tmp_path):
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o755)
    assert code_cache.private_folder(folder) == folder
    assert mode(folder) == 0o700


@pytest.mark.parametrize("bits", [0o777, 0o1777, 0o702])
def test_a_folder_that_others_write_to_is_not_used(tmp_path, bits):
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(bits)
    with pytest.warns(UserWarning, match="others may write to it"):
        used = code_cache.private_folder(folder)
    assert used == Path(os.environ["TMPDIR"]) / f"bayeslab-{os.getuid()}" and mode(used) == 0o700
    assert folder.stat().st_mode & 0o7777 == bits and not list(folder.iterdir())


def test_a_folder_that_a_group_writes_to_is_used_if_the_group_is_the_user(tmp_path, monkeypatch):
    folder = tmp_path / "shared"
    folder.mkdir()
    for alone, expected in ((True, None), (False, "others may write to it")):
        folder.chmod(0o770)
        monkeypatch.setattr(code_cache, "alone", lambda group, alone=alone: alone)
        assert code_cache.refused(folder) == expected


def test_a_folder_of_another_user_is_not_used(tmp_path, monkeypatch):
    if os.getuid():
        monkeypatch.setattr(os, "getuid", lambda: os.stat(tmp_path).st_uid + 1)
        folder = tmp_path
    else:
        folder = tmp_path / "theirs"
        folder.mkdir(mode=0o700)
        os.chown(folder, 65534, 65534)
    assert code_cache.refused(folder) == "it belongs to another user"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a link away")
def test_a_link_that_another_user_made_is_not_followed(tmp_path):
    link, own = tmp_path / "link", tmp_path / "own"
    own.mkdir(mode=0o700)
    link.symlink_to(own)
    assert code_cache.refused(link) is None
    os.chown(link, 65534, 65534, follow_symlinks=False)
    assert code_cache.refused(link) == "it belongs to another user"


def test_a_temporary_folder_that_somebody_else_laid_out_is_not_used(tmp_path):
    trap = Path(os.environ["TMPDIR"]) / f"bayeslab-{os.getuid()}"
    trap.mkdir()
    trap.chmod(0o777)
    (tmp_path / "file").touch()
    with pytest.warns(UserWarning, match="cannot be created"):
        used = code_cache.private_folder(tmp_path / "file" / "cache")
    assert used != trap and mode(used) == 0o700


def test_a_temporary_folder_in_the_working_folder_is_not_used_again(tmp_path, monkeypatch):
    """Python takes the working folder where no other can be written to, and that may be anybody's download."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    trap = tmp_path / f"bayeslab-{os.getuid()}"
    trap.mkdir(mode=0o700)
    (tmp_path / "file").touch()
    with pytest.warns(UserWarning, match="cannot be created"):
        used = code_cache.private_folder(tmp_path / "file" / "cache")
    assert used != trap and used.parent == tmp_path and mode(used) == 0o700


def test_a_folder_called_like_an_unknown_home_is_not_used(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "~" / ".cache" / "numba").mkdir(parents=True, mode=0o700)
    assert code_cache.refused(Path("~/.cache/numba")) == "the home folder is not known"


def test_kernels_are_kept_in_the_cache_of_the_user_where_the_package_belongs_to_another(tmp_path, monkeypatch):
    package = tmp_path / "package" / "bayeslab"
    package.mkdir(parents=True)
    (package / "posterior").touch()  # no folder can be made there
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(code_cache, "__file__", str(package / "code_cache.py"))
    used = code_cache.private_folder(*code_cache.kernel_folders())
    assert used.parent == tmp_path / "cache" and mode(used) == 0o700
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "named"))
    assert code_cache.private_folder(*code_cache.kernel_folders()).parent == tmp_path / "named"


@pytest.mark.slow(why="processes")
@pytest.mark.skipif(sys.platform == "win32", reason="only POSIX has users without a home")
def test_a_user_without_a_home_needs_none(tmp_path):
    """A container may run as a number that has no name: neither HOME nor the table of users gives a home then."""
    code = """
import os, pwd
def unknown(_):
    raise KeyError
pwd.getpwuid = unknown
import bayeslab, numba, pytensor
assert pytensor.config.compiledir.is_dir()
@numba.njit(cache=True)
def twice(x):
    return 2 * x
assert twice(4) == 8
print(os.path.isdir("~"))
"""
    (tmp_path / "script.py").write_text(code)
    (tmp_path / "__pycache__").touch()
    without = ("HOME", "PYTENSOR_FLAGS", "MPLCONFIGDIR", "NUMBA_CACHE_DIR", "XDG_CACHE_HOME")
    env = {k: v for k, v in os.environ.items() if k not in without} | {"PYTHONPATH": str(ROOT)}
    run = [sys.executable, "script.py"]
    done = subprocess.run(run, env=env, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "False\n"), done.stderr
    assert done.stderr.count("the home folder is not known") == 1


@pytest.mark.slow(why="processes")
def test_a_home_that_cannot_be_written_to_costs_one_line(tmp_path):
    """PyTensor's import ends in an error there, and Numba's functions would not be kept."""
    (tmp_path / "home").touch()
    code = "import bayeslab, pytensor, matplotlib; print(pytensor.config.compiledir.is_dir())"
    env = {k: v for k, v in os.environ.items() if k not in ("PYTENSOR_FLAGS", "MPLCONFIGDIR", "NUMBA_CACHE_DIR")}
    env |= {"HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
    said = [line for line in done.stderr.splitlines() if not line.startswith("  ")]
    assert len(said) == 1 and "compiled code is not kept in" in said[0]


def test_the_source_of_compiled_functions_is_kept_beside_them():
    """PyTensor alone would leave a temporary file for each function, and never remove it."""
    from pytensor.configdefaults import config
    from pytensor.link.numba import cache
    from pytensor.link.utils import write_generated_src

    file = Path(write_generated_src("def f():\n    return 1\n"))
    assert file.parent == Path(config.generated_src_dir) == cache.NUMBA_CACHE_PATH / "source"


def test_the_folder_of_pytensor_is_that_of_its_flags_or_its_configuration(tmp_path, monkeypatch):
    (tmp_path / "rc").write_text(f"[global]\nbase_compiledir = {tmp_path / 'b'}\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("PYTENSOR_FLAGS", raising=False)
    assert code_cache.pytensor_folder() == tmp_path / ".pytensor"
    monkeypatch.setenv("PYTENSORRC", str(tmp_path / "rc"))
    assert code_cache.pytensor_folder() == tmp_path / "b"
    monkeypatch.setenv("PYTENSOR_FLAGS", f"mode=NUMBA,base_compiledir={tmp_path / 'c'}")
    assert code_cache.pytensor_folder() == tmp_path / "c"


# --------------------------------------------------------------------------------------- entries


@pytest.fixture
def kernel(tmp_path):
    """A module with a cached function; each call reads it as a new process would."""
    file = tmp_path / "kernel_of_test.py"
    file.write_text("import numba\n@numba.njit(cache=True)\ndef twice(x):\n    return 2 * x\n")

    def read():
        spec = importlib.util.spec_from_file_location("kernel_of_test", file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.twice

    return read


def entries(tmp_path: Path) -> list[Path]:
    return sorted(p for p in (tmp_path / "__pycache__").iterdir() if p.suffix in (".nbi", ".nbc"))


@pytest.mark.parametrize("suffix", [".nbi", ".nbc"])
@pytest.mark.parametrize("length", [0, 1, 40, -3])
def test_a_truncated_entry_is_compiled_again(kernel, tmp_path, suffix, length):
    assert kernel()(4) == 8
    (damaged,) = (p for p in entries(tmp_path) if p.suffix == suffix)
    damaged.write_bytes(damaged.read_bytes()[:length])
    again = kernel()
    assert again(4) == 8 and not again.stats.cache_hits
    third = kernel()
    assert third(4) == 8 and third.stats.cache_hits


@pytest.mark.parametrize("suffix", [".nbi", ".nbc"])
def test_an_unreadable_entry_is_compiled_again(kernel, tmp_path, suffix):
    assert kernel()(4) == 8
    (damaged,) = (p for p in entries(tmp_path) if p.suffix == suffix)
    damaged.write_bytes(b"\x80\x04cno_such_module\nnothing\n.")
    assert kernel()(4) == 8


TOGETHER = """
import sys, time
import bayeslab
import kernel_of_test
while time.time() < float(sys.argv[1]):
    time.sleep(0.005)
assert kernel_of_test.twice(4) == 8
print(len(kernel_of_test.twice.stats.cache_misses))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="locks of POSIX")
def test_of_two_processes_that_begin_together_one_compiles(kernel, tmp_path):
    kernel()
    env = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"}
    at = str(time.time() + 6)
    run = [sys.executable, "-c", TOGETHER, at]
    both = [subprocess.Popen(run, env=env, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert sorted(one.communicate()[0] for one in both) == ["0\n", "1\n"]
    assert not list((tmp_path / "__pycache__").glob("*.lock"))


@pytest.mark.skipif(sys.platform == "win32", reason="locks of POSIX")
def test_a_function_that_is_not_compiled_keeps_no_lock(tmp_path):
    file = tmp_path / "kernel_of_test.py"
    file.write_text("import numba\n@numba.njit(cache=True)\ndef wrong(x):\n    return x.nothing\n")
    spec = importlib.util.spec_from_file_location("kernel_of_test", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with pytest.raises(numba.TypingError):
        module.wrong(4)
    assert not list(tmp_path.rglob("*.lock"))


def test_a_full_disk_keeps_nothing_and_stops_nothing(kernel, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(numba.core.caching.IndexDataCacheFile, "save", full)
    with pytest.warns(UserWarning, match="No space left on device"):
        assert kernel()(4) == 8


def test_a_folder_that_others_write_to_is_passed_over(kernel, tmp_path, monkeypatch):
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__").chmod(0o777)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    twice = kernel()
    assert twice(4) == 8 and not entries(tmp_path)
    kept = Path(twice._cache.cache_path)
    assert kept.is_relative_to(tmp_path / "home") and mode(kept) == 0o700


def test_without_any_folder_functions_are_kept_among_temporary_files(kernel, tmp_path, monkeypatch):
    (tmp_path / "__pycache__").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "__pycache__" / "x"))
    with pytest.warns(UserWarning, match="compiled code is not kept in"):
        twice = kernel()
    assert twice(4) == 8
    assert Path(twice._cache.cache_path).is_relative_to(os.environ["TMPDIR"])


# ------------------------------------------------------------------------------------------ NUTS

SCRIPT = """
import bayeslab as bl
nodes = {"a": "Normal(0, 10)", "s": "HalfNormal(5)", "y[obs]": "StudentT(4, a, s)"}
model = bl.Model(data={"rows": "obs"}, model=bl.Graph(nodes=nodes))
data = {"y": [1.0, 2.0, 3.0, 2.5]}
fit = bl.fit(model, data, "nuts", seed=1, progress=False, runs=None, chains=1, draws=50, tune=50, backend="pytensor")
print(fit.posterior["a"].values.sum().hex())
"""


@pytest.mark.slow(why="processes")
def test_nuts_survives_a_damaged_cache(tmp_path):
    env = os.environ | {"PYTENSOR_FLAGS": f"base_compiledir={tmp_path / 'cache'}", "PYTHONPATH": str(ROOT)}

    def run() -> str:
        done = subprocess.run([sys.executable, "-c", SCRIPT], env=env, capture_output=True, text=True, check=True)
        return done.stdout

    draws = run()
    for length in (10, 2000):
        files = [p for p in (tmp_path / "cache").rglob("*") if p.is_file() and p.name != ".lock"]
        assert any(p.suffix == ".nbc" for p in files)
        for file in files:
            os.truncate(file, min(length, file.stat().st_size))
            os.utime(file, (0, 0))
        assert run() == draws
