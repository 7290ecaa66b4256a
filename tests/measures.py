"""Measures of the code, for comparing it before and after a change.

    python tests/measures.py [FOLDER]

FOLDER is the package to measure, by default bayeslab beside the tests. Printed are lines by package, functions, private
functions that one place calls, circles of imports (those inside functions and for types counted), names with an
underscore that another package imports, imports inside functions, uses of ``hasattr`` and ``getattr``, and names that
say nothing to a reader.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from pathlib import Path

import networkx as nx

# Names that do not say what a thing is.
VAGUE = frozenset(("own", "found", "seen", "told", "said", "calm", "lasting", "judged", "unnamed"))


def modules(package: Path) -> dict[str, ast.Module]:
    """The tree of each module, by dotted name."""
    out = {}
    for path in sorted(package.rglob("*.py")):
        name = ".".join((package.name, *path.relative_to(package).with_suffix("").parts)).removesuffix(".__init__")
        out[name] = ast.parse(path.read_text(encoding="utf-8"))
    return out


def imported(tree: ast.AST, known: dict[str, ast.Module]) -> list[tuple[str, str]]:
    """What a tree imports of the package: modules, and the name taken from each."""
    out = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                out.append((whole if whole in known else node.module, alias.name))
        elif isinstance(node, ast.Import):
            out += [(alias.name, "") for alias in node.names]
    return [(module, name) for module, name in out if module in known]


def names(tree: ast.AST) -> Counter[str]:
    """How often each name is used, attributes and parameters among them."""
    out = Counter[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            out[node.id] += 1
        elif isinstance(node, ast.Attribute):
            out[node.attr] += 1
        elif isinstance(node, ast.arg):
            out[node.arg] += 1
    return out


def measures(package: Path) -> dict[str, int]:
    """All measures of a package."""
    trees = modules(package)
    root = package.name
    graph: nx.DiGraph[str] = nx.DiGraph()
    borrowed = local = functions = once = 0
    for module, tree in trees.items():
        targets = [(target, name) for target, name in imported(tree, trees) if target not in (module, root)]
        graph.add_edges_from((module, target) for target, _ in targets)
        room = module.split(".")[1:2]
        borrowed += sum(
            target.split(".")[1:2] != room and any(part.startswith("_") for part in (*target.split("."), name))
            for target, name in targets
        )
        defined = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        functions += len(defined)
        local += sum(isinstance(n, ast.Import | ast.ImportFrom) for f in defined for n in ast.walk(f))
        used = names(tree)
        once += sum(
            f.name.startswith("_") and not f.name.startswith("__") and used[f.name] == 1 and not f.decorator_list
            for f in defined
        )
    used = sum((names(tree) for tree in trees.values()), Counter[str]())
    return {
        "lines": sum(len(path.read_bytes().splitlines()) for path in package.rglob("*.py")),
        "modules": len(trees),
        "functions": functions,
        "private functions that one place calls": once,
        "circles of imports": sum(len(c) > 1 for c in nx.strongly_connected_components(graph)),
        "underscore names imported across packages": borrowed,
        "imports inside functions": local,
        "hasattr and getattr": used["hasattr"] + used["getattr"],
        "vague names": sum(used[word] for word in VAGUE),
    }


def main() -> None:
    package = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1] / "bayeslab"
    for name, value in measures(package).items():
        print(f"{name:45} {value:>9,}")
    print()
    rooms = Counter[str]()
    for path in package.rglob("*.py"):
        rooms[path.relative_to(package).parts[0]] += len(path.read_bytes().splitlines())
    for room, lines in rooms.most_common():
        print(f"{room:45} {lines:>9,}")


if __name__ == "__main__":
    main()
