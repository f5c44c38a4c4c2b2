"""Endings that happen to their end: no cancellation leaves half of one behind."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


async def to_the_end(work: Coroutine[Any, Any, None]) -> None:
    """Run `work` in a task of its own, to its end, however often whoever waits is cancelled.

    Raises what `work` raises, else `CancelledError` where a cancellation came meanwhile. For what
    is bounded in time only: nothing hastens it.
    """
    task = asyncio.get_running_loop().create_task(work, name="ending")
    cancelled = False
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            cancelled = True
    task.result()
    if cancelled:
        raise asyncio.CancelledError
