"""A bound for whatever a test awaits, so that a hang fails by the name of what did not come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

PATIENCE_SECONDS = 60.0


@asynccontextmanager
async def within(what: str, seconds: float = PATIENCE_SECONDS) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(seconds) as bound:
            yield
    except TimeoutError:
        if not bound.expired():
            raise
        raise AssertionError(f"waited {seconds:g} s in vain for {what}") from None
