"""Figures become a verdict a goal, and a card that says what was not measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from model.demo.card import write_card
from model.demo.goals import GOALS, table
from model.demo.texts import load_texts

pytestmark = pytest.mark.unit

FIGURES = {
    "seed": 7,
    "known": {"turns": 200, "right": 0.93, "wrong": 0.02},
    "telephone": {"right": 0.80},
    "off_topic": {"wrong": 0.09},
}


def test_each_goal_is_judged_by_its_own_limit() -> None:
    rows = {row.split(" | ")[0].lstrip("| "): row for row in table(FIGURES).splitlines()}
    assert rows["known, unseen variants: right"].endswith("0.930 | reached |")
    assert rows["telephone with G.711: lost against clean"].endswith("0.130 | missed |")
    assert rows["off-topic answered as if known"].endswith("0.090 | missed |")
    assert "not measured" in rows["human recordings answered early"]
    assert len(rows) == len(GOALS) + 2


def test_the_card_is_honest_about_what_was_not_measured(tmp_path: Path) -> None:
    card = write_card(tmp_path, load_texts(), FIGURES).read_text(encoding="utf-8")
    assert "200 turns a figure, seed 7" in card
    assert "0.930" in card
    assert "Babble at 10 dB: right not measured" in card
    assert "festival:ked_diphone" in card


def test_a_fresh_export_claims_nothing(tmp_path: Path) -> None:
    card = write_card(tmp_path, load_texts(), {}).read_text(encoding="utf-8")
    assert card.count("not measured") == len(GOALS) + 5
    assert "reached" not in card
