"""One live line on a terminal: frames sent and received by each session."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent.driver.load import LoadSession

INTERVAL_S = 1.0


class Progress:
    """Writes to standard error, in place on a terminal, a line each time elsewhere."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None
        self._end = "\r" if sys.stderr.isatty() else "\n"

    def watch(self, sessions: Sequence[LoadSession], total: int) -> None:
        self._task = asyncio.create_task(self._show(sessions, total))

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None
            print(file=sys.stderr)

    async def _show(self, sessions: Sequence[LoadSession], total: int) -> None:
        while True:
            shares = "  ".join(
                f"#{index} sent {one.frames_sent}/{total} heard {one.frames_received}"
                for index, one in enumerate(sessions)
            )
            print(shares, end=self._end, file=sys.stderr, flush=True)
            await asyncio.sleep(INTERVAL_S)
