"""`start` and `dev`: this worker against a LiveKit server that runs already."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import logging
import sys
from collections.abc import Callable
from typing import Protocol

from agent.command import CommandError, configure_logging
from agent.serve import listen, serve
from agent.settings import Settings, load
from agent.settings import add_arguments as add_settings
from agent.worker import check_server
from model import CheckpointError, Engine, describe, load_engine

log = logging.getLogger(__name__)
SWITCH_INTERVAL_SECONDS = 0.001
"""Threads of this process take turns this often, so that media is not late behind Python."""
MIB = 2**20
RANDOM_WEIGHTS = (
    "The weights of this checkpoint are RANDOM: it answers with noise, not with speech. "
    "Everything else is real."
)


class OwnedEngine(Engine, Protocol):
    """An engine that this process has to end."""

    def shutdown(self) -> None: ...


EngineFactory = Callable[[Settings], OwnedEngine]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_settings(parser, "livekit", "http", "model", "calls", "log")


def run(args: argparse.Namespace) -> int:
    settings = load(args)
    if args.command == "dev":
        settings = dataclasses.replace(settings, log_level="debug")
    configure_logging(settings.log_level)
    return run_worker(settings, make_engine, announce)


def run_worker(
    settings: Settings, engine_of: EngineFactory, announce: Callable[[Settings], None]
) -> int:
    """Check what can be checked, load, serve; the exit code."""
    _demand_livekit(settings)
    listener = listen(settings.bind_host, settings.port, "--port (PERSONAPLEX_PORT)")
    with listener:
        problem = asyncio.run(check_server(settings))
        if problem is not None:
            raise CommandError(problem)
        sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
        engine = engine_of(settings)
        try:
            return asyncio.run(serve(settings, engine, listener, announce))
        finally:
            engine.shutdown()


def make_engine(settings: Settings) -> OwnedEngine:
    """The real engine. Raises `CommandError` for a model that cannot be used."""
    prefix = settings.prefix_cache_mib
    log.info("loading %s", settings.model)
    try:
        if describe(settings.model).is_random:
            log.warning(RANDOM_WEIGHTS)
        return load_engine(
            settings.model,
            max_sessions=settings.max_sessions,
            device=settings.device,
            dtype=None if settings.dtype == "auto" else settings.dtype,
            quantize="int8" if settings.quantize == "int8" else None,
            prefix_bytes=None if prefix < 0 else prefix * MIB,
        )
    except CheckpointError as error:
        raise CommandError(str(error)) from error


def announce(settings: Settings) -> None:
    log.info("ready: calls come from %s", settings.livekit_url)


def _demand_livekit(settings: Settings) -> None:
    needed = {
        "LIVEKIT_URL": settings.livekit_url,
        "LIVEKIT_API_KEY": settings.livekit_api_key,
        "LIVEKIT_API_SECRET": settings.livekit_api_secret,
    }
    missing = [name for name, value in needed.items() if not value]
    if missing:
        raise CommandError(
            f"{' and '.join(missing)} not set; set them for `start`, "
            "or let `python -m agent demo` start a LiveKit server of its own"
        )
    if not settings.livekit_url.startswith(("ws://", "wss://", "http://", "https://")):
        raise CommandError(
            f"LIVEKIT_URL is {settings.livekit_url!r}; it must begin with ws:// or wss://"
        )
