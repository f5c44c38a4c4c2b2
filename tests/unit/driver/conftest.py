"""A short WAV, a scripted server, and the driver run as its command runs."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from agent.driver import command
from tests.fakes.realtime_server import Script, ScriptedServer, serve

FRAMES = 6
"""The fewest that satisfy the default of five voiced frames."""


@dataclass
class Outcome:
    """Exit code, what was printed, and the report where one was written."""

    code: int
    folder: Path
    output: str

    @property
    def report(self) -> dict[str, Any]:
        return json.loads((self.folder / "load-result.json").read_text())

    @property
    def result(self) -> dict[str, Any]:
        return json.loads((self.folder / "result.json").read_text())

    @property
    def session(self) -> dict[str, Any]:
        return self.report["sessions"][0]


Run = Callable[..., Outcome]


@pytest.fixture
def wav(tmp_path: Path) -> Path:
    path = tmp_path / "input.wav"
    phase = np.arange(FRAMES * 1920) * 2 * np.pi * 300 / 24_000
    soundfile.write(path, 0.2 * np.sin(phase), 24_000)
    return path


@pytest.fixture
def scripted() -> Iterator[Callable[[Script], ScriptedServer]]:
    with ExitStack() as stack:
        yield lambda script: stack.enter_context(serve(script))


@pytest.fixture
def drive(wav: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """`drive(server, "--sessions", "1", …)`; a short drain and no tail unless given."""

    def run(server: ScriptedServer, *flags: str, folder: str = "out") -> Outcome:
        parser = argparse.ArgumentParser()
        command.add_arguments(parser)
        output = tmp_path / folder
        args = parser.parse_args(
            [
                *("--url", server.url, "--input-wav", str(wav), "--output-dir", str(output)),
                *("--tail-s", "0", "--drain-s", "0.3", "--cleanup-timeout-s", "2"),
                *flags,
            ]
        )
        code = command.run(args)
        printed = capsys.readouterr()
        return Outcome(code, output, printed.out + printed.err)

    return run
