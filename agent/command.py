"""What all commands share: the one error that becomes a line on the terminal, and logging.

A command module has `add_arguments(parser)` and `run(args) -> int`; it knows nothing of the
others.
"""

from __future__ import annotations

import argparse
import logging
import math
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED = 128 + signal.SIGINT
CHATTY = ("livekit", "livekit.agents", "aiohttp.access", "asyncio", "aiortc", "aioice")


class CommandError(Exception):
    """Bad input or surroundings; the message says what, where and what to do, in one line."""


def amount(text: str) -> float:
    """A number of a flag, such as seconds: finite and at least 0. For `argparse`."""
    value = float(text)
    if not math.isfinite(value) or value < 0:
        raise argparse.ArgumentTypeError(f"{text} is no finite number of at least 0")
    return value


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


@contextmanager
def ended_by_signals(last: Callable[[], None] = lambda: None) -> Iterator[None]:
    """SIGINT and SIGTERM end the process at once, after `last`, as shells say it: 128 + number.

    Stands round a whole command. What has something to save gives its event loop handlers of its
    own while it has; what has something to take down stands in one more of these, with a `last`.
    What a handler raises is lost where it arrives in the callback of a weak reference or in a
    finaliser, as there are in every import; the process would go on as if nobody had asked.
    A signal that is ignored stays so. Main thread only.
    """

    def end(number: int, frame: FrameType | None) -> None:
        last()
        os._exit(128 + number)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    heeded = [number for number, handler in before.items() if handler is not signal.SIG_IGN]
    for number in heeded:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in heeded:
            signal.signal(number, before[number])
