r"""Layers of units: outputs, and derivatives of the loss by back-propagation.

The output of a unit is :math:`g(\sum_i w_{ij} a_i + b_j)`; the bias input is +1 (sources with a bias input of -1 have
the opposite sign of the bias weight). With :math:`\Delta_k = g'(in_k) \times (a_k - y_k)` at an output of the squared
loss, and :math:`\Delta_j = g'(in_j) \sum_k w_{jk} \Delta_k` below it, the derivative in a weight is
:math:`a_i \Delta_j` [1]_. Printed derivations drop a factor of 2, which the learning rate absorbs; with the factor one
half in the loss nothing is dropped. Second derivatives are propagated in the same way, ignoring mixed terms between
units of a layer [2]_.

References
----------
.. [1] Bryson, Ho (1969). Applied Optimal Control. Rumelhart, Hinton, Williams (1986). Nature 323, 533-536.
.. [2] LeCun, Denker, Solla (1990). Optimal brain damage. NeurIPS 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, xlogy

__all__ = ["ACTIVATIONS", "Layers", "curvature", "forward", "gradient", "loss", "n_weights"]

Array = NDArray[np.float64]
Activation = Literal["tanh", "relu", "logistic", "identity", "threshold"]
Output = Literal["softmax", "sigmoid", "identity", "threshold"]
Loss = Literal["log", "squared"]

ACTIVATIONS = ("tanh", "relu", "logistic", "identity", "threshold")
_TINY = np.finfo(float).tiny


@dataclass(frozen=True, eq=False)
class Layers:
    """A feed-forward network whose weights and biases are views of one vector.

    Parameters
    ----------
    sizes : tuple of int
        Units of each layer, including inputs and outputs.
    activation
        Activation of the hidden units.
    output
        Activation of the output layer.
    values : ndarray
        All weights and biases, layer by layer.
    """

    sizes: tuple[int, ...]
    activation: Activation
    output: Output
    values: Array

    def split(self, flat: Array) -> list[tuple[Array, Array]]:
        """Weights (inputs, units) and biases of every layer, as views of a vector like ``values``."""
        out, at = [], 0
        for n_in, n_out in pairwise(self.sizes):
            end = at + n_in * n_out
            out.append((flat[at:end].reshape(n_in, n_out), flat[end : end + n_out]))
            at = end + n_out
        return out

    @property
    def weights(self) -> list[tuple[Array, Array]]:
        """Weights and biases of every layer."""
        return self.split(self.values)

    @classmethod
    def of(cls, layers: Sequence[tuple[object, object]], activation: Activation, output: Output) -> Layers:
        """A network from given weights and biases."""
        pairs = [(np.asarray(w, float), np.asarray(b, float)) for w, b in layers]
        sizes = (pairs[0][0].shape[0], *(w.shape[1] for w, _ in pairs))
        return cls(sizes, activation, output, np.concatenate([x.ravel() for pair in pairs for x in pair]))

    @classmethod
    def random(
        cls,
        sizes: tuple[int, ...],
        activation: Activation,
        output: Output,
        rng: np.random.Generator | np.random.RandomState,
    ) -> Layers:
        """Random weights after Glorot and Bengio (2010), for rectifiers after He et al. (2015); biases are 0."""
        made = cls(sizes, activation, output, np.zeros(n_weights(sizes)))
        for (w, _), n_in, n_out in zip(made.weights, sizes[:-1], sizes[1:], strict=True):
            bound = np.sqrt(6 / n_in) if activation == "relu" else np.sqrt(6 / (n_in + n_out))
            w[:] = rng.uniform(-bound, bound, w.shape)
        return made


def n_weights(sizes: Sequence[int], hidden_bias: bool = True, output_bias: bool = True) -> int:
    """Number of weights of a fully connected net, with or without biases."""
    sizes = tuple(sizes)
    between = sum(a * b for a, b in pairwise(sizes))
    return between + hidden_bias * sum(sizes[1:-1]) + output_bias * sizes[-1]


def _activate(z: Array, kind: str) -> Array:
    """Apply the activation in place."""
    if kind == "tanh":
        return np.asarray(np.tanh(z, out=z))
    if kind == "relu":
        return np.asarray(np.maximum(z, 0, out=z))
    if kind in ("logistic", "sigmoid"):
        return np.asarray(expit(z, out=z))
    if kind == "threshold":
        z[:] = z >= 0
    elif kind == "softmax":
        z -= z.max(axis=1, keepdims=True)
        np.exp(z, out=z)
        z /= z.sum(axis=1, keepdims=True)
    return z


def forward(net: Layers, X: Array) -> list[Array]:
    """Outputs of every layer, the inputs first; each of shape (rows, units)."""
    out = [X]
    layers = net.weights
    for i, (w, b) in enumerate(layers):
        z = out[-1] @ w
        z += b
        out.append(_activate(z, net.activation if i < len(layers) - 1 else net.output))
    return out


def loss(net: Layers, X: Array, targets: Array, kind: Loss = "log", row_weights: Array | None = None) -> float:
    """Loss, summed over outputs and averaged over rows.

    Parameters
    ----------
    targets
        Shape (rows, outputs).
    kind
        ``log``: minus the log likelihood of a softmax, or of one Bernoulli per sigmoid; ``squared``: half the squared
        error.
    """
    return _loss(forward(net, X)[-1], targets, kind, net.output, row_weights)


def _loss(out: Array, targets: Array, kind: str, output: str, row_weights: Array | None) -> float:
    if kind == "squared":
        each = 0.5 * ((out - targets) ** 2).sum(axis=1)
    elif output == "softmax":
        each = -xlogy(targets, np.maximum(out, _TINY)).sum(axis=1)
    else:
        each = -(xlogy(targets, np.maximum(out, _TINY)) + xlogy(1 - targets, np.maximum(1 - out, _TINY))).sum(axis=1)
    return float(np.average(each, weights=row_weights))


def _slope(out: Array, kind: str) -> Array | None:
    """Derivative of the activation as a function of its output; None means one."""
    if kind == "tanh":
        return np.asarray(1 - out * out)
    if kind == "relu":
        return (out > 0).astype(out.dtype)
    if kind in ("logistic", "sigmoid"):
        return np.asarray(out * (1 - out))
    if kind == "threshold":
        raise ValueError("a threshold has no slope: it cannot be trained by back-propagation")
    return None


def _at_outputs(out: Array, targets: Array, kind: str, output: str) -> Array:
    """Derivative of each row's loss in the weighted sums of the output units."""
    error = out - targets
    if kind == "log":
        # The slope of a softmax or a sigmoid cancels.
        return error
    if output == "softmax":
        return np.asarray(out * (error - (error * out).sum(axis=1, keepdims=True)))
    slope = _slope(out, output)
    return error if slope is None else error * slope


