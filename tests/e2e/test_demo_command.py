"""`python -m agent demo`: one URL, and nothing left behind however and whenever it ends."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from agent.__main__ import main
from tests.e2e.processes import ROOT, answers, free_port, get, listens, livekit_binary

pytestmark = pytest.mark.e2e
PATIENCE_SECONDS = 150.0


class Demo:
    """The command in a process of its own."""

    def __init__(self, folder: Path, model: Path) -> None:
        self.port, self.livekit_port = free_port(), free_port()
        self.log = folder / "demo.log"
        command = [sys.executable, "-m", "agent", "demo", "--model", str(model)]
        command += ["--port", str(self.port), "--livekit-port", str(self.livekit_port)]
        command += ["--livekit-server-bin", livekit_binary()]
        with self.log.open("wb") as log:
            self.process = psutil.Popen(command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT)

    def until(self, what: str, true: object) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not true():  # type: ignore[operator]
            if time.monotonic() > deadline or not self.process.is_running():
                pytest.fail(f"no {what}:\n{self.log.read_text()}")
            time.sleep(0.05)

    def end(self, number: int) -> int:
        """Send the signal; the exit code, once nothing of it lives any more."""
        family = [self.process, *self.process.children(recursive=True)]
        assert len(family) > 1, "the LiveKit server should run by now"
        self.process.send_signal(number)
        gone, alive = psutil.wait_procs(family, timeout=PATIENCE_SECONDS)
        assert not alive, f"left behind: {alive}\n{self.log.read_text()}"
        return int(self.process.returncode)


@pytest.fixture
def demo(tmp_path: Path, tiny_checkpoint: Path) -> Iterator[Demo]:
    started = Demo(tmp_path, tiny_checkpoint)
    yield started
    if started.process.is_running():
        for process in (*started.process.children(recursive=True), started.process):
            process.kill()
        started.process.wait()


def test_it_prints_one_url_serves_and_ends_with_ctrl_c(demo: Demo) -> None:
    demo.until("URL", lambda: "Open http://" in demo.log.read_text())
    printed = demo.log.read_text()
    assert printed.count("http://") == 1
    assert f"http://localhost:{demo.port}" in printed
    assert "The weights are random" in printed
    assert get(f"http://127.0.0.1:{demo.port}/ready")[0] == 200
    assert demo.end(signal.SIGINT) == 0
    assert not listens(demo.port) and not listens(demo.livekit_port)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_during_start_up_leaves_nothing_behind(demo: Demo, number: int) -> None:
    demo.until("LiveKit server", lambda: answers(f"http://127.0.0.1:{demo.livekit_port}/"))
    assert demo.end(number) != 0
    assert not listens(demo.livekit_port)


def test_killed_outright_it_takes_the_server_with_it(demo: Demo) -> None:
    demo.until("LiveKit server", lambda: answers(f"http://127.0.0.1:{demo.livekit_port}/"))
    assert demo.end(signal.SIGKILL) == -signal.SIGKILL


@pytest.mark.parametrize("flag", ["--port", "--livekit-port"])
def test_a_busy_port_is_one_line_with_the_port_and_the_setting(
    flag: str, tiny_checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ports = {"--port": free_port(), "--livekit-port": free_port()}
    with socket.socket() as occupied:
        occupied.bind(("127.0.0.1", ports[flag]))
        occupied.listen()
        words = [str(word) for option in ports.items() for word in option]
        words += ["--livekit-server-bin", livekit_binary()]
        assert main(["demo", "--model", str(tiny_checkpoint), *words]) == 2
    line = capsys.readouterr().err.strip().splitlines()[-1]
    assert line.startswith("error: ")
    assert str(ports[flag]) in line and flag in line
