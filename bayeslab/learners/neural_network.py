r"""Learner ``neural_network``: feed-forward nets of any depth, trained by back-propagation.

The units of a layer have the outputs :math:`g(\sum_i w_{ij} a_i + b_j)`. Weights are initialised once with small random
values (some printed pseudo-code draws them anew in every pass and never learns). The loss is minimised by gradient
descent over all rows (``batch_size`` at least their number), row by row (1), or over mini-batches, with momentum or
with Adam. Small weights keep tanh and logistic units in their linear range, so that a penalty on squared weights
(``alpha``) and early stopping both reduce the effective number of parameters [1]_.

After training a net can be pruned: weights with the smallest saliency :math:`h_{kk} w_k^2 / 2`, the increase of the
loss when they are removed (optimal brain damage [2]_), or the hidden units that contribute least [3]_, whose mean
output is added to the bias of the units above. Pruning stops when the loss on held-out rows increases. Choose the
number of units by cross-validation: ``tune: {hidden_layer_sizes: [[2], [4], [8]]}``.

References
----------
.. [1] Russell, Norvig (2010). Artificial Intelligence: A Modern Approach, 3rd ed., section 18.7.
.. [2] LeCun, Denker, Solla (1990). Optimal brain damage. NeurIPS 2.
.. [3] Sietsma, Dow (1988). Neural net pruning: why and how. IEEE International Conference on Neural Networks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from bayeslab.latents.networks.triangulation import available_bytes
from bayeslab.learners.toolbox.curves import by_pass
from bayeslab.learners.toolbox.estimator import Applies, Count, Estimator, LearnerOptions, ParameterError, warn_unless
from bayeslab.learners.toolbox.layers import Layers, curvature, forward, gradient, loss, n_weights
from bayeslab.learners.toolbox.layers_kernels import adam, add_penalty, momentum

__all__ = [
    "CATEGORIES",
    "MISSING",
    "SCALE",
    "TASKS",
    "Layers",
    "NeuralNetworkClassifier",
    "NeuralNetworkRegressor",
    "Options",
    "build",
    "contributions",
    "curves",
    "examples",
    "forward",
    "reported",
    "saliency",
]

Array = NDArray[np.float64]

TASKS = ("classification", "regression")
CATEGORIES: Literal["codes", "indicators"] = "indicators"
SCALE = True
MISSING = False


class Options(LearnerOptions):
    """Options of a feed-forward net."""

    applies: ClassVar[Applies] = {
        "output": {"task": ("classification",)},
        "momentum": {"solver": ("sgd",)},
        "prune_step": {"prune": ("weights", "units")},
    }
    hidden_layer_sizes: list[Count] = Field(
        [100], description="Units of each hidden layer; an empty list connects the inputs to the outputs."
    )
    activation: Literal["tanh", "relu", "logistic", "identity"] = Field(
        "relu", description="Activation function of the hidden units."
    )
    loss: Literal["log", "squared"] | None = Field(
        None, description="Loss to minimise; default: log for classification, squared for regression."
    )
    output: Literal["softmax", "sigmoid"] = Field(
        "softmax", description="Joint probabilities (softmax), or one sigmoid per class; two classes share one unit."
    )
    solver: Literal["adam", "sgd"] = Field("adam", description="Optimiser: Adam, or gradient descent with momentum.")
    learning_rate_init: float | None = Field(
        None, gt=0, description="Learning rate; default: 0.001 for adam, 0.1 for sgd."
    )
    momentum: float = Field(0.9, ge=0, lt=1, description="Momentum of sgd: share of the previous step that is added.")
    batch_size: int = Field(
        32, ge=1, le=10**9, description="Rows per step; 1: row by row; the number of rows or more: all rows."
    )
    max_iter: int = Field(300, ge=1, le=10_000_000, description="Maximum number of passes over the rows.")
    alpha: float = Field(1e-4, ge=0, description="Strength of the penalty on squared weights.")
    tol: float = Field(1e-4, ge=0, description="A pass that lowers the loss by less than this counts as no progress.")
    n_iter_no_change: int = Field(
        10, ge=1, le=10**9, description="Training stops after this many passes without progress."
    )
    early_stopping: bool = Field(False, description="Monitor held-out rows and keep the weights that are best on them.")
    validation_fraction: float = Field(
        0.1, gt=0, lt=1, description="Share of held-out rows for early_stopping and prune."
    )
    prune: Literal["none", "weights", "units"] = Field(
        "none", description="After training, remove weights (optimal brain damage) or hidden units."
    )
    prune_step: float = Field(
        0.2, gt=0, lt=1, description="Share of the remaining weights or units removed in each round."
    )


class _Network(Estimator, options=Options, single=("hidden_layer_sizes",)):
    """Code that both tasks share."""

    def __init__(
        self,
        hidden_layer_sizes: Any = (100,),
        activation: str = "relu",
        loss: str | None = None,
        output: str = "softmax",
        solver: str = "adam",
        learning_rate_init: float | None = None,
        momentum: float = 0.9,
        batch_size: int = 32,
        max_iter: int = 300,
        alpha: float = 1e-4,
        tol: float = 1e-4,
        n_iter_no_change: int = 10,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        prune: str = "none",
        prune_step: float = 0.2,
        random_state: Any = None,
    ) -> None:
        self.hidden_layer_sizes, self.activation, self.loss, self.output = hidden_layer_sizes, activation, loss, output
        self.solver, self.learning_rate_init, self.momentum = solver, learning_rate_init, momentum
        self.batch_size, self.max_iter, self.alpha, self.tol = batch_size, max_iter, alpha, tol
        self.n_iter_no_change, self.early_stopping = n_iter_no_change, early_stopping
        self.validation_fraction, self.prune, self.prune_step = validation_fraction, prune, prune_step
        self.random_state = random_state

    def _train(self, X: Array, targets: Array, weights: Array | None, output: Any, kind: Any) -> None:
        """Train, record the training curve, and prune."""
        rng = check_random_state(self.random_state)
        self._loss = kind
        hidden = tuple(int(n) for n in np.atleast_1d(np.asarray(self.hidden_layer_sizes, int)))
        sizes = (X.shape[1], *hidden, targets.shape[1])
        # Weights, their gradient and the moments of the optimiser.
        need = 6 * 8 * n_weights(sizes)
        if need > available_bytes():
            raise ParameterError(
                f"a net of {n_weights(sizes):,} weights needs {need / 2**30:.0f} GiB: take smaller hidden_layer_sizes",
                code="too-costly",
            )
        activation: Any = self.activation
        net = Layers.random(sizes, activation, output, rng)
        held = None
        if self.early_stopping or self.prune != "none":
            X, targets, weights, held = self._held_out(X, targets, weights, rng)
        self.loss_curve_: list[float] = []
        self.validation_curve_: list[float] = []
        mask = np.ones(len(net.values))
        watch = held if self.early_stopping else None
        before = loss(net, X, targets, self._loss, weights)
        with np.errstate(over="ignore", invalid="ignore"):  # where training diverges
            self.converged_ = self._descend(net, X, targets, weights, mask, rng, watch, self.max_iter)
            after = loss(net, X, targets, self._loss, weights)
        if held is not None and self.prune != "none":
            net, mask = self._pruned(net, X, targets, weights, mask, rng, held)
        self.network_, self.mask_ = net, mask.astype(bool)
        self.coefs_ = [w for w, _ in net.weights]
        self.intercepts_ = [b for _, b in net.weights]
        self.n_iter_ = len(self.loss_curve_)
        text = f"the loss still falls after max_iter = {self.max_iter} passes: allow more, or a larger rate"
        if not after <= before:
            self.converged_ = False
            text = (
                f"training diverged: the loss is {after:.3g} after it and was {before:.3g} before: take a smaller"
                " learning_rate_init"
            )
        warn_unless(self.converged_, self, text)

    def _held_out(self, X: Array, targets: Array, weights: Array | None, rng: Any) -> tuple[Any, ...]:
        order = rng.permutation(len(X))
        n = max(round(self.validation_fraction * len(X)), 1)
        if n >= len(X):
            raise ValueError(f"no rows are left to train on: {n} of {len(X)} are held out")
        out, kept = order[:n], order[n:]
        return (
            X[kept],
            targets[kept],
            None if weights is None else weights[kept],
            (X[out], targets[out], None if weights is None else weights[out]),
        )

    def _descend(
        self, net: Layers, X: Array, targets: Array, weights: Any, mask: Array, rng: Any, held: Any, passes: int
    ) -> bool:
        """Descend in place and return whether training stopped for lack of progress."""
        n, size = len(X), min(int(self.batch_size), len(X))
        slot, penalised = np.empty_like(net.values), np.zeros_like(net.values)
        for w, _ in net.split(penalised):
            w[:] = 1.0
        penalised *= self.alpha / (n if weights is None else weights.sum())
        cut = not mask.all()
        step = self._stepper(net)
        best, best_values, waited, saw = np.inf, net.values.copy(), 0, held is not None
        for _ in range(passes):
            order = rng.permutation(n) if size < n else None
            total = 0.0
            for start in range(0, n, size):
                rows = slice(None) if order is None else order[start : start + size]
                x, t = (X, targets) if order is None else (X[rows], targets[rows])
                u = None if weights is None else weights[rows]
                value, _ = gradient(net, x, t, self._loss, u, into=slot)
                total += value * len(x)
                if self.alpha:
                    add_penalty(slot, net.values, penalised)
                if cut:
                    slot *= mask
                step(slot)
            self.loss_curve_.append(total / n)
            if not np.isfinite(total):
                raise ValueError("training diverged: the loss is not a finite number; use a smaller learning_rate_init")
            watched = loss(net, held[0], held[1], self._loss, held[2]) if saw else total / n
            if saw:
                self.validation_curve_.append(watched)
            waited = 0 if watched < best - self.tol else waited + 1
            if watched < best:
                best = watched
                if saw:
                    best_values[:] = net.values
            if waited >= self.n_iter_no_change:
                break
        if saw:
            net.values[:] = best_values
        return waited >= self.n_iter_no_change

    def _stepper(self, net: Layers) -> Callable[[Array], None]:
        given = self.learning_rate_init
        rate = float(given if given is not None else 0.1 if self.solver == "sgd" else 0.001)
        velocity = np.zeros_like(net.values)
        if self.solver == "sgd":
            share = float(self.momentum)
            return lambda slot: momentum(net.values, slot, velocity, rate, share)
        second, done = np.zeros_like(net.values), [0]

        def step(slot: Array) -> None:
            done[0] += 1
            adam(net.values, slot, velocity, second, rate, done[0])

        return step

    def _pruned(
        self, net: Layers, X: Array, targets: Array, weights: Any, mask: Array, rng: Any, held: Any
    ) -> tuple[Layers, Array]:
        """Prune and retrain until the loss on held-out rows increases by a twentieth."""
        allowed = 1.05 * loss(net, held[0], held[1], self._loss, held[2]) + self.tol
        take = _without_weights if self.prune == "weights" else _without_units
        while True:
            tried = Layers(net.sizes, net.activation, net.output, net.values.copy())
            fewer = take(tried, X, targets, self._loss, mask.copy(), self.prune_step)
            if fewer is None:
                return net, mask
            self._descend(tried, X, targets, weights, fewer, rng, None, max(self.max_iter // 5, 1))
            if loss(tried, held[0], held[1], self._loss, held[2]) > allowed:
                return net, mask
            net, mask = tried, fewer

    def _put_out(self, X: Any) -> Array:
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        return forward(self.network_, X)[-1]


def saliency(net: Layers, X: Array, targets: Array, kind: Any = "log") -> Array:
    """Saliency: the increase of the loss to second order when a weight or bias is removed, half curvature times square.

    References
    ----------
    .. [1] LeCun, Denker, Solla (1990). Optimal brain damage. NeurIPS 2.
    """
    return np.asarray(0.5 * curvature(net, X, targets, kind) * net.values**2)


def contributions(net: Layers, X: Array) -> list[Array]:
    """Contribution of the units of each hidden layer: spread of the output times the norm of the outgoing weights."""
    outs = forward(net, X)
    return [
        outs[i].std(axis=0) * np.linalg.norm(w, axis=1) for i, (w, _) in enumerate(net.weights) if i
    ]  # fmt: skip


def _without_weights(net: Layers, X: Array, targets: Array, kind: Any, mask: Array, share: float) -> Array | None:
    """Return the mask without the least salient weights; biases are kept."""
    is_weight = np.zeros(len(mask), bool)
    for w, _ in net.split(is_weight):
        w[:] = True
    left = np.flatnonzero(is_weight & (mask > 0))
    if len(left) < 2:
        return None
    n = max(int(share * len(left)), 1)
    mask[left[np.argsort(saliency(net, X, targets, kind)[left], kind="stable")[:n]]] = 0
    net.values[:] *= mask
    return mask


def _without_units(net: Layers, X: Array, targets: Array, kind: Any, mask: Array, share: float) -> Array | None:
    """Return the mask without the units that contribute least; every layer keeps at least one."""
    outs, masks, removed = forward(net, X), net.split(mask), 0
    for i, each in enumerate(contributions(net, X)):
        alive = np.flatnonzero(masks[i + 1][0].any(axis=1))
        n = min(max(int(share * len(alive)), 1), len(alive) - 1)
        for unit in alive[np.argsort(each[alive], kind="stable")[:n]]:
            (w, b), (above, bias) = net.weights[i], net.weights[i + 1]
            bias += outs[i + 1][:, unit].mean() * above[unit]
            for changed in ((w, b, above), (masks[i][0], masks[i][1], masks[i + 1][0])):
                changed[0][:, unit], changed[1][unit], changed[2][unit] = 0, 0, 0
            removed += 1
    return mask if removed else None


class NeuralNetworkClassifier(ClassifierMixin, _Network):
    """A feed-forward net whose outputs are class probabilities.

    Parameters
    ----------
    hidden_layer_sizes : tuple of int
    activation : {"tanh", "relu", "logistic", "identity"}
    loss : {"log", "squared"} or None
        None: log.
    output : {"softmax", "sigmoid"}
        Two classes always share one sigmoid unit.
    solver : {"adam", "sgd"}
    learning_rate_init : float or None
    momentum : float
    batch_size : int
    max_iter : int
    alpha, tol : float
    n_iter_no_change : int
    early_stopping : bool
    validation_fraction : float
    prune : {"none", "weights", "units"}
    prune_step : float
    random_state : int or None

    Attributes
    ----------
    network_ : Layers
    coefs_, intercepts_ : list of ndarray
        Weights and biases of each layer.
    mask_ : ndarray of bool
        Which of ``network_.values`` remain after pruning.
    loss_curve_, validation_curve_ : list of float
        Loss of each pass on the training rows and on held-out rows.
    converged_ : bool
        Whether training stopped for lack of progress.
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train; rows with weight 0 are left out."""
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        weights = None
        if sample_weight is not None:
            weights = _check_sample_weight(sample_weight, X, dtype=np.float64)
            X, y, weights = X[weights > 0], y[weights > 0], weights[weights > 0]
        self.classes_, codes = np.unique(y, return_inverse=True)
        k = len(self.classes_)
        if k < 2:
            raise ValueError(f"A network needs rows of two classes; there is one class, {self.classes_[0]!r}")
        targets = codes[:, None].astype(float) if k == 2 else np.eye(k)[codes]
        self._train(X, targets, weights, "sigmoid" if k == 2 else self.output, self.loss or "log")
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Class probabilities; sigmoid outputs of several classes are normalised."""
        out = self._put_out(X)
        if len(self.classes_) == 2:
            return np.column_stack([1 - out, out])
        total = out.sum(axis=1, keepdims=True)
        return np.asarray(np.where(total > 0, out / np.where(total > 0, total, 1), 1 / out.shape[1]))

    def predict(self, X: Any) -> np.ndarray:
        """The class with the greatest output."""
        best = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[best])


