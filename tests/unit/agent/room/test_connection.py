"""`POST /api/connection-details`: whatever the body is, the answer is a token or a reason."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer

from agent.connection import connection_routes
from agent.dispatch import Defaults
from agent.http_errors import RETRY_AFTER_S
from agent.settings import Settings
from model import SessionSpec

pytestmark = pytest.mark.unit
DEFAULTS = Defaults(SessionSpec(voice="A.pt", persona="be kind"), ("A.pt",))
SETTINGS = Settings(livekit_url="ws://livekit", livekit_api_key="k", livekit_api_secret="s" * 32)


async def answered(body: bytes, content_type: str) -> tuple[int, dict[str, Any], str | None]:
    """Status, the details or the error object, and when to come back.

    There is no agent for the room `full`.
    """
    app = web.Application()
    app.add_routes(connection_routes(SETTINGS, DEFAULTS, lambda room: room != "full"))
    async with TestServer(app) as server, ClientSession() as http:
        url = server.make_url("/api/connection-details")
        async with http.post(url, data=body, headers={"Content-Type": content_type}) as response:
            answer = await response.json()
            later = response.headers.get("Retry-After")
            return response.status, answer.get("error", answer), later


async def posted(body: bytes, content_type: str = "application/json") -> tuple[int, dict[str, Any]]:
    """Status, and the details or the error object, where coming back later is no help."""
    status, answer, later = await answered(body, content_type)
    assert later is None
    return status, answer


@pytest.mark.parametrize("body", [b"", b" \n", b"{}", b'{"participantName": "Ada"}'])
async def test_a_room_of_ones_own(body: bytes) -> None:
    status, details = await posted(body, "text/plain; charset=no-such-charset")
    assert status == 200
    assert details["serverUrl"] == "ws://livekit" and details["participantToken"]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"junk", "invalid_json"),
        (b"\xff\xfe\x00", "invalid_json"),
        (b"[" * 10_000, "invalid_json"),
        (b"[" * 100_000, "event_too_large"),
        (b'{"roomName": ' + b"[" * 70 + b"]" * 70 + b"}", "invalid_json"),
        (b"[]", "invalid_json"),
        (b'{"persona": "\\ud800"}', "invalid_session_config"),
        (b'{"participantName": "\\ud800"}', "bad_event"),
        (b'{"roomName": "a b"}', "bad_event"),
        (b'{"voic": "KAL0.pt"}', "bad_event"),
    ],
)
async def test_junk_is_refused_with_a_reason(body: bytes, code: str) -> None:
    status, error = await posted(body)
    assert (status, error["code"]) == (400, code)


async def test_where_every_agent_is_busy_it_says_when_to_come_back() -> None:  # contract: A1
    status, error, later = await answered(b'{"roomName": "full"}', "application/json")
    assert (status, error["code"]) == (503, "resource_exhausted")
    assert error["retryable"] is True and later == str(RETRY_AFTER_S) == "5"
    assert (await posted(b'{"roomName": "another"}'))[0] == 200
