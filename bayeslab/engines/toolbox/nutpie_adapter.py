"""The only use of nutpie: one chain of its No-U-Turn sampler on a compiled density, in the background.

nutpie's own module imports ArviZ, PyMC's compiler and pandas, which takes seconds and is not used here. Only its
compiled part, ``nutpie._lib``, is loaded.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader
from importlib.util import find_spec, module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from bayeslab.posterior.machine.linked import address

__all__ = ["Chain", "CompiledDensity", "start_chain", "values_of"]


_REALS = ctypes.POINTER(ctypes.c_double)
_WORD, _POINTER = ctypes.c_uint64, ctypes.c_void_p
# int64 (uint64 n, uint64 m, double *point, double *expanded, void *arguments)
_EXPAND = ctypes.CFUNCTYPE(ctypes.c_int64, _WORD, _WORD, _POINTER, _POINTER, _POINTER)


class CompiledDensity(Protocol):
    """A log density as nutpie calls it, with C callbacks at addresses.

    Attributes
    ----------
    n_dim : int
    address : int
        Of ``int64 (uint64 n, double *point, double *gradient, double *log_density, void *arguments)``.
    arguments : int
        The callback's last argument.
    """

    @property
    def n_dim(self) -> int: ...
    @property
    def address(self) -> int: ...
    @property
    def arguments(self) -> int: ...


def library() -> Any:
    """The module ``nutpie._lib``, without the package around it."""
    name = "nutpie._lib"
    if name in sys.modules:
        return sys.modules[name]
    package = find_spec("nutpie")
    if package is None or not package.submodule_search_locations:
        raise ImportError("nutpie is not installed")
    for folder in package.submodule_search_locations:
        for suffix in EXTENSION_SUFFIXES:
            file = Path(folder) / f"_lib{suffix}"
            if file.is_file():
                spec = spec_from_loader(name, ExtensionFileLoader(name, str(file)))
                assert spec is not None
                assert spec.loader is not None
                module = module_from_spec(spec)
                # A compiled module is initialised once in a process; a later import of nutpie finds this one.
                sys.modules[name] = module
                spec.loader.exec_module(module)
                return module
    from nutpie import _lib

    return _lib


@contextmanager
def _given_up() -> Iterator[None]:
    """A context in which a panic of the sampler, no ordinary exception of Python, is a RuntimeError in one line.

    nutpie panics, for example, where the slope in a direction is zero or not finite at the start of a chain.
    """
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        reason = next((line for line in str(error).splitlines() if line.strip()), "the sampler stopped")
        raise RuntimeError(reason.rpartition(" value: ")[2]) from None


class Chain:
    """A chain that samples in the background.

    Parameters
    ----------
    sampler
        nutpie's sampler.
    kept : tuple
        Objects that must live as long as it samples.
    """

    def __init__(self, sampler: Any, kept: tuple[Any, ...]) -> None:
        self._sampler, self._kept = sampler, kept

    @property
    def is_finished(self) -> bool:
        """Whether all draws are made.

        Raises
        ------
        RuntimeError, ValueError
            The sampler gave up, here and in the methods below.
        """
        try:
            with _given_up():
                return bool(self._sampler.is_finished())
        except TimeoutError:
            return False

    def wait(self) -> Any:
        """The results, after all draws are made."""
        with _given_up():
            self._sampler.wait(None)
            return self._sampler.take_results()

    def abort(self) -> Any:
        """The results of a chain that is stopped."""
        with _given_up():
            self._sampler.abort()
            return self._sampler.take_results()

    def cancel(self) -> None:
        """Stop the chain, also one that the sampler gave up."""
        with suppress(RuntimeError, ValueError), _given_up():
            self._sampler.abort()

    def __del__(self) -> None:
        if not self._sampler.is_empty(ignore_error=True):
            self.cancel()


def start_chain(
    density: CompiledDensity,
    start: Callable[[int | None], np.ndarray],
    expand: Callable[[np.ndarray], np.ndarray] | None,
    *,
    draws: int,
    tune: int,
    seed: int,
    target_accept: float,
    max_treedepth: int,
    update: Callable[[list[Any]], None],
) -> Chain:
    """Start one chain.

    Parameters
    ----------
    start
        The starting point, from a seed.
    expand
        What is kept of a draw of the point, of the same length; None: the point.
    update
        Called about ten times a second with the progress of the chain, in another thread.
    """
    lib, n = library(), density.n_dim
    settings = lib.PyNutsSettings.Diag(seed)
    settings.update(
        {
            "num_tune": tune,
            "num_draws": draws,
            "num_chains": 1,
            "target_accept": target_accept,
            "maxdepth": max_treedepth,
        }
    )

    callback = None if expand is None else _callback(expand, n)
    keeping = address("driver", "copy") if callback is None else ctypes.cast(callback, ctypes.c_void_p).value
    expansion = lib.ExpandFunc(n, n, keeping, density.arguments, density)
    log_density = lib.LogpFunc(density.address, density.arguments, density)
    lengths: dict[str, int] = {}  # of the axes, which the next call adds
    variables = lib.PyVariable.new_variables(["point"], ["float64"], [(n,)], lengths, {})
    model = lib.PyMcModel(log_density, expansion, variables, n, lengths, {}, start, _no_adapter)
    store, progress = lib.PyStorage.arrow(), lib.ProgressType.none()
    sampler = lib.PySampler.from_pymc(settings, 1, model, progress, update, 100, store)
    return Chain(sampler, (density, model, start, update, store, callback))


def _callback(expand: Callable[[np.ndarray], np.ndarray], n: int) -> Any:
    """A function in C that calls Python once for each draw."""

    def kept(_n: int, _m: int, point: int, out: int, _arguments: Any) -> int:
        values = np.ctypeslib.as_array(ctypes.cast(point, _REALS), (n,))
        np.ctypeslib.as_array(ctypes.cast(out, _REALS), (n,))[:] = expand(values)
        return 0

    return _EXPAND(kept)


def _no_adapter(*args: Any, **kwargs: Any) -> Any:
    """Transformations of the density are not learned."""
    raise NotImplementedError


def values_of(column: Any) -> np.ndarray:
    """The values of an Arrow array of numbers, truth values or vectors, read from its memory, in one dimension.

    Arrow's own conversion imports pandas, which takes a quarter of a second.

    Raises
    ------
    ValueError
        Values are missing, which nutpie never returns.
    """
    if column.null_count:
        raise ValueError("a column of the sampler's results has missing values")
    if "list" in str(column.type):
        assert column.offset == 0
        column = column.values
    data, first, end = column.buffers()[-1], column.offset, column.offset + len(column)
    if str(column.type) == "bool":
        return np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")[first:end].astype(bool)
    return np.frombuffer(data, np.dtype(column.type.to_pandas_dtype()))[first:end]
