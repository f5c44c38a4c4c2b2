"""Errors of HTTP over a real socket: JSON for the API, plain for the page, one line in the log."""

from __future__ import annotations

import asyncio
import logging
import zlib
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.compression_utils import ZLibDecompressor

from agent import http_errors
from agent.http import MAX_BODY_BYTES
from tests.fakes.engine import FakeEngine
from tests.fakes.server import PATIENCE_S, Server, serving

pytestmark = pytest.mark.unit

SECRETS = "/v1/realtime/client_secrets"
CALLS = "/v1/realtime/calls"
SDP = {"Content-Type": "application/sdp"}
FORM_TYPE = "multipart/form-data; boundary=x"
FORM = {"Content-Type": FORM_TYPE}
LARGE = b"x" * (MAX_BODY_BYTES + 1)
SHAPE = {"type", "code", "message", "param", "event_id"}


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """A built page of two files."""
    (tmp_path / "index.html").write_text("the page")
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "app.js").write_text("the script")
    return tmp_path


async def refused(
    server: Server, status: int, code: str | None, method: str, path: str, **request: Any
) -> web.Response:
    """The response, of which the status, the code and the shape of the body are checked."""
    async with server.http.request(method, server.url + path, **request) as response:
        assert (response.status, response.content_type) == (status, "application/json")
        error = (await response.json())["error"]
        assert SHAPE <= error.keys()
        assert (error["code"], error["type"]) == (code, "invalid_request_error")
        assert error["message"]
        return response  # type: ignore[return-value]


@pytest.mark.parametrize("path", ["/v1/nothing", "/v1/chat/completions", "/api/x", "/v1/models/x"])
async def test_a_path_of_the_api_that_there_is_not(path: str, page: Path) -> None:  # contract: D4
    async with serving(FakeEngine(), static=page) as server:
        await refused(server, 404, None, "GET", path)


@pytest.mark.parametrize("path", ["/v1/models", "/metrics", "/health", "/ready"])
async def test_a_method_that_a_path_does_not_take(path: str, page: Path) -> None:
    async with serving(FakeEngine(), static=page) as server:
        response = await refused(server, 405, None, "POST", path)
        assert response.headers["Allow"] == "GET,HEAD"


@pytest.mark.parametrize("path", ["/v1/realtime", "/v1/duplex", "/api/chat"])
async def test_a_socket_that_is_asked_for_without_an_upgrade(path: str) -> None:
    async with serving(FakeEngine()) as server:
        await refused(server, 400, None, "GET", path)


