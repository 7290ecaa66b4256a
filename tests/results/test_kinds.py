"""The kinds of plots of a fit: which it has, what they show, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest

import bayeslab as bl
from bayeslab.results.pictures import kinds
from tests.cli.calls import call
from tests.refusals import refused

RNG = np.random.default_rng(4)
X = RNG.normal(size=40)
DATA = {"x": X, "y": 1 + 2 * X + RNG.normal(size=40)}
GENERAL = ["trace", "rank", "autocorrelation", "posterior", "forest", "pairs", "prior"]


@pytest.fixture(scope="module")
def fit(tmp_path_factory):
    model = bl.Model(name="line", model=bl.Regression(formula="y ~ x"))
    options = {"draws": 200, "tune": 200, "chains": 2, "cores": 1}
    return bl.fit(model, DATA, "nuts", runs=tmp_path_factory.mktemp("runs"), progress=False, seed=1, **options)


def test_which_kinds_a_fit_has(fit):
    assert kinds(fit)[:11] == [*GENERAL, "energy", "ppc", "loo_pit", "residuals"] and kinds(fit)[-1] == "effects"
    exact = bl.fit(fit.model, DATA, "exact", runs=None, progress=False, seed=1)
    assert "energy" not in kinds(exact) and kinds(exact)[:7] == GENERAL
    mixture = bl.Model(model={"family": "mixture", "columns": ["y"], "components": 2})
    em = bl.fit(mixture, DATA, "em", runs=None, progress=False, seed=1)
    assert kinds(em)[:2] == ["components", "density"] and "trace" in kinds(em)
    # Whatever is drawn says of which model it is.
    assert em.plot("density").get_suptitle() == f"{em.model.name}: density"
    assert exact.plot("ppc").get_suptitle() == "line: ppc"
    assert not {"rank", "posterior", "forest", "pairs", "effects"} & set(kinds(em))


@pytest.mark.slow(why="large")
@pytest.mark.parametrize("kind", [*GENERAL, "energy", "ppc", "loo_pit", "residuals", "effects", "max"])
def test_every_kind_is_drawn(fit, kind, tmp_path):
    import matplotlib.pyplot

    before = matplotlib.pyplot.get_fignums()
    made = fit.plot(kind)
    made.savefig(tmp_path / "picture.svg")
    assert (tmp_path / "picture.svg").stat().st_size > 5000
    # Figures are not registered with pyplot, which would show them twice in a notebook.
    assert matplotlib.pyplot.get_fignums() == before


def test_quantities_of_choice(fit):
    axes = fit.plot("trace", var_names=["b", "sigma"]).axes
    assert [a.get_title() for a in axes if a.get_title()] == ["b[x]", "sigma"]
    shown = {tuple(line.get_ydata()) for line in axes[1].lines}
    assert shown == {tuple(chain) for chain in fit.posterior["sigma"].to_numpy()}
    title = fit.plot("forest", var_names="sigma").get_suptitle()
    assert title.startswith("line: means, 50 and 89 % intervals")
    with refused("option.unknown-variable", "'sigmma'.*'sigma'"):
        fit.plot("trace", var_names="sigmma")
    with refused("option.not-applicable", "var_names.*'ppc'"):
        fit.plot("ppc", var_names="sigma")
    with refused("option.not-applicable", "columns.*'trace'"):
        fit.plot("trace", columns=["x"])


def test_what_is_left_out_is_named():
    model = bl.Model(name="many", model=bl.Graph(nodes={"mu[g]": "Normal(0, 1)", "y[obs_id]": "Normal(mu[g], 1)"}))
    data = {"g": [f"g{k:02d}" for k in range(20)] * 2, "y": RNG.normal(size=40)}
    many = bl.fit(model, data, runs=None, progress=False, seed=1)
    title = many.plot("posterior").get_suptitle()
    assert title.endswith("the first 12 of 20; var_names chooses")


def test_residuals_are_normal_quantiles_of_loo_pit(fit):
    from scipy import stats

    (points,) = (line for line in fit.plot("residuals").axes[0].lines if line.get_marker() == "o")
    assert points.get_ydata() == pytest.approx(stats.norm.ppf(fit.loo_pit()["y"]))


def test_an_unknown_kind_lists_those_of_the_run(fit, capsys):
    with refused("option.unknown-word", "'energie'; it has trace, rank, .*effects; did you mean 'energy'"):
        fit.plot("energie")
    code, _, error = call(capsys, "plot", fit.folder, "components")
    assert code == 1 and "no picture 'components'; it has trace, rank" in error and len(error.splitlines()) == 1


@pytest.mark.parametrize(("suffix", "start"), [(".png", b"\x89PNG"), (".pdf", b"%PDF"), (".svg", b"<?xml")])
def test_formats_and_dots_per_inch(fit, capsys, tmp_path, suffix, start):
    sizes = []
    for dpi in (50, 100):
        file = tmp_path / f"picture{dpi}{suffix}"
        code, out, _ = call(capsys, "plot", fit.folder, "forest", "--vars", "b[x],sigma", "-o", file, "--dpi", dpi)
        assert code == 0 and out.strip() == f"written {file}"
        assert file.read_bytes().startswith(start)
        sizes.append(int.from_bytes(file.read_bytes()[16:20], "big") if suffix == ".png" else 1)
    assert sizes[1] == pytest.approx(2 * sizes[0], abs=1) or suffix != ".png"


COUNTS = {"y": np.concatenate([RNG.poisson(2, 30), RNG.poisson(9, 30)]).tolist()}
# A file or a model, its data, the method, and kinds that it lacks, though others of its family have them.
FITS = {
    "field": ("models/misconception.yaml", None, "exact", {"most_probable", "ppc", "loo_pit", "mean", "prior"}),
    "topics": ("models/notes.yaml", None, "gibbs", {"days", "ppc", "calibration", "max", "prior"}),
    "columns": (
        bl.Model(model={"family": "mixture", "columns": ["x", "y"], "components": 2}),
        DATA,
        "gibbs",
        {"density", "number", "loo_pit", "residuals", "calibration"},
    ),
    "process": (
        bl.Model(model={"family": "mixture", "columns": ["y"], "components": "dirichlet_process"}),
        DATA,
        "gibbs",
        {"responsibilities", "loo_pit", "zeros"},
    ),
    "states": (
        bl.Model(model={"family": "hmm", "columns": ["y"], "states": 2, "emission": "poisson"}),
        COUNTS,
        "em",
        {"loo_pit", "residuals", "calibration", "rank"},
    ),
}


@pytest.mark.slow(why="large")
@pytest.mark.parametrize("name", FITS)
def test_a_fit_names_the_kinds_that_it_has(name):
    model, data, method, lacking = FITS[name]
    options = {"draws": 60, "tune": 60, "chains": 2} if method == "gibbs" else {}
    made = bl.fit(model, data, method, runs=None, progress=False, **({"seed": 1} if data else {}), **options)
    known = kinds(made)
    assert known and not lacking & set(known)
    for kind in known:
        assert made.plot(kind).axes
    for kind in lacking:
        with refused("option.unknown-word", f"no picture '{kind}'; it has {', '.join(known)}"):
            made.plot(kind)
