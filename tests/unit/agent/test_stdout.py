"""What nobody can read: a tool ends with one line and exit code 2, a daemon serves on."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile

from agent import demo
from agent.settings import Settings
from tests.e2e.processes import ROOT

pytestmark = pytest.mark.unit
NO_READER = "error: stdout: cannot be written (Broken pipe)"


@pytest.fixture
def unread() -> Iterator[int]:
    """A pipe whose reader has gone."""
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


def close_stdout() -> None:
    os.close(1)


def last_line(
    *words: object,
    stdout: int | None = None,
    first: Callable[[], None] | None = None,
    unbuffered: str = "",
) -> str:
    """Of a command that could not print."""
    done = subprocess.run(
        [sys.executable, "-m", "agent", *map(str, words)],
        cwd=ROOT,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=first,
    )
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr
    return done.stderr.splitlines()[-1]


def test_a_reader_that_has_gone_ends_a_tool(unread: int, tiny_checkpoint: Path) -> None:
    """Whether `print` meets that, or what it left to be written at the end."""
    assert last_line("--help", stdout=unread) == NO_READER
    assert last_line("--help", stdout=unread, unbuffered="1") == NO_READER
    assert last_line("doctor", "--help", stdout=unread) == NO_READER
    assert last_line("voices", "--model", tiny_checkpoint, stdout=unread) == NO_READER


def test_a_console_without_a_reader_ends_and_leaves_a_whole_file(
    unread: int, tiny_checkpoint: Path, tmp_path: Path
) -> None:
    source, out = tmp_path / "in.wav", tmp_path / "out.wav"
    soundfile.write(source, np.zeros(24_000, np.float32), 24_000)
    files = ["--input", source, "--output", out]
    line = last_line("console", "--model", tiny_checkpoint, *files, stdout=unread)
    assert line == NO_READER
    assert 0 < soundfile.info(out).frames < 9 * 24_000, "it does not talk on to nobody"


@pytest.mark.parametrize("command", ["console", "doctor", "offline", "voices"])
def test_a_closed_stdout_is_said_before_anything_is_computed(command: str) -> None:
    assert last_line(command, first=close_stdout).startswith("error: stdout is closed")


def test_a_full_disk_is_one_line() -> None:
    with Path("/dev/full").open("wb") as full:
        line = last_line("--help", stdout=full.fileno())
    assert line == "error: stdout: cannot be written (No space left on device)"


def test_a_daemon_logs_what_it_cannot_print(
    unread: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with os.fdopen(os.dup(unread), "w") as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        demo.announce(Settings(port=8123))
    (record,) = caplog.records
    assert "Broken pipe" in record.message and "http://localhost:8123" in record.message


def test_a_daemon_needs_no_stdout() -> None:
    """It gets as far as its settings, which this one lacks."""
    line = last_line("start", "--url", "nowhere", first=close_stdout)
    assert "LIVEKIT_API_SECRET" in line
