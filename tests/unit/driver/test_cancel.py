"""Ctrl-C in each phase: transports close within the bound, no report that looks complete."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fakes.realtime_server import Script, ScriptedServer

pytestmark = pytest.mark.unit

Serve = Callable[[Script], ScriptedServer]

PROGRAM = """
import argparse, sys
from agent.driver import command
parser = argparse.ArgumentParser()
command.add_arguments(parser)
sys.exit(command.run(parser.parse_args()))
"""


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "the phase was never reached"
        time.sleep(0.02)


def sent(server: ScriptedServer, frames: int) -> bool:
    return len(server.seen.appends.get(0, [])) >= frames


PHASES: dict[str, tuple[Script, str, Callable[[ScriptedServer], bool]]] = {
    "admission": (Script(answer_open=False), "2", lambda s: s.seen.connections > 0),
    "stream": (Script(), "2", lambda s: sent(s, 2)),
    "drain": (Script(), "60", lambda s: sent(s, 6)),
    "cleanup": (Script(acknowledge_close=False), "0", lambda s: bool(s.seen.closed)),
}


# contract: K5
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize(
    ("mode", "signal_number"),
    [
        ((), signal.SIGINT),
        (("--sessions", "1"), signal.SIGINT),
        (("--sessions", "1"), signal.SIGTERM),
    ],
    ids=["lifecycle", "load", "load-term"],
)
def test_cancelled_in_each_phase(
    scripted: Serve,
    wav: Path,
    tmp_path: Path,
    phase: str,
    mode: tuple[str, ...],
    signal_number: signal.Signals,
) -> None:
    script, drain, reached = PHASES[phase]
    server = scripted(script)
    flags = ["--url", server.url, "--input-wav", str(wav), "--output-dir", str(tmp_path / "out")]
    flags += ["--tail-s", "0", "--drain-s", drain, "--cleanup-timeout-s", "1", *mode]
    driver = subprocess.Popen([sys.executable, "-c", PROGRAM, *flags], stderr=subprocess.PIPE)
    try:
        wait_until(lambda: reached(server))
        driver.send_signal(signal_number)
        _, errors = driver.communicate(timeout=60)
    finally:
        driver.kill()
    assert driver.returncode == 130, errors.decode()
    assert b"Traceback" not in errors
    assert b"cancelled, nothing was reported" in errors
    assert list((tmp_path / "out").iterdir()) == []
    if phase != "cleanup":
        wait_until(lambda: server.seen.live == 0)
