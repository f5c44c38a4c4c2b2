"""The real weights on a GPU: `start` captures its graph, is ready, and passes the lifecycle.

Runs where `PERSONAPLEX_MODEL_PATH` names a folder or a Hub name; the driver's own acceptance rules
decide.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.processes import ROOT, LiveKitServer, WorkerProcess

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        "PERSONAPLEX_MODEL_PATH" not in os.environ, reason="PERSONAPLEX_MODEL_PATH is not set"
    ),
]

LOAD_SECONDS = 900


def test_start_reaches_ready_with_graphs_and_the_lifecycle_passes(
    livekit: LiveKitServer, tmp_path: Path
) -> None:
    worker = WorkerProcess(
        tmp_path, livekit.url, "--model", os.environ["PERSONAPLEX_MODEL_PATH"], "--device", "cuda"
    )
    worker.start()
    try:
        assert worker.ready()["status"] == 200
        assert "graph" in worker.ready()["mode"]
        command = [sys.executable, "-m", "agent", "driver"]
        command += ["--url", f"ws://127.0.0.1:{worker.port}/v1/realtime"]
        command += ["--input-wav", str(spoken(tmp_path))]
        command += ["--output-dir", str(tmp_path / "out")]
        run = subprocess.run(command, cwd=ROOT, timeout=LOAD_SECONDS, check=False)
    finally:
        worker.stop()
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert run.returncode == 0, result["errors"]


def spoken(folder: Path) -> Path:
    """A question, as a synthesiser says it."""
    path = folder / "question.wav"
    subprocess.run(["espeak-ng", "-w", str(path), "Hello! Could you tell me a story?"], check=True)
    return path
