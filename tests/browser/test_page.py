"""The built page in headless Chromium, against the real server, the real worker and engine."""

from __future__ import annotations

import asyncio
import json
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.driving import drive
from tests.e2e.caller import Caller, token
from tests.e2e.processes import LiveKitServer, WorkerProcess, free_port, post

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def speech(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the fake microphone plays, over and over: 48 kHz mono."""
    folder = tmp_path_factory.mktemp("speech")
    raw, wav = folder / "raw.wav", folder / "speech.wav"
    subprocess.run(["espeak-ng", "-w", raw, "Good morning. What time is it now?"], check=True)
    subprocess.run(["sox", raw, "-r", "48000", "-c", "1", "-b", "16", wav], check=True)
    return wav


@pytest.fixture(scope="module")
def worker(
    livekit: LiveKitServer, tiny_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[WorkerProcess]:
    """The real engine with one slot, on random weights."""
    options = ["--model", str(tiny_checkpoint), "--max-sessions", "1"]
    process = WorkerProcess(tmp_path_factory.mktemp("worker"), livekit.url, *options)
    process.start()
    yield process
    process.stop()


@pytest.fixture(autouse=True)
def free_line(worker: WorkerProcess) -> None:
    """One may call: the test before has left the only slot."""
    worker.await_idle()


def test_a_call_is_heard_and_read(worker: WorkerProcess, speech: Path, tmp_path: Path) -> None:
    seen = drive("call", url=worker.base, wav=str(speech), screenshot=str(tmp_path / "call.png"))
    statistics = seen["statistics"]
    assert statistics["pairs"] >= 1
    assert statistics["received"] > 25 and statistics["sent"] > 25
    assert statistics["lost"] < statistics["received"] / 10
    assert statistics["energy"] > 0 and seen["peak"] > 0.01
    assert all(-60 < level <= 0 for level in seen["levels"].values())
    speaker, text = seen["transcript"].split("\n", 1)
    assert speaker == "Agent" and text.strip()
    assert seen["muted"] == "muted"
    assert seen["kept"] >= 1 and seen["failures"] == 0
    assert any("random" in notice for notice in seen["notice"])


def test_a_taken_line_is_said(worker: WorkerProcess, speech: Path) -> None:  # contract: A1
    refused = drive("busy", url=worker.base, wav=str(speech))["refused"]
    assert refused["code"] == "agent-busy"
    assert "Try again" in refused["text"]


def details(url: str, dispatch: str | None = None) -> dict[str, str]:
    """What the token endpoint might answer; without `dispatch` no agent is called."""
    room, identity = f"room-{uuid.uuid4().hex}", "visitor"
    return {
        "serverUrl": url,
        "roomName": room,
        "participantName": identity,
        "participantToken": token(room, identity, dispatch=dispatch),
    }


# contract: A1
async def test_a_line_that_is_taken_after_the_token_was_made_is_said(
    worker: WorkerProcess, livekit: LiveKitServer
) -> None:
    status, body = post(f"{worker.base}/api/connection-details", {})
    assert status == 200
    async with Caller(livekit.url, "the-only-line") as faster:
        await faster.until_agent()
        late = json.loads(body)
        seen = await asyncio.to_thread(drive, "given", url=worker.base, details=late)
    assert seen["code"] == "agent-busy"
    assert "Every agent is busy" in seen["text"]


# contract: H6
def test_a_refusal_by_the_agent_is_said(worker: WorkerProcess, livekit: LiveKitServer) -> None:
    unknown = details(livekit.url, dispatch='{"voise": "NATF2.pt"}')
    seen = drive("given", url=worker.base, details=unknown)
    assert seen["code"] == "agent-refused"
    assert "voise" in seen["text"]


def test_an_unreachable_worker_is_said(worker: WorkerProcess) -> None:
    assert drive("given", url=worker.base, details=None)["code"] == "worker-unreachable"


def test_an_unreachable_media_server_is_said(worker: WorkerProcess) -> None:
    nowhere = details(f"ws://127.0.0.1:{free_port()}")
    assert drive("given", url=worker.base, details=nowhere)["code"] == "livekit-unreachable"


def test_an_agent_that_does_not_join_is_said(worker: WorkerProcess, livekit: LiveKitServer) -> None:
    seen = drive("given", url=worker.base, details=details(livekit.url))
    assert seen["code"] == "agent-missing"


@pytest.mark.parametrize(
    ("flags", "code"),
    [
        (["--use-fake-device-for-media-stream", "--deny-permission-prompts"], "microphone-denied"),
        (["--use-fake-ui-for-media-stream"], "microphone-missing"),
    ],
)
def test_a_useless_microphone_is_said(worker: WorkerProcess, flags: list[str], code: str) -> None:
    assert drive("unheard", url=worker.base, flags=flags)["code"] == code
