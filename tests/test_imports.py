"""What importing costs, and in which direction modules import each other."""

from __future__ import annotations

import ast
import subprocess
import sys
import time
from pathlib import Path

import networkx as nx
import pytest

from tests.sources import import_nodes, parsed

PACKAGE = Path(__file__).parents[1] / "bayeslab"
HEAVY = {"pymc", "arviz", "sklearn", "pytensor", "numba"}

# Each layer may import itself and the layers before it; engines judge their own draws, so the
# verdict (and how it is shown) lies below them.
LAYERS = [
    {
        "compiling",
        "errors",
        "computer",
        "memory",
        "options",
        "python_evidence",
        "registry",
        "code_cache",
        "compiled",
        "arrays",
        "blas",
        "streams",
        "files",
        "workers",
        "labelled",
        "special",
    },
    {"constants", "digits", "evidence", "progress", "questions", "training_warnings", "distributions"},
    {"language"},
    {"data"},
    {"exact", "latents"},
    {"conjugate"},
    {"structure", "decisions", "learners", "theory"},
    {"formats"},
    {"language.model_file", "run_folder", "shipped"},
    {
        "posterior.answer",
        "posterior.averaging",
        "posterior.bijectors",
        "posterior.chains",
        "posterior.contract",
        "posterior.decoding",
        "posterior.draws",
        "posterior.evaluation",
        "posterior.event_kinds",
        "posterior.expectation",
        "posterior.forward",
        "posterior.generative",
        "posterior.graph_model",
        "posterior.latent_gibbs",
        "posterior.latent_modes",
        "posterior.latent_plans",
        "posterior.latent_problem",
        "posterior.log_density",
        "posterior.machine",
        "posterior.mixtures",
        "posterior.number_choice",
        "posterior.observed",
        "posterior.open_cells",
        "posterior.relabelling",
        "posterior.similar_rows",
        "posterior.transforms",
    },
    {"families"},
    {
        "results.verdict",
        "results.psis",
        "results.convergence",
        "results.tails",
        "results.late_chains",
        "results.checks",
        "results.render",
        "results.structure_checks",
    },
    {"job", "posterior"},
    {"engines"},
    {"preparation"},
    {"results.fitted", "results.finite", "running"},
    {"plots"},
    {"results", "report", "fitting", "networks", "structures", "estimators", "expanding", "machine"},
    {"graph_scores"},
    {"exporting", "starters"},
    {"cli"},
    {"__main__"},
]


def layer(module: str) -> int:
    parts = module.split(".")[1:]
    for number, names in enumerate(LAYERS):
        if ".".join(parts[:2]) in names:
            return number
    return next(number for number, names in enumerate(LAYERS) if parts[0] in names)