def gradient(
    net: Layers,
    X: Array,
    targets: Array,
    kind: Loss = "log",
    row_weights: Array | None = None,
    into: Array | None = None,
) -> tuple[float, Array]:
    """Loss and its gradient in all weights and biases, by back-propagation.

    Parameters
    ----------
    into
        Vector like ``net.values`` that receives the gradient.
    """
    flat = np.empty_like(net.values) if into is None else into
    outs = forward(net, X)
    value = _loss(outs[-1], targets, kind, net.output, row_weights)
    delta = _at_outputs(outs[-1], targets, kind, net.output)
    if row_weights is None:
        delta /= len(X)
    else:
        delta = delta * (row_weights / row_weights.sum())[:, None]
    layers, slots = net.weights, net.split(flat)
    for i in range(len(layers) - 1, -1, -1):
        np.matmul(outs[i].T, delta, out=slots[i][0])
        np.sum(delta, axis=0, out=slots[i][1])
        if i:
            delta = delta @ layers[i][0].T
            slope = _slope(outs[i], net.activation)
            if slope is not None:
                delta *= slope
    return value, flat


def curvature(net: Layers, X: Array, targets: Array, kind: Loss = "log") -> Array:
    """Second derivative of the loss by each weight and bias, positive, as optimal brain damage approximates it.

    Only the diagonal is computed, with squared first derivatives in place of second derivatives of activations
    (Levenberg-Marquardt); the neglected terms vanish on average where the net fits.
    """
    flat = np.empty_like(net.values)
    outs = forward(net, X)
    out = outs[-1]
    if kind == "log":
        bend = out * (1 - out)
    else:
        slope = out * (1 - out) if net.output == "softmax" else _slope(out, net.output)
        bend = np.ones_like(out) if slope is None else slope**2
    layers, slots = net.weights, net.split(flat)
    for i in range(len(layers) - 1, -1, -1):
        np.matmul((outs[i] ** 2).T, bend, out=slots[i][0])
        np.sum(bend, axis=0, out=slots[i][1])
        if i:
            bend = bend @ (layers[i][0] ** 2).T
            inner = _slope(outs[i], net.activation)
            if inner is not None:
                bend = bend * inner**2
    flat /= len(X)
    return flat
