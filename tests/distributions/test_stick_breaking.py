"""Shares of a broken stick: their density, their draws, and labels that have them, against sums over labels."""

from __future__ import annotations

import runpy
from itertools import product

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from pytensor.compile.mode import Mode
from scipy import integrate, special, stats

import bayeslab as bl
from tests.densities import Density, agree
from tests.refusals import refused

PYTHON = Mode("py", "fast_compile")


def node(text: str, length: int = 4) -> bl.Model:
    return bl.Model(dims={"part": length}, model={"family": "graph", "nodes": {"w[part]": text}})


def log_density(text: str, w: np.ndarray) -> float:
    """Of one vector of shares."""
    return Density.of(bl.to_pymc(node(text, len(w)))).at({"w": w})[0]


def by_betas(w: np.ndarray, alpha: float, discount: float) -> float:
    """The densities of the shares of what is left, and the Jacobian of the breaks."""
    left = 1.0 - np.concatenate([[0.0], np.cumsum(w)])
    total = 0.0
    for k in range(1, len(w)):
        total += stats.beta.logpdf(w[k - 1] / left[k - 1], 1 - discount, alpha + k * discount) - np.log(left[k - 1])
    return total


@pytest.mark.parametrize(("alpha", "discount"), [(2.0, 0.0), (0.4, 0.25), (3.0, 0.7)])
def test_density_is_that_of_the_breaks(alpha, discount):
    density = Density.of(bl.to_pymc(node(f"StickBreaking({alpha}, {discount})")))
    for point in density.points(np.random.default_rng(1), 3):
        assert density.at(point)[0] == pytest.approx(by_betas(point["w"], alpha, discount), rel=1e-10)


def test_without_a_discount_it_is_that_of_pymc():
    w = np.array([0.4, 0.3, 0.05, 0.25])
    wanted = pm.logp(pm.StickBreakingWeights.dist(1.7, 3), w).eval(mode=PYTHON)
    assert log_density("StickBreaking(1.7)", w) == pytest.approx(float(wanted), rel=1e-10)


@pytest.mark.slow(why="statistical")
def test_density_integrates_to_one():
    density = Density.of(bl.to_pymc(node("StickBreaking(2.5, 0.2)", 3)))

    def at(b: float, a: float) -> float:
        return float(np.exp(density.at({"w": np.array([a, (1 - a) * b, (1 - a) * (1 - b)])})[0]) * (1 - a))

    # The shares of what is left, of which powers at both ends are smooth in the square of sines.
    nodes, weights = np.polynomial.legendre.leggauss(40)
    angle, weights = (nodes + 1) * np.pi / 4, weights * np.pi / 4
    share, slope = np.sin(angle) ** 2, 2 * np.sin(angle) * np.cos(angle)
    total = sum(wa * sa * wb * sb * at(b, a) for a, wa, sa in zip(share, weights, slope, strict=True)
                for b, wb, sb in zip(share, weights, slope, strict=True))  # fmt: skip
    assert total == pytest.approx(1.0, abs=1e-3)


def test_slopes_are_numbers_where_shares_underflow():
    value, slopes = Density.of(bl.to_pymc(node("StickBreaking(2, 0.3)"))).at(
        {"w": np.array([1.0, 1e-200, 1e-250, 1e-300])}
    )
    assert np.isfinite(value)
    assert np.all(np.isfinite(slopes["w"]))


def test_draws_have_the_moments_of_products_of_betas():
    nodes = {"alpha[group]": "[1.0, 4.0]", "w[group, part]": "StickBreaking(alpha, 0.3)"}
    model = bl.Model(dims={"group": 2, "part": 4}, model={"family": "graph", "nodes": nodes})
    drawn = bl.simulate(model, draws=4000, seed=1)["prior_predictive"]["w"].to_numpy()[0]
    np.testing.assert_allclose(drawn.sum(axis=-1), 1.0, rtol=1e-12)
    for group, alpha in enumerate([1.0, 4.0]):
        a, b = np.full(3, 0.7), alpha + 0.3 * np.arange(1, 4)
        mean = np.append(a / (a + b), 1.0) * np.concatenate([[1.0], np.cumprod(b / (a + b))])
        square = a * (a + 1) / (a + b) / (a + b + 1)
        rest = np.concatenate([[1.0], np.cumprod(b * (b + 1) / (a + b) / (a + b + 1))])
        second = np.append(square, 1.0) * rest
        error = np.sqrt((second - mean**2) / len(drawn))
        assert np.all(np.abs(drawn[:, group].mean(axis=0) - mean) < 4.5 * error)
        squares = drawn[:, group] ** 2
        assert np.all(np.abs(squares.mean(axis=0) - second) < 4.5 * squares.std(axis=0) / np.sqrt(len(drawn)))


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("StickBreaking(-1)", "model.out-of-range", "alpha"),
        ("StickBreaking(1, 1)", "model.out-of-range", "discount"),
        ("StickBreaking(1, -0.1)", "model.out-of-range", "discount"),
    ],
)
def test_parameters_out_of_range_are_refused(text, code, words):
    with refused(code, words):
        bl.check(
            bl.Model(
                data={"rows": "row"},
                dims={"part": 3},
                model={"family": "graph", "nodes": {"w[part]": text, "y[row]": "Normal(w[0], 1)"}},
            ),
            {"y": Y},
        )