class NeuralNetworkRegressor(RegressorMixin, _Network):
    """A feed-forward net with a linear output, trained by squared error on the standardised target.

    Parameters
    ----------
    hidden_layer_sizes : tuple of int
    activation : {"tanh", "relu", "logistic", "identity"}
    loss : {"squared"} or None
    output : str
        Has no effect.
    solver : {"adam", "sgd"}
    learning_rate_init : float or None
    momentum : float
    batch_size : int
    max_iter : int
    alpha, tol : float
    n_iter_no_change : int
    early_stopping : bool
    validation_fraction : float
    prune : {"none", "weights", "units"}
    prune_step : float
    random_state : int or None

    Attributes
    ----------
    network_ : Layers
    coefs_, intercepts_ : list of ndarray
        Weights and biases of each layer, for the standardised target.
    mask_ : ndarray of bool
    loss_curve_, validation_curve_ : list of float
    converged_ : bool
    """

    def suits(self, n_rows: int, n_columns: int, n_classes: int) -> None:
        """Check that the loss is the squared error."""
        if self.loss not in (None, "squared"):
            raise ValueError(f"the loss of a regression is squared, not {self.loss!r}")

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train; rows with weight 0 are left out."""
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        self.suits(len(X), X.shape[1], 0)
        weights = None
        if sample_weight is not None:
            weights = _check_sample_weight(sample_weight, X, dtype=np.float64)
            X, y, weights = X[weights > 0], y[weights > 0], weights[weights > 0]
        self._centre = float(np.average(y, weights=weights))
        spread = float(np.sqrt(np.average((y - self._centre) ** 2, weights=weights)))
        self._spread = spread if spread > 0 else 1.0
        targets = ((np.asarray(y, float) - self._centre) / self._spread)[:, None]
        self._train(X, targets, weights, "identity", "squared")
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Values of the target."""
        return np.asarray(self._put_out(X)[:, 0] * self._spread + self._centre)


