"""Memory by addresses: numbers and words of 64 bits, calls of functions, and locks.

An instruction is a row of :data:`WORDS` words: the address of its kernel, two lengths, flags, and for each of six
operands the address of its values, the address of their adjoints, and two strides in bytes; four words are left for
what else an instruction needs.
"""

from __future__ import annotations

from typing import Any

import numba
from llvmlite import ir
from numba import extending, types

__all__ = [
    "accumulate",
    "add",
    "add_slope",
    "bits",
    "call",
    "from_bits",
    "load",
    "load_value",
    "plus",
    "pointer",
    "release",
    "store",
    "store_result",
    "store_word",
    "take_lock",
    "word",
]

# The type stubs of numba do not say what compiled functions take.
intrinsic: Any = extending.intrinsic
jit: Any = numba.njit

_WORD, _REAL = ir.IntType(64), ir.DoubleType()


def _place(builder: Any, address: Any, index: Any, kind: Any) -> Any:
    return builder.gep(builder.inttoptr(address, kind.as_pointer()), [index])


@intrinsic
def load(typing: Any, address: Any, index: Any) -> Any:
    """The number at a position after an address."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(_place(builder, args[0], args[1], _REAL))

    return types.float64(types.int64, types.int64), generate


def _aliases(instruction: Any, builder: Any, kind: str) -> None:
    """Values and adjoints never overlap: the compiler need not check it before each loop."""
    module = builder.module
    domain = module.add_metadata([ir.MetaDataString(module, "machine")])
    scope = module.add_metadata([ir.MetaDataString(module, "values"), domain])
    instruction.set_metadata(kind, module.add_metadata([scope]))


@intrinsic
def load_value(typing: Any, address: Any, index: Any) -> Any:
    """The number at a position; what :func:`add_slope` writes does not change it."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        out = builder.load(_place(builder, args[0], args[1], _REAL))
        _aliases(out, builder, "alias.scope")
        return out

    return types.float64(types.int64, types.int64), generate


@intrinsic
def add_slope(typing: Any, address: Any, index: Any, value: Any) -> Any:
    """Add to the adjoint at a position."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = _place(builder, args[0], args[1], _REAL)
        before = builder.load(place)
        _aliases(before, builder, "noalias")
        after = builder.store(builder.fadd(before, args[2]), place)
        _aliases(after, builder, "noalias")
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.float64), generate


@intrinsic
def store_result(typing: Any, address: Any, index: Any, value: Any) -> Any:
    """Write a number of a result, which never overlaps what :func:`load_value` reads."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _aliases(builder.store(args[2], _place(builder, args[0], args[1], _REAL)), builder, "noalias")
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.float64), generate


@intrinsic
def store(typing: Any, address: Any, index: Any, value: Any) -> Any:
    """Write a number."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[2], _place(builder, args[0], args[1], _REAL))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.float64), generate


@intrinsic
def word(typing: Any, address: Any, index: Any) -> Any:
    """The whole number at a position after an address."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(_place(builder, args[0], args[1], _WORD))

    return types.int64(types.int64, types.int64), generate


@intrinsic
def store_word(typing: Any, address: Any, index: Any, value: Any) -> Any:
    """Write a whole number."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[2], _place(builder, args[0], args[1], _WORD))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@intrinsic
def pointer(typing: Any, address: Any) -> Any:
    """An address as numba's functions of arrays take it."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], ir.IntType(8).as_pointer())

    return types.voidptr(types.int64), generate


@intrinsic
def call(typing: Any, address: Any, row: Any) -> Any:
    """Call a kernel with the address of its row."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(_REAL, [_WORD])
        return builder.call(builder.inttoptr(args[0], kind.as_pointer()), [args[1]])

    return types.float64(types.int64, types.int64), generate


@intrinsic
def take_lock(typing: Any, address: Any) -> Any:
    """Whether a word changed from 0 to 1 in one step that no other thread can interrupt."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = builder.inttoptr(args[0], _WORD.as_pointer())
        pair = builder.cmpxchg(place, ir.Constant(_WORD, 0), ir.Constant(_WORD, 1), "acquire", "monotonic")
        return builder.extract_value(pair, 1)

    return types.boolean(types.int64), generate


@intrinsic
def release(typing: Any, address: Any) -> Any:
    """Set a lock to 0."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = builder.inttoptr(args[0], _WORD.as_pointer())
        builder.store_atomic(ir.Constant(_WORD, 0), place, "release", 8)
        return context.get_dummy_value()

    return types.void(types.int64), generate


@intrinsic
def bits(typing: Any, value: Any) -> Any:
    """The 64 bits of a number, as a whole number."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], _WORD)

    return types.int64(types.float64), generate


@intrinsic
def from_bits(typing: Any, value: Any) -> Any:
    """The number with these 64 bits."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], _REAL)

    return types.float64(types.int64), generate


@jit
def add(address: int, index: int, value: float) -> None:
    """Add to the number at a position."""
    store(address, index, load(address, index) + value)


@jit(fastmath={"reassoc", "nsz", "contract"})
def accumulate(total: float, value: float) -> float:
    """A sum's next partial sum; the compiler may keep several, always the same ones."""
    return total + value


@jit(fastmath={"reassoc", "nsz", "contract"})
def plus(total: float, x: float, y: float) -> float:
    """A sum of products' next partial sum."""
    return total + x * y
