r"""Learner ``shape_context``: nearest images by shape contexts: how well the outline of one can be bent onto the other.

Points are spread over the outlines. The shape context of a point is a log-polar histogram of the positions of all other
points. The points of two shapes are paired so that the sum of the costs between contexts, :math:`\tfrac12\chi^2`, is
minimal (an assignment problem). A thin-plate spline, stiff enough not to turn one digit into another, can bend the
first shape onto its partners, after which the points are paired again (``n_iter``; worth its cost if shapes are sheared
or bent). The distance is the sum of the remaining cost between contexts, the difference in brightness around the pairs,
and the bending energy [1]_; the k nearest images vote.

A comparison takes milliseconds. By default an image is compared only with the ``n_candidates`` training images with the
most similar pixels.

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

from bayeslab.blas import one_blas_thread
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

# Rings and sectors, radii of the first and last ring in mean distances, and the weight of the normals in a cost [1].
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
        description="Height and width; the columns are the pixels, line by line. Default: square.",
    )
    n_neighbors: int = Field(3, ge=1, le=10**9, description="Number of nearest images that vote.")
    n_points: int = Field(100, ge=5, le=10_000, description="Number of points on an outline.")
    n_candidates: int | None = Field(
        30,
        ge=1,
        le=MANY,
        description="Number of training images compared, those with the most similar pixels; null: all.",
    )
    n_iter: int = Field(
        0, ge=0, le=1000, description="Number of times the outline is bent onto its pairs; at least triples the cost."
    )
    smoothing: float = Field(
        20.0, ge=0, description="Stiffness of the spline: small: points move to their partners; large: affine."
    )


def outline(image: Any, n_points: int = 100) -> tuple[Array, Array]:
    """Points spread over the outlines of an image, and the angles of their normals.

    The outline is the level set half way between the darkest and the brightest pixel, with linear interpolation between
    pixels. An image with too few outline points is refined first, to up to eight times as many lines.

    Returns
    -------
    points : ndarray, shape (up to n_points, 2)
        Row and column, in pixels. Empty for an image of constant brightness.
    angles : ndarray
        Direction of increasing brightness, in radians.
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
    # In an image of one line the normals point along the line.
    slopes = [np.gradient(original, axis=k) if original.shape[k] > 1 else np.zeros_like(original) for k in (0, 1)]
    down, right = (map_coordinates(s, points.T, order=1, mode="nearest") for s in slopes)
    return points, np.arctan2(down, right)


def _crossings(image: Array, level: float | None = None) -> tuple[Array, float]:
    """Points between neighbouring pixels at which the brightness crosses the level, shape (points, 2)."""
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
    """An image prepared for shape matching.

    Attributes
    ----------
    image : ndarray, shape (height, width)
        Brightness from 0 to 1.
    points, angles : ndarray
        As returned by :func:`outline`.
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
        0 interpolates all targets; large values approach the least squares affine map.
    """
    n = len(points)
    squared = ((points[:, None] - points[None]) ** 2).sum(axis=2)
    with np.errstate(divide="ignore", invalid="ignore"):
        bend = np.where(squared > 0, squared * np.log(squared), 0.0)
    plane = np.column_stack([np.ones(n), points])
    whole = np.zeros((n + 3, n + 3))
    whole[:n, :n] = bend + smoothing * np.eye(n)
    whole[:n, n:], whole[n:, :n] = plane, plane.T
    # Collinear points do not determine the affine map.
    right = np.vstack([targets, np.zeros((3, 2))])
    try:
        solved = np.linalg.solve(whole, right)
    except np.linalg.LinAlgError:
        solved = np.linalg.lstsq(whole, right)[0]
    weights = solved[:n]
    energy = float(np.einsum("ik,ij,jk->", weights, bend, weights))
    return bend @ weights + plane @ solved[n:], max(energy, 0.0)


def shape_distance(a: Shape, b: Shape, n_iter: int = 0, smoothing: float = 20.0) -> float:
    """Shape distance: contexts, brightness around pairs, and the bending of a onto b; 0 for identical images.

    Parameters
    ----------
    a, b
        Shapes of images of equal size.
    n_iter
        Number of times a is bent and the points are paired again.
    smoothing
        Smoothing of :func:`thin_plate`, in units of the mean distance of the points from their centre.
    """
    if not len(a.points) or not len(b.points):
        return 0.0 if len(a.points) == len(b.points) else 1.0 + _BRIGHTNESS
    points, contexts, angles, energy = a.points, a.contexts, a.angles, 0.0
    cost = costs(contexts, b.contexts, angles, b.angles, _TANGENTS)
    rows, columns = linear_sum_assignment(cost)
    for _ in range(n_iter):
        if len(rows) < 4:
            break
        # In units of the mean distance, so that smoothing does not depend on the size of the images.
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
    """k nearest neighbours by shape distance.

    Parameters
    ----------
    n_neighbors : int
    n_points : int
        Number of points on an outline.
    n_candidates : int or None
        Number of training images compared with an image, those with the most similar pixels; None: all.
    n_iter : int
        Number of times outlines are bent and points are paired again.
    smoothing : float
        Stiffness of the spline: small: every point moves to its partner; large: only affine maps.
    image_shape : (int, int) or None
        Height and width; None: square, or one line of pixels.

    Attributes
    ----------
    shapes_ : list of Shape
        Shapes of the training images.
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
        # Columns that are not images have no outlines.
        tags.classifier_tags.poor_score = True
        return tags

    def fit(self, X: Any, y: Any) -> Self:
        """Compute the outlines of the training images."""
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
        """Shape distances, shape (images, training images); infinite for pairs that are not compared."""
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
            # Matrices of a hundred rows: more threads would only slow them down.
            with one_blas_thread():
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
        """The class with the most votes; on a tie that of the nearest image."""
        shapes = self._new(X)
        nearest = np.argsort(self._distances(shapes), axis=1, kind="stable")[:, : self.n_neighbors]
        votes = (self._codes[nearest][:, :, None] == np.arange(len(self.classes_))).sum(axis=1)
        tied = votes[np.arange(len(nearest))[:, None], self._codes[nearest]] == votes.max(axis=1)[:, None]
        return np.asarray(self.classes_[self._codes[nearest[np.arange(len(nearest)), tied.argmax(axis=1)]]])


def build(options: Options, task: str, categorical: tuple[int, ...] = ()) -> BaseEstimator:
    """Nearest shapes."""
    return ShapeContextKNN(**options.model_dump())


def reported(estimator: Any) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Return the number of images and the mean number of points."""
    return {
        "n_images": ((), np.array(float(len(estimator.shapes_)))),
        "mean_points": ((), np.array(np.mean([len(s.points) for s in estimator.shapes_]))),
    }


def examples() -> list[BaseEstimator]:
    """Estimators for scikit-learn's checks."""
    return [ShapeContextKNN(n_points=10, n_candidates=3)]