def build(options: Options, task: str, categorical: tuple[int, ...] = ()) -> BaseEstimator:
    """The net for the task."""
    kind = NeuralNetworkRegressor if task == "regression" else NeuralNetworkClassifier
    given = options.model_dump()
    return kind(**given | {"hidden_layer_sizes": tuple(given["hidden_layer_sizes"])})


def reported(estimator: Any) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Return the number of weights before and after pruning, the passes, and the final loss."""
    return {
        "weights": ((), np.array(float(n_weights(estimator.network_.sizes)))),
        "weights_left": ((), np.array(float(estimator.mask_.sum()))),
        "passes": ((), np.array(float(estimator.n_iter_))),
        "training_loss": ((), np.array(estimator.loss_curve_[-1])),
    }


def curves(estimator: Any) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Loss of each pass, and on held-out rows if there are any."""
    # Passes after pruning do not monitor held-out rows.
    watched = np.full(len(estimator.loss_curve_), np.nan)
    watched[: len(estimator.validation_curve_)] = estimator.validation_curve_
    losses = by_pass("loss", [estimator.loss_curve_])
    return losses | by_pass("held_out_loss", [watched]) if estimator.validation_curve_ else losses


def examples() -> list[BaseEstimator]:
    """Estimators for scikit-learn's checks."""
    quick: dict[str, Any] = {
        "hidden_layer_sizes": (20,),
        "learning_rate_init": 0.02,
        "batch_size": 10**6,
        "tol": 0.0,
        "max_iter": 60,
    }
    return [NeuralNetworkClassifier(**quick), NeuralNetworkRegressor(**quick)]
