"""The tree kernel against all fragments, one by one."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest

from bayeslab.learners.svm import SVMClassifier
from bayeslab.learners.toolbox.gram import check_gram, smallest_eigenvalue
from bayeslab.learners.toolbox.tree_kernel import TreeKernel, read_tree
from tests.refusals import refused


def begun(node):
    """Fragments that begin at a node, each with its number of nodes that have children."""
    choices = []
    for child in node[1:]:
        label = child[0] if isinstance(child, tuple) else child
        whole = list(begun(child)) if isinstance(child, tuple) and len(child) > 1 else []
        choices.append([((label, len(whole) > 0), 0), *whole])
    for chosen in itertools.product(*choices):
        yield (node[0], *(f for f, _ in chosen)), 1 + sum(r for _, r in chosen)


def fragments(tree):
    """All fragments of a tree: how often each is there, and its size."""
    counts, sizes, stack = Counter(), {}, [tree]
    while stack:
        node = stack.pop()
        if not isinstance(node, tuple) or len(node) == 1:
            continue
        for fragment, size in begun(node):
            counts[fragment] += 1
            sizes[fragment] = size
        stack += node[1:]
    return counts, sizes


def by_hand(a, b, decay):
    (of_a, sizes), (of_b, _) = fragments(a), fragments(b)
    return sum(n * of_b[f] * decay ** sizes[f] for f, n in of_a.items())


def random_tree(rng, depth=4):
    label = str(rng.choice(["A", "B", "C"]))
    if depth == 1:
        return (label, str(rng.choice(["x", "y"])))
    return (label, *(random_tree(rng, int(rng.integers(1, depth))) for _ in range(rng.integers(1, 3))))


def test_read_tree():
    assert read_tree("(S (NP John)(VP (V sees)\n(NP Mary)))") == (
        "S",
        ("NP", "John"),
        ("VP", ("V", "sees"), ("NP", "Mary")),
    )
    for wrong in ("S", "(S (NP John)", "(S a))", "((S a) b)", "(S a) (S b)", "", "()"):
        with refused("option.syntax"):
            read_tree(wrong)


@pytest.mark.parametrize("decay", [0.3, 1.0])
def test_all_fragments(decay):
    """svm-kernel-strings: the kernel of trees is the sum over all fragments; of text in brackets as of tuples."""
    rng = np.random.default_rng(0)
    trees = [random_tree(rng) for _ in range(14)]
    kernel = TreeKernel(decay, normalise=False)
    expected = [[by_hand(a, b, decay) for b in trees] for a in trees]
    np.testing.assert_allclose(kernel(trees), expected)
    np.testing.assert_allclose(kernel(trees[:4], trees[4:]), np.array(expected)[:4, 4:])
    text = "(NP (D the) (N dog))"
    # The example of Collins and Duffy: a noun phrase has six fragments.
    assert kernel([text])[0, 0] == pytest.approx(by_hand(read_tree(text), read_tree(text), decay))
    assert len(fragments(read_tree(text))[0]) == 6
    unlike = TreeKernel(decay)(trees)
    np.testing.assert_allclose(np.diagonal(unlike), 1)
    np.testing.assert_allclose(TreeKernel(decay)(trees[:4], trees[4:]), unlike[:4, 4:])


def test_psd_and_deep():
    """svm-kernel-strings: no negative eigenvalue; a chain of thousands of nodes is no trouble."""
    rng = np.random.default_rng(1)
    gram = TreeKernel(0.5)([random_tree(rng, 5) for _ in range(50)])
    assert smallest_eigenvalue(gram) > -1e-12 * 50
    check_gram(gram)
    chain = "x"
    for _ in range(3000):
        chain = ("A", chain)
    # A node k from the end begins fragments of 1 to k nodes.
    value = TreeKernel(0.5, normalise=False)([chain, ("A", "x")])
    assert value[0, 1] == pytest.approx(0.5)
    assert value[0, 0] > 2000


def test_machine_of_trees():
    """Trees told apart by whether a phrase B lies below a phrase A anywhere, which labels alone do not tell."""
    rng = np.random.default_rng(2)
    trees = [random_tree(rng, 5) for _ in range(160)]

    def has(node):
        return isinstance(node, tuple) and (
            any(isinstance(c, tuple) and node[0] == "A" and c[0] == "B" for c in node[1:]) or any(map(has, node[1:]))
        )

    y = np.array([has(t) for t in trees])
    assert 0.2 < y.mean() < 0.8
    rows = np.empty(160, dtype=object)
    rows[:] = trees
    found = SVMClassifier(100.0, TreeKernel(0.5)).fit(rows[:100], y[:100])
    assert found.score(rows[100:], y[100:]) > 0.8


def test_errors():
    with refused("option.out-of-range", "decay"):
        TreeKernel(0.0)
    with refused("option.wrong-type", "trees"):
        TreeKernel()("(S a)")
    with refused("option.wrong-type", "'S'"):
        TreeKernel()([("S",)])
