"""Requests for a websocket that are none: refused as JSON, and no session is opened."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from agent.http import HttpOptions
from tests.fakes.engine import FakeEngine
from tests.fakes.server import PATIENCE_S, Server, serving

pytestmark = pytest.mark.unit

PATHS = ["/v1/realtime?model=m", "/v1/duplex?model=m", "/api/chat"]
KEY = b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="
UPGRADE = [b"Host: localhost", b"Connection: Upgrade", b"Upgrade: websocket"]
UPGRADE.append(b"Sec-WebSocket-Version: 13")
BEARER, PROTOCOL = b"Authorization: Bearer ", b"Sec-WebSocket-Protocol: openai-insecure-api-key."
KEYS = [b"\xff\xfe", "kéy".encode(), b"", b"x" * 7_000]


async def answer(
    server: Server, method: str, path: str, *headers: bytes
) -> tuple[int, dict[str, Any] | None]:
    """The status of a raw request with the headers of an upgrade, and its error."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    first = f"{method} {path} HTTP/1.1".encode()
    writer.write(b"\r\n".join([first, *UPGRADE, b"Connection: close", *headers, b"", b""]))
    async with asyncio.timeout(PATIENCE_S):
        head = await reader.readuntil(b"\r\n\r\n")
        body = b"" if head.startswith(b"HTTP/1.1 101") else await reader.read()
    writer.close()
    return int(head.split()[1]), json.loads(body)["error"] if body else None


@pytest.mark.parametrize("path", [*PATHS, "/v1/models"])
async def test_a_key_of_whatever_bytes_is_a_wrong_key(path: str) -> None:
    queries = ["%ff", "%F0%9F%98%80", "%ED%A0%80", "%00", "", "x" * 7_000]
    sent = [(path, name + key) for name in (BEARER, PROTOCOL) for key in KEYS]
    sent += [(path + ("&" if "?" in path else "?") + "api_key=" + key, KEY) for key in queries]
    async with serving(FakeEngine(), HttpOptions(api_keys=("good",))) as server:
        for asked, header in sent:
            status, error = await answer(server, "GET", asked, KEY, header)
            assert status == 401 and error is not None, (asked[:60], header[:60])
            assert error["code"] == "invalid_api_key"
        assert server.manager.used == 0


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("key", [b"\xff\xfe", "kéy".encode(), b"", b"x", b"x" * 7_000])
async def test_a_websocket_key_that_is_none_is_a_bad_request(key: bytes, path: str) -> None:
    async with serving(FakeEngine()) as server:
        status, error = await answer(server, "GET", path, b"Sec-WebSocket-Key: " + key)
        assert status == 400 and error is not None
        assert (error["code"], error["type"]) == (None, "invalid_request_error")
        assert server.manager.used == 0


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", ["HEAD", "POST", "PUT"])
async def test_only_get_is_upgraded(method: str, path: str) -> None:
    async with serving(FakeEngine()) as server:
        assert (await answer(server, method, path, KEY))[0] == 405
        assert server.manager.used == 0
