"""Signals for a command with something to save: its task is cancelled and tidies up."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def cancelled_by_signals(work: Coroutine[Any, Any, T]) -> T:
    """Run `work`, the main task of its loop; SIGINT and SIGTERM cancel it.

    Also where a shell started the command in the background, with SIGINT ignored. Raises
    `asyncio.CancelledError` once `work` has tidied up.
    """
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    return await work
