"""Elementwise kernels: each operation by its value and its derivatives."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from bayeslab.posterior.machine.kernels import vector_math as vm
from bayeslab.posterior.machine.kernels.compiled_python import special_functions
from bayeslab.posterior.machine.kernels.memory import (
    accumulate,
    add,
    add_slope,
    bits,
    from_bits,
    jit,
    load,
    load_value,
    store,
    store_result,
    word,
)

__all__ = ["arithmetic", "functions"]

_scalar = jit(error_model="numpy", fastmath={"contract"})
# A loop with a call does not become vector instructions, and the compiler leaves long functions as calls.
_inlined = jit(error_model="numpy", fastmath={"contract"}, forceinline=True)

# Operand k of a row: address of values, address of adjoints, stride of the outer and of the inner loop, in bytes.
_OUT, _A, _B, _C = 4, 8, 12, 16


@_scalar
def _chained(adjoint: float, derivative: float) -> float:
    """The chain rule; what nothing depends on has no slope, though the derivative there be infinite or undefined."""
    return adjoint * derivative if adjoint != 0.0 else 0.0


@_inlined
def _either(first: bool, x: float, y: float) -> float:
    """x or y; without a branch, into which the compiler would move their computation, so that loops stay vectors."""
    mask = -int(first)
    return from_bits((bits(x) & mask) | (bits(y) & ~mask))


def _unary(value: Callable[..., float], slope: Callable[..., float] | None) -> tuple[Any, Any]:
    """Kernels of y = value(x), whose derivative is slope(x, y)."""

    def forward(row: int) -> float:
        rows, n, o, a = word(row, 1), word(row, 2), word(row, _OUT), word(row, _A)
        o0, so, a0, sa = word(row, _OUT + 2), word(row, _OUT + 3), word(row, _A + 2), word(row, _A + 3)
        for _ in range(rows):
            if so == 8 and sa == 8:
                for i in range(n):
                    store_result(o, i, value(load_value(a, i)))
            else:
                for i in range(n):
                    store_result(o + i * so, 0, value(load_value(a + i * sa, 0)))
            o, a = o + o0, a + a0
        return 0.0

    if slope is None:
        return forward, None

    def backward(row: int) -> float:
        rows, n, o, a = word(row, 1), word(row, 2), word(row, _OUT), word(row, _A)
        o0, so, a0, sa = word(row, _OUT + 2), word(row, _OUT + 3), word(row, _A + 2), word(row, _A + 3)
        go, ga = word(row, _OUT + 1), word(row, _A + 1)
        for _ in range(rows):
            if so == 8 and sa == 8:
                for i in range(n):
                    add_slope(ga, i, _chained(load_value(go, i), slope(load_value(a, i), load_value(o, i))))
            else:
                for i in range(n):
                    ia, io = i * sa, i * so
                    by_x = slope(load_value(a + ia, 0), load_value(o + io, 0))
                    add_slope(ga + ia, 0, _chained(load_value(go + io, 0), by_x))
            o, a, go, ga = o + o0, a + a0, go + o0, ga + a0
        return 0.0

    return forward, backward


def _binary(
    value: Callable[..., float], by_x: Callable[..., float] | None, by_y: Callable[..., float] | None
) -> tuple[Any, Any]:
    """Kernels of z = value(x, y), whose derivatives are by_x(x, y, z) and by_y(x, y, z)."""

    def forward(row: int) -> float:
        rows, n, o, a, b = word(row, 1), word(row, 2), word(row, _OUT), word(row, _A), word(row, _B)
        so, sa, sb = word(row, _OUT + 3), word(row, _A + 3), word(row, _B + 3)
        o0, a0, b0 = word(row, _OUT + 2), word(row, _A + 2), word(row, _B + 2)
        for _ in range(rows):
            if so == 8 and sa == 8 and sb == 8:
                for i in range(n):
                    store_result(o, i, value(load_value(a, i), load_value(b, i)))
            elif so == 8 and sa == 8 and sb == 0:
                y = load_value(b, 0)
                for i in range(n):
                    store_result(o, i, value(load_value(a, i), y))
            elif so == 8 and sa == 0 and sb == 8:
                x = load_value(a, 0)
                for i in range(n):
                    store_result(o, i, value(x, load_value(b, i)))
            else:
                for i in range(n):
                    store_result(o + i * so, 0, value(load_value(a + i * sa, 0), load_value(b + i * sb, 0)))
            o, a, b = o + o0, a + a0, b + b0
        return 0.0

    if by_x is None or by_y is None:
        return forward, None

    def side(slope: Callable[..., float], left: bool) -> Any:
        """Adds to the adjoint of one operand, whose values are a; those of the other are b."""

        @_scalar
        def by(x: float, y: float, z: float) -> float:
            return slope(x, y, z) if left else slope(y, x, z)

        @_scalar
        def run(row: int, a: int, g: int, a0: int, sa: int, b: int, b0: int, sb: int) -> None:
            rows, n, o, go = word(row, 1), word(row, 2), word(row, _OUT), word(row, _OUT + 1)
            o0, so = word(row, _OUT + 2), word(row, _OUT + 3)
            for _ in range(rows):
                if so == 8 and sa == 8 and sb == 8:
                    for i in range(n):
                        z = load_value(o, i)
                        add_slope(g, i, _chained(load_value(go, i), by(load_value(a, i), load_value(b, i), z)))
                elif so == 8 and sa == 8 and sb == 0:
                    y = load_value(b, 0)
                    for i in range(n):
                        add_slope(g, i, _chained(load_value(go, i), by(load_value(a, i), y, load_value(o, i))))
                elif so == 8 and sa == 0 and sb == 8:
                    x, total = load_value(a, 0), 0.0
                    for i in range(n):
                        d = by(x, load_value(b, i), load_value(o, i))
                        total = accumulate(total, _chained(load_value(go, i), d))
                    add_slope(g, 0, total)
                else:
                    for i in range(n):
                        z = load_value(o + i * so, 0)
                        d = by(load_value(a + i * sa, 0), load_value(b + i * sb, 0), z)
                        add_slope(g + i * sa, 0, _chained(load_value(go + i * so, 0), d))
                o, a, b, go, g = o + o0, a + a0, b + b0, go + o0, g + a0

        return run

    first, second = side(by_x, True), side(by_y, False)

    def backward(row: int) -> float:
        a, ga, a0, sa = word(row, _A), word(row, _A + 1), word(row, _A + 2), word(row, _A + 3)
        b, gb, b0, sb = word(row, _B), word(row, _B + 1), word(row, _B + 2), word(row, _B + 3)
        moving = word(row, 3)
        if moving & 2:
            first(row, a, ga, a0, sa, b, b0, sb)
        if moving & 4:
            second(row, b, gb, b0, sb, a, a0, sa)
        return 0.0

    return forward, backward


def _where_forward(row: int) -> float:
    n, so = word(row, 2), word(row, _OUT + 3)
    sc, sa, sb = word(row, _A + 3), word(row, _B + 3), word(row, _C + 3)
    for j in range(word(row, 1)):
        o, c = word(row, _OUT) + j * word(row, _OUT + 2), word(row, _A) + j * word(row, _A + 2)
        a, b = word(row, _B) + j * word(row, _B + 2), word(row, _C) + j * word(row, _C + 2)
        for i in range(n):
            store(o + i * so, 0, load(a + i * sa, 0) if load(c + i * sc, 0) != 0.0 else load(b + i * sb, 0))
    return 0.0


def _where_backward(row: int) -> float:
    n, so, moving = word(row, 2), word(row, _OUT + 3), word(row, 3)
    sc, sa, sb = word(row, _A + 3), word(row, _B + 3), word(row, _C + 3)
    for j in range(word(row, 1)):
        g, c = word(row, _OUT + 1) + j * word(row, _OUT + 2), word(row, _A) + j * word(row, _A + 2)
        a, b = word(row, _B + 1) + j * word(row, _B + 2), word(row, _C + 1) + j * word(row, _C + 2)
        for i in range(n):
            if load(c + i * sc, 0) != 0.0:
                if moving & 4:
                    add(a + i * sa, 0, load(g + i * so, 0))
            elif moving & 8:
                add(b + i * sb, 0, load(g + i * so, 0))
    return 0.0


def _named(table: dict[str, tuple[Any, Any]]) -> dict[str, Any]:
    out = {}
    for name, (forward, backward) in table.items():
        out[f"{name}_forward"] = forward
        if backward is not None:
            out[f"{name}_backward"] = backward
    return out


def arithmetic() -> dict[str, Any]:
    """Kernels of arithmetic, exponentials and logarithms."""
    exp, log, log1p, expm1 = vm.exp, vm.log, vm.log1p, vm.expm1
    sigmoid, softplus = vm.sigmoid, vm.softplus
    unary = {
        "copy": (lambda x: x, lambda x, y: 1.0),
        "negative": (lambda x: -x, lambda x, y: -1.0),
        "square": (lambda x: x * x, lambda x, y: 2.0 * x),
        "reciprocal": (lambda x: 1.0 / x, lambda x, y: -y * y),
        "sqrt": (lambda x: math.sqrt(x), lambda x, y: 0.5 / y),
        "exp": (lambda x: exp(x), lambda x, y: y),
        "log": (lambda x: log(x), lambda x, y: 1.0 / x),
        "log1p": (lambda x: log1p(x), lambda x, y: 1.0 / (1.0 + x)),
        "expm1": (lambda x: expm1(x), lambda x, y: y + 1.0),
        "sigmoid": (lambda x: sigmoid(x), lambda x, y: y * sigmoid(-x)),
        "softplus": (lambda x: softplus(x), lambda x, y: sigmoid(x)),
        "abs": (lambda x: abs(x), lambda x, y: 1.0 if x > 0.0 else -1.0 if x < 0.0 else 0.0),
    }
    binary = {
        "add": (lambda x, y: x + y, lambda x, y, z: 1.0, lambda x, y, z: 1.0),
        "subtract": (lambda x, y: x - y, lambda x, y, z: 1.0, lambda x, y, z: -1.0),
        "multiply": (lambda x, y: x * y, lambda x, y, z: y, lambda x, y, z: x),
        "divide": (lambda x, y: x / y, lambda x, y, z: 1.0 / y, lambda x, y, z: -z / y),
    }
    return _named(
        {name: _unary(*map(_inlined, pair)) for name, pair in unary.items()}
        | {name: _binary(*map(_inlined, triple)) for name, triple in binary.items()}
    )


def functions() -> dict[str, Any]:
    """Kernels of the other elementwise functions."""
    special = special_functions()
    exp, log, log1p, expm1 = vm.exp, vm.log, vm.log1p, vm.expm1
    gamma_pair, normal_tail = special["gamma_pair"], special["normal_tail"]

    @_scalar
    def gammaln(x: float) -> float:
        if x > 0.0:
            return gamma_pair(x)[0]
        return math.lgamma(x)

    @_scalar
    def digamma(x: float) -> float:
        if x > 0.0:
            return gamma_pair(x)[1]
        if x == math.floor(x):
            return math.nan
        return gamma_pair(1.0 - x)[1] - math.pi / math.tan(math.pi * x)

    @_scalar
    def trigamma(x: float) -> float:
        # Recurrence to 10, then the asymptotic series (NIST 5.15.8).
        below, sign = 0.0, 1.0
        if x <= 0.0:
            s = math.sin(math.pi * x)
            below, sign, x = math.pi * math.pi / (s * s), -1.0, 1.0 - x
        shift = 0.0
        while x < 10.0:
            shift += 1.0 / (x * x)
            x += 1.0
        r = 1.0 / x
        q = r * r
        series = 1 / 30 - q * (5 / 66 - q * (691 / 2730 - q * (7 / 6)))
        tail = r + 0.5 * q + r * q * (1 / 6 - q * (1 / 30 - q * (1 / 42 - q * series)))
        return below + sign * (shift + tail)

    @_scalar
    def normal_cdf(x: float) -> float:
        return 0.5 * math.erfc(-x * 0.7071067811865476)

    @_scalar
    def density(x: float) -> float:
        return 0.3989422804014327 * exp(-0.5 * x * x)

    @_scalar
    def quantile(p: float) -> float:
        """Acklam's approximation, and two steps of Halley's method in the nearer tail."""
        if not (p > 0.0 and p < 1.0):
            return -math.inf if p == 0.0 else math.inf if p == 1.0 else math.nan
        least = min(p, 1.0 - p)
        if least < 0.02425:
            q = math.sqrt(-2.0 * log(least))
            top = ((-7.784894002430293e-03 * q - 3.223964580411365e-01) * q - 2.400758277161838) * q
            top = ((top - 2.549732539343734) * q + 4.374664141464968) * q + 2.938163982698783
            low = (7.784695709041462e-03 * q + 3.224671290700398e-01) * q + 2.445134137142996
            z = top / ((low * q + 3.754408661907416) * q + 1.0)
        else:
            q = least - 0.5
            r = q * q
            top = (-3.969683028665376e01 * r + 2.209460984245205e02) * r - 2.759285104469687e02
            top = ((top * r + 1.383577518672690e02) * r - 3.066479806614716e01) * r + 2.506628277459239
            low = (-5.447609879822406e01 * r + 1.615858368580409e02) * r - 1.556989798598866e02
            low = ((low * r + 6.680131188771972e01) * r - 1.328068155288572e01) * r + 1.0
            z = top * q / low
        for _ in range(2):
            value, hazard = normal_tail(z)
            # The logarithm of the tail is concave and far from underflow.
            error = (value - log(least)) / hazard
            z -= error / (1.0 + 0.5 * error * (z + hazard))
        return z if p <= 0.5 else -z

    @_inlined
    def log1mexp(x: float) -> float:
        return _either(x > -0.6931471805599453, log(-expm1(x)), log1p(-exp(x)))

    @_inlined
    def tanh(x: float) -> float:
        below = expm1(-2.0 * abs(x))
        return (-below if x >= 0.0 else below) / (2.0 + below)

    @_inlined
    def logit(x: float) -> float:
        return log(x) - log1p(-x)

    @_scalar
    def floor_mod(x: float, y: float) -> float:
        return x - y * math.floor(x / y)

    @_scalar
    def power(x: float, y: float) -> float:
        return x**y

    @_scalar
    def by_exponent(x: float, y: float, z: float) -> float:
        return z * math.log(x) if z != 0.0 else 0.0

    @_inlined
    def log_add(x: float, y: float) -> float:
        high, low = max(x, y), min(x, y)
        return _either((low == -math.inf) | (high == math.inf), high, high + log1p(exp(low - high)))

    @_scalar
    def half_even(x: float) -> float:
        whole = math.floor(x + 0.5)
        return whole - 1.0 if whole - x == 0.5 and whole % 2.0 != 0.0 else whole

    unary: dict[str, tuple[Any, Any]] = {
        "sin": (lambda x: math.sin(x), lambda x, y: math.cos(x)),
        "cos": (lambda x: math.cos(x), lambda x, y: -math.sin(x)),
        "tan": (lambda x: math.tan(x), lambda x, y: 1.0 + y * y),
        "arcsin": (lambda x: math.asin(x), lambda x, y: 1.0 / math.sqrt(1.0 - x * x)),
        "arccos": (lambda x: math.acos(x), lambda x, y: -1.0 / math.sqrt(1.0 - x * x)),
        "arctan": (lambda x: math.atan(x), lambda x, y: 1.0 / (1.0 + x * x)),
        "sinh": (lambda x: math.sinh(x), lambda x, y: math.cosh(x)),
        "cosh": (lambda x: math.cosh(x), lambda x, y: math.sinh(x)),
        "tanh": (tanh, lambda x, y: 1.0 - y * y),
        "erf": (lambda x: math.erf(x), lambda x, y: 1.1283791670955126 * exp(-x * x)),
        "erfc": (lambda x: math.erfc(x), lambda x, y: -1.1283791670955126 * exp(-x * x)),
        "gammaln": (gammaln, lambda x, y: digamma(x)),
        "digamma": (digamma, lambda x, y: trigamma(x)),
        "normal_cdf": (normal_cdf, lambda x, y: density(x)),
        "log_normal_cdf": (lambda x: normal_tail(x)[0], lambda x, y: normal_tail(x)[1]),
        "normal_quantile": (quantile, lambda x, y: 1.0 / density(y)),
        "logit": (logit, lambda x, y: 1.0 / (x * (1.0 - x))),
        "log1mexp": (log1mexp, lambda x, y: -1.0 / expm1(-x)),
    }
    whole: dict[str, Any] = {
        "floor": lambda x: float(math.floor(x)),
        "ceil": lambda x: float(math.ceil(x)),
        "round": lambda x: half_even(x),
        "sign": lambda x: 1.0 if x > 0.0 else -1.0 if x < 0.0 else 0.0,
        "logical_not": lambda x: 1.0 if x == 0.0 else 0.0,
    }
    binary: dict[str, tuple[Any, Any, Any]] = {
        "minimum": (
            lambda x, y: x if x <= y else y,
            lambda x, y, z: 1.0 if x <= y else 0.0,
            lambda x, y, z: 0.0 if x <= y else 1.0,
        ),
        "maximum": (
            lambda x, y: x if x >= y else y,
            lambda x, y, z: 1.0 if x >= y else 0.0,
            lambda x, y, z: 0.0 if x >= y else 1.0,
        ),
        "power": (power, lambda x, y, z: y * power(x, y - 1.0) if y != 0.0 else 0.0, by_exponent),
        "arctan2": (
            lambda x, y: math.atan2(x, y),
            lambda x, y, z: y / (x * x + y * y),
            lambda x, y, z: -x / (x * x + y * y),
        ),
        "logaddexp": (log_add, lambda x, y, z: exp(x - z), lambda x, y, z: exp(y - z)),
        "mod": (floor_mod, lambda x, y, z: 1.0, lambda x, y, z: -math.floor(x / y)),
    }
    compared: dict[str, Any] = {
        "floor_divide": lambda x, y: float(math.floor(x / y)),
        "equal": lambda x, y: 1.0 if x == y else 0.0,
        "not_equal": lambda x, y: 1.0 if x != y else 0.0,
        "less": lambda x, y: 1.0 if x < y else 0.0,
        "less_equal": lambda x, y: 1.0 if x <= y else 0.0,
        "greater": lambda x, y: 1.0 if x > y else 0.0,
        "greater_equal": lambda x, y: 1.0 if x >= y else 0.0,
        "logical_and": lambda x, y: 1.0 if x != 0.0 and y != 0.0 else 0.0,
        "logical_or": lambda x, y: 1.0 if x != 0.0 or y != 0.0 else 0.0,
    }

    def jitted(function: Any) -> Any:
        return function if hasattr(function, "py_func") else _inlined(function)

    return _named(
        {name: _unary(*map(jitted, pair)) for name, pair in unary.items()}
        | {name: _unary(jitted(value), None) for name, value in whole.items()}
        | {name: _binary(*map(jitted, triple)) for name, triple in binary.items()}
        | {name: _binary(jitted(value), None, None) for name, value in compared.items()}
        | {"where": (_where_forward, _where_backward)}
    )
