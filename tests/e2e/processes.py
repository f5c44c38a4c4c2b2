"""Real processes for end-to-end tests: a `livekit-server`, a Redis, a worker, on free ports.

Each is started, waited for, killed and started again by the test that owns it; logs go to files
that failures quote.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

ROOT = Path(__file__).resolve().parents[2]
API_KEY = "testkey"
API_SECRET = "a-secret-for-tests-only-0123456789abcdef"
START_SECONDS = 120
STOP_SECONDS = 60
LIVEKIT_PATIENCE_SECONDS = 2
RECORDED = (".flac", ".jsonl")


def free_port(kind: socket.SocketKind = socket.SOCK_STREAM) -> int:
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def livekit_binary() -> str:
    cached = ROOT / ".cache" / "bin" / "livekit-server"
    found = os.environ.get("LIVEKIT_SERVER_BIN") or shutil.which("livekit-server")
    binary = found or (str(cached) if cached.exists() else None)
    if binary is None:
        pytest.fail("no livekit-server: set LIVEKIT_SERVER_BIN or run `make setup`")
    return binary


class Process:
    """One child with its log; `start` again after a kill keeps ports and log."""

    def __init__(self, name: str, command: list[str], folder: Path, **env: str) -> None:
        self.name = name
        self.command = command
        self.folder = folder
        self.log = folder / f"{name}.log"
        self._env = {**os.environ, **env}
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._child is not None
        return self._child.pid

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.poll() is None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self._child = subprocess.Popen(
                self.command, cwd=ROOT, env=self._env, stdout=log, stderr=subprocess.STDOUT
            )
        self.wait_ready()

    def wait_ready(self) -> None:
        raise NotImplementedError

    def await_true(self, what: str, ready: Any) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not ready():
            if not self.running:
                pytest.fail(f"{self.name} ended while waiting for {what}:\n{self.text()[-3000:]}")
            if time.monotonic() > deadline:
                pytest.fail(f"{self.name}: no {what} in time:\n{self.text()[-3000:]}")
            time.sleep(0.05)

    async def reach(self, what: str, ready: Any) -> None:
        """The same while the test's own loop goes on."""
        await asyncio.to_thread(self.await_true, what, ready)

    def text(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def signal(self, number: int) -> None:
        assert self._child is not None
        self._child.send_signal(number)

    def wait(self, seconds: float = STOP_SECONDS) -> int:
        assert self._child is not None
        return self._child.wait(seconds)

    def kill(self) -> None:
        """SIGKILL, as a machine would lose it."""
        if self.running:
            self.signal(signal.SIGKILL)
            self.wait()

    def stop(self) -> int:
        """SIGTERM and its exit code."""
        if not self.running:
            return self.wait() if self._child else 0
        self.signal(signal.SIGTERM)
        try:
            return self.wait()
        except subprocess.TimeoutExpired:
            self.kill()
            pytest.fail(f"{self.name} did not stop:\n{self.text()[-3000:]}")


class LiveKitServer(Process):
    """`livekit-server` with the repository's own configuration."""

    def __init__(self, folder: Path, name: str = "livekit", redis: str = "") -> None:
        self.port = free_port()
        udp = free_port(socket.SOCK_DGRAM)
        command = [livekit_binary(), "--config", str(ROOT / "livekit.yaml")]
        command += ["--port", str(self.port), "--udp-port", str(udp)]
        if redis:
            command += ["--redis-host", redis]
        super().__init__(name, command, folder, LIVEKIT_KEYS=f"{API_KEY}: {API_SECRET}")

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    def wait_ready(self) -> None:
        self.await_true("answer", lambda: answers(f"http://127.0.0.1:{self.port}/"))

    def stop(self) -> int:
        """It waits for its rooms at the first signal, and misses one that comes too early."""
        for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGKILL):
            if self.running:
                self.signal(number)
                with suppress(subprocess.TimeoutExpired):
                    return self.wait(LIVEKIT_PATIENCE_SECONDS)
        return self.wait() if self._child else 0


class RedisServer(Process):
    """Debian's `redis-server`, keeping its data in the test's folder."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        command = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1"]
        command += ["--dir", str(folder), "--appendonly", "yes"]
        super().__init__("redis", command, folder)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def wait_ready(self) -> None:
        self.await_true("port", lambda: listens(self.port))


class WorkerProcess(Process):
    """`python -m agent start`, or the same around the echo engine or by another `module`."""

    def __init__(
        self,
        folder: Path,
        livekit_url: str,
        *options: str,
        echo: bool = False,
        module: Sequence[str] = ("agent", "start"),
        name: str = "",
    ) -> None:
        self.port = free_port()
        if echo:
            module = ["tests.fakes.echo_worker"]
        command = [sys.executable, "-m", *module, "--port", str(self.port), *options]
        super().__init__(
            name or "worker",
            command,
            folder,
            LIVEKIT_URL=livekit_url,
            LIVEKIT_API_KEY=API_KEY,
            LIVEKIT_API_SECRET=API_SECRET,
            OMP_NUM_THREADS="1",
        )
        self._registrations = 0

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def wait_ready(self) -> None:
        """Ready and registered; a restarted one has to register anew."""
        self._registrations += 1
        self.await_registrations(self._registrations)

    def await_registrations(self, count: int) -> None:
        self._registrations = count
        self.await_true(
            "registration", lambda: len(re.findall("registered with", self.text())) >= count
        )

    def ready(self) -> dict[str, Any]:
        """The body of `/ready`, whatever its status."""
        status, body = get(f"{self.base}/ready")
        return {"status": status, **json.loads(body)}

    def await_idle(self) -> None:
        """Until every call has left its slot."""
        self.await_true("idle slots", lambda: self.ready()["used_slots"] == 0)

    async def reach_idle(self) -> None:
        """The same while the test's own loop goes on."""
        await asyncio.to_thread(self.await_idle)

    def recordings_open(self) -> list[Path]:
        """The files that recordings of calls are being written to, wherever they are."""
        files = [Path(file.path) for file in psutil.Process(self.pid).open_files()]
        return sorted((file for file in files if file.suffix in RECORDED), key=lambda f: f.suffix)

    async def ended(self, session: str) -> dict[str, Any]:
        """Wait until this session's call is over; its account."""

        def account() -> dict[str, Any] | None:
            found = [call for call in self.calls_ended() if call["session"] == session]
            return found[0] if found else None

        await self.reach(f"the end of {session}", account)
        done = account()
        assert done is not None
        return done

    def calls_ended(self) -> list[dict[str, Any]]:
        """The accounts that the worker printed of the calls that are over."""
        lines = re.findall(r"call ended: (\w+) (\{.*\})", self.text())
        return [{"reason": reason, **json.loads(account)} for reason, account in lines]


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def get(url: str) -> tuple[int, str]:
    return _open(urllib.request.Request(url))


def post(url: str, body: dict[str, Any]) -> tuple[int, str]:
    data = json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    return _open(urllib.request.Request(url, data=data, headers=headers, method="POST"))


def _open(request: urllib.request.Request) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
