"""The driver against this server: real engine, real websocket, real rooms."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
import soundfile

from tests.e2e.processes import LiveKitServer, WorkerProcess

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).resolve().parents[2]
LOAD_FRAMES = 250
VOICED = ("--voiced-frame-rms-threshold", "1e-4")
"""Random weights whisper; how loud they are says nothing about the server."""


@pytest.fixture(scope="module")
def wav(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep as long as the load, with the level of speech."""
    path = tmp_path_factory.mktemp("input") / "input.wav"
    t = np.arange(LOAD_FRAMES * 1920) / 24_000
    soundfile.write(path, 0.2 * np.sin(2 * np.pi * (200 * t + 40 * t * t)), 24_000)
    return path


@pytest.fixture(scope="module")
def server(
    livekit: LiveKitServer, tiny_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[WorkerProcess]:
    folder = tmp_path_factory.mktemp("server")
    worker = WorkerProcess(
        folder, livekit.url, "--model", str(tiny_checkpoint), "--max-sessions", "2"
    )
    worker.start()
    yield worker
    worker.stop()


@pytest.fixture(autouse=True)
def free_slots(server: WorkerProcess) -> None:
    """The sessions of the test before have left the server."""
    server.await_idle()


def flags(server: WorkerProcess, wav: Path, folder: Path, *more: str) -> list[str]:
    url = f"ws://127.0.0.1:{server.port}/v1/realtime"
    given = ["--url", url, "--input-wav", str(wav), "--output-dir", str(folder), "--tail-s", "0"]
    return [sys.executable, "-m", "agent", "driver", *given, *VOICED, *more]


def drive(*arguments: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        flags(*arguments), cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )


def report(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "load-result.json").read_text())


# contract: K9, A2, A5
def test_the_lifecycle_passes(server: WorkerProcess, wav: Path, tmp_path: Path) -> None:
    voice = ("--voice", voice_of(server))
    run = drive(server, short(wav, tmp_path), tmp_path / "out", *voice)
    assert run.returncode == 0, run.stdout + run.stderr
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert result["overflow_error_code"] == "resource_exhausted"
    assert result["errors"] == []


# contract: K6, C6
def test_load_at_real_time_has_no_deficit(server: WorkerProcess, wav: Path, tmp_path: Path) -> None:
    more = ("--sessions", "2", "--load-frames", str(LOAD_FRAMES), "--voice", voice_of(server))
    run = drive(server, wav, tmp_path / "out", *more)
    assert run.returncode == 0, run.stdout + run.stderr
    result = report(tmp_path / "out")
    jsonschema.validate(result, json.loads((ROOT / "docs" / "load-result.schema.json").read_text()))
    assert [row["frame_deficit"] for row in result["sessions"]] == [0, 0]
    assert [row["output_frames"] for row in result["sessions"]] == [LOAD_FRAMES, LOAD_FRAMES]


# contract: K3
def test_load_through_rooms_accounts_for_every_frame(
    server: WorkerProcess, wav: Path, tmp_path: Path
) -> None:
    more = ("--sessions", "2", "--load-frames", "100", "--transport", "livekit")
    run = drive(server, wav, tmp_path / "out", *more)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "Traceback" not in run.stderr and "panicked" not in run.stderr, run.stderr
    result = report(tmp_path / "out")
    assert [row["input_frames"] for row in result["sessions"]] == [100, 100]
    assert result["transport"] == "livekit"


# contract: K5, J2
def test_interrupted_in_mid_stream_the_slots_come_back(
    server: WorkerProcess, wav: Path, tmp_path: Path
) -> None:
    more = ("--sessions", "2", "--voice", voice_of(server))
    driver = subprocess.Popen(flags(server, wav, tmp_path / "out", *more), cwd=ROOT)
    try:
        server.await_true("two calls", lambda: server.ready()["used_slots"] == 2)
        driver.send_signal(signal.SIGINT)
        assert driver.wait(60) == 130
    finally:
        driver.kill()
    server.await_idle()
    assert not (tmp_path / "out" / "load-result.json").exists()


# contract: K6
def test_a_step_slower_than_its_frame_shows_as_deficit_and_rtf(
    livekit: LiveKitServer, tiny_checkpoint: Path, wav: Path, tmp_path: Path
) -> None:
    options = ("--model", str(tiny_checkpoint), "--max-sessions", "2")
    module = ("tests.fakes.troubled_worker", "--step-ms=120")
    worker = WorkerProcess(tmp_path, livekit.url, *options, module=module)
    worker.start()
    try:
        more = ("--sessions", "2", "--load-frames", "150", "--voice", voice_of(worker))
        run = drive(worker, wav, tmp_path / "out", *more)
    finally:
        worker.stop()
    assert run.returncode == 1
    for row in report(tmp_path / "out")["sessions"]:
        assert row["acceptance_check"] == "frame_deficit"
        assert row["frame_deficit"] > 4
        assert row["client_stream_rtf"] > 1
        assert row["server_stream_rtf"] > 1


def voice_of(server: WorkerProcess) -> str:
    from tests.e2e.processes import get

    listed = json.loads(get(f"{server.base}/v1/voices")[1])
    return str(listed["data"][0]["id"])


def short(wav: Path, folder: Path) -> Path:
    samples, rate = soundfile.read(wav)
    path = folder / "short.wav"
    soundfile.write(path, samples[: 50 * 1920], rate)
    return path
