"""Graphs with gaps in the data, and graphs whose evidence is a potential: densities and answers in closed form."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import bayeslab as bl
from tests.refusals import refused

N = 8
X = np.array([0.5, -1.0, 2.0, np.nan, 1.0, np.nan, 0.0, 3.0])
Y = np.array([1.0, 0.0, 2.5, 1.5, 1.0, -0.5, 0.5, 3.0])
HIT = np.array([1.0, np.nan, 0, 1, np.nan, 0, 1, 1])
GAPS = np.isnan(X)


def model(nodes, **keys) -> bl.Model:
    return bl.Model(data={"rows": "row"}, model={"family": "graph", "nodes": nodes}, **keys)


def log_density(built, **values) -> float:
    """Of a PyMC model at unconstrained values, all terms but Jacobians."""
    return float(sum(v.sum() for v in built.compile_logp(jacobian=False, sum=False, mode="FAST_COMPILE")(values)))


def test_missing_cells_of_a_discrete_outcome_are_summed_out():
    built = bl.to_pymc(model({"a": "Normal(0, 1)", "hit[row]": "Bernoulli(sigmoid(a + y))"}), {"hit": HIT, "y": Y})
    assert [rv.name for rv in built.free_RVs] == ["a"]
    there = ~np.isnan(HIT)
    p = 1 / (1 + np.exp(-(0.3 + Y[there])))
    wanted = stats.norm.logpdf(0.3) + stats.bernoulli.logpmf(HIT[there].astype(int), p).sum()
    assert log_density(built, a=np.array(0.3)) == pytest.approx(wanted, rel=1e-12)


def test_missing_words_are_summed_out():
    words = [None if np.isnan(h) else "yes" if h else "no" for h in HIT]
    built = bl.to_pymc(
        model({"q": "Normal(0, 1)", "hit[row]": "Bernoulli(sigmoid(q))"}, dims={"hit": ["no", "yes"]}), {"hit": words}
    )
    wanted = stats.norm.logpdf(0.3) + 4 * np.log(1 / (1 + np.exp(-0.3))) + 2 * np.log(1 / (1 + np.exp(0.3)))
    assert log_density(built, q=np.array(0.3)) == pytest.approx(wanted, rel=1e-12)


COVARIATE = {
    "q": "Normal(0, 1)", "b": "Normal(0, 2)", "hit[row]": "Bernoulli(sigmoid(q))", "mu[row]": "1 + b * hit",
    "y[row]": "Normal(mu, 0.5)",
}  # fmt: skip


def by_enumeration(q: float, b: float) -> tuple[float, np.ndarray]:
    """Log density with the missing cells summed out, and the chance that each of them is 1."""
    p, gaps = 1 / (1 + np.exp(-q)), np.isnan(HIT)
    each = np.stack([
        stats.bernoulli.logpmf(h, p) + stats.norm.logpdf(Y, 1 + b * h, 0.5) for h in (0, 1)
    ])  # fmt: skip
    rows = np.where(gaps, np.logaddexp(*each), np.where(HIT == 1, each[1], each[0]))
    chance = np.exp(each[1] - np.logaddexp(*each))[gaps]
    return stats.norm.logpdf(q) + stats.norm.logpdf(b, 0, 2) + rows.sum(), chance


@pytest.mark.slow(why="compiles")
def test_missing_cells_of_a_discrete_covariate_are_summed_out():
    built = bl.to_pymc(model(COVARIATE), {"hit": HIT, "y": Y})
    assert {rv.name for rv in built.free_RVs} == {"q", "b"}
    for q, b in ((0.3, -0.4), (-1.0, 2.0)):
        found = log_density(built, q=np.array(q), b=np.array(b))
        assert found == pytest.approx(by_enumeration(q, b)[0], rel=1e-12)


@pytest.mark.slow(why="compiles")
def test_missing_cells_come_back_and_predictions_use_them():
    fit = bl.fit(
        model(COVARIATE, seed=2), {"hit": HIT, "y": Y}, draws=600, tune=300, chains=2, runs=None, progress=False
    )
    q, b = (fit.posterior[name].to_numpy().ravel() for name in ("q", "b"))
    drawn = fit.posterior["hit_unobserved"]
    assert drawn.dims[2:] == ("hit_missing",) and drawn.hit_missing.to_numpy().tolist() == [1, 4]
    chance = np.array([by_enumeration(*at)[1] for at in zip(q, b, strict=True)])
    # Given the parameters the cells are drawn independently, with known chances.
    error = np.sqrt((chance * (1 - chance)).mean(axis=0) / len(q))
    np.testing.assert_array_less(np.abs(drawn.mean(("chain", "draw")).to_numpy() - chance.mean(axis=0)), 4.5 * error)
    # What is computed from the covariate comes back with its cells.
    filled = np.tile(np.nan_to_num(HIT), (len(q), 1))
    filled[:, np.isnan(HIT)] = drawn.to_numpy().reshape(len(q), -1)
    np.testing.assert_allclose(fit.posterior["mu"].to_numpy().reshape(len(q), -1), 1 + b[:, None] * filled)
    there = fit.predict()
    assert np.isfinite(there["mean"]).all() and len(there) == N


def test_missing_levels_of_a_factor_that_indexes_are_summed_out():
    """Coefficients of levels, an outcome that is discrete too, and a covariate that depends on another."""
    codes = np.array([0, 1, np.nan, 2, 0, np.nan, 1, 2])
    nodes = {
        "p[kind]": "Dirichlet([1, 2, 3])", "level[kind]": "Normal(0, 1)", "g[row]": "Categorical(p)",
        "hit[row]": "Bernoulli(sigmoid(level[g]))", "y[row]": "Normal(level[g] + hit, 1)",
    }  # fmt: skip
    built = bl.to_pymc(model(nodes, dims={"kind": ["a", "b", "c"]}), {"g": codes, "hit": HIT, "y": Y})
    p, level = np.array([0.2, 0.5, 0.3]), np.array([0.1, -0.6, 1.2])
    wanted = stats.dirichlet.logpdf(p, [1, 2, 3]) + stats.norm.logpdf(level).sum()
    for code, hit, y in zip(codes, HIT, Y, strict=True):
        total = 0.0
        for k in [0, 1, 2] if np.isnan(code) else [int(code)]:
            for h in [0, 1] if np.isnan(hit) else [int(hit)]:
                chance = 1 / (1 + np.exp(-level[k]))
                total += p[k] * stats.bernoulli.pmf(h, chance) * stats.norm.pdf(y, level[k] + h, 1)
        wanted += np.log(total)
    simplex = built.rvs_to_transforms[built["p"]].forward(p).eval()
    found = log_density(built, p_simplex__=simplex, level=level)
    assert found == pytest.approx(wanted, rel=1e-10)


@pytest.mark.parametrize(
    ("nodes", "code", "match"),
    [
        (
            {"hit[row]": "Poisson(2)", "y[row]": "Normal(hit, 1)"},
            "data.missing",
            r"^model\.nodes\.hit\[row\].*row 2.*Poisson",
        ),
        (
            {"hit[row]": "Bernoulli(0.5)", "u[row]": "Normal(hit, 1)", "y[row]": "Normal(u, 1)"},
            "data.missing",
            r"^model\.nodes\.hit\[row\].*row 2.*Bernoulli",
        ),
    ],
)
def test_missing_cells_that_cannot_be_summed_out_are_refused(nodes, code, match):
    with refused(code, match) as caught:
        bl.check(model(nodes), {"hit": HIT, "y": Y})
    assert "hit" in str(caught.value) and "row 2" in str(caught.value) and "\n" not in str(caught.value)


def test_a_mode_says_nothing_of_missing_cells():
    with refused("engine.refused.discrete", "hit_unobserved"):
        bl.check(model(COVARIATE), {"hit": HIT, "y": Y}, method="map")


def test_a_covariate_with_a_node_has_its_missing_cells_as_parameters():
    nodes = {"m": "Normal(0, 1)", "b": "Normal(0, 2)", "x[row]": "Normal(m, 1.5)", "y[row]": "Normal(b * x, 0.7)"}
    built = bl.to_pymc(model(nodes), {"x": X, "y": Y})
    filled = np.where(GAPS, [0, 0, 0, 0.4, 0, -0.2, 0, 0], X)
    wanted = (
        stats.norm.logpdf(0.1) + stats.norm.logpdf(0.8, 0, 2)
        + stats.norm.logpdf(filled, 0.1, 1.5).sum() + stats.norm.logpdf(Y, 0.8 * filled, 0.7).sum()
    )  # fmt: skip
    found = log_density(built, m=np.array(0.1), b=np.array(0.8), x_unobserved=filled[GAPS])
    assert found == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("text", ["where(isnan(x), c, b * x)", "where(not isnan(x), b * x, c)"])
def test_what_holds_where_a_cell_is_missing_can_be_said(text):
    nodes = {"b": "Normal(0, 2)", "c": "Normal(0, 3)", "mu[row]": text, "y[row]": "Normal(mu, 0.5)"}
    fit = bl.fit(model(nodes, seed=1), {"x": X, "y": Y}, "exact", runs=None, progress=False)
    x, gaps = np.where(GAPS, 0.0, X), GAPS.astype(float)
    for name, column, sd in (("b", x, 2.0), ("c", gaps, 3.0)):
        precision = column @ column / 0.25 + 1 / sd**2
        row = fit.summary().loc[name]
        assert row["sd"] == pytest.approx(precision**-0.5, rel=1e-6)
        assert row["mean"] == pytest.approx(column @ Y / 0.25 / precision, rel=1e-6)
    built = bl.to_pymc(model(nodes), {"x": X, "y": Y})
    wanted = stats.norm.logpdf(0.4, 0, 2) + stats.norm.logpdf(-0.3, 0, 3)
    wanted += stats.norm.logpdf(Y, np.where(GAPS, -0.3, 0.4 * x), 0.5).sum()
    assert log_density(built, b=np.array(0.4), c=np.array(-0.3)) == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize(
    "text", ["where(isnan(x), previous(h, 1, start=a), x)", "where(not isnan(x), x, previous(h, 1, start=a))"]
)
def test_gaps_within_a_recursion(text):
    """The last value is carried on."""
    nodes = {"a": "Normal(0, 1)", "b": "Normal(0, 2)", "h[row]": text, "y[row]": "Normal(b * h, 0.5)"}
    built = bl.to_pymc(model(nodes), {"x": X, "y": Y})
    carried = np.array([0.5, -1.0, 2.0, 2.0, 1.0, 1.0, 0.0, 3.0])
    wanted = stats.norm.logpdf(0.2) + stats.norm.logpdf(0.4, 0, 2) + stats.norm.logpdf(Y, 0.4 * carried, 0.5).sum()
    assert log_density(built, a=np.array(0.2), b=np.array(0.4)) == pytest.approx(wanted, rel=1e-12)


def test_gaps_at_the_start_of_a_recursion_that_draws():
    x = np.array([np.nan, 1.0, np.nan, 2.0])
    nodes = {"b": "Normal(0, 1)", "h[row]": "Normal(where(isnan(x), previous(h, 1, start=0.7), b * x), 0.3)",
             "y[row]": "Normal(h, 1)"}  # fmt: skip
    built = bl.to_pymc(model(nodes), {"x": x, "y": Y[:4]})
    h, b = np.array([0.6, -0.2, 0.1, 1.4]), 0.5
    mean = np.where(np.isnan(x), [0.7, *h[:-1]], b * np.nan_to_num(x))
    wanted = stats.norm.logpdf(b) + stats.norm.logpdf(h, mean, 0.3).sum() + stats.norm.logpdf(Y[:4], h, 1).sum()
    (name,) = {v.name for v in built.value_vars} - {"b"}
    value = h if name == "h" else (h - mean) / 0.3
    found = log_density(built, b=np.array(b), **{name: value})
    assert found == pytest.approx(wanted if name == "h" else wanted + 4 * np.log(0.3), rel=1e-10)


def test_gaps_are_looked_at_nowhere_else():
    for text in ("where(isnan(x), x, 0)", "where(isnan(x), b, x) + x", "where(x > 0, b, 0)"):
        with refused("data.missing", r"'x'.*row 4.*where\(isnan\(x\), \.\.\., x\)"):
            bl.check(model({"b": "Normal(0, 1)", "y[row]": f"Normal({text}, 1)"}), {"x": X, "y": Y})
    with refused("model.wrong-arguments", r"'b \+ x'", where="model.nodes.y[row]"):
        bl.check(model({"b": "Normal(0, 1)", "y[row]": "Normal(isnan(b + x), 1)"}), {"x": X, "y": Y})


def test_computed_columns_may_fill_gaps():
    data = {"derive": {"z": "where(isnan(x), -1, x)", "gone": "isnan(x)"}, "rows": "row"}
    made = bl.check(bl.Model(data=data, model={"family": "graph", "nodes": {"m": "Normal(0, 1)", "y[row]": "Normal(m, 1)"}}),
                    {"x": X, "y": Y})  # fmt: skip
    np.testing.assert_array_equal(made.term("z").value, np.where(GAPS, -1, X))
    np.testing.assert_array_equal(made.term("gone").value, GAPS)


# ------------------------------------------------------------------------------------ potentials


def test_evidence_may_be_a_potential_alone(tmp_path):
    """A normal prior times exp(-(m - 3)**2 / 2) is N(1.5, 1 / sqrt 2) times its integral."""
    nodes = {"m": "Normal(0, 1)", "near_three": "Potential(-0.5 * (m - 3) ** 2)"}
    fit = bl.fit(model(nodes, seed=1), method="grid", runs=tmp_path, progress=False)
    row = fit.summary().loc["m"]
    assert row["mean"] == pytest.approx(1.5, rel=1e-6)
    assert row["sd"] == pytest.approx(0.5**0.5, rel=1e-6)
    assert bl.open(fit.folder).verdict.status == fit.verdict.status


def test_no_data_and_no_potential_is_told():
    with refused("data.no-data"):
        bl.fit(model({"m": "Normal(0, 1)"}), runs=None, progress=False)


def test_dims_in_the_wrong_place_are_told():
    with refused("model.misplaced", where="model.dims"):
        bl.Model(model={"family": "graph", "nodes": {"m[k]": "Normal(0, 1)"}, "dims": {"k": 2}})


# ------------------------------------------------------------------- atoms: a density and probabilities

WET = np.array([0.0, 2.5, np.nan, 1.2, np.nan, 0.0, 4.0, 0.7])
RIGHT = np.array([1.0, 2.0, np.nan, 2.0, np.nan, -0.5, 0.5, 2.0])
COUNT = np.array([0.0, 2, np.nan, 1, np.nan, 0, 3, 3])
_WEIGHT = {"psi": "Beta(1, 1)"}
_MEAN = {"m": "Normal(0, 3)"}


def _hurdle(continuous):
    return lambda psi: np.where(WET == 0, np.log(1 - psi), np.log(psi) + continuous.logpdf(np.where(WET == 0, 1, WET)))


def _right_censored(scale: float = 1.0):
    return lambda m: np.where(RIGHT == 2, stats.norm.logsf(2, m, scale), stats.norm.logpdf(RIGHT, m, scale))


def _inflated(psi):
    return np.where(COUNT == 0, np.log(1 - psi + psi * np.exp(-2)), np.log(psi) + stats.poisson.logpmf(COUNT, 2))


def _hurdle_count(psi):
    there = np.log(psi) + stats.poisson.logpmf(COUNT, 2) - np.log1p(-np.exp(-2))
    return np.where(COUNT == 0, np.log(1 - psi), there)


def _censored_count(psi):
    return np.where(COUNT == 3, stats.poisson.logsf(2, 4 * psi), stats.poisson.logpmf(COUNT, 4 * psi))


def _censored_mixture(psi):
    parts = [_right_censored()(0.0) + np.log(psi), _right_censored(2.0)(0.0) + np.log(1 - psi)]
    return np.log(np.exp(parts).sum(0))


ATOMS = {
    "HurdleGamma(psi, alpha=3, beta=1)": (WET, _WEIGHT, _hurdle(stats.gamma(3))),
    "HurdleLogNormal(psi, mu=1, sigma=0.5)": (WET, _WEIGHT, _hurdle(stats.lognorm(0.5, scale=np.e))),
    "Censored(Normal(m, 1), upper=2)": (RIGHT, _MEAN, _right_censored()),
    "Mixture([psi, 1 - psi], [Censored(Normal(0, 1), upper=2), Censored(Normal(0, 2), upper=2)])": (
        RIGHT, _WEIGHT, _censored_mixture,
    ),
    "HurdlePoisson(psi, 2)": (COUNT, _WEIGHT, _hurdle_count),
    "ZeroInflatedPoisson(psi, 2)": (COUNT, _WEIGHT, _inflated),
    "Censored(Poisson(4 * psi), upper=3)": (COUNT, _WEIGHT, _censored_count),
}  # fmt: skip


@pytest.mark.parametrize("text", list(ATOMS))
def test_missing_cells_of_an_outcome_with_an_atom_are_a_factor_of_one(text):
    values, priors, rows = ATOMS[text]
    built = bl.to_pymc(model(priors | {"y[row]": text}), {"y": values})
    assert [rv.name for rv in built.free_RVs] == list(priors)
    density = built.compile_logp(jacobian=False, mode="FAST_COMPILE")
    (name,) = (v.name for v in built.value_vars)
    for u in (-0.8, 0.6):
        at = u if "m" in priors else 1 / (1 + np.exp(-u))
        prior = stats.norm.logpdf(u, 0, 3) if "m" in priors else 0.0
        assert float(density({name: np.array(u)})) == pytest.approx(prior + np.nansum(rows(at)), rel=1e-8)


def test_missing_cells_with_an_atom_beside_a_node_that_is_summed_out():
    nodes = _WEIGHT | {"g[row]": "Bernoulli(psi)", "y[row]": "Censored(Gamma(1 + 2 * g, 1), upper=4)"}
    y = np.minimum(WET + 0.1, 4)
    there = y[~np.isnan(y)]
    built = bl.to_pymc(model(nodes), {"y": y})
    each = [np.where(there == 4, stats.gamma(a).logsf(4), stats.gamma(a).logpdf(there)) for a in (1, 3)]
    wanted = np.logaddexp(np.log(0.7) + each[0], np.log(0.3) + each[1]).sum()
    at = {"psi_logodds__": np.array(np.log(0.3 / 0.7))}
    assert log_density(built, **at) == pytest.approx(wanted, rel=1e-9)
    assert np.isfinite(built.compile_dlogp(mode="FAST_COMPILE")(at)).all()


@pytest.mark.slow(why="statistical")
def test_a_fit_with_missing_cells_and_an_atom_is_that_of_the_cells_there():
    """Censoring at 2.3 of four values, eight missing: mean and log evidence by quadrature."""
    x = np.array([1.6, 2.3, 0.9, 2.3, *[np.nan] * 8])
    m = np.linspace(-15, 20, 20001)
    height = stats.norm.logpdf(m, 0, 3) + stats.norm.logpdf(x[[0, 2]][:, None], m).sum(0)
    weight = np.exp(height + 2 * stats.norm.logsf(2.3, m))
    evidence = np.trapezoid(weight, m)
    nodes = _MEAN | {"x[row]": "Censored(Normal(m, 1), upper=2.3)"}
    fit = bl.fit(model(nodes, seed=1), {"x": x}, "grid", runs=None, progress=False)
    assert fit.summary().loc["m", "mean"] == pytest.approx(np.trapezoid(m * weight, m) / evidence, abs=1e-4)
    assert fit.data_tree["exact_posterior"].attrs["log_evidence"] == pytest.approx(np.log(evidence), abs=1e-4)


@pytest.mark.parametrize(
    ("nodes", "code", "match"),
    [
        (
            _WEIGHT | {"x[row]": "HurdleGamma(psi, 3, 1)", "y[row]": "Normal(x, 1)"},
            "data.missing",
            r"^model\.nodes\.x\[row\].*row 3.*'y'.*HurdleGamma.*'0'",
        ),
        (
            _MEAN | {"x[row]": "Censored(Normal(m, 1), lower=0)", "y[row]": "Normal(x, 1)"},
            "data.missing",
            r"^model\.nodes\.x\[row\].*row 3.*'y'.*Censored.*'0'",
        ),
        ({"z": "HurdleGamma(0.5, 3, 1)", "y[row]": "Normal(z, 1)"}, "model.discrete", r"^model\.nodes\.z.*HurdleGamma"),
        (
            {"z[row]": "Censored(Normal(0, 1), lower=0)", "y[row]": "Normal(z, 1)"},
            "model.discrete",
            r"^model\.nodes\.z\[row\].*Censored.*'0'",
        ),
        (
            {"y[row]": "Mixture([0.5, 0.5], [DiracDelta(0.0), Normal(0, 1)])"},
            "model.unsupported",
            r"^model\.nodes\.y\[row\].*Mixture.*HurdleGamma.*HurdleLogNormal",
        ),
        (
            {"y[row]": "Mixture([0.5, 0.5], [Censored(Normal(0, 1), upper=2), Normal(0, 1)])"},
            "model.unsupported",
            r"^model\.nodes\.y\[row\].*Mixture.*Censored: 2; Normal",
        ),
    ],
)
def test_atoms_that_a_density_would_leave_out_are_refused(nodes, code, match):
    with refused(code, match):
        bl.check(model(nodes), {"x": WET, "y": Y})
