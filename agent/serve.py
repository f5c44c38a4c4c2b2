"""One process around one engine: the HTTP app, the worker, signals, drain and the exit code.

It starts and ends things in order and does nothing else. `start` and `demo` differ only in what
surrounds it.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from aiohttp import web

from agent.command import CommandError
from agent.connection import connection_routes
from agent.dispatch import Defaults
from agent.http import HttpOptions, build_app, make_runner
from agent.job import JobRules
from agent.loading import EngineFactory, ModelAbout
from agent.manager import SessionManager
from agent.metrics import RoomMetrics
from agent.outages import check_server
from agent.ports import say_who_may_call
from agent.recording import recording_folder
from agent.settings import Settings
from agent.turns import TurnThresholds
from agent.worker import Worker
from model import Engine, SessionSpec

log = logging.getLogger(__name__)
PAGE = Path(__file__).resolve().parent.parent / "web" / "dist"
STOPPED, FAULTED = 0, 3
NOTHING_TO_SAY = ModelAbout()
SWITCH_INTERVAL_SECONDS = 0.001
"""Threads of this process take turns this often, so that media is not late behind Python."""
CLOSE_SECONDS = 2.0
"""How long open HTTP requests may take once the calls are over."""
POOL_THREADS = 4
"""For what the loop cannot do without blocking: names that are looked up, files of the page."""


def run_worker(
    settings: Settings,
    listener: socket.socket,
    engine_of: EngineFactory,
    announce: Callable[[Settings], None],
    about: ModelAbout = NOTHING_TO_SAY,
) -> int:
    """Reach LiveKit, load, serve; the exit code."""
    problem = asyncio.run(check_server(settings))
    if problem is not None:
        raise CommandError(problem)
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    engine = engine_of(settings)
    try:
        return asyncio.run(serve(settings, engine, listener, announce, about))
    finally:
        engine.shutdown()


def default_spec(engine: Engine, settings: Settings) -> SessionSpec:
    """The checkpoint's voice and persona, or those of the settings."""
    own = engine.default_spec
    return SessionSpec(
        voice=settings.voice or own.voice,
        persona=settings.persona or own.persona,
        sampling=own.sampling,
    )


async def serve(
    settings: Settings,
    engine: Engine,
    listener: socket.socket,
    announce: Callable[[Settings], None],
    about: ModelAbout,
) -> int:
    """Until a signal or a fault; `announce` is called when the first call can come."""
    stop = asyncio.Event()
    _on_signals(stop)
    fill_pool()
    spec = default_spec(engine, settings)
    manager = SessionManager(engine, turns=turn_thresholds(settings), default_spec=spec)
    manager.on_fault(_from_any_thread(stop))
    defaults = Defaults(spec, engine.voices, settings.heard, settings.allow_sampling)
    rules = JobRules(
        defaults,
        settings.resume_grace,
        settings.max_call_duration,
        recording_folder(settings.recording),
    )
    worker = Worker(settings, manager, rules)
    runner = make_runner(
        build_app(
            manager,
            http_options(settings, about),
            routes=connection_routes(settings, defaults, worker.has_room),
            collectors=[RoomMetrics(worker.tally)],
            static=PAGE if PAGE.is_dir() else None,
        ),
        CLOSE_SECONDS,
    )
    await runner.setup()
    await web.SockSite(runner, listener).start()
    say_who_may_call(settings)
    await manager.warmup(settings.warmup_frames)
    settle_memory()
    running = asyncio.create_task(worker.run(_once(lambda: announce(settings))))
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
        return await _wind_down(settings, manager, worker)
    finally:
        stopping.cancel()
        await worker.aclose()
        await runner.cleanup()
        with suppress(asyncio.CancelledError):
            await running


def fill_pool() -> None:
    """Give the loop all of its threads at once, so that one more here is one too many."""
    pool = ThreadPoolExecutor(POOL_THREADS, thread_name_prefix="asyncio")
    asyncio.get_running_loop().set_default_executor(pool)
    together = threading.Barrier(POOL_THREADS)
    for started in [pool.submit(together.wait) for _ in range(POOL_THREADS)]:
        started.result()


def settle_memory() -> None:
    """Let no collection of garbage walk what lives as long as the process.

    With all that torch and LiveKit have loaded, a full one would stop every call for a tenth of a
    second and more, and would come so rarely that what calls leave behind piles up.
    """
    gc.collect()
    gc.freeze()
    # A full collection comes once a quarter more objects wait than the last one left. That was
    # everything; this one, of next to nothing, lets them come as often as they now are cheap.
    gc.collect()


async def _wind_down(settings: Settings, manager: SessionManager, worker: Worker) -> int:
    """Let the calls end within the drain time, or at once where the device is gone."""
    if manager.faulted:
        log.error("the device failed; leaving, so that a supervisor can start afresh")
        await manager.close_all("engine_fault")
        return FAULTED
    manager.begin_drain()
    log.info("draining: %d calls may go on %g s", len(manager.sessions), settings.drain_time)
    await asyncio.gather(manager.drain(settings.drain_time), worker.drain())
    return STOPPED


def turn_thresholds(settings: Settings) -> TurnThresholds:
    return TurnThresholds(
        open_dbfs=settings.turn_open_dbfs,
        open_frames=settings.turn_open_frames,
        done_frames=settings.turn_done_frames,
    )


def http_options(settings: Settings, about: ModelAbout) -> HttpOptions:
    return HttpOptions(
        api_keys=_words(settings.api_keys),
        allow_sampling=settings.allow_sampling,
        model_name=Path(settings.model).name if Path(settings.model).is_dir() else settings.model,
        model_notice=about.notice,
        model_licence=about.licence,
        cors_origins=_words(settings.cors_origins),
    )


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _once(do: Callable[[], None]) -> Callable[[], None]:
    """The worker registers again after each outage; the first time alone is news."""
    done = False

    def only_once() -> None:
        nonlocal done
        if not done:
            done = True
            do()

    return only_once


def _from_any_thread(event: asyncio.Event) -> Callable[[], None]:
    loop = asyncio.get_running_loop()

    def set_event() -> None:
        loop.call_soon_threadsafe(event.set)

    return set_event


def _on_signals(stop: asyncio.Event) -> None:
    """The first signal drains, the second ends the process as it stands."""

    def signalled() -> None:
        if stop.is_set():
            os._exit(1)
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, signalled)
