"""The command `sip`: what cannot work is said before any server is asked."""

from __future__ import annotations

from argparse import Namespace

import pytest

from agent.__main__ import BAD_INPUT, main
from agent.settings import Settings
from agent.sip import plan_of

pytestmark = pytest.mark.unit
SETUP = ["setup", "--number", "+12025550100"]
ALLOWED = "--allowed-addresses"


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
        ([*SETUP, ALLOWED, "999.1.1.1/99"], "--allowed-addresses: '999.1.1.1/99' does not"),
        ([*SETUP, ALLOWED, "192.0.2.7, 198.51.100.7/33"], "'198.51.100.7/33'"),
        ([*SETUP, ALLOWED, "example.com"], "'example.com'"),
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


def test_networks_are_told_by_the_length_of_their_prefix() -> None:
    listed = "192.0.2.7, 198.51.100.7/24,2001:db8::/32, 203.0.113.0/255.255.255.0"
    args = Namespace(
        number=["+12025550100"], metadata="", room_prefix="call-", allowed_addresses=listed
    )
    told = ("192.0.2.7", "198.51.100.0/24", "2001:db8::/32", "203.0.113.0/24")
    assert plan_of(args, Settings()).allowed_addresses == told
