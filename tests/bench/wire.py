"""What the websocket adds: from engine output to bytes at a loopback client, 8 calls of `tiny`.

    python -m tests.bench.wire [--frames 100] [--json FILE]

Also the longest stall of the event loop while 8 calls open cold. Server and clients share one loop,
so a client's own parsing is in the figure: it is an upper bound.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import numpy as np

from agent.session import Session
from model import EngineEvent, FrameResult, load_engine
from model.presets import write_checkpoint
from tests.fakes.server import Client, serving, silence

CALLS = 8


class Stalls:
    """The longest time for which the loop did not come round."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self._task = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        last = time.perf_counter()
        while True:
            await asyncio.sleep(0.001)
            now = time.perf_counter()
            self.longest_s = max(self.longest_s, now - last - 0.001)
            last = now

    def stop(self) -> float:
        self._task.cancel()
        return self.longest_s


async def measure(checkpoint: Path, frames: int) -> dict[str, Any]:
    made: dict[tuple[str, int], float] = {}
    deliver = Session._deliver

    def stamped(session: Session, event: EngineEvent) -> None:
        if isinstance(event, FrameResult):
            made[session.id, event.seq] = time.perf_counter()
        deliver(session, event)

    Session._deliver = stamped  # type: ignore[method-assign]
    engine = await asyncio.to_thread(load_engine, str(checkpoint), max_sessions=CALLS, device="cpu")
    try:
        async with serving(engine) as server, AsyncExitStack() as stack:
            stalls = Stalls()
            opening = [
                stack.enter_async_context(server.connect("/v1/duplex?autostart=0"))
                for _ in range(CALLS)
            ]
            clients = await asyncio.gather(*opening)
            await asyncio.gather(*(open_cold(client, i) for i, client in enumerate(clients)))
            stall_s = stalls.stop()
            added = await asyncio.gather(*(talk(client, frames, made) for client in clients))
    finally:
        await asyncio.to_thread(engine.shutdown)
        Session._deliver = deliver  # type: ignore[method-assign]
    values = np.concatenate(added) * 1000
    return {
        "calls": CALLS,
        "frames": int(values.size),
        "websocket_added_ms_p50": float(np.percentile(values, 50)),
        "websocket_added_ms_p99": float(np.percentile(values, 99)),
        "longest_loop_stall_ms_8_cold_opens": stall_s * 1000,
        "load_average": os.getloadavg()[0],
    }


async def open_cold(client: Client, number: int) -> None:
    await client.send("session.update", session={"instructions": f"You are agent {number}."})
    await client.until("session.updated")


async def talk(client: Client, frames: int, made: dict[tuple[str, int], float]) -> np.ndarray:
    """Paced frames; for each the seconds from the engine's delivery to the client's receipt."""
    session_id, added = client.seen[0]["session"]["id"], []
    started = time.perf_counter()
    for number in range(frames):
        await asyncio.sleep(max(0.0, started + number * 0.08 - time.perf_counter()))
        await client.append(silence())
        await client.until("response.output_audio.delta")
        added.append(time.perf_counter() - made[session_id, number + 1])
    return np.array(added)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=100)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write_checkpoint("tiny", Path(folder), seed=20)
        report = asyncio.run(measure(Path(folder), args.frames))
    print(json.dumps(report, indent=2))
    if args.json:
        args.json.write_text(json.dumps(report))


if __name__ == "__main__":
    main()
