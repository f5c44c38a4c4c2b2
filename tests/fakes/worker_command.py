"""`python -m agent start` around another engine, as the workers of tests run it."""

from __future__ import annotations

import argparse
import sys

from agent import start
from agent.command import CommandError, configure_logging
from agent.loading import EngineFactory
from agent.ports import listen
from agent.serve import run_worker
from agent.settings import load


def run(args: argparse.Namespace, engine_of: EngineFactory) -> int:
    """The exit code."""
    try:
        settings = load(args)
        configure_logging(settings.log_level)
        with listen(settings) as listener:
            return run_worker(settings, listener, engine_of, start.announce)
    except CommandError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
