"""What is wrong with a start is said before torch is imported, which takes seconds."""

from __future__ import annotations

import socket
import sys

import pytest

from tests.e2e.processes import free_port
from tests.refusals import refused

pytestmark = pytest.mark.unit
SET = ("--url", "ws://127.0.0.1:9", "--api-key", "key", "--api-secret", "secret")
SERVER = ("--livekit-server-bin", sys.executable)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("start",), "LIVEKIT_URL"),
        (("start", *SET, "--port", "0"), "--port"),
        (("start", *SET, "--model", "/no/such/model"), "/no/such/model"),
        (("demo", "--livekit-server-bin", "/no/such/program"), "LIVEKIT_SERVER_BIN"),
        (("demo", *SERVER, "--model", "/no/such/model"), "/no/such/model"),
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
