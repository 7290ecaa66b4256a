"""Reports of the gallery, built with the pages: one of each kind of model, in the folder ``reports`` of the output.

Models and their data lie in the folder ``models``, so that nothing is loaded. A report is made again when its model or
the package has changed.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

# Model files by the names of the pages, with options that keep the build short.
REPORTS: dict[str, dict[str, Any]] = {
    "trees": {},
    "geyser_clusters": {"method": "gibbs", "draws": 300, "chains": 2},
    "coal_regimes": {"method": "gibbs"},
    "heart_disease": {},
    "asia_structure": {},
    "galaxies": {},
    "notes": {"draws": 300},
    "nile_process": {"method": "map"},
    "play_tennis_rule": {},
}
# The model of the page on Gaussian processes, which is no file.
NILE = {
    "name": "nile_process",
    "about": "The flow of the Nile at Aswan as a Matérn process of time.",
    "data": {"rows": "measurement", "labels": {"flow": "Flow"}, "units": {"flow": "10⁸ m³"}},
    "model": {
        "family": "gaussian_process",
        "target": "flow",
        "kernel": "Matern32(year)",
        "approximation": "state_space",
    },
    "seed": 1,
}


def newest(folder: Path) -> float:
    """The time of the last change of a file of Python in a folder."""
    return max(os.path.getmtime(path) for path in folder.rglob("*.py"))


def write_report(models: Path, name: str, target: Path) -> Path:
    """Fit the model of a name and write its report below ``target``."""
    import bayeslab as bl

    target.mkdir(parents=True, exist_ok=True)
    page, model = target / f"{name}.html", models / f"{name}.yaml"
    files = [path for path in (model, Path(__file__)) if path.exists()]
    changed = max(newest(Path(bl.__file__).parent), *map(os.path.getmtime, files))
    if not page.exists() or os.path.getmtime(page) < changed:
        given = (bl.Model(**NILE), models / "data" / "nile.csv") if name == "nile_process" else (model,)
        bl.fit(*given, runs=None, progress=False, **REPORTS[name]).report(page, force=True)
    return page


def _build(app: Sphinx, failure: Exception | None) -> None:
    if failure is None and app.builder.format == "html":
        for name in REPORTS:
            write_report(Path(app.srcdir).parent / "models", name, Path(app.outdir) / "reports")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("build-finished", _build)
    return {"parallel_read_safe": True}
