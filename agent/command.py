"""What all commands share: the one error that becomes a line on the terminal, and logging.

A command module has `add_arguments(parser)` and `run(args) -> int`; it knows nothing of the
others.
"""

from __future__ import annotations

import logging
import sys

CHATTY = ("livekit", "livekit.agents", "aiohttp.access", "asyncio", "aiortc", "aioice")


class CommandError(Exception):
    """Bad input or surroundings; the message says what, where and what to do, in one line."""


def configure_logging(level: str) -> None:
    """One line per record on stderr; the LiveKit framework speaks up from warnings on."""
    logging.basicConfig(
        level=level.upper(),
        stream=sys.stderr,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    if level != "debug":
        for chatty in CHATTY:
            logging.getLogger(chatty).setLevel(logging.WARNING)
