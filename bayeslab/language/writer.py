"""Where families write a log density: into a PyMC model, or into a program of the density machine.

A family declares its parameters and the log evidence of its data once, through a :class:`Writer`, with operations of a
:class:`bayeslab.language.backends.Backend`. Variables of both backends have NumPy's arithmetic, indexing and axes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayeslab.distributions import cell_log_density, pymc_class
from bayeslab.language.backends import PYTENSOR, Backend

__all__ = ["PYMC", "PyMCWriter", "Rising", "Scaled", "Writer"]


@dataclass(frozen=True, eq=False)
class Scaled:
    """Coordinates u of a parameter x = centre + step u, so that starting points are jittered on the data's scale."""

    centre: np.ndarray
    step: np.ndarray


@dataclass(frozen=True)
class Rising:
    """Coordinates of numbers that increase along the only axis, between two ends that may be infinite."""

    lower: float
    upper: float


class Writer(ABC):
    """Writes a log density: parameters with their priors, quantities computed from them, and log evidence.

    Attributes
    ----------
    ops : Backend
        Operations on the variables.
    """

    ops: Backend

    # -------------------------------------------------------------------------------- the model

    @abstractmethod
    def random(
        self,
        name: str,
        word: str,
        parameters: Mapping[str, Any],
        shape: tuple[int, ...] = (),
        *,
        dims: tuple[str, ...] = (),
        start: np.ndarray | None = None,
        coordinates: Scaled | Rising | None = None,
        between: tuple[float, float] | None = None,
    ) -> Any:
        """A parameter with a prior.

        Parameters
        ----------
        word, parameters
            The distribution, and its parameters by PyMC's names.
        dims
            Names of the axes, whose labels the model has; they imply the shape.
        start
            Where searches and chains start; default: the distribution's support point.
        coordinates
            The unconstrained coordinates; default: those of PyMC.
        between
            Ends of a truncated distribution.
        """

    @abstractmethod
    def rotated_normal(
        self, name: str, factors: Any, kappa: float, shape: tuple[int, int], start: np.ndarray | None
    ) -> Any:
        """A parameter u (K, d) with A u ~ Normal(0, I / κ), for each of the triangular ``factors`` A (K, d, d)."""

    @abstractmethod
    def computed(self, name: str, value: Any, dims: tuple[str, ...] = ()) -> Any:
        """A quantity that is shown in results, computed from parameters."""

    @abstractmethod
    def existing(self, name: str, start: np.ndarray | None = None) -> Any:
        """A variable that the model has already, with a start value if it is a parameter."""

    @abstractmethod
    def evidence(self, kernel: str, parameters: Sequence[Any], *arrays: np.ndarray) -> Any:
        """log p(data | parameters) by a kernel ``module:function`` of a flat vector and arrays.

        ``parameters`` are the arrays that form the vector, one after the other.
        """

    @abstractmethod
    def python_evidence(
        self, function: Callable[[np.ndarray], tuple[float, np.ndarray]], parameters: Sequence[Any]
    ) -> Any:
        """log p(data | parameters) by a Python function from a flat vector to the value and its gradient."""

    @abstractmethod
    def row_terms(self, kernel: str, first: Any, second: Any, shape: tuple[int, int], *arrays: np.ndarray) -> Any:
        """The matrix that a kernel ``module:function`` of a flat vector, two arrays one after the other, computes."""

    @abstractmethod
    def cells(self, word: str, parameters: Mapping[str, Any], values: np.ndarray) -> Any:
        """log p(cell | state), (cells, states), of one distribution with parameters (states,); 0 of missing cells."""

    @abstractmethod
    def add(self, name: str, value: Any) -> None:
        """Add a log density of data to the total."""

    @abstractmethod
    def data(self, name: str, word: str, parameters: Mapping[str, Any], values: np.ndarray) -> None:
        """A node with data, whose parameters are given for each cell."""

    @abstractmethod
    def only_pymc(self, reason: str) -> None:
        """Refuse what only a PyMC model can hold, if this is another one."""

    # ------------------------------------------------------------------------------- operations

    def constant(self, value: Any) -> Any:
        """Known numbers as a variable."""
        return self.ops.constant(np.asarray(value))

    def log(self, value: Any) -> Any:
        """Logarithms; -inf of zero."""
        if isinstance(value, np.ndarray):
            with np.errstate(divide="ignore"):
                return np.log(value)
        return self.ops.function("log")(value)

    def exp(self, value: Any) -> Any:
        """Exponentials."""
        return self.ops.function("exp")(value)

    def sqrt(self, value: Any) -> Any:
        """Square roots."""
        return self.ops.function("sqrt")(value)

    def observed(self, there: np.ndarray, value: Any) -> Any:
        """Values (rows, ...), with zeros in rows that are not ``there``."""
        if there.all():
            return value
        return self.ops.function("where")(there.reshape(-1, *[1] * (value.ndim - 1)), value, 0.0)

    def log_sum_exp(self, value: Any, axis: int) -> Any:
        """Logarithms of sums of exponentials along an axis, which stays with length one."""
        total = self.ops.reduction("logsumexp", value, (axis % value.ndim,))
        return total[tuple(None if i == axis % value.ndim else slice(None) for i in range(value.ndim))]

    def inverses(self, matrices: Any) -> Any:
        """Inverses of matrices (..., d, d)."""
        inverse = self.ops.function("inv")
        if matrices.ndim == 2:
            return inverse(matrices)
        return self.ops.stack([inverse(matrices[k]) for k in range(int(self.ops.shape(matrices)[0] or 0))])

    def dot(self, left: Any, right: Any) -> Any:
        """Sum of products over the last axis of ``left`` and the first of ``right``."""
        left, right = (self.constant(x) if isinstance(x, np.ndarray) else x for x in (left, right))
        return self.ops.contract(left, right)

    def joined(self, parts: Sequence[Any], axis: int = 0) -> Any:
        """Arrays joined along an axis."""
        return self.ops.concatenate([self.constant(p) if isinstance(p, np.ndarray) else p for p in parts], axis)

    def placed(self, shape: tuple[int, ...], at: tuple[np.ndarray, ...], values: Any, rest: float = 0.0) -> Any:
        """An array with values at some positions, and one number everywhere else."""
        positions = np.ravel_multi_index(np.broadcast_arrays(*at), shape).ravel()
        source = np.full(int(np.prod(shape)), len(positions))
        source[positions] = np.arange(len(positions))
        return self.joined([values.ravel(), np.full(1, rest)])[source.reshape(shape)]


