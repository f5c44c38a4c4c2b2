"""The clients of `tests.bench.wire`, in a process of their own: they pace frames and note times.

    python -m tests.bench.wire_clients URL CALLS FRAMES

Prints `opened` once all calls are open, then one JSON object: for each session id the moments, on
the machine's monotonic clock, at which each frame's audio had come out of the socket. Nothing is
decoded before the moment is noted.
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
import time

import aiohttp

FRAME_S = 0.08
SILENCE = base64.b64encode(bytes(3840)).decode()
APPEND = json.dumps({"type": "input_audio_buffer.append", "audio": SILENCE})
AUDIO = '"type":"response.output_audio.delta"'


async def opened(socket: aiohttp.ClientWebSocketResponse, number: int) -> str:
    """Open with a persona of its own, which nobody has prefilled yet; the session's id."""
    session = {"instructions": f"You are agent {number}."}
    await socket.send_str(json.dumps({"type": "session.update", "session": session}))
    created = json.loads(await socket.receive_str())
    await socket.receive_str()
    return str(created["session"]["id"])


async def arrivals(socket: aiohttp.ClientWebSocketResponse, frames: int) -> list[float]:
    times: list[float] = []
    while len(times) < frames:
        text = await socket.receive_str()
        now = time.monotonic()
        if AUDIO in text:
            times.append(now)
    return times


async def paced(socket: aiohttp.ClientWebSocketResponse, frames: int, start: float) -> None:
    for number in range(frames):
        await asyncio.sleep(max(0.0, start + number * FRAME_S - time.monotonic()))
        await socket.send_str(APPEND)


async def talk(url: str, calls: int, frames: int) -> dict[str, list[float]]:
    async with aiohttp.ClientSession() as http:
        sockets = [await http.ws_connect(url, max_msg_size=0) for _ in range(calls)]
        ids = await asyncio.gather(*(opened(one, i) for i, one in enumerate(sockets)))
        print("opened", flush=True)
        start = time.monotonic() + FRAME_S
        heard = asyncio.gather(*(arrivals(socket, frames) for socket in sockets))
        await asyncio.gather(*(paced(socket, frames, start) for socket in sockets))
        times = await heard
        for socket in sockets:
            await socket.close()
    return dict(zip(ids, times, strict=True))


def main() -> None:
    url, calls, frames = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    print(json.dumps(asyncio.run(talk(url, calls, frames))))


if __name__ == "__main__":
    main()
