"""The documents about the wire are current."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agent.errors import CODES
from agent.realtime.reference import reference

pytestmark = pytest.mark.unit

DOCS = Path(__file__).parents[4] / "docs"


def test_the_api_reference_is_current() -> None:
    assert (DOCS / "api.md").read_text() == reference(), "python -m agent.realtime.reference"


def test_realtime_md_names_every_code() -> None:
    text = (DOCS / "realtime.md").read_text()
    assert not [code for code in CODES if f"`{code}`" not in text]


def test_the_contract_has_every_letter() -> None:
    text = (DOCS / "contract.md").read_text()
    counts = {"A": 7, "B": 7, "C": 6, "D": 5, "E": 5, "F": 5, "G": 3, "H": 7, "I": 7, "J": 4}
    wanted = {f"{letter}{i}" for letter, count in counts.items() for i in range(1, count + 1)}
    wanted |= {f"K{i}" for i in range(10)}
    assert set(re.findall(r"\*\*([A-K]\d)\*\*", text)) == wanted
