"""What came of a turn is judged by all of the answer, or by what an interruption left of it."""

from __future__ import annotations

import numpy as np
import pytest

from model.demo.evaluate import judge
from model.demo.people import Outcome, Turn
from model.demo.texts import load_texts

pytestmark = pytest.mark.unit

TEXTS = load_texts()
RIGHT, OTHER = TEXTS.topics[10].say, TEXTS.topics[20].say
FALLBACK = TEXTS.fallbacks[0].say


@pytest.mark.parametrize(
    ("said", "cut", "verdict"),
    [
        (RIGHT, False, "right"),
        (f" {RIGHT}", False, "right"),
        (RIGHT[:12], False, "garbled"),
        (RIGHT[:12], True, "right"),
        (FALLBACK, False, "fallback"),
        (FALLBACK[:6], True, "fallback"),
        (OTHER, False, "wrong"),
        (OTHER[:9], True, "wrong"),
        (f"{RIGHT} {OTHER}", True, "garbled"),
        ("", True, "nothing"),
    ],
)
def test_a_turn_is_judged(said: str, cut: bool, verdict: str) -> None:
    asked = Turn(np.zeros(0, dtype=np.float32), (RIGHT,))
    assert judge(Outcome(asked, said=said, cut=cut), TEXTS) == verdict
