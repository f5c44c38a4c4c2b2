"""The command `console`: a call in this terminal, through the same session code as any other.

Microphone and speaker, or WAV files in place of either. With both in files nothing waits for a
clock: each frame is given when the last one was answered.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

from agent import settings
from agent.command import INTERRUPTED, CommandError, configure_logging, unwritable
from agent.devices import Outlet, SoundCard, WavOutlet, WavSource
from agent.errors import SessionError
from agent.interrupts import cancelled_by_signals
from agent.manager import SessionManager
from agent.paths import demand_apart, demand_model
from agent.policy import ROOM
from agent.session import Session
from agent.settings import Settings
from agent.sink import OutputFrame, ResponseEnd, ResponseInfo
from agent.turns import DEFAULT_TURNS, level_dbfs
from agent.wav import add_tail
from model import Engine, Pcm

METER_FLOOR_DBFS = -60.0
METER_WIDTH = 20
METER_EVERY = 3
"""Frames between two drawings of the levels."""
ANSWER_LIMIT_S = 60.0
"""How long one frame may take where frames wait for each other; slow machines are welcome."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    settings.add_arguments(parser, "model", "log")
    parser.add_argument("--input", type=Path, help="a WAV in place of the microphone")
    parser.add_argument("--output", type=Path, help="a WAV in place of the speaker")
    add_tail(parser)


def run(args: argparse.Namespace) -> int:
    loaded = replace(settings.load(args), max_sessions=1)
    configure_logging(loaded.log_level)
    demand_model(loaded.model)
    demand_apart(*([path] if path else [] for path in (args.output, args.input)))
    source = WavSource(args.input, args.tail_s, paced=args.output is None) if args.input else None
    outlet = WavOutlet(args.output) if args.output else None
    card = SoundCard(source is None, outlet is None)
    # torch takes seconds to import: first what can be wrong without it.
    from agent.loading import make_engine

    engine = make_engine(loaded)
    try:
        asyncio.run(cancelled_by_signals(converse(engine, loaded, card, source, outlet)))
    except asyncio.CancelledError:
        return INTERRUPTED
    finally:
        engine.shutdown()
    return 0


async def converse(
    engine: Engine,
    loaded: Settings,
    card: SoundCard,
    source: WavSource | None,
    outlet: WavOutlet | None,
) -> None:
    """One call, from the first frame to the last; the sound card serves what no file does."""
    with card:
        sink = ConsoleSink(outlet or card, meters=sys.stderr.isatty())
        own = engine.default_spec
        spec = replace(own, voice=loaded.voice or own.voice, persona=loaded.persona or own.persona)
        session = SessionManager(engine).open(ROOM, sink, spec)
        frames = (source or card).frames()
        try:
            await feed(session, frames, sink, lockstep=not card.in_use)
        finally:
            session.close("done")
            await session.wait_closed()
            if outlet is not None:
                outlet.close()
    sink.finish()
    sink.demand_success()


async def feed(
    session: Session, frames: AsyncIterator[Pcm], sink: ConsoleSink, *, lockstep: bool
) -> None:
    """Give every frame to the session; in lockstep each one waits for its answer."""
    async for pcm in frames:
        session.push_frame(pcm)
        sink.heard(pcm)
        if lockstep:
            await asyncio.wait_for(sink.answered(), ANSWER_LIMIT_S)
        sink.demand_success()


class ConsoleSink:
    """Plays the agent, prints its words on stdout and both levels on stderr."""

    def __init__(self, outlet: Outlet, meters: bool) -> None:
        self._failure: CommandError | None = None
        self._outlet = outlet
        self._meters = meters
        self._answer = asyncio.Event()
        self._user_dbfs = METER_FLOOR_DBFS
        self._frames = 0
        self._last_words: int | None = None
        """The frame of the latest words of this response."""

    def demand_success(self) -> None:
        """Raises `CommandError` for the first thing that went wrong."""
        if self._failure is not None:
            raise self._failure

    async def answered(self) -> None:
        await self._answer.wait()
        self._answer.clear()

    def heard(self, pcm: Pcm) -> None:
        self._user_dbfs = level_dbfs(pcm)

    def bound(self, epoch: int, prefill_positions: int) -> None:
        pass

    def response_started(self, response: ResponseInfo) -> None:
        self._clear_meters()
        self._last_words = None
        self._say("agent:")

    def output(self, frame: OutputFrame) -> None:
        try:
            self._outlet.play(frame.pcm)
        except CommandError as error:
            self._fail(error)
        self._frames += 1
        self._answer.set()
        if frame.text:
            self._clear_meters()
            self._say("\nagent:" * self._is_afresh() + frame.text)
            self._last_words = self._frames
        elif self._meters and self._frames % METER_EVERY == 0 and frame.response_id is None:
            levels = f"you {_bar(self._user_dbfs)}  agent {_bar(level_dbfs(frame.pcm))}"
            print(f"\r{levels}", end="", file=sys.stderr, flush=True)

    def _is_afresh(self) -> bool:
        """Interrupted, it may go on to its answer before its last sound has faded for a turn."""
        last = self._last_words
        return last is not None and self._frames - last > DEFAULT_TURNS.done_frames

    def response_done(self, end: ResponseEnd) -> None:
        self._say("\n")

    def error(self, error: SessionError) -> None:
        self._fail(CommandError(f"the call failed: {error}"))
        self._answer.set()

    def closed(self, reason: str, expired: bool) -> None:
        self._answer.set()

    def finish(self) -> None:
        self._clear_meters()

    def _say(self, text: str) -> None:
        try:
            print(text, end="", flush=True)
        except OSError as error:
            self._fail(unwritable(error))

    def _fail(self, error: CommandError) -> None:
        """To be raised in the command: what a session calls must not raise."""
        self._failure = self._failure or error

    def _clear_meters(self) -> None:
        if self._meters:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def _bar(dbfs: float) -> str:
    filled = round(METER_WIDTH * max(0.0, 1 - dbfs / METER_FLOOR_DBFS))
    return "#" * filled + "." * (METER_WIDTH - filled)
