"""The restaurant rows (F14), and the tree that makes more of them (F17), for tests."""

from __future__ import annotations

import itertools

import numpy as np

BOOL = ("N", "Y")
DOMAINS = {
    "Alt": BOOL, "Bar": BOOL, "Fri": BOOL, "Hun": BOOL, "Pat": ("None", "Some", "Full"), "Price": ("$", "$$", "$$$"),
    "Rain": BOOL, "Res": BOOL, "Type": ("Burger", "French", "Italian", "Thai"), "Est": ("0-10", "10-30", "30-60", ">60"),
}  # fmt: skip
NAMES = list(DOMAINS)
_ROWS = """
Y N N Y Some $$$ N Y French 0-10 Y
Y N N Y Full $ N N Thai 30-60 N
N Y N N Some $ N N Burger 0-10 Y
Y N Y Y Full $ Y N Thai 10-30 Y
Y N Y N Full $$$ N Y French >60 N
N Y N Y Some $$ Y Y Italian 0-10 Y
N Y N N None $ Y N Burger 0-10 N
N N N Y Some $$ Y Y Thai 0-10 Y
N Y Y N Full $ Y N Burger >60 N
Y Y Y Y Full $$$ N Y Italian 10-30 N
N N N N None $ N N Thai 0-10 N
Y Y Y Y Full $ N N Burger 30-60 Y
"""


def rows() -> tuple[np.ndarray, np.ndarray]:
    """Codes of the ten attributes (12, 10), and the answers Y or N."""
    words = [line.split() for line in _ROWS.strip().splitlines()]
    table = [[DOMAINS[name].index(word) for name, word in zip(NAMES, line[:-1], strict=True)] for line in words]
    return np.array(table, float), np.array([line[-1] for line in words])


def all_inputs() -> np.ndarray:
    """Every input there is, (9216, 10)."""
    return np.array(list(itertools.product(*(range(len(d)) for d in DOMAINS.values()))), float)


def original_tree(table: np.ndarray) -> np.ndarray:
    """What the tree that the textbook's author had in mind answers, as recalled (F17)."""
    alt, bar, fri, hun, pat, _, rain, res, _, est = (table[:, j].astype(int) for j in range(10))
    long = np.where(alt == 0, np.where(res == 0, bar == 1, True), fri == 1)
    middle = np.where(hun == 0, True, np.where(alt == 0, True, rain == 1))
    full = np.select([est == 3, est == 2, est == 1], [np.zeros(len(table), bool), long, middle], True)
    return np.where(
        np.select([pat == 0, pat == 1], [np.zeros(len(table), bool), np.ones(len(table), bool)], full), "Y", "N"
    )


def sample(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Uniform inputs, answered by the original tree."""
    table = np.column_stack([rng.integers(len(d), size=n) for d in DOMAINS.values()]).astype(float)
    return table, original_tree(table)
