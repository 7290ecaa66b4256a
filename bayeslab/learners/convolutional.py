r"""Learner ``convolutional``: a convolutional net of the LeNet type, for images given as rows of pixels.

An image is centred in 32 × 32 pixels. Each unit of the first hidden layer sees a small square of it. The units of a
feature map share their weights, so an image shifted by one stride has its maps shifted by one unit. Twelve maps of 8 ×
8 (768 units) are followed by twelve maps of 4 × 4 (192 units), a fully connected layer of 30 units, and the outputs
[1]_. The stride does the down-sampling. Training is by back-propagation and Adam with a decreasing step size, on images
that are randomly shifted, rotated and scaled in every pass.

``boosted`` trains three nets by Schapire's scheme [2]_, [3]_: the second on images of which the first misclassifies
half, the third on images on which the first two disagree; augmented images are drawn until there are enough. The
outputs of the three are averaged.

References
----------
.. [1] LeCun, Boser, Denker, Henderson, Howard, Hubbard, Jackel (1989). Backpropagation applied to handwritten zip code
   recognition. Neural Computation 1, 541-551.
.. [2] Schapire (1990). The strength of weak learnability. Machine Learning 5, 197-227.
.. [3] Drucker, Schapire, Simard (1993). Boosting performance in neural networks. International Journal of Pattern
   Recognition and Artificial Intelligence 7, 705-719.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from pydantic import Field
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from bayeslab.learners.toolbox.augment import moved
from bayeslab.learners.toolbox.convolution_kernels import scatter
from bayeslab.learners.toolbox.curves import by_pass
from bayeslab.learners.toolbox.estimator import Estimator, LearnerOptions, warn_unless
from bayeslab.learners.toolbox.layers_kernels import adam, add_penalty

__all__ = [
    "CATEGORIES",
    "MISSING",
    "SCALE",
    "TASKS",
    "BoostedConvolutional",
    "Convolutional",
    "Options",
    "Shape",
    "build",
    "curves",
    "examples",
    "gradient",
    "maps",
    "padded",
    "reported",
]

Single = NDArray[np.float32]
Numbers = NDArray[np.floating[Any]]

TASKS = ("classification",)
CATEGORIES: Literal["codes", "indicators"] = "indicators"
SCALE = False
MISSING = False

SIDE = 32


class Options(LearnerOptions):
    """Options of a convolutional net."""

    boosted: bool = Field(
        False, description="Train three nets, the second and third on images that are hard for those before."
    )
    max_iter: int = Field(60, ge=1, le=10_000_000, description="Passes over the images.")
    batch_size: int = Field(32, ge=1, le=10**9, description="Images per step.")
    learning_rate_init: float = Field(2e-3, gt=0, description="Initial step size; it falls to 0 along a cosine.")
    alpha: float = Field(1e-2, ge=0, description="Strength of the penalty on squared weights.")
    shift: float = Field(2.0, ge=0, description="Largest shift of an image, in pixels.")
    angle: float = Field(10.0, ge=0, description="Largest rotation, in degrees.")
    scale: float = Field(0.1, ge=0, lt=1, description="Largest change of size, as a share.")


class Shape(LearnerOptions):
    """Maps, kernels, strides and paddings of the two convolutions, and the units above them.

    The first layer's kernels are 8 wide with a stride of 4, the second's 5 wide with a stride of 2.
    """

    maps: tuple[int, int] = (12, 12)
    kernels: tuple[int, int] = (8, 5)
    strides: tuple[int, int] = (4, 2)
    paddings: tuple[int, int] = (2, 2)
    hidden: int = 30

    @property
    def sides(self) -> tuple[int, int, int]:
        """Return the side of the input and of the maps of both layers."""
        out = [SIDE]
        for kernel, stride, padding in zip(self.kernels, self.strides, self.paddings, strict=True):
            out.append((out[-1] + 2 * padding - kernel) // stride + 1)
        return out[0], out[1], out[2]

    @property
    def units(self) -> tuple[int, int, int]:
        """Return the number of units of the three hidden layers."""
        _, first, second = self.sides
        return self.maps[0] * first**2, self.maps[1] * second**2, self.hidden

    def shapes(self, n_classes: int) -> list[tuple[int, int]]:
        """Return the shape of the weights of each layer; there is one bias per column."""
        return [
            (self.kernels[0] ** 2, self.maps[0]),
            (self.maps[0] * self.kernels[1] ** 2, self.maps[1]),
            (self.units[1], self.hidden),
            (self.hidden, n_classes),
        ]


def split_windows(flat: Single, shapes: list[tuple[int, int]]) -> list[tuple[Single, Single]]:
    out, at = [], 0
    for n_in, n_out in shapes:
        end = at + n_in * n_out
        out.append((flat[at:end].reshape(n_in, n_out), flat[end : end + n_out]))
        at = end + n_out
    return out


def padded(X: Any) -> Single:
    """Return rows of pixels as images centred in 32 × 32; small images are enlarged by a whole factor first.

    If the number of pixels is not a square, they are laid out in the next larger square, row by row.
    """
    X = np.asarray(X, np.float32)
    side = math.isqrt(X.shape[1] - 1) + 1
    if side > SIDE:
        raise ValueError(f"images of {side} × {side} pixels are larger than {SIDE} × {SIDE}")
    square = np.zeros((len(X), side * side), np.float32)
    square[:, : X.shape[1]] = X
    factor = max((SIDE - 4) // side, 1)
    images = square.reshape(-1, side, side).repeat(factor, axis=1).repeat(factor, axis=2)
    before = (SIDE - images.shape[1]) // 2
    after = SIDE - images.shape[1] - before
    return np.pad(images, ((0, 0), (before, after), (before, after)))


def _windows(images: Numbers, kernel: int, stride: int, padding: int) -> Numbers:
    """Return the receptive field of each unit, (images * units, maps * kernel * kernel).

    ``images`` has the shape (images, maps, side, side).
    """
    n_maps = images.shape[1]
    edged = np.pad(images, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    windows = sliding_window_view(edged, (kernel, kernel), axis=(2, 3))[:, :, ::stride, ::stride]
    return np.ascontiguousarray(windows.transpose(0, 2, 3, 1, 4, 5)).reshape(-1, n_maps * kernel * kernel)


def maps(layers: Sequence[tuple[Numbers, Numbers]], images: Numbers, shape: Shape) -> list[Any]:
    """Return receptive fields and outputs by layer: windows, maps, windows, maps, hidden units, probabilities."""
    _, first, second = shape.sides
    (w1, b1), (w2, b2), (w3, b3), (w4, b4) = layers
    n = len(images)
    seen1 = _windows(images[:, None], shape.kernels[0], shape.strides[0], shape.paddings[0])
    h1 = seen1 @ w1
    h1 += b1
    np.maximum(h1, 0, out=h1)
    laid = h1.reshape(n, first, first, -1).transpose(0, 3, 1, 2)
    seen2 = _windows(laid, shape.kernels[1], shape.strides[1], shape.paddings[1])
    h2 = seen2 @ w2
    h2 += b2
    np.maximum(h2, 0, out=h2)
    h3 = h2.reshape(n, second * second * w2.shape[1]) @ w3
    h3 += b3
    np.maximum(h3, 0, out=h3)
    out = h3 @ w4
    out += b4
    out -= out.max(axis=1, keepdims=True)
    np.exp(out, out=out)
    out /= out.sum(axis=1, keepdims=True)
    return [seen1, h1, seen2, h2, h3, out]


def gradient(
    flat: Single, images: Single, targets: Single, shape: Shape, into: Single | None = None
) -> tuple[float, Single]:
    """Return the mean log loss and its gradient in all weights; the gradient of a map sums over its units."""
    shapes = shape.shapes(targets.shape[1])
    into = np.empty_like(flat) if into is None else into
    layers, slots = split_windows(flat, shapes), split_windows(into, shapes)
    seen1, h1, seen2, h2, h3, out = maps(layers, images, shape)
    n = len(images)
    value = -float((targets * np.log(np.maximum(out, 1e-30))).sum()) / n
    delta = (out - targets) / np.float32(n)
    _, first, _ = shape.sides
    flat2 = h2.reshape(n, -1)
    for slot, below in ((slots[3], h3), (slots[2], flat2)):
        np.matmul(below.T, delta, out=slot[0])
        np.sum(delta, axis=0, out=slot[1])
        delta = delta @ layers[3 if below is h3 else 2][0].T
        delta *= below > 0
    delta = delta.reshape(h2.shape)
    np.matmul(seen2.T, delta, out=slots[1][0])
    np.sum(delta, axis=0, out=slots[1][1])
    # Each unit below receives the sum over all windows that contain it.
    back = np.zeros((n, first, first, shape.maps[0]), flat.dtype)
    scatter(delta @ layers[1][0].T, back, shape.kernels[1], shape.strides[1], shape.paddings[1])
    delta = back.reshape(h1.shape)
    delta *= h1 > 0
    np.matmul(seen1.T, delta, out=slots[0][0])
    np.sum(delta, axis=0, out=slots[0][1])
    return value, into


class Convolutional(ClassifierMixin, Estimator, options=Options):
    """A net with two layers of maps with shared weights, a hidden layer, and an output for each class.

    Parameters
    ----------
    max_iter, batch_size : int
    learning_rate_init, alpha : float
    shift, angle, scale : float
        Largest random shift (pixels), rotation (degrees) and change of size (share) in training.
    random_state : int or None

    Attributes
    ----------
    weights_ : ndarray of float32
        All weights, as one vector.
    shape_ : Shape
    loss_curve_ : list of float
        Log loss of each pass, on augmented images.
    converged_ : bool
        Whether the loss has settled within ``max_iter`` passes.
    """

    def __init__(
        self,
        max_iter: int = 60,
        batch_size: int = 32,
        learning_rate_init: float = 2e-3,
        alpha: float = 1e-2,
        shift: float = 2.0,
        angle: float = 10.0,
        scale: float = 0.1,
        random_state: Any = None,
    ) -> None:
        self.max_iter, self.batch_size, self.learning_rate_init = max_iter, batch_size, learning_rate_init
        self.alpha, self.shift, self.angle, self.scale = alpha, shift, angle, scale
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Train on rows of pixels."""
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"A network needs rows of two classes; there is one class, {self.classes_[0]!r}")
        self.low_, self.spread_ = float(X.min()), float(X.std()) or 1.0
        return self._learn(self._images(X), codes, self.classes_)

    def _learn(self, images: Single, codes: Any, classes: Any) -> Self:
        """Train on padded images."""
        self.classes_, self.shape_ = classes, Shape()
        rng = check_random_state(self.random_state)
        flat = self._start(rng)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            self._descend(flat, images, np.eye(len(classes), dtype=np.float32)[codes], rng)
        self.weights_, self.n_iter_ = flat, len(self.loss_curve_)
        self.converged_ = _settled(self.loss_curve_)
        text = f"the loss still falls at the end of max_iter = {self.max_iter} passes: allow more"
        warn_unless(self.converged_, self, text)
        return self

    def _start(self, rng: Any) -> Single:
        shapes = self.shape_.shapes(len(self.classes_))
        flat = np.zeros(sum(a * b + b for a, b in shapes), np.float32)
        for w, _ in split_windows(flat, shapes):
            w[:] = rng.normal(0, np.sqrt(2 / len(w)), w.shape)
        return flat

    def _descend(self, flat: Single, images: Single, targets: Single, rng: Any) -> None:
        n, size = len(images), min(int(self.batch_size), len(images))
        slot, first, second = np.empty_like(flat), np.zeros_like(flat), np.zeros_like(flat)
        strength = np.zeros_like(flat)
        for w, _ in split_windows(strength, self.shape_.shapes(len(self.classes_))):
            w[:] = self.alpha / n
        moves = bool(self.shift or self.angle or self.scale)
        steps, total_steps = 0, self.max_iter * math.ceil(n / size)
        self.loss_curve_: list[float] = []
        for _ in range(self.max_iter):
            order, total = rng.permutation(n), 0.0
            for start in range(0, n, size):
                rows = order[start : start + size]
                x = moved(images[rows], rng, self.shift, self.angle, self.scale) if moves else images[rows]
                value, _ = gradient(flat, x, targets[rows], self.shape_, slot)
                total += value * len(rows)
                steps += 1
                add_penalty(slot, flat, strength)
                rate = 0.5 * self.learning_rate_init * (1 + math.cos(math.pi * (steps - 1) / total_steps))
                adam(flat, slot, first, second, rate, steps)
            self.loss_curve_.append(total / n)
            if not (math.isfinite(total) and np.isfinite(flat).all()):
                raise ValueError(
                    "training diverged: the loss is not a finite number; use a smaller learning_rate_init or alpha"
                )

    def _images(self, X: Any) -> Single:
        return padded((np.asarray(X) - self.low_) / self.spread_)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of classes."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        return self._says(self._images(X))

    def _says(self, images: Single) -> np.ndarray:
        """Return the class probabilities of padded images.

        They are computed in double precision: in single precision some processors round the products of a row
        differently when other rows stand beside it.
        """
        single = split_windows(self.weights_, self.shape_.shapes(len(self.classes_)))
        layers = [(w.astype(np.float64), b.astype(np.float64)) for w, b in single]
        blocks = (images[at : at + 256].astype(np.float64) for at in range(0, len(images), 256))
        return np.concatenate([maps(layers, x, self.shape_)[-1] for x in blocks])

    def predict(self, X: Any) -> np.ndarray:
        """The class with the greatest probability."""
        best = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[best])


