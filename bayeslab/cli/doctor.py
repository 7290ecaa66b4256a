"""``bayeslab doctor``: what this installation consists of, and what hinders it."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

import typer

from bayeslab.cli.toolbox.shared import JsonOption, print_json
from bayeslab.code_cache import kernel_folders, pytensor_folder, refused
from bayeslab.computer import available_cores

# Extras and the package that shows that one is installed.
_EXTRAS = {"notebook": "matplotlib", "distributed": "distributed", "duckdb": "duckdb"}


def command(json: JsonOption = False) -> int:
    """Show versions, cores, memory and folders of compiled code, and what hinders work here. Exit code 1: a problem."""
    versions, problems = {"python": platform.python_version(), "bayeslab": version("bayeslab")}, list[str]()
    for name in _required():
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            problems.append(f"{name} is not installed: pip install {name}")
    extras = {extra: _installed(package) for extra, package in _EXTRAS.items()}
    caches = {
        "pytensor": pytensor_folder(),
        "kernels": next((folder for folder in kernel_folders() if refused(folder) is None), kernel_folders()[-1]),
    }
    if (why := refused(caches["pytensor"])) is not None:
        problems.append(f"compiled code is not kept in {caches['pytensor']}: {why}")
    if (why := refused(caches["kernels"])) is not None:
        advice = "set NUMBA_CACHE_DIR to a folder of yours"
        problems.append(f"compiled kernels are not kept in {caches['kernels']}: {why}; {advice}")
    runs = Path("runs") if Path("runs").is_dir() else Path()
    if not os.access(runs, os.W_OK):
        problems.append(f"runs cannot be written to {runs.resolve()}: go to another folder, or pass --runs")
    free = shutil.disk_usage(runs).free / 2**30
    if free < 1:
        problems.append(f"only {free:.2f} GiB are free on the disk of {runs.resolve()}")
    found = {
        "system": f"{platform.system()} {platform.release()}, {platform.machine()}",
        "python": f"{versions['python']} at {sys.executable}",
        "cores": available_cores(),
        "free disk": f"{free:.0f} GiB",
        "compiled code": {name: str(folder) for name, folder in caches.items()},
        "extras": extras,
        "versions": versions,
        "problems": problems,
    }
    if json:
        print_json(found)
        return 1 if problems else 0
    for key in ("system", "python", "cores", "free disk"):
        print(f"{key:<14}{found[key]}")
    for name, folder in caches.items():
        print(f"{'compiled code':<14}{folder} ({name})")
    for extra, there in extras.items():
        print(f"{'extra':<14}{extra}: {'installed' if there else f'not installed (pip install bayeslab[{extra}])'}")
    print("versions      " + ", ".join(f"{name} {number}" for name, number in versions.items()))
    for problem in problems:
        typer.echo(f"problem       {problem}")
    print("\n" + ("Problems: " + str(len(problems)) if problems else "No problem found."))
    return 1 if problems else 0


def _required() -> list[str]:
    """Names of the packages that bayeslab requires."""
    lines = [line for line in requires("bayeslab") or () if "extra ==" not in line]
    return [name.group() for line in lines if (name := re.match(r"[\w.-]*\w", line))]


def _installed(package: str) -> bool:
    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True
