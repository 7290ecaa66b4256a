"""Models of the conformance suites as programs of the density machine: the densities of their PyMC graphs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bayeslab.posterior.machine.density import MachineDensity
from bayeslab.preparation import Source
from tests.conformance import test_brms as brms
from tests.conformance import test_bugs as bugs
from tests.conformance import test_posteriordb as posteriordb
from tests.conformance import test_regression as regression
from tests.conformance.generalisation import test_generalisation as generalisation
from tests.conformance.references import POSTERIORDB, SHARED, require
from tests.laws.test_machine_models import far_from_the_start, reference

#: Far out: nearly singular matrices, differences of shares near one, exponentials and squares of residuals that overflow.
NEAR_ONLY = {"jaw", "birats", "kidney", "bones", "ordered_logit", "stochastic_volatility", "mammals_lognormal"}
#: Distances from the start; a product of scales near its end has fewer digits.
SPREADS = {"jaw": (0.3, 1.0), "gp_pois_regr": (0.3, 1.0)}


def model_and_data(suite: str, name: str, folder: Path) -> tuple[Path, Any]:
    if suite == "posteriordb":
        return posteriordb.HERE / f"{name}.yaml", POSTERIORDB / "data" / f"{name}.json"
    if suite == "bugs":
        path, *data = bugs.as_given(name, folder)
        return path, (data or [None])[0]
    if suite == "brms":
        return brms.FILES / f"{name}.yaml", brms.data(name)
    if suite == "regression":
        return regression.FILES / f"{name}.yaml", regression.data(name)
    data, _ = generalisation.CASES[name].simulate(generalisation.start(name))
    return generalisation.HERE / f"{name}.yaml", data


SUITES = {
    "generalisation": generalisation.NAMES,
    "posteriordb": posteriordb.NAMES,
    "bugs": bugs.NAMES,
    "brms": brms.NAMES,
    "regression": regression.NAMES,
}


@pytest.mark.slow(why="conformance")
@pytest.mark.usefixtures("double_precision")
@pytest.mark.parametrize(("suite", "name"), [(suite, name) for suite, names in SUITES.items() for name in names])
def test_a_lowered_model_is_its_graph(suite, name, tmp_path):
    if suite != "generalisation":
        require(SHARED / "conformance", "conformance suites")
    path, data = model_and_data(suite, name, tmp_path)
    source = Source(path)
    model = source.posterior(source.bound(data).dataset)
    if model.model.model.family not in ("graph", "regression"):
        return
    machine, graph = model.machine_model(), model.graph()
    density, function = MachineDensity(machine, lambda: graph), reference(graph)
    if not machine.parameters:  # only discrete nodes
        assert machine.program.value_and_gradient(np.empty(0))[0] == pytest.approx(float(function()[0]), rel=1e-9)
        return
    at, rng = density.flat(graph.initial_point()), np.random.default_rng(1)
    for spread in SPREADS.get(name, (0.3, 1.0, 3.0) if name not in NEAR_ONLY else (0.3, 1.0)):
        point = at + spread * rng.standard_normal(at.size)
        try:
            value, *slopes = function(*density.split(point).values())
        except ValueError:
            continue
        if not np.isfinite(value):
            continue
        mine, gradient = density(point)
        slope = np.concatenate([np.ravel(s) for s in slopes])
        assert abs(mine - value) <= 1e-9 * max(1.0, abs(float(value))), spread
        known = np.isfinite(slope)
        assert np.abs(gradient - slope)[known].max() <= 1e-9 * max(1.0, np.abs(slope[known]).max()), spread
    if name not in NEAR_ONLY:
        far_from_the_start(density, function, at, name)
