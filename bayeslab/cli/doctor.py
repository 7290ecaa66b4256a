"""``bayeslab doctor``: what this installation consists of, and what hinders it."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
import time
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Annotated

import typer

from bayeslab.cli.toolbox.shared import JsonOption, print_json
from bayeslab.code_cache import kernel_folders, pytensor_folder, refused
from bayeslab.computer import available_cores
from bayeslab.errors import BayeslabError
from bayeslab.posterior.machine.arrays import NotLowered
from bayeslab.shipped import example_names, example_path

# Extras and the package that shows that one is installed.
_EXTRAS = {"notebook": "matplotlib", "distributed": "distributed", "duckdb": "duckdb"}


WarmOption = Annotated[
    bool, typer.Option("--warm", help="compile now what fits of models in the language need, once on a computer")
]


def command(warm: WarmOption = False, json: JsonOption = False) -> int:
    """Show versions, cores, memory and folders of compiled code, and what hinders work here. Exit code 1: a problem."""
    if warm:
        return _warm(json)
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


def _warm(json: bool) -> int:
    """Compile the kernels that the example models use, which cover most instructions and distributions."""
    from bayeslab.preparation import Source

    begun, done = time.perf_counter(), list[str]()
    for name in example_names():
        source = Source(example_path(name))
        if source.model.model.family not in ("graph", "regression"):
            continue
        try:
            machine = source.posterior(None).machine_model()
        except (NotLowered, BayeslabError):
            continue
        before, program = time.perf_counter(), machine.program
        program.value_and_gradient(machine.start())
        program.outputs(machine.start()[None])
        done.append(name)
        if not json and (took := time.perf_counter() - before) > 0.5:
            print(f"{name:<24}{took:.1f} s", flush=True)
    took = time.perf_counter() - begun
    if json:
        folder = next((folder for folder in kernel_folders() if refused(folder) is None), kernel_folders()[-1])
        print_json({"models": done, "seconds": took, "folder": str(folder)})
    else:
        print(f"ready: the kernels of {len(done)} example models, in {took:.0f} s")
    return 0


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
