"""`demo`: a LiveKit server on loopback, the worker and the page; one URL to open.

It finds and starts `livekit-server`, hands over to `start`'s way of serving, and takes the server
down again however it ends.
"""

from __future__ import annotations

import argparse
import ctypes
import dataclasses
import logging
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from agent.command import CommandError, configure_logging, ended_by_signals
from agent.paths import demand_model
from agent.ports import listen
from agent.settings import Settings, load
from agent.settings import add_arguments as add_settings

log = logging.getLogger(__name__)
ROOT = Path(__file__).resolve().parent.parent
CONFIG = ROOT / "livekit.yaml"
CACHED = ROOT / ".cache" / "bin" / "livekit-server"
LOG = ROOT / ".cache" / "livekit-server.log"
API_KEY = "demo"
HOW_TO_GET = (
    "no livekit-server: `make setup`, or "
    "`go install github.com/livekit/livekit-server/cmd/server@v1.11.0`, `brew install livekit`, "
    "`curl -sSL https://get.livekit.io | bash`; then PATH or LIVEKIT_SERVER_BIN"
)
START_SECONDS = 20.0
STOP_SECONDS = 2.0
"""It waits for its rooms at the first SIGTERM, and misses one that comes too early."""
PR_SET_PDEATHSIG = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_settings(parser, "http", "model", "calls", "demo", "log")


def run(args: argparse.Namespace) -> int:
    """Everything from here on ends with the server gone, also for a signal during start-up."""
    # Ctrl-C means now, unless a drain time was asked for.
    settings = load(args, drain_time=0.0)
    configure_logging(settings.log_level)
    binary = find_server(settings)
    demand_model(settings.model)
    secret = secrets.token_urlsafe(32)
    settings = dataclasses.replace(
        settings,
        livekit_url=f"ws://127.0.0.1:{settings.livekit_port}",
        livekit_api_key=API_KEY,
        livekit_api_secret=secret,
    )
    _demand_free(settings.livekit_port)
    with listen(settings) as listener:
        # torch takes seconds to import: first what can be wrong without it.
        from agent.loading import about_model, make_engine
        from agent.serve import run_worker

        about = about_model(settings)
        with livekit_server(binary, settings.livekit_port, secret):
            return run_worker(settings, listener, make_engine, announce_aside, about)


def announce_aside(settings: Settings) -> None:
    """In a thread of its own: a full pipe that nobody reads holds up neither calls nor the end."""
    threading.Thread(target=announce, args=(settings,), daemon=True).start()


def announce(settings: Settings) -> None:
    """The one line that people wait for; where it cannot be printed, the log has the address."""
    from agent.serve import PAGE

    address = "localhost" if settings.bind_host in ("127.0.0.1", "0.0.0.0") else settings.bind_host
    page = f"http://{address}:{settings.port}"
    text = f"\n  Open {page} and talk.  (Ctrl-C ends it.)\n\n"
    if settings.api_keys:
        text += "  The page asks for one of the --api-keys when you connect.\n\n"
    if not PAGE.is_dir():
        text += "  The page is not built yet: run `make setup` and start again.\n\n"
    try:
        # Not by `print`, whose lock the interpreter would wait for at its end.
        os.write(sys.stdout.fileno(), text.encode())
    except OSError as error:
        log.warning("stdout: cannot be written (%s); the page is %s", error.strerror, page)


def find_server(settings: Settings) -> str:
    """As set, from PATH, from the cache. Raises `CommandError` naming the ways to get one."""
    wanted = settings.livekit_server_bin
    if wanted:
        if not Path(wanted).is_file() or not os.access(wanted, os.X_OK):
            raise CommandError(f"LIVEKIT_SERVER_BIN is {wanted}, which is no program; correct it")
        return wanted
    found = shutil.which("livekit-server") or (str(CACHED) if os.access(CACHED, os.X_OK) else None)
    if found is None:
        raise CommandError(HOW_TO_GET)
    return found


@contextmanager
def livekit_server(binary: str, port: int, secret: str) -> Iterator[None]:
    """The server, up and answering, until the block ends."""
    LOG.parent.mkdir(parents=True, exist_ok=True)
    udp = str(_udp_port(port + 2))
    command = [binary, "--config", str(CONFIG), "--port", str(port), "--udp-port", udp]
    server = _spawn(command, secret)
    with ended_by_signals(server.kill):
        try:
            _await_answer(server, port)
            yield
        finally:
            _stop(server)


def _spawn(command: list[str], secret: str) -> subprocess.Popen[bytes]:
    """In a session of its own: Ctrl-C reaches us alone, and calls end before their server does."""
    with LOG.open("wb") as log:
        try:
            return subprocess.Popen(
                command,
                env={**os.environ, "LIVEKIT_KEYS": f"{API_KEY}: {secret}"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_die_with_parent,
            )
        except OSError as error:
            raise CommandError(
                f"{command[0]} cannot be run ({error.strerror}); "
                "name a livekit-server with LIVEKIT_SERVER_BIN"
            ) from None


def _demand_free(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise CommandError(
                f"port {port} for the LiveKit server cannot be used ({error.strerror}); "
                "choose another with --livekit-port (PERSONAPLEX_LIVEKIT_PORT)"
            ) from None


def _udp_port(wanted: int) -> int:
    """LiveKit's usual distance from the other port where that is free, else any."""
    for port in (wanted, 0):
        with socket.socket(type=socket.SOCK_DGRAM) as probe, suppress(OSError, OverflowError):
            probe.bind(("127.0.0.1", port))
            return int(probe.getsockname()[1])
    raise CommandError("no UDP port is free on 127.0.0.1 for the LiveKit server's media")


def _await_answer(server: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and server.poll() is None:
        with suppress(urllib.error.URLError, OSError):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=1):
                return
        time.sleep(0.05)
    raise CommandError(f"livekit-server does not answer on port {port}; its log is {LOG}")


def _stop(server: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGKILL):
        if server.poll() is not None:
            return
        server.send_signal(number)
        with suppress(subprocess.TimeoutExpired):
            server.wait(STOP_SECONDS)


def _die_with_parent() -> None:
    """In the child: end with us even where we are killed. Linux only, harmless elsewhere."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
