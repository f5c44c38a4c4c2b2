"""Outages of the LiveKit server: one line when each begins and one when it is over."""

from __future__ import annotations

import logging

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from livekit import api

from agent.outages import HelplessServer, LostServer, NotLiveKit, check_server
from agent.settings import Settings

pytestmark = pytest.mark.unit
URL = "ws://livekit.example.com"
NO_REDIS = api.TwirpError("unknown", "dial tcp: connection refused", status=500)


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, logger="agent.outages")
    return caplog


async def look(*answers: Exception | None) -> None:
    left = list(answers)

    async def ask() -> None:
        if (error := left.pop(0)) is not None:
            raise error

    server = HelplessServer(URL, ask)
    for _ in answers:
        await server.look()


async def test_a_helpless_server_is_one_line_and_its_recovery_another(
    lines: pytest.LogCaptureFixture,
) -> None:
    await look(None, NO_REDIS, NO_REDIS, NO_REDIS, None, None, NO_REDIS)
    said = [(record.levelname, "cannot place" in record.message) for record in lines.records]
    assert said == [("WARNING", True), ("INFO", False), ("WARNING", True)]
    assert "connection refused" in lines.records[0].message and URL in lines.records[0].message


async def test_a_proxy_with_a_page_of_its_own_is_one_line(lines: pytest.LogCaptureFixture) -> None:
    await look(None, NotLiveKit(), NotLiveKit(), None)
    assert [record.levelname for record in lines.records] == ["WARNING", "INFO"]
    assert "no LiveKit server" in lines.records[0].message


@pytest.mark.parametrize("status", [200, 404, 502])
async def test_whoever_answers_with_a_page_is_no_livekit_server(status: int) -> None:
    async def page(request: web.Request) -> web.Response:
        return web.Response(
            text="<html><body>Welcome</body></html>", content_type="text/html", status=status
        )

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", page)
    secret = "a-secret-for-tests-only-0123456789abcdef"
    async with TestServer(app) as server:
        url = f"ws://{server.host}:{server.port}"
        settings = Settings(livekit_url=url, livekit_api_key="key", livekit_api_secret=secret)
        problem = await check_server(settings)
    assert problem is not None and "\n" not in problem
    assert f"no LiveKit server at {url}" in problem and "LIVEKIT_URL" in problem


@pytest.mark.parametrize("away", [aiohttp.ClientError(), ConnectionResetError(), TimeoutError()])
async def test_a_server_that_is_away_altogether_is_no_news_of_this_kind(
    lines: pytest.LogCaptureFixture, away: Exception
) -> None:
    await look(away, NO_REDIS, away, NO_REDIS, away, None)
    assert len(lines.records) == 2


def test_a_lost_server_is_one_line_however_often_it_is_tried(
    lines: pytest.LogCaptureFixture,
) -> None:
    lost = LostServer(URL)
    attempt = logging.makeLogRecord({"msg": "failed to connect to livekit, retrying in %ds"})
    other = logging.makeLogRecord({"msg": "something else"})
    assert [lost.filter(attempt) for _ in range(3)] == [False] * 3
    assert lost.filter(other)
    lost.over()
    assert not lost.filter(attempt)
    assert [record.levelname for record in lines.records] == ["WARNING", "WARNING"]
