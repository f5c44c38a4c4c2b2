"""`start` and `dev`: this worker against a LiveKit server that runs already."""

from __future__ import annotations

import argparse
import dataclasses
import logging

from agent.command import CommandError, configure_logging
from agent.paths import demand_model
from agent.ports import listen
from agent.settings import Settings, check_livekit_url, load
from agent.settings import add_arguments as add_settings

log = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_settings(parser, "livekit", "http", "model", "calls", "log")


def run(args: argparse.Namespace) -> int:
    settings = load(args)
    if args.command == "dev":
        settings = dataclasses.replace(settings, log_level="debug")
    configure_logging(settings.log_level)
    _demand_livekit(settings)
    demand_model(settings.model)
    with listen(settings) as listener:
        # torch takes seconds to import: first what can be wrong without it.
        from agent.loading import about_model, make_engine
        from agent.serve import run_worker

        return run_worker(settings, listener, make_engine, announce, about_model(settings))


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
