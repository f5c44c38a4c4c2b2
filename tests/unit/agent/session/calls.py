"""Calls on the scripted engine whose agent speaks when it is told to."""

from __future__ import annotations

import asyncio

import numpy as np

from agent.manager import SessionManager
from agent.policy import STOCK, Policy
from agent.session import Session
from model import FRAME_SAMPLES
from tests.fakes.engine import FakeEngine, Said, Script
from tests.fakes.sink import ListSink

FRAME_S = 0.08
TALK = Said(" word", 50, 0.1)
LOUD_ONLY = Said("", 3, 0.1)


def frames(count: int, amplitude: float = 0.0) -> np.ndarray:
    return np.full(count * FRAME_SAMPLES, amplitude, np.float32)


def speaking(*spans: range, said: Said = TALK) -> Script:
    """The agent speaks in these frames, counted over the whole call."""
    seen = 0

    def script(epoch: int, seq: int, pcm: np.ndarray) -> Said:
        nonlocal seen
        seen += 1
        return said if any(seen in span for span in spans) else Said()

    return script


def opened(script: Script, policy: Policy = STOCK, **engine: object) -> tuple[Session, ListSink]:
    sink = ListSink()
    fake = FakeEngine(script=script, **engine)  # type: ignore[arg-type]
    return SessionManager(fake).open(policy, sink), sink


async def paced(session: Session, count: int, amplitude: float = 0.0) -> None:
    for _ in range(count):
        session.append(frames(1, amplitude))
        await asyncio.sleep(FRAME_S)
