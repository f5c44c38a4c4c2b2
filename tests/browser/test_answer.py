"""The bundled demo on the page: a question into the microphone, the answer recognised by ear."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile

from model.core import SAMPLE_RATE
from tests.browser.driving import drive
from tests.e2e.asking import FALLBACKS, QUESTIONS, TIMES, heard_lines, made_out, spoken
from tests.e2e.processes import LiveKitServer, WorkerProcess

pytestmark = pytest.mark.browser


@pytest.fixture
def worker(livekit: LiveKitServer, tmp_path: Path) -> Iterator[WorkerProcess]:
    options = ["--model", "demo", "--max-sessions", "1", "--drain-time", "1"]
    demo = WorkerProcess(tmp_path, livekit.url, *options)
    demo.start()
    yield demo
    demo.stop()


def test_a_question_is_answered_aloud(worker: WorkerProcess, tmp_path: Path) -> None:
    question = QUESTIONS[0]
    wav, heard = tmp_path / "question.wav", tmp_path / "heard.raw"
    soundfile.write(wav, spoken(question.words), SAMPLE_RATE)
    again = {"fallbacks": sorted(FALLBACKS), "times": TIMES}
    drive("ask", url=worker.base, wav=str(wav), heard=str(heard), **again)
    sound = np.fromfile(heard, np.int16).astype(np.float32) / 32768
    lines = heard_lines(sound)
    print("heard:", lines)
    assert made_out(lines) == [question.answer]
