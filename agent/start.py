"""`start` and `dev`: this worker against a LiveKit server that runs already."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import logging
import sys
from collections.abc import Callable

from agent.command import CommandError, configure_logging
from agent.loading import EngineFactory, ModelAbout, about_model, make_engine
from agent.outages import check_server
from agent.serve import listen, serve
from agent.settings import Settings, check_livekit_url, load
from agent.settings import add_arguments as add_settings

log = logging.getLogger(__name__)
SWITCH_INTERVAL_SECONDS = 0.001
"""Threads of this process take turns this often, so that media is not late behind Python."""
NOTHING_TO_SAY = ModelAbout()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_settings(parser, "livekit", "http", "model", "calls", "log")


def run(args: argparse.Namespace) -> int:
    settings = load(args)
    if args.command == "dev":
        settings = dataclasses.replace(settings, log_level="debug")
    configure_logging(settings.log_level)
    _demand_livekit(settings)
    return run_worker(settings, make_engine, announce, about_model(settings))


def run_worker(
    settings: Settings,
    engine_of: EngineFactory,
    announce: Callable[[Settings], None],
    about: ModelAbout = NOTHING_TO_SAY,
) -> int:
    """Take the port, reach LiveKit, load, serve; the exit code."""
    listener = listen(settings.bind_host, settings.port, "--port (PERSONAPLEX_PORT)")
    with listener:
        problem = asyncio.run(check_server(settings))
        if problem is not None:
            raise CommandError(problem)
        sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
        engine = engine_of(settings)
        try:
            return asyncio.run(serve(settings, engine, listener, announce, about))
        finally:
            engine.shutdown()


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
    check_livekit_url(settings.livekit_url)
