"""The built page in headless Chromium, against the real server, the real worker and engine."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from livekit import api

from tests.e2e.processes import API_KEY, API_SECRET, ROOT, LiveKitServer, WorkerProcess, free_port

pytestmark = pytest.mark.browser

DRIVER_LIMIT_S = 240


@pytest.fixture(scope="module")
def speech(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the fake microphone plays, over and over: 48 kHz mono."""
    folder = tmp_path_factory.mktemp("speech")
    raw, wav = folder / "raw.wav", folder / "speech.wav"
    subprocess.run(["espeak-ng", "-w", raw, "Good morning. What time is it now?"], check=True)
    subprocess.run(["sox", raw, "-r", "48000", "-c", "1", "-b", "16", wav], check=True)
    return wav


@pytest.fixture(scope="module")
def livekit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveKitServer]:
    server = LiveKitServer(tmp_path_factory.mktemp("livekit"))
    server.start()
    yield server
    server.kill()


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


def drive(scenario: str, **options: Any) -> dict[str, Any]:
    command = ["node", str(ROOT / "tests/browser/drive.mjs"), scenario, json.dumps(options)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DRIVER_LIMIT_S)
    assert done.returncode == 0, done.stderr[-3000:]
    seen: dict[str, Any] = json.loads(done.stdout)
    print(json.dumps(seen, indent=1))
    return seen


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


def details(url: str) -> dict[str, str]:
    """A token for a room that no agent is called into."""
    grants = api.VideoGrants(room_join=True, room="nobody-here")
    token = api.AccessToken(API_KEY, API_SECRET).with_identity("caller").with_grants(grants)
    return {
        "serverUrl": url,
        "roomName": "nobody-here",
        "participantName": "caller",
        "participantToken": token.to_jwt(),
    }


def test_an_unreachable_worker_is_said(worker: WorkerProcess) -> None:
    assert drive("absent", url=worker.base, details=None)["code"] == "worker-unreachable"


def test_an_unreachable_media_server_is_said(worker: WorkerProcess) -> None:
    nowhere = details(f"ws://127.0.0.1:{free_port()}")
    assert drive("absent", url=worker.base, details=nowhere)["code"] == "livekit-unreachable"


def test_an_agent_that_does_not_join_is_said(worker: WorkerProcess, livekit: LiveKitServer) -> None:
    seen = drive("absent", url=worker.base, details=details(livekit.url))
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
