"""What the server says that it can do: value by value, everywhere the same, and as it behaves."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agent.driver.acceptance import DATA_PLANE, REQUIRED_CAPABILITIES
from agent.policy import DUPLEX, STOCK
from agent.realtime.projection import VLLM_OMNI
from agent.realtime.session_object import IDLE_TIMEOUT_S
from model import FRAME_SAMPLES, SAMPLE_RATE
from tests.fakes import realtime_server
from tests.fakes.engine import FakeEngine, quiet
from tests.fakes.server import serving, silence
from tests.unit.agent.capability_values import OF_A_SESSION, OF_ONE_SLOT, OF_THE_SERVER

pytestmark = pytest.mark.unit

DOCS = Path(__file__).parents[3] / "docs" / "realtime.md"
PATHS = {"duplex": "/v1/realtime?duplex=1&model=m", "stock": "/v1/realtime?model=m"}


@pytest.mark.parametrize("slots", [1, 2])
async def test_every_value_on_the_wire(slots: int) -> None:  # contract: A1 A7 D4 F2
    expected = OF_A_SESSION | (OF_ONE_SLOT if slots == 1 else {})
    async with serving(FakeEngine(max_sessions=slots)) as server:
        async with server.http.get(server.url + "/v1/capabilities") as response:
            body = await response.json()
        assert body == {**expected, **OF_THE_SERVER, "max_sessions": slots}
        for mood, path in PATHS.items():
            async with server.connect(path) as client:
                created = (await client.until("session.created"))["session"]
                assert created["capabilities"] == {**expected, "mood": mood}
                await client.send("session.close")
                await client.rest()


async def test_there_are_no_chat_completions() -> None:  # contract: D4
    async with serving(FakeEngine()) as server:
        async with server.http.post(server.url + "/v1/chat/completions") as response:
            assert response.status == 404


def test_values_agree_with_the_constants_behind_them() -> None:  # contract: A6 D4
    assert OF_A_SESSION["chunk_period_ms"] * SAMPLE_RATE == FRAME_SAMPLES * 1000
    assert {DUPLEX.idle_s, STOCK.idle_s} == {IDLE_TIMEOUT_S}, "what the lease is"
    assert OF_A_SESSION["adapter_patterns"] == [VLLM_OMNI["runtime_impl"]]
    assert OF_A_SESSION["stage_handoff_transport"] == VLLM_OMNI["runtime_impl"]


def test_values_are_those_that_the_driver_demands() -> None:  # contract: D4 K0
    assert REQUIRED_CAPABILITIES.items() <= OF_A_SESSION.items()
    assert DATA_PLANE.items() <= VLLM_OMNI.items()
    assert dict(REQUIRED_CAPABILITIES) == realtime_server.CAPABILITIES


def test_the_documentation_says_what_each_means() -> None:  # contract: D4
    text = DOCS.read_text(encoding="utf-8")
    _, _, rest = text.partition("## What the capabilities mean here")
    table, _, _ = rest.partition("\n## ")
    both = "`supports_multi_session(_same_replica)`"
    keys = {*OF_A_SESSION, "mood"} - OF_ONE_SLOT.keys()
    assert both in table and {key for key in keys if f"`{key}`" not in table} == set()


@pytest.mark.parametrize(
    ("key", "event", "code"),
    [
        ("supports_barge_in", {"type": "barge_in"}, "barge_in_unsupported"),
        (
            "supports_text_only_turn",
            {"type": "input.text.append", "text": "hello"},
            "native_text_append_unsupported",
        ),
        ("supports_session_resume", {"type": "session.resume"}, "unsupported_session_resume"),
    ],
)
async def test_what_is_not_supported_is_refused(
    key: str, event: dict[str, Any], code: str
) -> None:  # contract: D4
    assert OF_A_SESSION[key] is False
    async with serving(FakeEngine()) as server, server.connect(PATHS["stock"]) as client:
        await client.until("session.updated")
        await client.socket.send_json(event)
        assert (await client.until("error"))["error"]["code"] == code
        await client.send("session.heartbeat")
        await client.until("session.heartbeat_ack")


async def test_two_turns_at_once_are_refused() -> None:  # contract: D4 F4
    assert OF_A_SESSION["supports_concurrent_turn_requests"] is False
    async with serving(FakeEngine(script=quiet)) as server:
        async with server.connect(PATHS["stock"]) as client:
            await client.until("session.updated")
            await client.send("response.create")
            await client.until("response.created")
            await client.send("response.create")
            code = (await client.until("error"))["error"]["code"]
            assert code == "response_already_active"


async def test_a_commit_does_not_make_the_model_answer() -> None:  # contract: D4 F5
    assert OF_A_SESSION["supports_client_commit"] is False
    async with serving(FakeEngine(script=quiet)) as server:
        async with server.connect(PATHS["stock"]) as client:
            await client.until("session.updated")
            await client.append(silence(5))
            await client.send("input_audio_buffer.commit")
            await client.until("input_audio_buffer.committed")
            session = server.manager.sessions[0]
            for _ in range(1000):
                if session.counters.stepped >= 10:
                    break
                await asyncio.sleep(0.02)
            assert session.counters.stepped >= 10, "it and the silence after it was heard"
            await client.send("session.heartbeat")
            await client.until("session.heartbeat_ack")
            assert not client.all("response.created") and not session.responding
