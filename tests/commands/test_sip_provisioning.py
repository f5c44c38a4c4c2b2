"""Telephone numbers are provisioned on a real LiveKit server with a real Redis, idempotently."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from livekit import api
from livekit.protocol.sip import (
    ListSIPDispatchRuleRequest,
    ListSIPInboundTrunkRequest,
    SIPDispatchRuleInfo,
    SIPInboundTrunkInfo,
)

from agent.__main__ import main
from tests.e2e.processes import API_KEY, API_SECRET, LiveKitServer, RedisServer

pytestmark = pytest.mark.e2e

NUMBER = "+12025550100"


def address(server: LiveKitServer, environment: pytest.MonkeyPatch) -> None:
    environment.setenv("LIVEKIT_URL", server.url)
    environment.setenv("LIVEKIT_API_KEY", API_KEY)
    environment.setenv("LIVEKIT_API_SECRET", API_SECRET)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LiveKitServer]:
    redis = RedisServer(tmp_path)
    redis.start()
    livekit = LiveKitServer(tmp_path, redis=redis.address)
    livekit.start()
    address(livekit, monkeypatch)
    yield livekit
    livekit.kill()
    redis.kill()


def listed(capsys: pytest.CaptureFixture[str]) -> list[str]:
    capsys.readouterr()
    assert main(["sip", "list"]) == 0
    return capsys.readouterr().out.splitlines()


def stored(server: LiveKitServer) -> tuple[list[SIPInboundTrunkInfo], list[SIPDispatchRuleInfo]]:
    """Every trunk and rule that the server itself has, of any name."""

    async def ask() -> tuple[list[SIPInboundTrunkInfo], list[SIPDispatchRuleInfo]]:
        async with api.LiveKitAPI(server.url, API_KEY, API_SECRET) as livekit:
            trunks = await livekit.sip.list_inbound_trunk(ListSIPInboundTrunkRequest())
            rules = await livekit.sip.list_dispatch_rule(ListSIPDispatchRuleRequest())
            return list(trunks.items), list(rules.items)

    return asyncio.run(ask())


def test_twice_gives_one_trunk_and_one_rule(  # contract: H7
    server: LiveKitServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sip", "setup", "--number", NUMBER]) == 0
    first = listed(capsys)
    (trunk,), (rule,) = stored(server)
    assert main(["sip", "setup", "--number", NUMBER]) == 0
    assert listed(capsys) == first
    (same_trunk,), (same_rule,) = stored(server)
    assert same_trunk.sip_trunk_id == trunk.sip_trunk_id
    assert same_rule.sip_dispatch_rule_id == rule.sip_dispatch_rule_id
    assert list(same_trunk.numbers) == [NUMBER]
    assert list(same_rule.trunk_ids) == [trunk.sip_trunk_id]
    assert [line.split()[0] for line in first] == ["trunk", "rule"]
    assert NUMBER in first[0] and "any address" in first[0]
    assert "agent personaplex" in first[1]


def test_setup_again_changes_what_differs(
    server: LiveKitServer, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["sip", "setup", "--number", NUMBER])
    identities = [line.split(":")[0] for line in listed(capsys)]
    narrowed = ["--allowed-addresses", "192.0.2.0/24, 198.51.100.7"]
    assert main(["sip", "setup", "--number", "+12025550101", *narrowed]) == 0
    changed = listed(capsys)
    assert [line.split(":")[0] for line in changed] == identities
    assert "+12025550101 from 192.0.2.0/24, 198.51.100.7" in changed[0]


def test_remove_leaves_nothing_and_touches_nobody_else(
    server: LiveKitServer, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["sip", "setup", "--number", "+12025550102", "--agent-name", "other"])
    main(["sip", "setup", "--number", NUMBER])
    assert main(["sip", "remove"]) == 0
    assert listed(capsys) == ["nothing is provisioned for the agent personaplex"]
    assert main(["sip", "list", "--agent-name", "other"]) == 0
    assert "+12025550102" in capsys.readouterr().out
    (trunk,), (rule,) = stored(server)
    assert (trunk.name, rule.name) == ("other", "other")
    assert list(trunk.numbers) == ["+12025550102"]
    assert list(rule.trunk_ids) == [trunk.sip_trunk_id]
    assert main(["sip", "remove", "--agent-name", "other"]) == 0
    assert stored(server) == ([], [])


def test_bad_input_is_one_clear_line(
    server: LiveKitServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sip", "setup", "--number", "555"]) == 2
    assert main(["sip", "list", "--api-secret", "x" * 40]) == 2
    assert main(["sip", "list", "--url", "ws://127.0.0.1:1"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(" ")[0] for line in lines] == ["error:"] * 3
    assert "E.164" in lines[0] and "secret" in lines[1] and "cannot reach" in lines[2]


def test_a_server_without_redis_says_so(
    livekit: LiveKitServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    address(livekit, monkeypatch)
    assert main(["sip", "list"]) == 2
    assert "Redis" in capsys.readouterr().err
