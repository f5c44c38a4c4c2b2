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
from io import TextIOWrapper
from types import FrameType
from typing import TextIO

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


@contextmanager
def printing(needed: bool) -> Iterator[None]:
    """Stands round a whole command: what it prints has been written when it ends.

    Raises `CommandError` where that cannot be: stdout is full, its reader has gone or, where it is
    `needed`, it is closed from the start.
    """
    closed = sys.stdout is None
    # Python has none where the file is closed; what is opened next would be written in its place.
    sys.stdout, sys.stderr = sys.stdout or _nowhere(), sys.stderr or _nowhere()
    if closed and needed:
        raise CommandError("stdout is closed; give it a terminal, a pipe or a file")
    if isinstance(sys.stdout, TextIOWrapper):
        # A model's words and the names of files need not fit into the terminal's encoding.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        yield
    except BrokenPipeError as error:
        if not needed:
            raise
        raise unwritable(error) from None
    finally:
        _flush()


def unwritable(error: OSError) -> CommandError:
    """For what `print` raises."""
    return CommandError(f"stdout: cannot be written ({error.strerror})")


def _flush() -> None:
    try:
        sys.stdout.flush()
    except OSError as error:
        # What is left would be tried again, and complained about, at the interpreter's end.
        with _nowhere() as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        raise unwritable(error) from None


def _nowhere() -> TextIO:
    return os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
