"""The command `sip`: what cannot work is said before any server is asked."""

from __future__ import annotations

import pytest

from agent.__main__ import BAD_INPUT, main

pytestmark = pytest.mark.unit
SETUP = ["setup", "--number", "+12025550100"]


@pytest.fixture(autouse=True)
def address(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that no resolver knows: a request would end in another line than those below."""
    monkeypatch.setenv("LIVEKIT_URL", "ws://livekit.invalid")
    monkeypatch.setenv("LIVEKIT_API_KEY", "key")
    monkeypatch.setenv("LIVEKIT_API_SECRET", "secret")


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ([*SETUP, "--metadata", "{bad"], "--metadata: the dispatch metadata is no JSON"),
        ([*SETUP, "--metadata", "[1]"], "no JSON object"),
        ([*SETUP, "--metadata", '{"voise": "A.pt"}'], "unknown key 'voise'; there are voice"),
        ([*SETUP, "--metadata", '{"persona": 3}'], "'persona' is 3"),
        (["list", "--url", "nonsense"], "'nonsense'; it must begin with ws://"),
        (["list", "--url", "ws://"], "it must be like wss://"),
        (["remove", "--url", "ws://[bad"], "it must be like wss://"),
    ],
)
def test_bad_input_is_one_line(
    words: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sip", *words]) == BAD_INPUT
    printed = capsys.readouterr().err
    assert named in printed
    assert len(printed.splitlines()) == 1
