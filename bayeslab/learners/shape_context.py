r"""Learner ``shape_context``: images are alike when the outline of one, bent a little, is that of the other.

Points are spread over the outlines. Each sees the others in a histogram of log radius and angle, its shape context;
points of two shapes are paired so that the sum of the costs between contexts, :math:`\tfrac12\chi^2`, is least (an
assignment problem). A thin-plate spline, stiff enough not to turn a digit into another, can bend the first shape onto
its partners, and pairing begins again (``n_iter``; worth its cost where shapes are sheared or bent). The distance adds
up how different contexts remain, how much the brightness differs around the pairs, and how much was bent [1]_; the k
nearest images vote.

Comparing costs milliseconds. Only ``n_candidates`` training images, those with the most similar pixels, are compared
with an image, unless all are asked for.

References
----------
.. [1] Belongie, Malik, Puzicha (2002). Shape matching and object recognition using shape contexts. PAMI 24, 509-522.
.. [2] Bookstein (1989). Principal warps: thin-plate splines and the decomposition of deformations. PAMI 11, 567-585.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy.ndimage import map_coordinates, zoom
from scipy.optimize import linear_sum_assignment
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from threadpoolctl import threadpool_limits

from bayeslab.learners.toolbox.estimator import MANY, Count, Estimator, LearnerOptions
from bayeslab.learners.toolbox.images import image_shape
from bayeslab.learners.toolbox.shape_kernels import costs, histograms, spread

__all__ = [
    "CATEGORIES",
    "MISSING",
    "SCALE",
    "TASKS",
    "Options",
    "Shape",
    "ShapeContextKNN",
    "build",
    "examples",
    "outline",
    "reported",
    "shape_distance",
    "thin_plate",
]

Array = NDArray[np.float64]

TASKS = ("classification",)
CATEGORIES: Literal["codes", "indicators"] = "indicators"
SCALE = False
MISSING = False

# Rings and sectors, radii of the first and the last ring in mean distances, and the share of the normals in a cost [1].
_RINGS, _SECTORS, _INNER, _OUTER, _TANGENTS = 5, 12, 0.125, 2.0, 0.1
# Weights of brightness and bending in the distance of digits [1].
_BRIGHTNESS, _BENDING = 1.6, 0.3
_PATCH = np.stack(np.meshgrid(np.arange(-2, 3), np.arange(-2, 3), indexing="ij")).reshape(2, -1).astype(float)
_WINDOW = np.exp(-0.5 * (_PATCH**2).sum(axis=0) / 1.5**2)
_WINDOW /= _WINDOW.sum()


class Options(LearnerOptions):
    """Options of shape matching."""

    image_shape: list[Count] | None = Field(
        None,
        min_length=2,
        max_length=2,
        description="Height and width; the columns are the pixels, line by line. Left out: square.",
    )
    n_neighbors: int = Field(3, ge=1, le=10**9, description="Images that vote.")
    n_points: int = Field(100, ge=5, le=10_000, description="Points of an outline.")
    n_candidates: int | None = Field(
        30,
        ge=1,
        le=MANY,
        description="Training images that are compared, those with the most similar pixels; null: all.",
    )
    n_iter: int = Field(
        0, ge=0, le=1000, description="How often the outline is bent onto its pairs; at three times the cost or more."
    )
    smoothing: float = Field(
        20.0, ge=0, description="How stiff it is then: small, points go to their partners; large, only affine maps."
    )


def outline(image: Any, n_points: int = 100) -> tuple[Array, Array]:
    """Points spread over the outlines of an image, and the angles of their normals.

    An outline runs where the brightness, on lines between pixels, is half way between darkest and brightest. An image
    that has too few such places is made finer first, of up to eight times as many lines.

    Returns
    -------
    points : ndarray, shape (up to n_points, 2)
        Row and column, in pixels. None of an image of one brightness.
    angles : ndarray
        Radians; the direction in which it gets brighter.
    """
    original = np.asarray(image, float)
    points, level = _crossings(original)
    finer = 1
    while 0 < len(points) < n_points and finer < 8:
        finer *= 2
        fine = zoom(original, finer, order=1, grid_mode=False)
        places = (np.array(original.shape) - 1) / np.maximum(np.array(fine.shape) - 1, 1)
        points = _crossings(fine, level)[0] * places
    points = points[spread(points, n_points)]
    # Of a line of pixels the outline has normals along the line.
    slopes = [np.gradient(original, axis=k) if original.shape[k] > 1 else np.zeros_like(original) for k in (0, 1)]
    down, right = (map_coordinates(s, points.T, order=1, mode="nearest") for s in slopes)
    return points, np.arctan2(down, right)


def _crossings(image: Array, level: float | None = None) -> tuple[Array, float]:
    """Where lines between neighbouring pixels have the level, shape (places, 2)."""
    if level is None:
        level = (float(image.min()) + float(image.max())) / 2
    places = []
    for axis in (0, 1):
        first = np.take(image, range(image.shape[axis] - 1), axis)
        second = np.take(image, range(1, image.shape[axis]), axis)
        at = np.argwhere((first > level) != (second > level)).astype(float)
        if len(at):
            i, j = at.astype(int).T
            at[:, axis] += (level - first[i, j]) / (second[i, j] - first[i, j])
            places.append(at)
    return (np.vstack(places) if places else np.empty((0, 2))), level


@dataclass(frozen=True, eq=False)
class Shape:
    """An image as shape matching sees it.

    Attributes
    ----------
    image : ndarray, shape (height, width)
        Brightness from 0 to 1.
    points, angles : ndarray
        As of :func:`outline`.
    contexts : ndarray, shape (points, cells)
        Shares of the other points in rings and sectors.
    """

    image: Array
    points: Array
    angles: Array
    contexts: Array

    @classmethod
    def of(cls, image: Any, n_points: int = 100) -> Shape:
        """The shape of an image."""
        values = np.asarray(image, float)
        low, high = float(values.min()), float(values.max())
        values = (values - low) / (high - low) if high > low else np.zeros_like(values)
        points, angles = outline(values, n_points)
        return cls(values, points, angles, _contexts(points))


def _contexts(points: Array) -> Array:
    return np.asarray(histograms(points, _RINGS, _SECTORS, _INNER, _OUTER))


def thin_plate(points: Array, targets: Array, smoothing: float) -> tuple[Array, float]:
    """Where a smoothed thin-plate spline from points to targets moves the points, and its bending energy.

    Parameters
    ----------
    points, targets
        Shape (n, 2).
    smoothing
        0 goes through all targets; large leaves the affine map of least squares.
    """
    n = len(points)
    squared = ((points[:, None] - points[None]) ** 2).sum(axis=2)
    with np.errstate(divide="ignore", invalid="ignore"):
        bend = np.where(squared > 0, squared * np.log(squared), 0.0)
    plane = np.column_stack([np.ones(n), points])
    whole = np.zeros((n + 3, n + 3))
    whole[:n, :n] = bend + smoothing * np.eye(n)
    whole[:n, n:], whole[n:, :n] = plane, plane.T
    # Points on a line leave the affine map undecided.
    right = np.vstack([targets, np.zeros((3, 2))])
    try:
        solved = np.linalg.solve(whole, right)
    except np.linalg.LinAlgError:
        solved = np.linalg.lstsq(whole, right)[0]
    weights = solved[:n]
    energy = float(np.einsum("ik,ij,jk->", weights, bend, weights))
    return bend @ weights + plane @ solved[n:], max(energy, 0.0)


def shape_distance(a: Shape, b: Shape, n_iter: int = 0, smoothing: float = 20.0) -> float:
    """How far two shapes are apart: contexts, brightness around pairs, and bending of a onto b; 0 of equal images.

    Parameters
    ----------
    a, b
        Shapes of images of the same size.
    n_iter
        How often a is bent and points are paired again.
    smoothing
        Of the spline, as of :func:`thin_plate`, in units of the mean distance of points from their middle.
    """
    if not len(a.points) or not len(b.points):
        return 0.0 if len(a.points) == len(b.points) else 1.0 + _BRIGHTNESS
    points, contexts, angles, energy = a.points, a.contexts, a.angles, 0.0
    cost = costs(contexts, b.contexts, angles, b.angles, _TANGENTS)
    rows, columns = linear_sum_assignment(cost)
    for _ in range(n_iter):
        if len(rows) < 4:
            break
        # In units of the mean distance, so that images of any size are smoothed alike.
        unit = max(float(np.linalg.norm(b.points - b.points.mean(axis=0), axis=1).mean()), 1e-12)
        moved, energy = thin_plate(a.points[rows] / unit, b.points[columns] / unit, smoothing)
        points, angles = moved * unit, a.angles[rows]
        contexts = _contexts(points)
        cost = costs(contexts, b.contexts, angles, b.angles, _TANGENTS)
        paired, columns = linear_sum_assignment(cost)
        rows = rows[paired]
    context = 0.5 * (cost.min(axis=1).mean() + cost.min(axis=0).mean())
    return float(context + _BRIGHTNESS * _brightness(a, b, rows, columns) + _BENDING * energy)


def _brightness(a: Shape, b: Shape, rows: Any, columns: Any) -> float:
    """Mean squared difference of brightness in a window around each pair."""
    values = []
    for shape, at in ((a, rows), (b, columns)):
        places = shape.points[at].T[:, :, None] + _PATCH[:, None, :]
        values.append(map_coordinates(shape.image, places.reshape(2, -1), order=1, mode="nearest"))
    return float((((values[0] - values[1]) ** 2).reshape(len(rows), -1) @ _WINDOW).mean())


class ShapeContextKNN(ClassifierMixin, Estimator, options=Options):
    """The nearest images by shape distance vote.

    Parameters
    ----------
    n_neighbors : int
    n_points : int
        Points of an outline.
    n_candidates : int or None
        Training images that are compared with an image, those with the most similar pixels; None: all.
    n_iter : int
        How often outlines are bent and points paired again.
    smoothing : float
        How stiff they are when bent: small, every point goes to its partner; large, there are only affine maps.
    image_shape : (int, int) or None
        Height and width; None: square, or one line of pixels.

    Attributes
    ----------
    shapes_ : list of Shape
        Of the training images.
    """

    def __init__(
        self,
        n_neighbors: int = 3,
        n_points: int = 100,
        n_candidates: int | None = 30,
        n_iter: int = 0,
        smoothing: float = 20.0,
        image_shape: tuple[int, int] | None = None,
    ) -> None:
        self.n_neighbors, self.n_points, self.n_candidates = n_neighbors, n_points, n_candidates
        self.n_iter, self.smoothing, self.image_shape = n_iter, smoothing, image_shape

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # Columns that are no images have no outlines.
        tags.classifier_tags.poor_score = True
        return tags

    def fit(self, X: Any, y: Any) -> Self:
        """Find the outlines."""
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        if not 1 <= self.n_neighbors <= len(X):
            raise ValueError(f"n_neighbors is {self.n_neighbors!r}, and there are n_samples = {len(X)} images")
        if self.n_candidates is not None and self.n_candidates < self.n_neighbors:
            raise ValueError(f"n_candidates is {self.n_candidates}, fewer than the {self.n_neighbors} that vote")
        self.image_shape_ = image_shape(X.shape[1], self.image_shape)
        self.classes_, self._codes = np.unique(y, return_inverse=True)
        self.shapes_ = [Shape.of(one, self.n_points) for one in X.reshape(-1, *self.image_shape_)]
        self._pixels = np.array([one.image.ravel() for one in self.shapes_])
        return self

    def _new(self, X: Any) -> list[Shape]:
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        return [Shape.of(one, self.n_points) for one in X.reshape(-1, *self.image_shape_)]

    def distances(self, X: Any) -> Array:
        """Shape distances, shape (images, training images); of those that are not compared infinity."""
        return self._distances(self._new(X))

    def _distances(self, shapes: list[Shape]) -> Array:
        n = len(self.shapes_)
        out = np.full((len(shapes), n), np.inf)
        k = n if self.n_candidates is None else min(self.n_candidates, n)
        for i, shape in enumerate(shapes):
            if k == n:
                compared = np.arange(n)
            else:
                apart = ((self._pixels - shape.image.ravel()) ** 2).sum(axis=1)
                compared = np.argpartition(apart, k - 1)[:k]
            # Matrices of a hundred rows: threads would wait for each other longer than they work.
            with threadpool_limits(1, "blas"):
                for j in compared:
                    out[i, j] = shape_distance(shape, self.shapes_[j], self.n_iter, self.smoothing)
        return out

    def predict_proba(self, X: Any) -> Array:
        """Shares of the votes."""
        shapes = self._new(X)
        nearest = np.argsort(self._distances(shapes), axis=1, kind="stable")[:, : self.n_neighbors]
        votes = self._codes[nearest][:, :, None] == np.arange(len(self.classes_))
        return np.asarray(votes.mean(axis=1))

    def predict(self, X: Any) -> np.ndarray:
        """The class with most votes; of equals that of the nearest image."""
        shapes = self._new(X)
        nearest = np.argsort(self._distances(shapes), axis=1, kind="stable")[:, : self.n_neighbors]
        votes = (self._codes[nearest][:, :, None] == np.arange(len(self.classes_))).sum(axis=1)
        tied = votes[np.arange(len(nearest))[:, None], self._codes[nearest]] == votes.max(axis=1)[:, None]
        return np.asarray(self.classes_[self._codes[nearest[np.arange(len(nearest)), tied.argmax(axis=1)]]])


def build(options: Options, task: str, categorical: tuple[int, ...] = ()) -> BaseEstimator:
    """Nearest shapes."""
    return ShapeContextKNN(**options.model_dump())


def reported(estimator: Any) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Images, and the mean number of points."""
    return {
        "n_images": ((), np.array(float(len(estimator.shapes_)))),
        "mean_points": ((), np.array(np.mean([len(s.points) for s in estimator.shapes_]))),
    }


def examples() -> list[BaseEstimator]:
    """For scikit-learn's checks."""
    return [ShapeContextKNN(n_points=10, n_candidates=3)]
