"""What the websocket adds: from engine output to bytes at a loopback client, 8 calls of `tiny`.

    python -m tests.bench.wire [--frames 100] [--json FILE]

Also the longest stall of the server's event loop while 8 calls open cold. The clients are a process
of their own (`tests.bench.wire_clients`); both sides read the machine's monotonic clock.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from agent.session import Session
from model import FRAME_SECONDS, EngineEvent, FrameResult, load_engine
from model.presets import write_tiny_checkpoint
from tests.fakes.server import Server, serving

CALLS = 8
LOOK_S = 0.001
PATIENCE_S = 120.0
Made = dict[tuple[str, int], float]
"""When the engine delivered each frame, by session id and sequence number."""


class Stalls:
    """The longest time for which the loop did not come round."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self._task = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        last = time.monotonic()
        while True:
            await asyncio.sleep(LOOK_S)
            now = time.monotonic()
            self.longest_s = max(self.longest_s, now - last - LOOK_S)
            last = now

    def stop(self) -> float:
        self._task.cancel()
        return self.longest_s


@contextmanager
def stamping() -> Iterator[Made]:
    """Note when each result leaves the engine's thread."""
    made: Made = {}
    deliver = Session._deliver

    def stamped(session: Session, event: EngineEvent) -> None:
        if isinstance(event, FrameResult):
            made[session.id, event.seq] = time.monotonic()
        deliver(session, event)

    Session._deliver = stamped  # type: ignore[method-assign]
    try:
        yield made
    finally:
        Session._deliver = deliver  # type: ignore[method-assign]


async def talk(server: Server, frames: int) -> tuple[float, dict[str, list[float]]]:
    """The longest stall while the clients opened, and when each frame reached each of them."""
    arguments = [server.ws + "/v1/duplex?autostart=0", str(CALLS), str(frames)]
    command = [sys.executable, "-m", "tests.bench.wire_clients", *arguments]
    clients = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, limit=1 << 24
    )
    assert clients.stdout is not None
    try:
        async with asyncio.timeout(PATIENCE_S + 10 * frames * FRAME_SECONDS):
            stalls = Stalls()
            if (await clients.stdout.readline()).strip() != b"opened":
                raise RuntimeError("the clients could not open their calls")
            stall_s = stalls.stop()
            arrived = json.loads(await clients.stdout.readline())
            await clients.wait()
    finally:
        if clients.returncode is None:
            clients.kill()
            await clients.wait()
    return stall_s, arrived


async def measure(checkpoint: Path, frames: int) -> dict[str, Any]:
    engine = await asyncio.to_thread(load_engine, str(checkpoint), max_sessions=CALLS, device="cpu")
    try:
        with stamping() as made:
            async with serving(engine) as server:
                stall_s, arrived = await talk(server, frames)
    finally:
        await asyncio.to_thread(engine.shutdown)
    added = [
        1000 * (moment - made[session_id, number + 1])
        for session_id, moments in arrived.items()
        for number, moment in enumerate(moments)
    ]
    return {
        "calls": CALLS,
        "frames": len(added),
        "websocket_added_ms_p50": float(np.percentile(added, 50)),
        "websocket_added_ms_p99": float(np.percentile(added, 99)),
        "longest_loop_stall_ms_8_cold_opens": stall_s * 1000,
        "load_average": os.getloadavg()[0],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=100)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write_tiny_checkpoint(Path(folder), seed=20)
        report = asyncio.run(measure(Path(folder), args.frames))
    print(json.dumps(report, indent=2))
    if args.json:
        args.json.write_text(json.dumps(report))


if __name__ == "__main__":
    main()