def imports(path: Path) -> set[str]:
    found = set()
    for node in import_nodes(path):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("bayeslab."):
            folder = PACKAGE.joinpath(*node.module.split(".")[1:])
            for name in (alias.name for alias in node.names):
                inside = (folder / f"{name}.py").exists() or (folder / name / "__init__.py").exists()
                found.add(f"{node.module}.{name}" if inside else node.module)
        elif isinstance(node, ast.ImportFrom) and node.module == "bayeslab":
            found |= {f"bayeslab.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.startswith("bayeslab.")}
    return found


def test_imports_go_one_way():
    """Also those inside functions."""
    seen = 0
    for path in PACKAGE.rglob("*.py"):
        module = ".".join(("bayeslab", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")
        if module == "bayeslab":
            continue
        for target in imports(path):
            seen += 1
            assert layer(target) <= layer(module), f"{module} imports {target}"
    assert seen > 50


def edges() -> dict[str, set[str]]:
    """Which modules each module imports: at the top, inside functions, and for types alone."""
    modules = {}
    for path in PACKAGE.rglob("*.py"):
        module = ".".join(("bayeslab", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")
        modules[module] = imports(path) - {module, "bayeslab"}
    del modules["bayeslab"]  # which names its public parts lazily
    return {module: targets & modules.keys() for module, targets in modules.items()}


def test_no_modules_import_each_other_in_a_circle():
    circles = [sorted(circle) for circle in nx.strongly_connected_components(nx.DiGraph(edges())) if len(circle) > 1]
    assert not circles


def test_circles_would_be_found(tmp_path, monkeypatch):
    (tmp_path / "one.py").write_text("def f():\n    from bayeslab.two import g\n")
    (tmp_path / "two.py").write_text("if TYPE_CHECKING:\n    from bayeslab.one import f\n")
    (tmp_path / "__init__.py").write_text("")
    monkeypatch.setattr(sys.modules[__name__], "PACKAGE", tmp_path)
    with pytest.raises(AssertionError, match=r"bayeslab\.one"):
        test_no_modules_import_each_other_in_a_circle()


def test_no_module_hides_a_name_of_its_package():
    """Importing ``package.name`` replaces what the package calls ``name``."""
    hidden = []
    for init in PACKAGE.rglob("__init__.py"):
        modules = {path.stem for path in init.parent.glob("*.py")} | {p.parent.name for p in init.parent.glob("*/*.py")}
        for node in parsed(init).body:
            names = {node.name} if isinstance(node, (ast.FunctionDef, ast.ClassDef)) else set()
            if isinstance(node, ast.Assign):
                names = {name.id for target in node.targets for name in ast.walk(target) if isinstance(name, ast.Name)}
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("bayeslab."):
                package = PACKAGE.joinpath(*node.module.split(".")[1:])
                modules_there = {path.stem for path in package.glob("*.py")} if package.is_dir() else set()
                names = {alias.asname or alias.name for alias in node.names if alias.name not in modules_there}
            hidden += [f"{init.relative_to(PACKAGE)}: {name}" for name in names & modules]
    assert not hidden


def test_no_package_imports_a_private_name_of_another():
    private = []
    for path in PACKAGE.rglob("*.py"):
        package = path.relative_to(PACKAGE).parts[0]
        for node in import_nodes(path):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("bayeslab."):
                for name in (alias.name for alias in node.names):
                    parts = [*node.module.split(".")[1:], name]
                    if parts[0] != package and any(part.startswith("_") for part in parts):
                        private.append(f"{path.relative_to(PACKAGE)}: {node.module}.{name}")
    assert not private


#: Of the standard library, what some systems lack.
ABSENT_SOMEWHERE = {"fcntl", "grp", "pwd"}


def _statements(path: Path) -> list[tuple[ast.Import | ast.ImportFrom, str]]:
    """The imports of a module, and where each stands: at its top, in a function, or for types alone."""
    found = []

    def walk(node: ast.AST, where: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.Import, ast.ImportFrom)):
                found.append((child, where))
            elif isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                walk(child, "function")
            elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                walk(child, "types")
            else:
                walk(child, where)

    walk(parsed(path), "top")
    return found


def _names(node: ast.Import | ast.ImportFrom, modules: set[str]) -> set[str]:
    """The modules that a statement loads."""
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names}
    full = {f"{node.module}.{alias.name}" for alias in node.names}
    return (full & modules) | ({node.module or ""} if full - modules else set())


def test_functions_import_only_what_is_heavy():
    """An import stands in a function where it loads a library that the module would otherwise do without."""
    paths = {
        ".".join(("bayeslab", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__"): path
        for path in PACKAGE.rglob("*.py")
    }
    del paths["bayeslab"]
    statements = {module: _statements(path) for module, path in paths.items()}
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(paths)
    for module, found in statements.items():
        for node, where in found:
            if where == "top":
                graph.add_edges_from((module, name) for name in _names(node, paths.keys()))

    def libraries(name: str) -> set[str]:
        there = {name} | (nx.descendants(graph, name) if name in graph else set())
        outside = {
            ".".join(x.split(".")[:2]) if x.startswith("scipy") else x.split(".")[0] for x in there - paths.keys()
        }
        return {x for x in outside if x in ABSENT_SOMEWHERE or x not in sys.stdlib_module_names} - {"bayeslab"}

    at_top = {module: libraries(module) for module in paths}
    light = [
        f"{paths[module].relative_to(PACKAGE)}:{node.lineno}"
        for module, found in statements.items()
        for node, where in found
        if where == "function" and not any(libraries(name) - at_top[module] for name in _names(node, paths.keys()))
    ]
    assert not light, "\n".join(light)


def test_tests_reach_modules_by_public_names():
    private = []
    for path in Path(__file__).parent.rglob("*.py"):
        for node in import_nodes(path):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("bayeslab"):
                parts = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
                private += [
                    f"{path.name}:{node.lineno}" for part in parts if part.startswith("_") and part != "__version__"
                ]
    assert not private


def test_only_engines_and_families_know_pymc():
    for path in PACKAGE.rglob("*.py"):
        names = {n.split(".")[0] for n in _third_party(path)}
        if names & {"pymc", "pytensor", "pymc_extras", "nutpie"}:
            assert path.relative_to(PACKAGE).parts[0] in (
                "families",
                "latents",
                "engines",
                "posterior",
                "job.py",
                "code_cache.py",
                "language",
                "data",
                "distributions",
                "evidence.py",
                "machine.py",  # takes models of PyMC
                "results",
            ), path


def _third_party(path: Path) -> set[str]:
    tree = import_nodes(path)
    return {n.module or "" for n in tree if isinstance(n, ast.ImportFrom)} | {
        a.name for n in tree if isinstance(n, ast.Import) for a in n.names
    }


def loaded(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys\nprint(*sorted(m for m in sys.modules if '.' not in m))"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


def test_import_loads_nothing_heavy():
    assert not loaded("import bayeslab as bl") & (HEAVY | {"numpy", "pandas", "pydantic"})


def test_checking_a_file_loads_no_pymc():
    file = PACKAGE.parent / "models" / "radon.yaml"
    assert not loaded(f"import bayeslab as bl\nbl.check({str(file)!r})") & HEAVY


@pytest.mark.parametrize(("method", "more"), [("exact", set()), ("nuts", {"numba", "networkx"})])
def test_a_fit_and_its_summary_load_neither_pymc_nor_pandas(tmp_path, method, more):
    """From the file to the verdict and the run folder; the result becomes a DataTree when somebody asks for one."""
    file = PACKAGE.parent / "models" / "eight_schools.yaml"
    code = (
        f"import bayeslab as bl\nfrom bayeslab.cli.fit import show\nimport contextlib, io\n"
        f"fit = bl.fit({str(file)!r}, method={method!r}, draws=100, chains=2, runs={str(tmp_path)!r}, progress=False)\n"
        "with contextlib.redirect_stdout(io.StringIO()): show(fit, json=False, all_rows=True)\n"
        "repr(fit), isinstance(fit, dict)"
    )
    unwanted = (HEAVY - {"numba"}) | more | {"pandas", "xarray", "zarr", "dask"}
    assert not loaded(code) & unwanted


@pytest.mark.slow(why="processes")
@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("eight_schools", "fit.log_prior()"),
        ("coal_steps", "fit.decode(), fit.states.probabilities()"),
    ],
)
def test_what_is_asked_after_a_fit_loads_no_pymc(name, call):
    file = PACKAGE.parent / "models" / f"{name}.yaml"
    code = (
        f"import bayeslab as bl\nfit = bl.fit({str(file)!r}, method='nuts', draws=50, tune=200, chains=2, runs=None,"
        f" progress=False)\n{call}"
    )
    assert not loaded(code) & {"pymc", "pytensor", "pymc_extras"}


@pytest.mark.slow(why="processes")
def test_import_is_fast():
    """Less than 0.3 s over an interpreter that imports nothing; the best of five."""

    def best(code: str) -> float:
        times = []
        for _ in range(5):
            begun = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True)
            times.append(time.perf_counter() - begun)
        return min(times)

    assert best("import bayeslab") - best("pass") < 0.3
