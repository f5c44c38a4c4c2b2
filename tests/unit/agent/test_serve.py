"""What serving does to the process around it."""

from __future__ import annotations

import gc

import pytest

from agent.serve import settle_memory

pytestmark = pytest.mark.unit
LOADED = 200_000
A_CALL, CALLS, AT_ONCE = 300, 100, 4
PASSING = 20
"""Objects for each that stays until the call's end."""


def test_what_calls_leave_behind_is_still_collected() -> None:
    """However much was loaded before, and though cycles of a call outlive the young collections."""
    loaded = [[number] for number in range(LOADED)]
    try:
        settle_memory()
        before = gc.get_stats()[2]["collections"]
        calls: list[object] = []
        for number in range(CALLS):
            calls.extend(cycles(PASSING)[0] for _ in range(A_CALL))
            if number % AT_ONCE == 0:
                calls.clear()
        assert gc.get_stats()[2]["collections"] > before
        lists = [kept for kept in gc.get_objects() if type(kept) is list and len(kept) == 1]
        left = sum(kept[0] is kept for kept in lists)
        assert left < A_CALL * CALLS / 2
    finally:
        gc.unfreeze()
    assert len(loaded) == LOADED


def cycles(count: int) -> list[list[object]]:
    """Lists that hold themselves, so that only a collection frees them."""
    made: list[list[object]] = [[] for _ in range(count)]
    for itself in made:
        itself.append(itself)
    return made
