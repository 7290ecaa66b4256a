"""Kernels of a distribution, written from its fused log density of one number.

A pattern has a letter for each argument, which says how it runs along the inner loop: ``s``, one number for all; ``u``,
one after another; ``g``, with any stride. ``!`` before it says that the first argument is data, without derivative.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bayeslab.posterior.machine.kernels.hoisting import split
from bayeslab.posterior.machine.kernels.memory import accumulate, add, add_slope, load_value, store_result, word

__all__ = ["each_kernel", "sum_kernel"]


def sum_kernel(fused: Callable[..., Any], pattern: str) -> Any:
    """A root: the sum of the log density; partial derivatives are added to adjoints."""
    data, pattern = pattern.startswith("!"), pattern.removeprefix("!")
    loop = _Loop(fused, pattern, first=4)
    derived = [k for k in loop.arguments if not (data and k == 0)]
    lines = ["def kernel(row):", "    rows, n, total = word(row, 1), word(row, 2), 0.0", *loop.addresses()]
    lines += [f"    g{k} = word(row, {5 + 4 * k})" for k in derived]
    lines += ["    for _ in range(rows):", "        subtotal = 0.0", *loop.before()]
    lines += [f"        t{k} = 0.0" for k in derived if pattern[k] == "s"]
    lines += ["        for i in range(n):", *loop.item(), "            subtotal = accumulate(subtotal, value)"]
    for k in derived:
        slope = {"s": f"t{k} = accumulate(t{k}, d{k})", "u": f"add_slope(g{k}, i, d{k})"}
        lines += [f"            {slope.get(pattern[k], f'add_slope(g{k} + i * s{k}, 0, d{k})')}"]
    lines += [f"        add(g{k}, 0, t{k})" for k in derived if pattern[k] == "s"]
    lines += [*loop.after(), *(f"        g{k} += outer{k}" for k in derived)]
    return loop.compiled([*lines, "        total += subtotal", "    return total"])


def each_kernel(fused: Callable[..., Any], pattern: str) -> Any:
    """Log densities one by one; behind them, the derivatives by each argument, for the backward pass."""
    loop = _Loop(fused, pattern, first=8)
    lines = ["def kernel(row):", "    rows, n, o = word(row, 1), word(row, 2), word(row, 4)", *loop.addresses()]
    lines += [f"    p{k} = o + {8 * (k + 1)} * n * rows" for k in loop.arguments]
    lines += ["    for _ in range(rows):", *loop.before(), "        for i in range(n):", *loop.item()]
    lines += ["            store_result(o, i, value)"]
    lines += [f"            store_result(p{k}, i, d{k})" for k in loop.arguments]
    lines += [*loop.after(), "        o += 8 * n", *(f"        p{k} += 8 * n" for k in loop.arguments)]
    return loop.compiled([*lines, "    return 0.0"])


class _Loop:
    """The lines of a kernel that read arguments and compute the density; the first is at a word of the row."""

    def __init__(self, fused: Callable[..., Any], pattern: str, first: int) -> None:
        names = fused.__code__.co_varnames[: fused.__code__.co_argcount]
        fixed = [name for name, letter in zip(names, pattern, strict=True) if letter == "s"]
        self.prepare, self.function, count = split(fused, fixed)
        self.pattern, self.first, self.arguments = pattern, first, range(len(names))
        self.hoisted = [f"h{i}" for i in range(count)]

    def addresses(self) -> list[str]:
        lines = []
        for k in self.arguments:
            at = self.first + 4 * k
            lines += [f"    a{k}, outer{k}, s{k} = word(row, {at}), word(row, {at + 2}), word(row, {at + 3})"]
        return lines

    def before(self) -> list[str]:
        fixed = [k for k in self.arguments if self.pattern[k] == "s"]
        lines = [f"        x{k} = load_value(a{k}, 0)" for k in fixed]
        if self.hoisted:
            lines += [f"        {', '.join(self.hoisted)}, = prepare({', '.join(f'x{k}' for k in fixed)})"]
        return lines

    def item(self) -> list[str]:
        places = {"u": "a{k}, i", "g": "a{k} + i * s{k}, 0"}
        moving = [k for k in self.arguments if self.pattern[k] != "s"]
        lines = [f"            x{k} = load_value({places[self.pattern[k]].format(k=k)})" for k in moving]
        results = ", ".join(["value", *(f"d{k}" for k in self.arguments)])
        arguments = ", ".join([*(f"x{k}" for k in self.arguments), *self.hoisted])
        return [*lines, f"            {results} = item({arguments})"]

    def after(self) -> list[str]:
        return [f"        a{k} += outer{k}" for k in self.arguments]

    def compiled(self, lines: list[str]) -> Any:
        names: dict[str, Any] = {
            "accumulate": accumulate,
            "add": add,
            "add_slope": add_slope,
            "load_value": load_value,
            "store_result": store_result,
            "word": word,
            "item": self.function,
            "prepare": self.prepare,
        }
        exec("\n".join(lines), names)
        return names["kernel"]