@pytest.mark.parametrize(("path", "headers"), [(SECRETS, {}), (CALLS, SDP)])
async def test_a_body_that_is_too_large(path: str, headers: dict[str, str]) -> None:
    async with serving(FakeEngine()) as server:
        too_large = "event_too_large"
        await refused(server, 413, too_large, "POST", path, data=LARGE, headers=headers)


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("POST", SECRETS, {}),
        ("POST", CALLS, SDP),
        ("POST", CALLS, FORM),
        ("POST", "/v1/models", {}),
    ],
)
@pytest.mark.parametrize("body", [b"nonsense", zlib.compress(bytes(50_000_000))])
async def test_a_compressed_body_is_refused_and_never_unpacked(
    method: str,
    path: str,
    headers: dict[str, str],
    body: bytes,
    encoding: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It would be unpacked before any key is looked at."""
    caplog.set_level(logging.INFO, "agent")
    headers = {**headers, "Content-Encoding": encoding}
    monkeypatch.setattr(ZLibDecompressor, "decompress_sync", unpacked)
    async with serving(FakeEngine()) as server:
        await refused(server, 415, "bad_event", method, path, data=body, headers=headers)
        async with server.http.get(server.url + "/health") as response:
            assert response.status == 200
    assert not [record for record in caplog.records if record.name != "aiohttp.access"]


def unpacked(*_: object, **__: object) -> bytes:
    raise AssertionError("the body was unpacked")


@pytest.mark.parametrize(
    "request_line", [b"GET / \r\n", b"GET /\xff HTTP/1.1\r\n", b"GET /?api_key=one HTTP/x\r\n"]
)
async def test_what_is_no_http_is_one_line_without_its_words(
    request_line: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "agent")
    async with serving(FakeEngine()) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(request_line + b"Host: localhost\r\n\r\n")
        async with asyncio.timeout(PATIENCE_S):
            assert (await reader.read()).startswith(b"HTTP/1.0 400 ")
        writer.close()
    assert one_line(caplog).startswith("a request could not be read: ")
    assert "api_key" not in caplog.text


@pytest.mark.parametrize("rest", [b"", b"5\r\nab", b"zz\r\nfoo"])
@pytest.mark.parametrize(
    ("path", "kind"), [(SECRETS, "x/y"), (CALLS, "application/sdp"), (CALLS, FORM_TYPE)]
)
async def test_a_body_that_breaks_off_is_given_up(
    rest: bytes,
    path: str,
    kind: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(http_errors, "BODY_S", 0.2)
    async with serving(FakeEngine()) as server:
        reader, writer = await begun(server, path, kind)
        writer.write(rest)
        async with asyncio.timeout(PATIENCE_S):
            answer = await reader.read()
        writer.close()
    assert answer.startswith(b"HTTP/1.1 400 ") and b'"bad_event"' in answer
    assert "Traceback" not in caplog.text


async def test_who_leaves_in_the_middle_of_a_body_is_no_mistake_of_ours(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving(FakeEngine()) as server:
        _, writer = await begun(server, SECRETS, "x/y")
        writer.transport.abort()
        async with server.http.get(server.url + "/health"):
            await asyncio.sleep(0)
    assert "Traceback" not in caplog.text and "broke" not in caplog.text


async def begun(
    server: Server, path: str, kind: str
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A chunked request of which the first chunk has arrived."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n"
    writer.write(head.encode() + b"Transfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n")
    await writer.drain()
    async with server.http.get(server.url + "/health") as response:
        assert response.status == 200
    return reader, writer


def one_line(caplog: pytest.LogCaptureFixture) -> str:
    """What the server said, apart from the log of requests."""
    records = [record for record in caplog.records if record.name != "aiohttp.access"]
    assert len(records) == 1, caplog.text
    assert records[0].exc_info is None and "\n" not in records[0].getMessage()
    return records[0].getMessage()


@pytest.mark.parametrize("mistake", [ZeroDivisionError, ConnectionResetError])
async def test_a_mistake_of_ours_is_said_and_logged(
    mistake: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(request: web.Request) -> web.Response:
        raise mistake

    async with serving(FakeEngine(), routes=[web.get("/api/broken", broken)]) as server:
        async with server.http.get(server.url + "/api/broken") as response:
            error = (await response.json())["error"]
    assert (response.status, error["code"], error["type"]) == (
        500,
        "internal_error",
        "server_error",
    )
    assert mistake.__name__ in caplog.text


async def test_a_mistake_after_the_first_bytes_ends_the_connection() -> None:
    """No second answer is written into the first."""

    async def broken(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        response.content_length = 100
        await response.prepare(request)
        await response.write(b"first")
        raise ZeroDivisionError

    async with serving(FakeEngine(), routes=[web.get("/api/broken", broken)]) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET /api/broken HTTP/1.1\r\nHost: localhost\r\n\r\n")
        async with asyncio.timeout(PATIENCE_S):
            answer = await reader.read()
        writer.close()
    assert answer.count(b"HTTP/1.1") == 1 and answer.endswith(b"first")


LONG = ["a" * 5000, "a/" * 2500, "v1/" + "a" * 5000, "assets/" + "a" * 5000]


@pytest.mark.parametrize("path", [*LONG, "no.js", "assets", "%00", "index.html/x", "..%2fsecret"])
async def test_a_page_that_there_is_not(
    path: str, page: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (page.parent / "secret").write_text("not for the world")
    async with serving(FakeEngine(), static=page) as server:
        async with server.http.get(f"{server.url}/{path}") as response:
            api = path.startswith("v1/")
            kind = "application/json" if api else "text/plain"
            assert (response.status, response.content_type) == (404, kind)
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize(
    ("path", "text"),
    [("/", "the page"), ("/index.html", "the page"), ("/assets/app.js", "the script")],
)
async def test_the_files_of_the_page_are_served(path: str, text: str, page: Path) -> None:
    async with serving(FakeEngine(), static=page) as server:
        async with server.http.get(server.url + path) as response:
            assert (response.status, await response.text()) == (200, text)
        async with server.http.head(server.url + path) as response:
            assert response.status == 200
