"""Covariance functions: matrices against scikit-learn and closed forms, gradients against differences, what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process import kernels as sk

from bayeslab.latents.gaussian_process.covariance import Kernel
from tests.refusals import refused

RNG = np.random.default_rng(0)
# More than a tile of columns.
X = np.column_stack([RNG.uniform(0, 3, 300), RNG.uniform(0, 2, 300), RNG.integers(0, 3, 300)])
AT = {"x": 0, "t": 1, "g": 2}


def read(text):
    kernel = Kernel.parse(text, AT.keys(), {"ls", "s", "v", "c"}, {"g": ("a", "b", "c")})
    return kernel, X[:, [AT[c] for c in kernel.columns]]


PEERS = {
    "ExpQuad(x, 0.7, 1)": sk.RBF(0.7),
    "ExpQuad(x, t, lengthscale=[0.7, 1.3], scale=2)": 4 * sk.RBF([0.7, 1.3]),
    "ExpQuad(x, t, 0.7, 1)": sk.RBF([0.7, 0.7]),
    "Matern12(x, 0.7, 1)": sk.Matern(0.7, nu=0.5),
    "Matern32(x, t, [0.7, 2], 1)": sk.Matern([0.7, 2.0], nu=1.5),
    "3 * Matern52(x, 0.7)": 3 * sk.Matern(0.7, nu=2.5),
    "RationalQuadratic(x, 0.7, 1.4, 1)": sk.RationalQuadratic(0.7, 1.4),
    "Periodic(x, 0.9, 1.2, 1)": sk.ExpSineSquared(1.2, 0.9),
    "Linear(x, t, 1) + Constant(0.5)": sk.DotProduct(0.5),
    "Polynomial(x, t, 2, 0.49, 1)": sk.DotProduct(0.7) ** 2,
    "White(0.3) + ExpQuad(x, 1, 1) * Matern32(x, 2)": sk.WhiteKernel(0.09) + sk.RBF(1.0) * sk.Matern(2.0, nu=1.5),
    "(ExpQuad(x, 1, 1) + Matern12(x, 1, 1)) ** 2": (sk.RBF(1.0) + sk.Matern(1.0, nu=0.5)) ** 2,
}


@pytest.mark.parametrize("text", PEERS)
def test_matrices_are_those_of_scikit_learn(text):
    kernel, x = read(text)
    assert kernel.parameters == ()
    none = np.zeros(0)
    want = PEERS[text](x)
    np.testing.assert_allclose(kernel.matrix(none, x), want, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(kernel.diagonal(none, x), np.diagonal(want), rtol=1e-12)
    z = x[:40] + 0.01
    np.testing.assert_allclose(kernel.matrix(none, x, z), PEERS[text](x, z), rtol=1e-12, atol=1e-13)


def test_functions_without_a_peer():
    none = np.zeros(0)
    kernel, x = read("Cosine(x, 0.9, 2)")
    gap = x - x.T
    np.testing.assert_allclose(kernel.matrix(none, x), 4 * np.cos(2 * np.pi * gap / 0.9), atol=1e-12)
    kernel, x = read("Brownian(x, 1.5)")
    np.testing.assert_allclose(kernel.matrix(none, x), 2.25 * np.minimum(x, x.T), rtol=1e-13)
    kernel, x = read("Coregion(g, 2, [1, 2, 3, -1, 0, 1], [0.1, 0.2, 0.3])")
    w, g = np.array([[1, 2], [3, -1], [0, 1]]), x[:, 0].astype(int)
    np.testing.assert_allclose(kernel.matrix(none, x), (w @ w.T + np.diag([0.1, 0.2, 0.3]))[np.ix_(g, g)], rtol=1e-13)
    kernel, x = read("ChangePoint(ExpQuad(x, 1, 1), Matern12(x, 1, 1), x, 1.5, 4)")
    s = 1 / (1 + np.exp(-4 * (x - 1.5)))
    want = (1 - s) * sk.RBF(1.0)(x) * (1 - s.T) + s * sk.Matern(1.0, nu=0.5)(x) * s.T
    np.testing.assert_allclose(kernel.matrix(none, x), want, rtol=1e-12)


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize(
    "text",
    [
        "Matern52(x, ls) + Periodic(x) * Linear(t, center=c)",
        "v * Matern12(x) + s ** 2 * Matern32(x, t)",
        "RationalQuadratic(x, t) * Cosine(t) + White()",
        "Polynomial(x, t, 3) + Constant() + Brownian(t)",
        "Coregion(g, 2) * ExpQuad(x, ls) + Matern12(t, ls)",
        "ChangePoint(ExpQuad(x), Matern12(t) + White(), x) * Matern32(t)",
    ],
)
def test_gradients_are_differences(text):
    kernel, x = read(text)
    theta = RNG.uniform(0.5, 1.5, len(kernel.names))
    w = RNG.normal(size=(300, 300))
    w, v, u = w + w.T, RNG.normal(size=(300, 50)), RNG.normal(size=300)
    z = x[:50] + 0.01 * (np.array(kernel.columns) != "g")

    def sums(at):
        return np.array(
            [(w * kernel.matrix(at, x)).sum(), (v * kernel.matrix(at, x, z)).sum(), u @ kernel.diagonal(at, x)]
        )

    step = 1e-6
    differences = [(sums(theta + step * e) - sums(theta - step * e)) / (2 * step) for e in np.eye(len(theta))]
    found = [kernel.gradient(theta, x, w), kernel.gradient(theta, x, v, z), kernel.diagonal_gradient(theta, x, u)]
    np.testing.assert_allclose(np.array(found).T, differences, rtol=1e-6, atol=1e-6 * np.abs(differences).max())


def test_gp_kernels():
    """gp-kernels: Gram matrices of linear, quadratic and Gaussian kernels are positive semidefinite, and of all others."""
    words = ["Linear(x)", "Polynomial(x, t, 2)", "ExpQuad(x)", "Matern12(x)", "RationalQuadratic(x)", "Periodic(x)"]
    words += ["Cosine(x)", "Brownian(x)", "Coregion(g)", "ChangePoint(Matern52(x), Linear(x), t)"]
    for text in [*words, " + ".join(words), "ExpQuad(x) * Periodic(t) * Linear(x)"]:
        kernel, x = read(text)
        k = kernel.matrix(RNG.uniform(0.3, 2, len(kernel.names)), x)
        assert np.array_equal(k, k.T)
        assert np.linalg.eigvalsh(k)[0] > -1e-12 * np.trace(k), text


def test_names_and_scales():
    """One scale for each product; derived names; a lengthscale for each column."""
    names = {
        "Matern52(x, ls) + Periodic(x, 365) * Linear(t)": ("ls", "Matern52_scale", "Periodic_lengthscale", "Periodic_scale"),
        "ExpQuad(x, t)": ("ExpQuad_lengthscale_x", "ExpQuad_lengthscale_t", "ExpQuad_scale"),
        "2 * ExpQuad(x) + ExpQuad(t)": ("ExpQuad_lengthscale", "ExpQuad_2_lengthscale", "ExpQuad_2_scale"),
        "Matern12(x) * ExpQuad(t, ls, s)": ("Matern12_lengthscale", "ls", "s"),
        "Coregion(g) * ExpQuad(x)": (
            *(f"Coregion_weight_{i}" for i in "abc"), *(f"Coregion_specific_{i}" for i in "abc"),
            "ExpQuad_lengthscale",
        ),
    }  # fmt: skip
    for text, want in names.items():
        assert read(text)[0].names == want
    roles = {p.name: (p.role, p.support, p.columns) for p in read("v * Linear(x, t, center=c)")[0].parameters}
    assert roles == {"v": ("variance", "positive", ()), "c": ("center", "real", ("x", "t"))}
    assert Kernel.parse("Matern52(x) + Linear(when)").columns == ("x", "when")
    assert read("Matern52(x) * White() + Constant()")[0].stationary
    assert not read("Matern52(x) + Linear(x)")[0].stationary


def test_components_add_up():
    kernel, x = read("ExpQuad(x) + Linear(t) * Periodic(x) + White() + ExpQuad(x)")
    theta = RNG.uniform(0.5, 1.5, len(kernel.names))
    parts = kernel.components()
    assert list(parts) == ["ExpQuad(x)", "Linear(t) * Periodic(x)", "White()", "ExpQuad(x) (2)"]
    np.testing.assert_allclose(sum(p.matrix(theta, x) for p in parts.values()), kernel.matrix(theta, x), rtol=1e-13)
    rest = kernel.free_of_noise()
    want = kernel.matrix(theta, x) - theta[kernel.names.index("White_scale")] ** 2 * np.eye(300)
    np.testing.assert_allclose(rest.matrix(theta, x), want, atol=1e-12)
    assert read("White() * Constant(2)")[0].free_of_noise() is None or parts["White()"].free_of_noise() is None


@pytest.mark.parametrize(
    ("text", "code", "match", "at"),
    [
        ("ExpQuad(x) - Matern12(x)", "model.syntax", "difference", 0),
        ("Constant() + -1 * ExpQuad(x)", "model.out-of-range", "variance.*-1", 13),
        ("Polynomial(x, 2, -1)", "model.out-of-range", "offset.*-1", 17),
        ("Polynomial(x, 2.5)", "model.wrong-arguments", "Polynomial.*degree.*10", 0),
        ("ExpQuad(x, 0)", "model.out-of-range", "lengthscale.*0", 11),
        ("RBF(x)", "model.unknown-function", "'RBF'.*'ExpQuad'", 0),
        ("Matern25(x)", "model.unknown-function", "'Matern25'.*'Matern52'", 0),
        ("ExpQuad(y)", "model.unknown-column", "ExpQuad.*'y'", 8),
        ("ExpQuad(x, lengthscle=2)", "model.unknown-option", "'lengthscle'.*'lengthscale'", 22),
        ("ExpQuad(x, tt)", "model.unknown-name", "'tt'.*'t'", 11),
        ("ExpQuad(x, 1, 2, 3)", "model.wrong-arguments", "ExpQuad.*'3'", 17),
        ("ExpQuad(x) / 2", "model.syntax", "powers", 0),
        ("ExpQuad(x) + 2", "model.syntax", r"'2'.*Constant\(2\)", 13),
        ("2 * 3", "model.incomplete", "product", 0),
        ("ExpQuad(x, x)", "model.duplicate", "ExpQuad", 0),
        ("ExpQuad(x, t, lengthscale=[1, 2, 3])", "model.wrong-length", "ExpQuad.*lengthscale.*2", 26),
        ("__import__('os')", "model.reserved-name", "'__import__'", 0),
        ("ChangePoint(ExpQuad(x), x)", "model.wrong-arguments", "ChangePoint", 0),
        ("ExpQuad(x, c) + Linear(x, center=c)", "model.name-clash", "'c'.*ExpQuad.*Linear", 0),
    ],
)
def test_what_is_no_covariance_function_is_refused(text, code, match, at):
    with refused(code, match) as caught:
        read(text)
    assert caught.value.offset == at
