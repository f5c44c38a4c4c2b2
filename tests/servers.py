"""Real servers for tests, on loopback and free ports: livekit-server and Redis.

Each can be killed and started again on the same ports, as a machine would do it.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Self

ROOT = Path(__file__).parents[1]
START_LIMIT_S = 30.0
STOP_PATIENCE_S = 3.0
"""livekit-server waits for its rooms to empty at the first SIGTERM; tests do not."""


def free_port(kind: socket.SocketKind = socket.SOCK_STREAM) -> int:
    """A port nobody has at this moment."""
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(ready: Callable[[], bool], what: str, limit_s: float = START_LIMIT_S) -> None:
    """Poll from outside the process under test; raises `TimeoutError` naming what was awaited."""
    deadline = time.monotonic() + limit_s
    while not ready():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} within {limit_s:.0f} s")
        time.sleep(0.05)


def livekit_binary() -> str:
    """The livekit-server that `make test` set up, or the one named by the environment."""
    found = (
        os.environ.get("LIVEKIT_SERVER_BIN")
        or shutil.which("livekit-server")
        or str(ROOT / ".cache" / "bin" / "livekit-server")
    )
    if not Path(found).exists():
        raise FileNotFoundError("no livekit-server: run scripts/setup-livekit-server")
    return found


class Server:
    """A child process with its log in a file; subclasses say how it starts and when it is up."""

    name = "server"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / f"{self.name}.log"
        self._process: subprocess.Popen[bytes] | None = None

    def command(self) -> list[str]:
        raise NotImplementedError

    def is_up(self) -> bool:
        raise NotImplementedError

    def start(self) -> Self:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command(), cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        try:
            wait_until(self.is_up, f"{self.name} is up")
        except TimeoutError as error:
            self.kill()
            raise TimeoutError(f"{error}; {self.log}:\n{self.log.read_text()[-2000:]}") from None
        return self

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            try:
                self._process.wait(timeout=STOP_PATIENCE_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *failure: object) -> None:
        self.stop()


class LiveKitServer(Server):
    """The media server; with `redis` one node of several, and able to provision telephones."""

    name = "livekit-server"
    KEY = "devkey"
    SECRET = "a-secret-for-tests-of-32-letters-or-more"

    def __init__(self, folder: Path, *, redis: str | None = None) -> None:
        super().__init__(folder)
        self.port = free_port()
        self.udp_port = free_port(socket.SOCK_DGRAM)
        self.url = f"ws://127.0.0.1:{self.port}"
        self.config = folder / "livekit.yaml"
        self.config.write_text(self._yaml(redis))

    @property
    def environment(self) -> dict[str, str]:
        """What a worker or a command needs to find this server."""
        return {
            "LIVEKIT_URL": self.url,
            "LIVEKIT_API_KEY": self.KEY,
            "LIVEKIT_API_SECRET": self.SECRET,
        }

    def _yaml(self, redis: str | None) -> str:
        shared = f"redis: {{address: '{redis}'}}" if redis else ""
        return f"""
port: {self.port}
bind_addresses: ["127.0.0.1"]
keys: {{{self.KEY}: {self.SECRET}}}
rtc:
  udp_port: {self.udp_port}
  tcp_port: 0
  use_external_ip: false
  node_ip: 127.0.0.1
  enable_loopback_candidate: true
  interfaces: {{includes: [lo]}}
  ips: {{includes: [127.0.0.1/32]}}
  stun_servers: []
turn: {{enabled: false}}
{shared}
"""

    def command(self) -> list[str]:
        return [livekit_binary(), "--config", str(self.config)]

    def is_up(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/", timeout=1) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


class RedisServer(Server):
    """Redis with an append-only file, so that it remembers over a kill."""

    name = "redis-server"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"

    def command(self) -> list[str]:
        options = {
            "--bind": "127.0.0.1",
            "--port": str(self.port),
            "--dir": str(self.folder),
            "--appendonly": "yes",
            "--appendfsync": "always",
            "--save": "",
        }
        return ["redis-server", *(word for option in options.items() for word in option)]

    def is_up(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(16).startswith(b"+PONG")
        except OSError:
            return False
