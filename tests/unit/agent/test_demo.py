"""The command `demo`: a `livekit-server` that is none is one line, and what the one line says."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from agent import demo
from agent.command import CommandError
from agent.settings import Settings

pytestmark = pytest.mark.unit


def program(path: Path, mode: int) -> str:
    path.write_bytes(b"This is no program.")
    os.chmod(path, mode)
    return str(path)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_folder_is_no_server(tmp_path: Path) -> None:
    for wanted in (str(tmp_path), str(tmp_path / "none"), program(tmp_path / "plain", 0o644)):
        with pytest.raises(CommandError, match="which is no program"):
            demo.find_server(Settings(livekit_server_bin=wanted))


def test_a_file_that_does_not_run_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "LOG", tmp_path / "log")
    wanted = demo.find_server(Settings(livekit_server_bin=program(tmp_path / "junk", 0o755)))
    with pytest.raises(CommandError, match="cannot be run .*LIVEKIT_SERVER_BIN"):
        with demo.livekit_server(wanted, free_port(), "secret"):
            raise AssertionError("it ran")


@pytest.mark.parametrize(("keys", "asked"), [("", False), ("one,two", True)])
def test_the_key_is_announced_and_not_shown(
    keys: str, asked: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    demo.announce(Settings(api_keys=keys))
    printed = capfd.readouterr().out
    assert ("--api-keys" in printed) is asked
    assert "one" not in printed.replace("one of", "")
