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
    "coal_regimes": {"method": "gibbs", "draws": 300, "chains": 2},
    "heart_disease": {},
    "asia_structure": {},
    "galaxies": {},
    "notes": {"draws": 300},
    "orings": {"method": "laplace"},
    "play_tennis_rule": {},
}


def newest(folder: Path) -> float:
    """The time of the last change of a file of Python in a folder."""
    return max(os.path.getmtime(path) for path in folder.rglob("*.py"))


def write_report(models: Path, name: str, target: Path) -> Path:
    """Fit the model of a name and write its report below ``target``."""
    import bayeslab as bl

    target.mkdir(parents=True, exist_ok=True)
    page, model = target / f"{name}.html", models / f"{name}.yaml"
    changed = max(newest(Path(bl.__file__).parent), os.path.getmtime(model), os.path.getmtime(__file__))
    if not page.exists() or os.path.getmtime(page) < changed:
        bl.fit(model, runs=None, progress=False, **REPORTS[name]).report(page, force=True)
    return page


def _build(app: Sphinx, failure: Exception | None) -> None:
    if failure is None and app.builder.format == "html":
        for name in REPORTS:
            write_report(Path(app.srcdir).parent / "models", name, Path(app.outdir) / "reports")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("build-finished", _build)
    return {"parallel_read_safe": True}
