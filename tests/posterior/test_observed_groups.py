"""What a fit keeps of its data, where no graph holds them: outcomes that are computed from columns are among them."""

from __future__ import annotations

import numpy as np
import pytest

import bayeslab as bl

HEIGHT = np.array([1.2, 3.4, 0.7, 2.2, 5.1, 0.9])
NODES = {
    "closed form": {"m": "Normal(0, 1)", "s": "HalfNormal(1)", "log_height[obs_id]": "Normal(m, s)"},
    "discrete": {"z[obs_id]": "Bernoulli(0.4)", "log_height[obs_id]": "Normal(z, 1)"},
}


@pytest.mark.parametrize("kind", NODES)
def test_computed_outcomes_are_observed_data(kind, tmp_path):
    model = bl.Model(model={"family": "graph", "nodes": NODES[kind]}, data={"derive": {"log_height": "log(height)"}})
    fit = bl.fit(model, {"height": HEIGHT}, "exact", seed=1, progress=False, runs=tmp_path)
    observed = fit.data_tree["observed_data"]
    assert list(observed.data_vars) == ["log_height"]
    assert observed["log_height"].values == pytest.approx(np.log(HEIGHT))
    assert list(fit.data_tree["constant_data"].data_vars) == ["height"]
    fit.plot_check().savefig(tmp_path / "check.png")
    assert bl.open(fit.folder).data_tree["observed_data"]["log_height"].values == pytest.approx(np.log(HEIGHT))
