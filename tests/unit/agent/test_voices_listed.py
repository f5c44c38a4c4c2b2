"""`GET /v1/voices`: the names that a session may choose, and which it has if it chooses none."""

from __future__ import annotations

import pytest

from agent.manager import SessionManager
from model import SessionSpec
from tests.fakes.engine import FakeEngine
from tests.fakes.server import serving

pytestmark = pytest.mark.unit
DUPLEX = "/v1/realtime?duplex=1&model=m&autostart=0"


@pytest.mark.parametrize("default", ["NATF2.pt", "NATM1.pt"])
async def test_the_voices_and_the_default_one_are_listed(default: str) -> None:  # contract: B1
    engine = FakeEngine()
    manager = SessionManager(engine, default_spec=SessionSpec(default, "Be kind."))
    async with serving(engine, manager=manager) as server:
        async with server.http.get(server.url + "/v1/voices") as response:
            assert (response.status, response.content_type) == (200, "application/json")
            body = await response.json()
        assert body == {
            "object": "list",
            "data": [
                {"id": "NATF2.pt", "object": "voice", "default": default == "NATF2.pt"},
                {"id": "NATM1.pt", "object": "voice", "default": default == "NATM1.pt"},
            ],
        }
        for wish in (None, "NATF2.pt", "NATM1.pt"):
            async with server.connect(DUPLEX) as client:
                await client.send("session.update", session={"voice": wish} if wish else {})
                session = (await client.until("session.updated"))["session"]
                assert session["voice"] == (wish or default)
                await client.send("session.close")
                await client.rest()