class PyMCWriter(Writer):
    """Writes into the PyMC model on the context stack."""

    ops = PYTENSOR

    def random(
        self,
        name: str,
        word: str,
        parameters: Mapping[str, Any],
        shape: tuple[int, ...] = (),
        *,
        dims: tuple[str, ...] = (),
        start: np.ndarray | None = None,
        coordinates: Scaled | Rising | None = None,
        between: tuple[float, float] | None = None,
    ) -> Any:
        import pymc as pm

        options: dict[str, Any] = {"dims": dims} if dims else {"shape": shape}
        if start is not None:
            options["initval"] = start
        match coordinates:
            case Scaled(centre, step):
                options["default_transform"] = _scaled(centre, step)
            case Rising(lower, upper):
                options |= {"transform": _rising(lower, upper), "default_transform": None}
        if between is not None:
            return pm.Truncated(name, pymc_class(word).dist(**parameters), *between, **options)
        return pymc_class(word)(name, **parameters, **options)

    def rotated_normal(
        self, name: str, factors: Any, kappa: float, shape: tuple[int, int], start: np.ndarray | None
    ) -> Any:
        import pymc as pm
        import pytensor.tensor as pt

        def logp(value: Any, a: Any) -> Any:
            z = (a * value[..., None, :]).sum(axis=-1)
            log_det = pt.log(pt.diagonal(a, axis1=-2, axis2=-1)).sum()
            size = value.shape[0] * value.shape[1]
            return log_det - 0.5 * kappa * (z**2).sum() + 0.5 * size * np.log(kappa / (2 * np.pi))

        def random(a: np.ndarray, rng: np.random.Generator, size: Any = None) -> np.ndarray:
            z = rng.standard_normal(a.shape[:-1]) / np.sqrt(kappa)
            return np.linalg.solve(a, z[..., None])[..., 0]

        return pm.CustomDist(name, factors, logp=logp, random=random, signature="(k,d,d)->(k,d)", initval=start)

    def computed(self, name: str, value: Any, dims: tuple[str, ...] = ()) -> Any:
        import pymc as pm

        return pm.Deterministic(name, value, dims=dims or None)

    def existing(self, name: str, start: np.ndarray | None = None) -> Any:
        import pymc as pm

        built = pm.modelcontext(None)
        if start is not None and built[name] in built.free_RVs:
            built.set_initval(built[name], start)
        return built[name]

    def evidence(self, kernel: str, parameters: Sequence[Any], *arrays: np.ndarray) -> Any:
        from bayeslab.evidence import log_evidence

        return log_evidence(kernel, self.joined([part.ravel() for part in parameters]), *arrays)

    def python_evidence(
        self, function: Callable[[np.ndarray], tuple[float, np.ndarray]], parameters: Sequence[Any]
    ) -> Any:
        from bayeslab.evidence import python_evidence

        return python_evidence(function, self.joined([part.ravel() for part in parameters]))

    def row_terms(self, kernel: str, first: Any, second: Any, shape: tuple[int, int], *arrays: np.ndarray) -> Any:
        from bayeslab.evidence import row_terms

        return row_terms(kernel, self.joined([first.ravel(), second.ravel()]), shape, *arrays)

    def cells(self, word: str, parameters: Mapping[str, Any], values: np.ndarray) -> Any:
        return cell_log_density(word, parameters, values)

    def add(self, name: str, value: Any) -> None:
        import pymc as pm

        pm.Potential(name, value)

    def data(self, name: str, word: str, parameters: Mapping[str, Any], values: np.ndarray) -> None:
        pymc_class(word)(name, **parameters, observed=values)

    def only_pymc(self, reason: str) -> None:
        return


def _scaled(centre: np.ndarray, step: np.ndarray) -> Any:
    from pymc.logprob.transforms import Transform
    from pytensor import tensor as pt

    class Scaled(Transform):
        name = "scaled"

        def forward(self, value: Any, *inputs: Any) -> Any:
            return (value - centre) / step

        def backward(self, value: Any, *inputs: Any) -> Any:
            return centre + step * value

        def log_jac_det(self, value: Any, *inputs: Any) -> Any:
            return pt.zeros_like(value) + np.log(step)

    return Scaled()


def _rising(lower: float, upper: float) -> Any:
    import pymc as pm

    transforms = pm.distributions.transforms
    if np.isinf(lower) and np.isinf(upper):
        return transforms.ordered
    low, high = (None if np.isinf(bound) else bound for bound in (lower, upper))
    return transforms.Chain([transforms.Interval(low, high), transforms.ordered])


#: The writer of PyMC models.
PYMC = PyMCWriter()
