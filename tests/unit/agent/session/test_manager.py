"""Admission, slots that come back, warm-up and drain."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from agent.errors import Refused
from agent.manager import SessionManager
from agent.policy import DUPLEX, ROOM, STOCK
from model import FRAME_SAMPLES, SessionSpec
from tests.fakes.clock import run
from tests.fakes.engine import FakeEngine
from tests.fakes.sink import ListSink

pytestmark = pytest.mark.unit

FRAME = np.zeros(FRAME_SAMPLES, np.float32)


def test_every_kind_fills_the_same_slots() -> None:  # contract: A1
    async def scene() -> None:
        manager = SessionManager(FakeEngine(max_sessions=2))
        manager.open(ROOM, ListSink())
        manager.open(STOCK, ListSink())
        assert manager.load == 1.0
        for policy in (ROOM, STOCK, DUPLEX):
            with pytest.raises(Refused) as refused:
                manager.open(policy, ListSink())
            payload = refused.value.payload()
            assert payload["code"] == "resource_exhausted"
            assert (payload["current"], payload["maximum"]) == (2, 2)
            assert payload["retryable"] is True

    run(scene())


def test_a_failed_cleanup_keeps_the_slot_and_gives_it_back_once() -> None:  # contract: A3
    async def scene() -> None:
        engine = FakeEngine(max_sessions=1, cleanup_failures=2)
        manager = SessionManager(engine)
        sink = ListSink()
        session = manager.open(DUPLEX, sink)
        session.close("client_close")
        await asyncio.sleep(1)
        with pytest.raises(Refused):
            manager.open(DUPLEX, ListSink())
        await session.wait_closed()
        assert sink.all("closed") == [("client_close", False)], "after 5 s, slot or not"
        assert manager.used == 1
        await asyncio.sleep(10)
        assert (engine.cleanups, engine.releases, manager.used) == (3, 1, 0)
        manager.open(DUPLEX, ListSink())

    run(scene())


def test_one_spec_is_prepared_for_each_session() -> None:  # contract: B3
    async def scene() -> None:
        engine = FakeEngine()
        session = SessionManager(engine).open(DUPLEX, ListSink())
        first = session.configure(SessionSpec("NATM1.pt", "a"))
        session.configure(SessionSpec("NATM1.pt", "b"))
        await asyncio.sleep(0.1)
        assert first.cancelled()
        assert session.prefill_positions == engine.positions(SessionSpec("NATM1.pt", "b"))

    run(scene())


def test_what_cannot_be_prepared_is_said_and_forgotten() -> None:  # contract: B6
    async def scene() -> None:
        engine = FakeEngine()
        sink = ListSink()
        session = SessionManager(engine).open(STOCK, sink)
        session.configure(SessionSpec("NATM1.pt", "x" * 2000), "evt_9")
        await asyncio.sleep(0.1)
        error = sink.all("error")[0]
        assert (error.code, error.event_id) == ("prompt_too_long", "evt_9")
        assert error.extra == {"positions": 2050, "limit": 1500}
        assert session.spec == engine.default_spec
        session.append(FRAME)
        await asyncio.sleep(0.1)
        assert session.counters.stepped == 1

    run(scene())


@pytest.mark.parametrize("max_sessions", [1, 2])
def test_warm_up_leaves_its_slot_free(max_sessions: int) -> None:  # contract: J1
    async def scene() -> None:
        engine = FakeEngine(max_sessions=max_sessions)
        manager = SessionManager(engine)
        assert not manager.ready
        await manager.warmup(10)
        assert manager.ready and manager.used == 0
        assert len(engine.stepped) == 10

    run(scene())


def test_a_failing_warm_up_is_not_fatal() -> None:  # contract: J1
    async def scene() -> None:
        engine = FakeEngine(step_s=None)
        manager = SessionManager(engine)
        await manager.warmup(10)
        assert manager.ready and manager.used == 0

    run(scene())


def test_drain_lets_calls_end_and_takes_no_new_ones() -> None:  # contract: J3
    async def scene() -> None:
        manager = SessionManager(FakeEngine())
        await manager.warmup(1)
        sinks = [ListSink(), ListSink()]
        quick, slow = (manager.open(DUPLEX, sink) for sink in sinks)
        draining = asyncio.get_running_loop().create_task(manager.drain(20))
        await asyncio.sleep(1)
        assert not manager.ready
        with pytest.raises(Refused) as refused:
            manager.open(DUPLEX, ListSink())
        assert refused.value.code == "server_draining"
        quick.append(FRAME)
        slow.append(FRAME)
        await asyncio.sleep(1)
        assert [len(sink.frames) for sink in sinks] == [1, 1]
        quick.close("client_close")
        await draining
        assert sinks[1].all("closed") == [("drain", False)]
        assert asyncio.get_running_loop().time() == pytest.approx(20, abs=1)

    run(scene())


def test_drain_ends_with_the_last_call() -> None:  # contract: J3
    async def scene() -> None:
        manager = SessionManager(FakeEngine())
        session = manager.open(DUPLEX, ListSink())
        draining = asyncio.get_running_loop().create_task(manager.drain(600))
        await asyncio.sleep(3)
        session.close("client_close")
        await draining
        assert asyncio.get_running_loop().time() < 4

    run(scene())


def test_totals_outlive_their_sessions() -> None:
    async def scene() -> None:
        manager = SessionManager(FakeEngine())
        for _ in range(3):
            session = manager.open(DUPLEX, ListSink())
            session.append(FRAME)
            await asyncio.sleep(0.1)
            session.close("client_close")
            await session.wait_closed()
        assert manager.totals().stepped == 3
        assert manager.sessions == ()

    run(scene())
