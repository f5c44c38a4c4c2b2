"""`python -m agent demo`: one URL, and nothing left behind however and whenever it ends."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import psutil
import pytest

from agent.__main__ import main
from tests.e2e.processes import ROOT, answers, free_port, get, listens, livekit_binary

pytestmark = pytest.mark.e2e
PATIENCE_SECONDS = 150.0
OF_OUTER_MAKE = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")
"""These tests may run under `make`, whose options are none of the inner one's."""


class Demo:
    """The command in a process group of its own; `by` is what starts it."""

    def __init__(
        self, folder: Path, model: Path, by: str = "python", stdout: int | None = None
    ) -> None:
        self.port, self.livekit_port = free_port(), free_port()
        self.log = folder / f"demo-{self.port}.log"
        options = ["--model", str(model)]
        options += ["--port", str(self.port), "--livekit-port", str(self.livekit_port)]
        options += ["--livekit-server-bin", livekit_binary()]
        command = [sys.executable, "-m", "agent", "demo", *options]
        if by == "make":
            command = ["make", "demo", f"ARGS={shlex.join(options)}"]
        with self.log.open("wb") as log:
            self.process = psutil.Popen(
                command,
                cwd=ROOT,
                stdout=log if stdout is None else stdout,
                stderr=log,
                start_new_session=True,
                env={
                    name: value for name, value in os.environ.items() if name not in OF_OUTER_MAKE
                },
            )

    def until(self, what: str, true: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not true():
            if time.monotonic() > deadline or self.process.poll() is not None:
                pytest.fail(f"no {what}:\n{self.log.read_text()}")
            time.sleep(0.05)

    def until_server(self) -> None:
        self.until("LiveKit server", lambda: answers(f"http://127.0.0.1:{self.livekit_port}/"))

    def until_ready(self) -> None:
        self.until("URL", lambda: "Open http://" in self.log.read_text())

    def end(self, number: int, whole_group: bool = False) -> int:
        """Send the signal; the exit code, once nothing of it lives or listens any more."""
        if whole_group:
            os.killpg(self.process.pid, number)
        else:
            self.process.send_signal(number)
        try:
            code = self.process.wait(PATIENCE_SECONDS)
        except psutil.TimeoutExpired:
            pytest.fail(f"it goes on in spite of {number!r}:\n{self.log.read_text()}")
        _, alive = psutil.wait_procs(self.left(), timeout=PATIENCE_SECONDS)
        assert not alive, f"left behind: {alive}\n{self.log.read_text()}"
        # A process that ends has no words any more before its files are closed.
        deadline = time.monotonic() + PATIENCE_SECONDS
        while listens(self.port) or listens(self.livekit_port):
            assert time.monotonic() < deadline, "a port is still open"
            time.sleep(0.05)
        # As a shell says it, also where the signal came before the first line of ours.
        return int(code) if code >= 0 else 128 - int(code)

    def code_of(self, number: int) -> int:
        """What this signal must have ended it with: once it serves it drains and has succeeded."""
        return 0 if "draining" in self.log.read_text() else 128 + number

    def left(self) -> list[psutil.Process]:
        """What lives of it: every process was given the LiveKit server's port."""
        everything = psutil.process_iter(["cmdline"])
        return [p for p in everything if str(self.livekit_port) in (p.info["cmdline"] or ())]


StartDemo = Callable[..., Demo]


@pytest.fixture
def start_demo(tmp_path: Path, tiny_checkpoint: Path) -> Iterator[StartDemo]:
    started: list[Demo] = []

    def start(by: str = "python", stdout: int | None = None) -> Demo:
        started.append(Demo(tmp_path, tiny_checkpoint, by, stdout))
        return started[-1]

    yield start
    for demo in started:
        for process in demo.left():
            process.kill()
        if demo.process.poll() is None:
            demo.process.kill()
            demo.process.wait()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_prints_one_url_serves_and_ends_with_a_signal(
    start_demo: StartDemo, number: int
) -> None:
    demo = start_demo()
    demo.until_ready()
    printed = demo.log.read_text()
    assert printed.count("http://") == 1
    assert f"http://localhost:{demo.port}" in printed
    assert "The weights are random" in printed
    assert get(f"http://127.0.0.1:{demo.port}/ready")[0] == 200
    assert demo.end(number) == 0


@pytest.mark.parametrize(
    ("number", "whole_group"), [(signal.SIGINT, True), (signal.SIGTERM, False)]
)
def test_make_demo_serves_and_leaves_nothing_behind(
    start_demo: StartDemo, number: int, whole_group: bool
) -> None:
    """A terminal sends Ctrl-C to all of its foreground; a supervisor stops `make` alone."""
    demo = start_demo(by="make")
    demo.until_ready()
    assert get(f"http://127.0.0.1:{demo.port}/")[0] == 200
    demo.end(number, whole_group)
    assert "Traceback" not in demo.log.read_text()


def test_a_signal_at_any_moment_of_start_up_leaves_nothing_behind(
    start_demo: StartDemo, rng: Random
) -> None:
    """One moment in each quarter of the start-up: imports, checks, LiveKit server, model."""
    began = time.monotonic()
    whole = start_demo()
    whole.until_ready()
    quarter = (time.monotonic() - began) / 4
    assert whole.end(signal.SIGTERM) == 0
    for part, number in enumerate([signal.SIGTERM, signal.SIGINT, signal.SIGTERM, signal.SIGINT]):
        moment = rng.uniform(part * quarter, (part + 1) * quarter)
        demo = start_demo()
        time.sleep(moment)
        code = demo.end(number)
        print(f"{signal.Signals(number).name} after {moment:.2f} s: exit code {code}")
        assert code == demo.code_of(number)
        assert "Traceback" not in demo.log.read_text()


def test_a_full_pipe_that_nobody_reads_holds_up_neither_calls_nor_the_end(
    start_demo: StartDemo,
) -> None:
    unread, stdout = os.pipe()
    try:
        os.set_blocking(stdout, False)
        with suppress(BlockingIOError):
            while True:
                os.write(stdout, b"." * 4096)
        os.set_blocking(stdout, True)
        demo = start_demo(stdout=stdout)
        demo.until("registration", lambda: "registered with" in demo.log.read_text())
        assert get(f"http://127.0.0.1:{demo.port}/ready")[0] == 200
        assert demo.end(signal.SIGTERM) == 0
    finally:
        os.close(stdout)
        os.close(unread)


def test_where_the_reader_has_gone_it_serves_and_the_log_has_the_address(
    start_demo: StartDemo,
) -> None:
    reader, stdout = os.pipe()
    os.close(reader)
    try:
        demo = start_demo(stdout=stdout)
        address = f"the page is http://localhost:{demo.port}"
        demo.until("address in the log", lambda: address in demo.log.read_text())
        assert get(f"http://127.0.0.1:{demo.port}/ready")[0] == 200
        assert demo.end(signal.SIGTERM) == 0
        assert "Traceback" not in demo.log.read_text()
    finally:
        os.close(stdout)


def test_killed_outright_it_takes_the_server_with_it(start_demo: StartDemo) -> None:
    demo = start_demo()
    demo.until_server()
    assert demo.end(signal.SIGKILL) == 128 + signal.SIGKILL


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
    said = capsys.readouterr().err
    (line,) = [line for line in said.splitlines() if line.startswith("error: ")]
    assert str(ports[flag]) in line and flag in line
    assert "Traceback" not in said
    with socket.socket() as probe:
        # The LiveKit server, if it was started before the other port was found busy, is gone.
        assert flag == "--livekit-port" or probe.connect_ex(("127.0.0.1", ports["--livekit-port"]))
