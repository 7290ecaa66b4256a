"""A PyMC model's log density and gradient as one compiled function, cached on disk.

Most of the waiting time in PyMC is compilation. Three things make it short here:

- Everything that does not depend on the parameters (transformed data, ``log(y!)`` of counts) is
  computed once, and data enter as arguments, so that neither their values nor most of their
  shapes are compiled in.
- PyTensor's numba functions are cached on disk; the C callback around them, which a sampler in
  another language calls without the interpreter, is cached next to them under a key made from
  theirs. A second process loads machine code instead of compiling it.
- Only the density is compiled. Deterministic nodes and the constrained parameters of all draws
  are computed afterwards in one vectorised pass (:func:`bayeslab.posterior.evaluation.expand`).
"""

from __future__ import annotations

import ctypes
import hashlib
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from bayeslab.errors import ModelError, OptionError, hint
from bayeslab.memory import count, require_memory
from bayeslab.posterior import graph_model
from bayeslab.posterior.graph_model import why_no_start
from bayeslab.posterior.log_density import LogDensity
from bayeslab.posterior.transforms import constrained

if TYPE_CHECKING:
    import pymc

    from bayeslab.job import Job
    from bayeslab.posterior.machine.model import MachineModel

__all__ = ["Density", "check_together", "ready"]


def ready(job: Job) -> None:
    """Raise the errors that an engine on the graph's density would raise before its work.

    Raises
    ------
    ModelError
        The graph has no parameters.
    OptionError
        A starting value belongs to no parameter, is not a number, has a wrong shape, or is outside the support.
    """
    machine = job.machine
    known = [rv.name for rv in job.graph.free_RVs] if machine is None else [p.name for p in machine.parameters]
    if not known:
        raise ModelError(_NO_PARAMETERS, code="nothing-to-fit")
    given = job.options.initvals or {} if hasattr(job.options, "initvals") else {}
    for name in given:
        if name not in known:
            raise OptionError(
                f"initvals: no parameter '{name}'{hint(name, known)}",
                path=("inference", "initvals"),
                code="unknown-parameter",
            )
    if given:
        _check_starting_values(given, *(_of_graph(job.graph) if machine is None else _of_machine(machine)))


type _Shape = tuple[int | None, ...]
type _Coordinates = Callable[[Mapping[str, np.ndarray]], Mapping[str, np.ndarray]]


