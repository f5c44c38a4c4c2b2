"""Sessions that end in the middle of a call of their own: nothing goes on, nothing counts twice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agent.manager import SessionManager
from agent.policy import STOCK
from agent.sink import ResponseEnd
from model import EngineFault, InvalidVoice
from tests.fakes.clock import run
from tests.fakes.engine import FakeEngine, talkative
from tests.fakes.sink import ListSink
from tests.unit.agent.session.calls import frames, opened, speaking

pytestmark = pytest.mark.unit


def refuses(error: Exception) -> Any:
    def call(*_: object) -> None:
        raise error

    return call


@pytest.mark.parametrize("how", ["append", "create"])
def test_a_binding_that_fails_takes_no_input(how: str) -> None:  # contract: J2
    async def scene() -> None:
        session, sink = opened(speaking())
        session._engine.bind = refuses(InvalidVoice("no such voice"))  # type: ignore[method-assign]
        if how == "append":
            session.append(frames(3))
        else:
            session.create_response()
        await asyncio.sleep(120)
        assert sink.names[-1] == "closed" and sink.all("error")[0].code == "invalid_voice"
        assert session.counters.accepted == 0, "no clock goes on, no frame is taken"

    run(scene())


def test_silence_that_the_engine_refuses_is_the_last() -> None:  # contract: G1 J2
    async def scene() -> None:
        session, sink = opened(speaking())
        session.append(frames(1))
        session.commit()
        await asyncio.sleep(1)
        session._engine.submit = refuses(EngineFault("gone"))  # type: ignore[method-assign]
        await asyncio.sleep(120)
        assert sink.all("closed") == [("engine_fault", False)]
        count = session.counters
        assert count.accepted == count.stepped + count.dropped_close

    run(scene())


def test_a_client_found_gone_while_its_session_closes() -> None:  # contract: D3 J2
    class Gone(ListSink):
        def response_done(self, end: ResponseEnd) -> None:
            super().response_done(end)
            session.close("disconnect")

    async def scene() -> None:
        nonlocal session
        engine, sink = FakeEngine(script=talkative), Gone()
        closes: list[object] = []
        close = engine.close
        engine.close = lambda handle: (closes.append(handle), close(handle))[1]  # type: ignore
        session = SessionManager(engine).open(STOCK, sink)
        session.append(frames(5))
        await asyncio.sleep(1)
        session.close("client_close")
        await session.wait_closed()
        assert sink.all("closed") == [("client_close", False)]
        assert len(closes) == 1 and len(sink.all("done")) == 1

    session: Any = None
    run(scene())
