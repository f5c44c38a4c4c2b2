"""Every rule of docs/contract.md is named by a test, and tests name only rules that there are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"# contract: ((?:[A-K]\d+(?:[, ]+|$))+)")
TEST = re.compile(r"^\s*(?:async )?def test_")
LINES_BETWEEN = 30
"""A comment stands at its test's signature, or above it, where its table of cases begins."""


def rules() -> set[str]:
    text = (ROOT / "docs" / "contract.md").read_text(encoding="utf-8")
    return set(re.findall(r"^- \*\*([A-K]\d+)\*\*", text, re.MULTILINE))


def named() -> Iterator[tuple[str, str, bool]]:
    """Each naming as (rule, place, whether there is a test at that place)."""
    for path in sorted((ROOT / "tests").rglob("*.py")):
        lines = path.read_text(encoding="utf-8").splitlines()
        tests = [number for number, line in enumerate(lines) if TEST.match(line)]
        for number, line in enumerate(lines):
            for rule in re.findall(r"[A-K]\d+", "".join(NAMED.findall(line))):
                near = any(abs(number - test) <= LINES_BETWEEN for test in tests)
                yield rule, f"{path.relative_to(ROOT)}:{number + 1}", near


def test_each_rule_is_named_by_a_test() -> None:
    assert len(rules()) > 60
    assert rules() - {rule for rule, _, near in named() if near} == set()


def test_no_test_names_a_rule_that_there_is_not() -> None:
    assert [f"{place}: {rule}" for rule, place, near in named() if rule not in rules()] == []
