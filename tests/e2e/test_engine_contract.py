"""What sessions rely on, held by the scripted engine and by the real one alike."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest

from model import (
    FRAME_SAMPLES,
    Bound,
    Engine,
    EngineEvent,
    FrameResult,
    Handle,
    InputOverflow,
    InvalidVoice,
    PromptTooLong,
    Released,
    ResourceExhausted,
    SessionSpec,
    load_engine,
)
from tests.fakes.engine import FakeEngine

pytestmark = pytest.mark.e2e

ZEROS = np.zeros(FRAME_SAMPLES, np.float32)
PATIENCE_S = 60.0


class Call:
    """A call and what was delivered to it."""

    def __init__(self, engine: Engine, *, queue_frames: int = 25) -> None:
        loop = asyncio.get_running_loop()
        self.events: asyncio.Queue[EngineEvent] = asyncio.Queue()
        self.engine = engine

        def deliver(event: EngineEvent) -> None:
            loop.call_soon_threadsafe(self.events.put_nowait, event)

        self.handle: Handle = engine.open(deliver, queue_frames=queue_frames)

    async def next(self, kind: type[EngineEvent]) -> EngineEvent:
        async with asyncio.timeout(PATIENCE_S):
            event = await self.events.get()
        assert isinstance(event, kind), event
        return event

    def submit(self, epoch: int, *sequence: int) -> None:
        for seq in sequence:
            self.engine.submit(self.handle, epoch, seq, ZEROS)

    async def results(self, count: int) -> list[FrameResult]:
        return [await self.next(FrameResult) for _ in range(count)]  # type: ignore[misc]

    async def end(self) -> None:
        self.engine.close(self.handle)
        async with asyncio.timeout(PATIENCE_S):
            while not isinstance(await self.events.get(), Released):
                pass


@asynccontextmanager
async def engine_of(kind: str, checkpoint: Path) -> AsyncIterator[Engine]:
    if kind == "scripted":
        yield FakeEngine(max_sessions=2)
        return
    engine = await asyncio.to_thread(load_engine, str(checkpoint), max_sessions=2, device="cpu")
    try:
        yield engine
    finally:
        await asyncio.to_thread(engine.shutdown)


@pytest.mark.parametrize("kind", ["scripted", "real"])
async def test_the_life_of_a_call(kind: str, tiny_checkpoint: Path) -> None:  # contract: A2 C3 E1
    async with engine_of(kind, tiny_checkpoint) as engine:
        spec = engine.default_spec
        positions = await asyncio.wrap_future(engine.prepare(spec))
        first, second = Call(engine), Call(engine)
        with pytest.raises(ResourceExhausted) as full:
            Call(engine)
        assert (full.value.current, full.value.maximum) == (2, 2)
        # Frames before the binding wait for it.
        first.submit(0, 1, 2)
        first.engine.bind(first.handle, spec)
        assert await first.next(Bound) == Bound(0, positions)
        results = await first.results(2)
        assert [(one.epoch, one.seq, one.position) for one in results] == [
            (0, 1, positions),
            (0, 2, positions + 1),
        ]
        assert all(one.pcm.shape == (FRAME_SAMPLES,) and not one.held for one in results)
        # A repeated identity does nothing.
        first.submit(0, 1, 2, 3)
        assert [one.seq for one in await first.results(1)] == [3]
        # A new epoch: bound again, sequence from 1, the old one's frames do nothing.
        assert engine.restart(first.handle) == 1
        first.submit(0, 4)
        first.submit(1, 1)
        assert await first.next(Bound) == Bound(1, positions)
        again = (await first.results(1))[0]
        assert (again.epoch, again.seq, again.position) == (1, 1, positions)
        await first.end()
        assert engine.stats().used == 1
        # The handle is superseded once its slot has a new owner.
        third = Call(engine)
        engine.close(first.handle)
        engine.bind(third.handle, spec)
        await third.next(Bound)
        third.submit(0, 1)
        await third.results(1)
        await third.end()
        await second.end()
        assert engine.stats().used == 0


@pytest.mark.parametrize("kind", ["scripted", "real"])
async def test_a_held_call_says_nothing(kind: str, tiny_checkpoint: Path) -> None:  # contract: I7
    async with engine_of(kind, tiny_checkpoint) as engine:
        call = Call(engine)
        engine.bind(call.handle, engine.default_spec)
        await call.next(Bound)
        call.submit(0, 1, 2, 3)
        await call.results(3)
        engine.hold(call.handle, True)
        call.submit(0, *range(4, 14))
        held = await call.results(10)
        assert all(one.held for one in held)
        # What the first one emits was decided a position before.
        assert all(one.text_token == 3 and one.text == "" for one in held[1:])
        assert len({one.codes for one in held[2:]}) == 1, "the codes of silence, after the delay"
        engine.hold(call.handle, False)
        call.submit(0, 14)
        released = (await call.results(1))[0]
        assert not released.held and released.epoch == 0
        await call.end()


@pytest.mark.parametrize("kind", ["scripted", "real"])
async def test_refusals(kind: str, tiny_checkpoint: Path) -> None:  # contract: B1 B6 C4
    async with engine_of(kind, tiny_checkpoint) as engine:
        call = Call(engine, queue_frames=3)
        with pytest.raises(InvalidVoice):
            engine.bind(call.handle, SessionSpec("../nobody.pt", ""))
        call.submit(0, 1, 2, 3)
        with pytest.raises(InputOverflow):
            call.submit(0, 4)
        with pytest.raises(PromptTooLong) as long:
            spec = SessionSpec(engine.default_spec.voice, "word " * 5000)
            await asyncio.wrap_future(engine.prepare(spec))
        assert long.value.positions > long.value.limit
        engine.bind(call.handle, engine.default_spec)
        await call.next(Bound)
        assert [one.seq for one in await call.results(3)] == [1, 2, 3]
        await call.end()
