"""Means and standard deviations of exact answers: those that are infinite are not given, others are right."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import gammaln

import bayeslab as bl


def _summary(nodes: dict[str, str], y: list[float]):
    model = bl.Model(data={"rows": "obs"}, model={"family": "graph", "nodes": nodes})
    fit = bl.fit(model, {"y": y}, "exact", runs=None, progress=False, seed=1, draws=50)
    return fit, fit.summary()


def _moment(alpha: float, beta: float, power: float) -> float:
    """E v^power of an inverse gamma; infinite from alpha on."""
    return float(np.exp(power * np.log(beta) + gammaln(alpha - power) - gammaln(alpha))) if alpha > power else np.inf


@pytest.mark.parametrize("alpha", [0.001, 0.5, 1.0, 1.5, 2.5, 4.0])
def test_variance_and_its_root(alpha: float) -> None:
    nodes = {"v": f"InverseGamma({alpha}, 1)", "s": "sqrt(v)", "y[obs]": "Normal(0, sqrt(v))"}
    fit, found = _summary(nodes, [3.0])
    for name, power in (("v", 1.0), ("s", 0.5)):
        mean, square = (_moment(alpha + 0.5, 5.5, k * power) for k in (1, 2))
        sd = np.sqrt(square - mean**2) if np.isfinite(square) else np.nan
        # A moment that is nearly all in the part of the tail beyond e^-36 of the top is not given either.
        given = found["mean"][name]
        far = abs(alpha + 0.5 - power) < 0.01
        assert np.isnan(given) if far or not np.isfinite(mean) else given == pytest.approx(mean, rel=1e-3)
        assert found["sd"][name] == pytest.approx(sd, rel=1e-3, nan_ok=True)
    if not np.isfinite(_moment(alpha + 0.5, 5.5, 2.0)):
        assert fit.verdict.status == "warn"
        assert "moments" in {finding.check for finding in fit.verdict.findings}
        # 5.5 over the median of a gamma.
        from scipy.stats import invgamma

        assert found["median"]["v"] == pytest.approx(invgamma(alpha + 0.5, scale=5.5).median(), rel=1e-5)


@pytest.mark.parametrize("n", [3, 4, 5, 8])
def test_student_t_of_few_rows(n: int) -> None:
    y = np.array([3.0, 1.0, 2.5, 0.0, 4.0, 2.0, 1.5, 3.3])[:n]
    _, found = _summary({"a": "Flat()", "s": "HalfFlat()", "y[obs]": "Normal(a, s)"}, y.tolist())
    # The scale has density s^-(n - 1) exp(-S / 2 s^2); the mean is a Student t with n - 2 degrees of freedom.
    square, dof = float(((y - y.mean()) ** 2).sum()), n - 2
    assert found["mean"]["a"] == pytest.approx(y.mean() if dof > 1 else np.nan, nan_ok=True)
    sd = np.sqrt(square / dof / n * dof / (dof - 2)) if dof > 2 else np.nan
    assert found["sd"]["a"] == pytest.approx(sd, rel=1e-4, nan_ok=True)
    mean, second = (_moment(dof / 2, square / 2, k / 2) for k in (1, 2))
    assert found["mean"]["s"] == pytest.approx(mean if dof > 1 else np.nan, rel=1e-4, nan_ok=True)
    assert found["sd"]["s"] == pytest.approx(np.sqrt(second - mean**2) if dof > 2 else np.nan, rel=1e-3, nan_ok=True)


def test_half_cauchy_and_one_row() -> None:
    _, found = _summary({"a": "Normal(0, 1)", "s": "HalfCauchy(1)", "y[obs]": "Normal(a, s)"}, [3.0])
    # Of the scale the density falls with its third power.
    assert np.isnan(found["sd"]["s"])
    grid = np.exp(np.linspace(-12, 25, 200_001))
    density = np.exp(-4.5 / (1 + grid**2)) / np.sqrt(1 + grid**2) / (1 + grid**2) * grid
    assert found["mean"]["s"] == pytest.approx((density * grid).sum() / density.sum(), rel=1e-6)
    assert "median" in found


def test_two_scales_with_heavy_tails() -> None:
    nodes = {"t": "HalfCauchy(1)", "s": "HalfFlat()", "b": "Normal(0, t)", "y[obs]": "Normal(b, s)"}
    _, found = _summary(nodes, [3.0, 1.0, 2.5, 2.0])
    # The densities fall with s^-4 and t^-3.
    assert found.loc[["s", "t"], "mean"].notna().all()
    assert np.isfinite(found["sd"]["s"])
    assert np.isnan(found["sd"]["t"])


def test_moments_of_many_rows_are_there() -> None:
    """Narrow posteriors: a thousand rows, in groups, leave a scale a tenth of its size and less."""
    rng = np.random.default_rng(2)
    g = np.repeat(np.arange(10), 100)
    y = 1 + rng.normal(size=10)[g] + 0.5 * rng.normal(size=1000)
    model = bl.Model(model={"family": "regression", "formula": "y ~ 1 + (1 | g)"})
    fit = bl.fit(model, {"y": y, "g": [f"g{k}" for k in g]}, "exact", runs=None, progress=False, seed=1)
    found, n = fit.summary(), fit.posterior["sigma"].size
    assert fit.verdict.status == "pass"
    assert found[["mean", "sd"]].notna().all(axis=None)
    for name in ("Intercept", "sigma"):
        drawn = fit.posterior[name].to_numpy().ravel()
        assert found["mean"][name] == pytest.approx(drawn.mean(), abs=5 * drawn.std() / np.sqrt(n)), name


@pytest.mark.parametrize("unit", [1e-150, 1e-50, 1e-30, 1e30, 1e50, 1e150])
def test_priors_in_the_unit_of_the_data(unit: float) -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=30)
    y = 1 + 2 * x + 0.5 * rng.normal(size=30)

    def solved(c: float):
        priors = {"a": f"Normal(0, {10 * c!r})", "b": f"Normal(0, {10 * c!r})", "s": f"HalfNormal({5 * c!r})"}
        model = bl.Model(
            data={"rows": "obs"}, model={"family": "graph", "nodes": priors | {"y[obs]": "Normal(a + b * x, s)"}}
        )
        fit = bl.fit(model, {"x": x, "y": y * c}, "exact", runs=None, progress=False, seed=1, draws=10)
        return fit.summary().to_numpy() / c, fit.data_tree["exact_posterior"].attrs["log_evidence"] + 30 * np.log(c)

    (one, evidence), (scaled, same) = solved(1.0), solved(unit)
    np.testing.assert_allclose(scaled, one, rtol=1e-6)
    assert same == pytest.approx(evidence, abs=1e-6)
