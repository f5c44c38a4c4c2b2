"""The bundled demo in Chromium: a question into the microphone, the answer recognised by ear."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from agent.http import HttpOptions
from model import Engine
from model.core import SAMPLE_RATE
from tests.browser.driving import drive
from tests.e2e.asking import FALLBACKS, QUESTIONS, TIMES, heard_lines, made_out, spoken, squeeze
from tests.e2e.demo_call import GREETING
from tests.e2e.openai_client import client_for
from tests.e2e.processes import LiveKitServer, WorkerProcess
from tests.fakes.server import Server, serving, until_free

pytestmark = pytest.mark.browser

QUESTION = QUESTIONS[0]
KEY = "a-key-of-the-server"


@pytest.fixture
def worker(livekit: LiveKitServer, tmp_path: Path) -> Iterator[WorkerProcess]:
    options = ["--model", "demo", "--max-sessions", "1", "--drain-time", "1"]
    demo = WorkerProcess(tmp_path, livekit.url, *options)
    demo.start()
    yield demo
    demo.stop()


@pytest.fixture
async def server(demo_engine: Engine) -> AsyncIterator[Server]:
    async with serving(demo_engine, HttpOptions(api_keys=(KEY,))) as running:
        yield running


def test_a_question_is_answered_aloud(worker: WorkerProcess, tmp_path: Path) -> None:
    drive("ask", url=worker.base, **asking(tmp_path))
    assert heard_in(tmp_path) == [QUESTION.answer]


# contract: F1
async def test_a_page_of_another_origin_calls_with_a_client_secret(
    server: Server, tmp_path: Path
) -> None:
    """No room: WebRTC with the server itself, by an offer that names no candidate."""
    async with client_for(server, KEY) as client:
        secret = await client.realtime.client_secrets.create(session={"type": "realtime"})
    url, calls = f"http://localhost:{server.port}/health", server.url + "/v1/realtime/calls"
    seen = await asyncio.to_thread(
        drive, "realtime", url=url, calls=calls, key=secret.value, **asking(tmp_path)
    )
    assert seen["created"]["session"]["capabilities"]["mood"] == "stock"
    said = [squeeze(line) for line in seen["said"]]
    assert [said[0], said[-1]] == [GREETING, QUESTION.answer]
    assert heard_in(tmp_path) == [QUESTION.answer]
    statistics = seen["statistics"]
    assert statistics["received"] > 25 and statistics["sent"] > 25
    assert statistics["lost"] < statistics["received"] / 10 and statistics["energy"] > 0
    assert (seen["status"], seen["closed"]["reason"]) == (204, "client_close")
    assert seen["errors"] == []
    await until_free(server)


def asking(folder: Path) -> dict[str, Any]:
    """The question for a scenario, and when to put it again."""
    wav = folder / "question.wav"
    soundfile.write(wav, spoken(QUESTION.words), SAMPLE_RATE)
    again = {"fallbacks": sorted(FALLBACKS), "times": TIMES}
    return {"wav": str(wav), "heard": str(_heard(folder)), **again}


def heard_in(folder: Path) -> list[str]:
    """What was made out of the sound that the scenario has kept."""
    sound = np.fromfile(_heard(folder), np.int16).astype(np.float32) / 32768
    lines = heard_lines(sound)
    print("heard:", lines)
    return made_out(lines)


def _heard(folder: Path) -> Path:
    return folder / "heard.raw"
