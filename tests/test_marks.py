"""Marks say why a test is slow."""

from __future__ import annotations

import pytest

from tests.marks import complaint, reasons


def test_allowed_reasons_are_those_registered(pytestconfig):
    registered = ["other: a mark", "slow(why): takes long; why is one of: first, second"]
    assert reasons(registered) == ["first", "second"]
    assert "compiles" in reasons(pytestconfig.getini("markers"))


@pytest.mark.parametrize("mark", [pytest.mark.slow, pytest.mark.slow("first"), pytest.mark.slow(why="third")])
def test_a_mark_without_an_allowed_reason_is_refused(mark):
    assert "one of first, second" in complaint(mark.mark, ["first", "second"])


def test_an_allowed_reason_is_enough():
    assert complaint(pytest.mark.slow(why="second").mark, ["first", "second"]) is None
