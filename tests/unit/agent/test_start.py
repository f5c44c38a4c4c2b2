"""What is wrong with a start is said before torch is imported, which takes seconds."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from tests.e2e.processes import ROOT, free_port

pytestmark = pytest.mark.unit
RUN_IT = """
import sys
from agent.__main__ import main

code = main(sys.argv[1:])
sys.exit(code if "torch" not in sys.modules else "torch was imported")
"""
SET = ("--url", "ws://127.0.0.1:9", "--api-key", "key", "--api-secret", "secret")
SERVER = ("--livekit-server-bin", sys.executable)


def refused(*words: str) -> str:
    """The one line of a command that ends before it has imported torch."""
    environment = {name: value for name, value in os.environ.items() if "LIVEKIT" not in name}
    run = [sys.executable, "-c", RUN_IT, *words]
    done = subprocess.run(run, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    return line


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("start",), "LIVEKIT_URL"),
        (("start", *SET, "--port", "0"), "--port"),
        (("demo", "--livekit-server-bin", "/no/such/program"), "LIVEKIT_SERVER_BIN"),
    ],
)
def test_what_is_missing_or_wrong(words: tuple[str, ...], named: str) -> None:
    assert named in refused(*words)


@pytest.mark.parametrize(
    ("words", "flag"),
    [
        (("start", *SET), "--port"),
        (("demo", *SERVER), "--port"),
        (("demo", *SERVER), "--livekit-port"),
    ],
)
def test_a_port_that_is_taken(words: tuple[str, ...], flag: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as occupied:
        taken = str(occupied.getsockname()[1])
        ports = ["--livekit-port", str(free_port())] if words[0] == "demo" else []
        line = refused(*words, *ports, flag, taken)
    assert taken in line and flag in line