def _settled(curve: list[float]) -> bool:
    """Return whether the loss falls by less than 3 % of its first value within the last quarter of the passes.

    The learning rate falls to 0 there, so that a loss that stands still shows little in fewer than eight passes.
    """
    half = len(curve) // 8
    if not half:
        return False
    return float(np.mean(curve[-2 * half : -half]) - np.mean(curve[-half:])) < 0.03 * curve[0]


class BoostedConvolutional(ClassifierMixin, Estimator, options=Options):
    """Three convolutional nets by the scheme of Schapire; their probabilities are averaged.

    Parameters
    ----------
    estimator : Convolutional or None
        The net that is trained three times.
    random_state : int or None

    Attributes
    ----------
    estimators_ : list of Convolutional
        Three nets; fewer if no images are left for the next because the nets before are right on all.
    sets_ : list of tuple (ndarray, ndarray)
        Training images (32 × 32 pixels) and class codes of the second and the third net.
    """

    def __init__(self, estimator: Any = None, random_state: Any = None) -> None:
        self.estimator, self.random_state = estimator, random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Train the three nets in sequence."""
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        model = Convolutional() if self.estimator is None else self.estimator
        rng = check_random_state(self.random_state)
        first = clone(model).set_params(random_state=rng.randint(np.iinfo(np.int32).max)).fit(X, y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        self.estimators_, self.sets_ = [first], []
        images = first._images(X)
        for chosen in (_half_wrong, _disagreed):
            drawn = self._drawn(images, codes, rng, chosen)
            if len(drawn[0]) == 0:
                break
            self.sets_.append(drawn)
            net = clone(model).set_params(random_state=rng.randint(np.iinfo(np.int32).max))
            self.estimators_.append(net._learn(*drawn, self.classes_))
        self.n_iter_ = sum(net.n_iter_ for net in self.estimators_)
        return self

    def _drawn(self, images: Single, codes: Any, rng: Any, chosen: Any) -> tuple[Single, Any]:
        """Return as many augmented images that pass the filter as there are images, or those found in twenty passes."""
        kept, n = [], 0
        model = self.estimators_[0]
        for _ in range(20):
            x = moved(images, rng, model.shift, model.angle, model.scale)
            predicted = np.array([net._says(x).argmax(axis=1) for net in self.estimators_])
            at = chosen(predicted, codes, rng)
            kept.append((x[at], codes[at]))
            n += len(at)
            if n >= len(images):
                break
        both = np.concatenate([x for x, _ in kept]), np.concatenate([c for _, c in kept])
        return both[0][: len(images)], both[1][: len(images)]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the mean of the nets' probabilities."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        images = self.estimators_[0]._images(X)
        return np.asarray(np.mean([net._says(images) for net in self.estimators_], axis=0))

    def predict(self, X: Any) -> np.ndarray:
        """Return the class with the largest mean probability."""
        best = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[best])


def _half_wrong(predicted: Any, codes: Any, rng: Any) -> NDArray[np.int64]:
    """Return all images that the first net misclassifies, each followed by one that it classifies correctly."""
    wrong, right = np.flatnonzero(predicted[0] != codes), np.flatnonzero(predicted[0] == codes)
    n = min(len(wrong), len(right))
    return np.column_stack([wrong[:n], rng.permutation(right)[:n]]).ravel()


def _disagreed(predicted: Any, codes: Any, rng: Any) -> NDArray[np.int64]:
    """Return the images on which the first two nets disagree."""
    return np.flatnonzero(predicted[0] != predicted[1])


def build(options: Options, task: str, categorical: tuple[int, ...] = ()) -> BaseEstimator:
    """Return the net, or three boosted nets."""
    given = options.model_dump()
    boosted = given.pop("boosted")
    net = Convolutional(**given)
    return BoostedConvolutional(net) if boosted else net


def reported(estimator: Any) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Return the number of nets, weights per net and passes, and the final loss of the first net."""
    nets = getattr(estimator, "estimators_", [estimator])
    return {
        "nets": ((), np.array(float(len(nets)))),
        "weights": ((), np.array(float(len(nets[0].weights_)))),
        "passes": ((), np.array(float(sum(net.n_iter_ for net in nets)))),
        "training_loss": ((), np.array(nets[0].loss_curve_[-1])),
    }


def curves(estimator: Any) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Return the loss of each pass, for every net if boosted."""
    nets = getattr(estimator, "estimators_", [estimator])
    return by_pass("loss", [net.loss_curve_ for net in nets], "net")


def examples() -> list[BaseEstimator]:
    """Estimators for scikit-learn's checks."""
    quick = Convolutional(max_iter=8, learning_rate_init=0.01, shift=0.0, angle=0.0, scale=0.0)
    return [quick, BoostedConvolutional(Convolutional(max_iter=8, learning_rate_init=0.02, shift=0, angle=0, scale=0))]