def test_a_number_has_no_shares():
    with refused("model.bad-dimensions", "StickBreaking draws a vector"):
        bl.to_pymc(bl.Model(model={"family": "graph", "nodes": {"w": "StickBreaking(1)"}}))


# ------------------------------------------------------------------------------------------- labels

Y = np.array([-0.3, 1.2, 0.9, 2.8, 0.2])
MEANS = np.array([0.0, 1.0, 3.0])


def labelled(discount: float) -> bl.Model:
    nodes = {
        "alpha": "Gamma(2, 1)", "w[kind]": f"StickBreaking(alpha, {discount})", "mean[kind]": "[0.0, 1.0, 3.0]",
        "z[row]": "Categorical(w)", "y[row]": "Normal(mean[z], 0.8)",
    }  # fmt: skip
    return bl.Model(data={"rows": "row"}, dims={"kind": 3}, model={"family": "graph", "nodes": nodes}, seed=4)


def by_enumeration(discount: float) -> tuple[float, np.ndarray, np.ndarray]:
    """Posterior means of alpha and the shares, and P(z = kind), over all labels of five rows.

    Breaks are integrated in closed form, alpha by quadrature.
    """
    labels = np.array(list(product(range(3), repeat=len(Y))))
    logs = stats.norm.logpdf(Y, MEANS[labels], 0.8).sum(axis=1)
    counts = (labels[:, :, None] == np.arange(3)).sum(axis=1)

    def parts(alpha: float) -> np.ndarray:
        a, b = np.full(2, 1 - discount), alpha + discount * np.arange(1, 3)
        after_a, after_b = a + counts[:, :2], b + counts[:, ::-1].cumsum(axis=1)[:, ::-1][:, 1:]
        weight = logs + (special.betaln(after_a, after_b) - special.betaln(a, b)).sum(axis=1)
        weight = np.exp(weight + stats.gamma.logpdf(alpha, 2) + 10)
        v = after_a / (after_a + after_b)
        shares = np.stack([v[:, 0], (1 - v[:, 0]) * v[:, 1], (1 - v[:, 0]) * (1 - v[:, 1])], axis=1)
        chosen = np.stack([(weight[:, None] * (labels == kind)).sum(axis=0) for kind in range(3)], axis=1)
        return np.concatenate([[weight.sum(), alpha * weight.sum()], weight @ shares, chosen.ravel()])

    found, _ = integrate.quad_vec(parts, 0, 40, epsabs=1e-12)
    found = found[1:] / found[0]
    return found[0], found[1:4], found[4:].reshape(len(Y), 3)


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("discount", [0.0, 0.4])
def test_posterior_is_that_of_a_sum_over_labels(discount):
    alpha, shares, chosen = by_enumeration(discount)
    fit = bl.fit(labelled(discount), {"y": Y}, runs=None, progress=False, draws=2000)
    rows = fit.summary(var_names=["alpha", "w", "z"])
    gaps = rows["mean"].to_numpy() - np.concatenate([[alpha], shares, chosen @ np.arange(3)])
    assert np.all(np.abs(gaps) < 4.5 * rows["mcse_mean"].to_numpy())


@pytest.mark.slow(why="compiles")
def test_a_script_has_the_same_shares(tmp_path):
    pd.DataFrame({"y": Y}).to_csv(tmp_path / "y.csv", index=False)
    model = bl.Model(
        data={"rows": "row"}, dims={"kind": 3},
        model={"family": "graph", "nodes": {"w[kind]": "StickBreaking(1.5)", "y[row]": "Normal(w[0], 0.8)"}},
    )  # fmt: skip
    path = tmp_path / "script.py"
    path.write_text(bl.export(model, tmp_path / "y.csv", folder=tmp_path))
    agree(bl.to_pymc(model, {"y": Y}), runpy.run_path(str(path))["model"])


def test_a_script_has_no_discount(tmp_path):
    pd.DataFrame({"y": Y}).to_csv(tmp_path / "y.csv", index=False)
    with refused("model.unsupported", "StickBreaking with a discount"):
        bl.export(labelled(0.4), tmp_path / "y.csv", folder=tmp_path)