def _of_graph(model: pymc.Model) -> tuple[dict[str, _Shape], _Coordinates]:
    """The shapes of parameters (None for a length that is not known), and their coordinates at given values."""
    lengths = {dim: len(levels) for dim, levels in model.coords.items() if levels is not None}
    shapes = dict[str, _Shape]()
    for rv in model.free_RVs:
        dims, static = model.named_vars_to_dims.get(rv.name) or (), rv.type.shape
        shapes[rv.name] = tuple(lengths.get(dim) for dim in dims) if len(dims) == len(static) else static

    def coordinates(values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            point = _overridden(model, values)
        return {name: point[model.rvs_to_values[model[name]].name] for name in values}

    return shapes, coordinates


def _of_machine(machine: MachineModel) -> tuple[dict[str, _Shape], _Coordinates]:
    """As :func:`_of_graph`."""

    def coordinates(values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        ends = np.cumsum([parameter.size for parameter in machine.parameters])[:-1]
        parts = np.split(machine.start(values), ends)
        return {p.name: part for p, part in zip(machine.parameters, parts, strict=True) if p.name in values}

    return {parameter.name: parameter.law.shape for parameter in machine.parameters}, coordinates


def _check_starting_values(given: Mapping[str, Any], shapes: Mapping[str, _Shape], coordinates: _Coordinates) -> None:
    """Refuse starting values that are not finite or do not have the parameter's shape and support."""
    values = {}
    for name, value in given.items():
        path = ("inference", "initvals", name)
        try:
            values[name] = np.asarray(value, dtype=float)
        except (TypeError, ValueError):
            raise OptionError(
                f"initvals: '{name}' is a number, or rows of numbers; given: {value!r:.60}",
                path=path,
                code="wrong-type",
            ) from None
        shape = shapes[name]
        if len(shape) != values[name].ndim or any(
            wanted not in (None, n) for wanted, n in zip(shape, values[name].shape, strict=True)
        ):
            wanted = (
                f"has the shape ({', '.join('?' if n is None else str(n) for n in shape)})"
                if shape
                else "is one number"
            )
            raise OptionError(f"initvals: '{name}' {wanted}; given: {value!r:.60}", path=path, code="wrong-shape")
        if not np.isfinite(values[name]).all():
            raise OptionError(f"initvals: '{name}' is finite; given: {value!r:.60}", path=path, code="not-finite")
    with np.errstate(all="ignore"):
        point = coordinates(values)
    for name in values:
        # Outside the support the transformation to the real line is not defined.
        if not np.isfinite(point[name]).all():
            raise OptionError(
                f"initvals: '{name}' is in the support of its prior; given: {given[name]!r:.60}",
                path=("inference", "initvals", name),
                code="out-of-range",
            )


def check_together(job: Job, draws: int, option: str) -> None:
    """Refuse draws of the parameters that are made at once if they do not fit into memory.

    Raises
    ------
    OptionError
        The draws do not fit; the error points to the option that sets their number.
    """
    size = (
        sum(math.prod(n or 1 for n in rv.type.shape) for rv in job.graph.free_RVs)
        if job.machine is None
        else job.machine.program.n_dim
    )
    require_memory(
        8 * draws * size,
        f"{count(draws)} draws at once, {count(size)} numbers a draw,",
        "ask for fewer",
        path=("inference", option),
    )


_NO_PARAMETERS = (
    "the model has no parameters to sample: every random node is observed, discrete, or integrated out, as states and"
    " functions are; give one of their numbers a prior"
)


@dataclass(frozen=True, eq=False)
class Density(LogDensity):
    """Log density and gradient of a PyMC model on the unconstrained scale.

    Attributes
    ----------
    model : pymc.Model
    names : tuple of str
        Names of the model's value variables, in the order of the flat vector.
    shapes : tuple of tuple of int
        Shapes of the value variables.
    """

    model: pymc.Model
    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    _function: Any
    _arguments: tuple[np.ndarray, ...]

    @property
    def n_numbers(self) -> int:
        """Count of parameters and data values, a measure of the cost of one evaluation."""
        return self.n_dim + sum(array.size for array in self._arguments)

    @classmethod
    def of(
        cls, model: pymc.Model, *, jacobian: bool = True, part: Literal["joint", "prior", "likelihood"] = "joint"
    ) -> Density:
        """Build the function; compiling happens on the first call or in :attr:`callback`.

        ``part``: the joint density of parameters and data, the parameters' prior, or the likelihood.
        """
        import pytensor
        import pytensor.tensor as pt
        from pytensor.graph.rewriting.utils import rewrite_graph

        with warnings.catch_warnings():
            # Only compiled C code would use the BLAS that PyTensor misses; this code is compiled by numba.
            warnings.filterwarnings("ignore", message="PyTensor could not link to a BLAS")
            start = model.initial_point()
        values = list(model.value_vars)
        shapes = tuple(np.shape(start[v.name]) for v in values)
        if not values:
            raise ModelError(_NO_PARAMETERS, code="nothing-to-fit")
        terms = {"prior": model.free_RVs, "likelihood": [*model.observed_RVs, *model.potentials]}.get(part)
        # Canonicalisation hides log(1 - sigmoid(x)) from the stabilising rewrites, and its gradient is then undefined
        # where the sigmoid is 1; so stabilising rewrites come first.
        logp = rewrite_graph(model.logp(vars=terms, jacobian=jacobian), include=("stabilize",))
        logp = rewrite_graph(logp, include=("canonicalize", "stabilize"))
        gradient = pt.concatenate([pt.atleast_1d(g).ravel() for g in pt.grad(logp, values)])
        point = pt.vector("point", shape=(sum(int(np.prod(s)) for s in shapes),), dtype="float64")
        logp, gradient = _joined([logp, gradient], values, shapes, point)
        logp, gradient = rewrite_graph([logp, gradient], include=("canonicalize",))
        (logp, gradient), symbols, arguments = _hoisted([logp, gradient], point)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            function = pytensor.function(
                [point, *symbols],
                [logp.astype("float64"), gradient.astype("float64")],
                mode="NUMBA",
                on_unused_input="ignore",
            )
        return cls(model, tuple(v.name for v in values), shapes, function, arguments)

    def __call__(self, point: np.ndarray) -> tuple[float, np.ndarray]:
        """Log density and gradient at an unconstrained point."""
        point = np.ascontiguousarray(point, dtype=np.float64)
        gradient, value = np.empty(self.n_dim), np.empty(1)
        real = ctypes.POINTER(ctypes.c_double)
        status = self.callback.ctypes(
            self.n_dim,
            point.ctypes.data_as(real),
            gradient.ctypes.data_as(real),
            value.ctypes.data_as(real),
            self.callback_arguments.ctypes.data,
        )
        if status == 1:
            raise ModelError(
                "the density cannot be computed at this point (a matrix is not positive definite?)", code="degenerate"
            )
        return float(value[0]), gradient

    @cached_property
    def callback(self) -> Any:
        """The C callback ``(n, point*, gradient*, logp*, arguments*) -> status``, from the cache."""
        return _callback(self._function.vm.jit_fn, self.n_dim, self._arguments)

    @property
    def address(self) -> int:
        return int(self.callback.address)

    @property
    def arguments(self) -> int:
        return int(self.callback_arguments.ctypes.data)

    @cached_property
    def callback_arguments(self) -> np.ndarray:
        """Addresses and shapes of the data, as the callback reads them."""
        flat: list[int] = []
        for array in self._arguments:
            flat += [array.ctypes.data, *array.shape]
        return np.array(flat or [0], dtype=np.uint64)

    # ---------------------------------------------------------------------------------- the model

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        by_value = {v.name: rv.name for rv, v in self.model.rvs_to_values.items()}
        return tuple(by_value[name] for name in self.names)

    def centre(self, given: Mapping[str, Any] | None = None) -> np.ndarray:
        return self.flat(_overridden(self.model, given) if given else self.model.initial_point())

    def constrained(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return constrained(self.model, values)

    def prior_points(self, seed: int, n: int, attempts: int | None = None) -> list[np.ndarray]:
        return graph_model.prior_points(self.model, self.names, seed, n, attempts or n)

    def why_no_start(self, point: np.ndarray, tried: int) -> str:
        return why_no_start(self.model, self.split(point), tried)

    @property
    def improper(self) -> list[str]:
        return graph_model.improper(self.model)

    @property
    def ordered(self) -> bool:
        return graph_model.ordered(self.model)

    @property
    def separate(self) -> frozenset[str]:
        return graph_model.separate(self.model)

    def lasso(self) -> dict[int, float]:
        return graph_model.lasso(self.model, self.names, self.shapes)

    @property
    def intermediate(self) -> frozenset[str]:
        return graph_model.intermediate(self.model)

    @property
    def centred(self) -> tuple[str, ...]:
        return graph_model.centred(self.model)

    @property
    def dims(self) -> Mapping[str, tuple[str | None, ...]]:
        return graph_model.dims_of(self.model)

    @property
    def coords(self) -> Mapping[str, Sequence[Any] | None]:
        coords: Mapping[str, Sequence[Any] | None] = self.model.coords
        return coords

    @property
    def observed_cells(self) -> dict[str, np.ndarray]:
        return graph_model.observed_cells(self.model)

    @property
    def constants(self) -> dict[str, np.ndarray]:
        return {str(v.name): np.asarray(graph_model.constant(v)) for v in self.model.data_vars}


def _joined(outputs: list[Any], values: Sequence[Any], shapes: Sequence[tuple[int, ...]], point: Any) -> list[Any]:
    """Outputs as functions of one flat vector."""
    from pytensor.graph.replace import clone_replace

    replacements, at = {}, 0
    for value, shape in zip(values, shapes, strict=True):
        size = int(np.prod(shape))
        part = point[at : at + size].reshape(shape) if shape else point[at]
        replacements[value] = part.astype(value.dtype)
        at += size
    return clone_replace(outputs, replacements)


def _hoisted(outputs: list[Any], point: Any) -> tuple[list[Any], list[Any], tuple[np.ndarray, ...]]:
    """Outputs with every part that does not depend on ``point`` turned into an argument."""
    import pytensor
    from pytensor.graph.basic import Constant
    from pytensor.graph.replace import clone_replace
    from pytensor.graph.traversal import applys_between
    from pytensor.tensor.type import TensorType

    nodes = list(applys_between([], outputs))
    moving = {point}
    for node in _toposorted(nodes, outputs):
        if any(i in moving for i in node.inputs):
            moving.update(node.outputs)
    border: dict[Any, None] = {}
    for node in nodes:
        if any(o in moving for o in node.outputs):
            border.update(dict.fromkeys(i for i in node.inputs if i not in moving and _array(i)))
    border.update(dict.fromkeys(o for o in outputs if o not in moving and _array(o)))
    computed = [v for v in border if not isinstance(v, Constant)]
    # Constants in arithmetic stay in the graph, because PyTensor simplifies around them. Elsewhere they would be
    # broadcast to constant arrays, which numba does not allow an operation to overwrite.
    elsewhere = {i for node in nodes if not _arithmetic(node) for i in node.inputs}
    values: dict[Any, Any] = {
        v: v.data for v in border if isinstance(v, Constant) and np.ndim(v.data) and (v.data.size > 1 or v in elsewhere)
    }
    if computed:
        mode = pytensor.compile.mode.Mode("py", "fast_compile")
        values |= dict(zip(computed, pytensor.function([], computed, mode=mode)(), strict=True))
    replacements, same = {}, dict[Any, list[Any]]()
    for variable, value in values.items():
        array = np.array(value, order="C", copy=True)
        if not isinstance(variable.type, TensorType):
            replacements[variable] = variable.type.make_constant(array[()])
        elif array.ndim == 0 or (array.size == 1 and array.dtype.kind in "iub"):
            replacements[variable] = pytensor.tensor.constant(array, dtype=variable.dtype)
        else:
            same.setdefault((variable.dtype, array.shape, array.tobytes()), []).append(variable)
    symbols, arguments = [], []
    for (dtype, shape, content), variables in same.items():
        # Equal arrays share one argument, so that nothing is computed from them twice.
        known = [v.type.shape for v in variables]
        static = tuple(1 if n == 1 else next((s[i] for s in known if s[i]), None) for i, n in enumerate(shape))
        symbol = pytensor.tensor.tensor(dtype=dtype, shape=static)
        replacements |= dict.fromkeys(variables, symbol)
        symbols.append(symbol)
        arguments.append(np.frombuffer(content, values[variables[0]].dtype).reshape(shape).astype(dtype))
    return clone_replace(outputs, replacements), symbols, tuple(arguments)


def _arithmetic(node: Any) -> bool:
    from pytensor.scalar.basic import Second
    from pytensor.tensor.elemwise import Elemwise

    return isinstance(node.op, Elemwise) and not isinstance(node.op.scalar_op, Second)


def _array(variable: Any) -> bool:
    from pytensor.scalar.basic import ScalarType
    from pytensor.tensor.type import TensorType

    return isinstance(variable.type, TensorType | ScalarType)


def _toposorted(nodes: Any, outputs: list[Any]) -> list[Any]:
    from pytensor.graph.traversal import io_toposort

    wanted = set(nodes)
    return [node for node in io_toposort([], outputs) if node in wanted]


# ------------------------------------------------------------------------------------- callback


def _callback(inner: Any, n_dim: int, arguments: Sequence[np.ndarray]) -> Any:
    """Wrap a numba function as a C callback that reads its data through one pointer.

    The layout of ``arguments*`` is, for every array, its address and then its shape.
    """
    import numba
    from pytensor.link.numba.cache import CACHED_SRC_FUNCTIONS, compile_numba_function_src

    lines, names, at = [], [], 0
    for i, array in enumerate(arguments):
        shape = ", ".join(f"int64(u[{at + 1 + d}])" for d in range(array.ndim))
        lines.append(f"    a{i} = carray(pointer(u[{at}]), ({shape},), dtype{i})")
        names.append(f"a{i}")
        at += 1 + array.ndim
    # A separate function, because numba does not support calls of more than thirty arguments inside `try`.
    unpack = "\n".join(["def with_data(point, u):", *lines, f"    return inner({', '.join(['point', *names])})"])
    source = "\n".join(
        [
            "def log_density_callback(dim, point_, gradient_, logp_, arguments_):",
            f"    if dim != {n_dim}:",
            "        return -1",
            f"    point = carray(point_, ({n_dim},))",
            f"    gradient = carray(gradient_, ({n_dim},))",
            "    logp = carray(logp_, (1,))",
            f"    u = carray(arguments_, ({max(at, 1)},), uint64)",
            "    try:",
            "        value, slope = with_data(point, u)",
            "    except Exception:",
            "        return 1",
            "    logp[0] = value[()]",
            "    finite = True",
            f"    for i in range({n_dim}):",
            "        gradient[i] = slope[i]",
            "        finite = finite and isfinite(slope[i])",
            "    if not finite:",
            "        return 3",
            "    if not isfinite(logp[0]):",
            "        return 4",
            "    return 0",
        ]
    )
    types = numba.types
    # The module's name is stored with the machine code; any module that can be imported will do.
    environment: dict[str, Any] = {
        "__name__": __name__,
        "carray": numba.carray,
        "pointer": _pointer_intrinsic(),
        "isfinite": np.isfinite,
        "int64": np.int64,
        "uint64": np.uint64,
        "inner": inner,
    }
    environment |= {f"dtype{i}": array.dtype.type for i, array in enumerate(arguments)}
    key = CACHED_SRC_FUNCTIONS.get(inner.py_func)
    text = f"private {unpack}{source}{[a.dtype.str for a in arguments]}{key}{numba.__version__}".encode()
    digest = hashlib.sha256(text).hexdigest()
    unpack_key, cache_key = (f"bayeslab_{part}_{digest}" if key is not None else None for part in ("data", "call"))
    with_data = compile_numba_function_src(unpack, "with_data", environment, environment, cache_key=unpack_key)
    environment["with_data"] = numba.njit(cache=unpack_key is not None)(with_data)
    function = compile_numba_function_src(source, "log_density_callback", environment, environment, cache_key=cache_key)
    real = types.CPointer(types.double)
    signature = types.int64(types.uint64, real, real, real, types.voidptr)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return numba.cfunc(signature, cache=cache_key is not None, pipeline_class=_private_compiler())(function)


def _private_compiler() -> Any:
    """A numba compiler whose library keeps private copies of the functions linked into it.

    With ``fastmath`` two copies of a function may round differently: the one compiled separately and
    the one optimised again inside its caller. In numba's usual linking, the copy that the process
    loads first is used for both, so the process that compiles would make other draws than those that
    load the cache. A private copy makes the callback's machine code the same everywhere. (Private, not
    internal: LLVM's loader finds internal functions by name for later libraries, which would then call
    a copy with a changed calling convention.)
    """
    from llvmlite.binding import Linkage
    from numba.core.codegen import JITCodeLibrary
    from numba.core.compiler import Compiler

    class Library(JITCodeLibrary):
        def _optimize_final_module(self) -> None:
            for function in self._final_module.functions:
                if not function.is_declaration and function.linkage == Linkage.linkonce_odr:
                    function.linkage = Linkage.private
            super()._optimize_final_module()

    class Private(Compiler):
        def __init__(self, typingctx: Any, targetctx: Any, library: Any, *rest: Any) -> None:
            if library is None:
                library = Library(targetctx.codegen(), "bayeslab_log_density")
                library.enable_object_caching()
            super().__init__(typingctx, targetctx, library, *rest)

    return Private


def _pointer_intrinsic() -> Any:
    import numba
    from numba.core import cgutils
    from numba.extending import intrinsic

    @intrinsic
    def pointer(context: Any, address: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            return builder.inttoptr(arguments[0], cgutils.voidptr_t)

        return numba.types.voidptr(address), generate

    return pointer


# ----------------------------------------------------------------------- starting and finishing


def _overridden(model: pymc.Model, overrides: Mapping[str, Any]) -> dict[str, np.ndarray]:
    from pymc.initial_point import make_initial_point_fn

    return make_initial_point_fn(model=model, overrides=dict(overrides))(0)
