"""A client that takes nothing: how much may wait for it, and when it is cut."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace

import pytest

from agent.manager import SessionManager
from agent.realtime.config import Limits
from agent.realtime.outbox import MAX_AUDIO_FRAMES, Outbox
from agent.realtime.websocket import RealtimeSocket
from agent.session import Session
from tests.fakes.engine import FakeEngine
from tests.fakes.server import PATIENCE_S, silence
from tests.fakes.waiting import until
from tests.unit.agent.realtime.deaf import Deaf, Watched

pytestmark = pytest.mark.unit


async def put_down(outbox: Outbox) -> None:
    outbox.task.cancel()
    await asyncio.wait([outbox.task])


async def emitted(session: Session, frames: int) -> None:
    await until(lambda: session.counters.emitted == frames)


async def test_64_frames_may_wait_and_one_more_may_not() -> None:  # contract: J4
    assert MAX_AUDIO_FRAMES == 64
    cuts: list[bool] = []
    outbox = Outbox(Deaf(), lambda: cuts.append(True))  # type: ignore[arg-type]
    for _ in range(64):
        outbox.put("sound", audio=True)
        outbox.put("words")
        await asyncio.sleep(0)
    assert not cuts, "words do not count"
    outbox.put("sound", audio=True)
    assert len(cuts) == 1
    for _ in range(70):
        outbox.put("sound", audio=True)
    assert len(cuts) == 1, "once"
    await put_down(outbox)


async def test_what_was_read_does_not_wait_any_more() -> None:  # contract: J4
    cuts: list[bool] = []
    socket = Deaf()
    outbox = Outbox(socket, lambda: cuts.append(True))  # type: ignore[arg-type]
    for _ in range(50):
        outbox.put("sound", audio=True)
    socket.read.set()
    await until(lambda: len(socket.sent) == 50)
    socket.read.clear()
    for _ in range(64):
        outbox.put("sound", audio=True)
        await asyncio.sleep(0)
    assert not cuts
    outbox.put("sound", audio=True)
    assert len(cuts) == 1
    await put_down(outbox)


async def test_a_session_is_cut_at_its_65th_waiting_frame() -> None:  # contract: J4
    engine = FakeEngine()
    manager, socket = SessionManager(engine), Deaf()
    limits = Limits(engine.voices, manager.default_spec)
    served = RealtimeSocket(Watched(socket), manager, limits, None)  # type: ignore[arg-type]
    request = SimpleNamespace(path="/v1/duplex", query={"model": "m"})
    serving = asyncio.create_task(served.serve(request))  # type: ignore[arg-type]
    await until(lambda: bool(manager.sessions))
    session = manager.sessions[0]
    for number in range(1, 65):
        session.append(silence())
        await emitted(session, number)
    assert session.state == "open"
    session.append(silence())
    await until(lambda: session.state == "closed")
    assert session.counters.emitted == 65 and manager.used == 0
    socket.read.set()
    await asyncio.wait_for(serving, PATIENCE_S)
    last = json.loads(socket.sent[-1])
    assert last["type"] == "error" and last["error"]["code"] == "output_backpressure"
    assert socket.close_code == 1008
    assert not [text for text in socket.sent if "audio.delta" in str(text)], "none is sent so late"
