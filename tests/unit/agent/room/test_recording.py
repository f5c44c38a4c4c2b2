"""Recordings: two aligned channels, JSON lines, and a disk that fails."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile

from agent.command import CommandError
from agent.recording import Recorder, recording_folder
from model import FRAME_SAMPLES, SAMPLE_RATE

pytestmark = pytest.mark.unit


def test_people_are_left_the_agent_is_right_and_both_are_aligned(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    frames = rng.uniform(-0.5, 0.5, (5, 2, FRAME_SAMPLES)).astype(np.float32)
    recorder = Recorder(tmp_path, "call")
    for number, (people, agent) in enumerate(frames):
        recorder.frame(people, agent)
        recorder.message({"type": "transcript", "t_ms": number * 80, "text": "grüße"})
    recorder.close()
    sound, rate = soundfile.read(tmp_path / "call.flac", dtype="float32")
    assert rate == SAMPLE_RATE
    assert np.allclose(sound[:, 0], frames[:, 0].ravel(), atol=2**-15)
    assert np.allclose(sound[:, 1], frames[:, 1].ravel(), atol=2**-15)
    lines = [json.loads(line) for line in (tmp_path / "call.jsonl").read_text().splitlines()]
    assert [line["t_ms"] for line in lines] == [0, 80, 160, 240, 320]
    assert lines[0]["text"] == "grüße"


def test_a_disk_that_fails_ends_the_recording_alone(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "missing", "call")
    recorder.frame(np.zeros(FRAME_SAMPLES, np.float32), np.zeros(FRAME_SAMPLES, np.float32))
    recorder.close()
    assert recorder.failed


def test_a_folder_that_cannot_be_written_is_named_at_the_start(tmp_path: Path) -> None:
    occupied = tmp_path / "file"
    occupied.touch()
    with pytest.raises(CommandError, match=r"--recording .*file.*another folder"):
        recording_folder(str(occupied))
    assert recording_folder("") is None
    assert recording_folder(str(tmp_path / "new")) == tmp_path / "new"
