"""`python -m agent offline` with the bundled demo: questions in, their answers out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import soundfile

from agent.__main__ import main
from model import SAMPLE_RATE
from tests.e2e.asking import QUESTIONS, heard_lines, squeeze
from tests.e2e.demo_call import asked

pytestmark = pytest.mark.e2e
PADS = ("PAD", "EPAD")


def test_questions_are_answered_after_their_end(tmp_path: Path) -> None:
    """Asked when the demo has greeted, as people do; each recording ends with its question."""
    sources, sounds, texts = (
        [tmp_path / f"{row}.{suffix}" for row in range(len(QUESTIONS))]
        for suffix in ("wav", "out.wav", "json")
    )
    for source, question in zip(sources, QUESTIONS, strict=True):
        soundfile.write(source, asked(question, after=0), SAMPLE_RATE)
    words = ["--input", *sources, "--output", *sounds, "--text", *texts]
    assert main(["offline", *map(str, words)]) == 0
    for question, sound, text in zip(QUESTIONS, sounds, texts, strict=True):
        pieces = [piece for piece in json.loads(text.read_text()) if piece not in PADS]
        assert question.answer in squeeze("".join(pieces))
        assert question.answer in heard_lines(soundfile.read(sound, dtype="float32")[0])
