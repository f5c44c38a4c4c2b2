"""Mouth to ear through a room, with its parts, beside a plain 20 ms echo on raw `livekit.rtc`.

    python -m tests.bench.room [--bursts 100] [--json FILE]

Needs `livekit-server`. All processes share this machine's monotonic clock. A burst's mouth time is
the call that captures its first 20 ms; its ear time is the arrival of the 10 ms that holds it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import tempfile
import time
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from livekit import rtc

from tests.bench.room_worker import LOUD
from tests.e2e.caller import Caller, token
from tests.e2e.processes import LiveKitServer, WorkerProcess

RATE, CHUNK = 48_000, 960
EAR_RATE, FRAME = 24_000, 1_920
BURST_CHUNKS, PERIOD_CHUNKS = 3, 31
"""60 ms of tone every 620 ms: no multiple of 80 ms, so bursts fall anywhere within a frame."""
SETTLE_S = 3.0
PATIENCE_S = 120.0


@dataclass
class Mouth:
    """A microphone that plays bursts at its own pace and notes when each began."""

    source: rtc.AudioSource = field(
        default_factory=lambda: rtc.AudioSource(RATE, 1, queue_size_ms=200)
    )
    times: list[float] = field(default_factory=list)

    async def publish(self, room: rtc.Room) -> None:
        track = rtc.LocalAudioTrack.create_audio_track("mouth", self.source)
        options = rtc.TrackPublishOptions(source=rtc.TrackSource.SOURCE_MICROPHONE)
        options.dtx = False
        await room.local_participant.publish_track(track, options)

    async def play(self, bursts: int) -> None:
        tone = 0.5 * np.sin(2 * np.pi * 1_000 * np.arange(CHUNK) / RATE)
        loud, quiet = (tone * 32_767).astype("<i2").tobytes(), bytes(2 * CHUNK)
        due = time.monotonic()
        for index in range(bursts * PERIOD_CHUNKS):
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            place = index % PERIOD_CHUNKS
            if place == PERIOD_CHUNKS - BURST_CHUNKS:
                self.times.append(time.monotonic())
            pcm = loud if place >= PERIOD_CHUNKS - BURST_CHUNKS else quiet
            await self.source.capture_frame(rtc.AudioFrame(pcm, RATE, 1, CHUNK))
            due += CHUNK / RATE


@dataclass
class Ear:
    """Notes when each burst comes back."""

    times: list[float] = field(default_factory=list)
    _loud: bool = False

    async def listen(self, track: rtc.Track) -> None:
        stream = rtc.AudioStream(track, sample_rate=EAR_RATE, num_channels=1, frame_size_ms=10)
        try:
            async for event in stream:
                samples = np.frombuffer(event.frame.data, np.int16) / 32_768
                loud = bool(np.abs(samples).max() > LOUD)
                if loud and not self._loud and self._is_new():
                    self.times.append(time.monotonic())
                self._loud = loud
        finally:
            await stream.aclose()

    def _is_new(self) -> bool:
        """A burst may cross zero for 10 ms; the next one is 620 ms away."""
        return not self.times or time.monotonic() - self.times[-1] > 0.3


Exchange = tuple[Mouth, Ear]


async def through_worker(url: str, bursts: int) -> Exchange:
    """The worker's agent in a room of its own."""
    async with AsyncExitStack() as stack:
        caller = await stack.enter_async_context(Caller(url, "bench-worker"))
        await caller.until_agent()
        await caller.until("its track", lambda: caller.agent_track)
        return await _exchange(caller.room, caller.agent_track, bursts)


async def through_plain_echo(url: str, bursts: int) -> Exchange:
    """The least that an agent on raw rtc can do: 20 ms in, the same 20 ms out."""
    agent, caller = rtc.Room(), rtc.Room()
    source = rtc.AudioSource(EAR_RATE, 1, queue_size_ms=200)
    tracks: asyncio.Queue[rtc.Track] = asyncio.Queue()
    echoes: list[asyncio.Task[None]] = []

    def echo(track: rtc.Track, *_: object) -> None:
        echoes.append(asyncio.ensure_future(_echo(track, source)))

    agent.on("track_subscribed", echo)
    caller.on("track_subscribed", lambda track, *_: tracks.put_nowait(track))
    try:
        await agent.connect(url, token("bench-plain", "echo", dispatch=None))
        own = rtc.LocalAudioTrack.create_audio_track("echo", source)
        await agent.local_participant.publish_track(own, rtc.TrackPublishOptions())
        await caller.connect(url, token("bench-plain", "caller", dispatch=None))
        return await _exchange(caller, await tracks.get(), bursts)
    finally:
        for task in echoes:
            task.cancel()
        await asyncio.gather(*echoes, return_exceptions=True)
        await caller.disconnect()
        await agent.disconnect()


async def _echo(track: rtc.Track, source: rtc.AudioSource) -> None:
    stream = rtc.AudioStream(track, sample_rate=EAR_RATE, num_channels=1, frame_size_ms=20)
    try:
        async for event in stream:
            await source.capture_frame(event.frame)
    finally:
        await stream.aclose()


async def _exchange(room: rtc.Room, track: rtc.Track | None, bursts: int) -> Exchange:
    assert track is not None
    mouth, ear = Mouth(), Ear()
    await mouth.publish(room)
    listening = asyncio.create_task(ear.listen(track))
    await asyncio.sleep(SETTLE_S)
    await mouth.play(bursts)
    await asyncio.sleep(1.0)
    listening.cancel()
    await asyncio.gather(listening, return_exceptions=True)
    return mouth, ear


async def _in_time(exchange: Coroutine[Any, Any, Exchange], bursts: int) -> Exchange:
    """Nobody watches the run: one that hangs must end, too."""
    async with asyncio.timeout(PATIENCE_S + 10 * bursts * PERIOD_CHUNKS * CHUNK / RATE):
        return await exchange


def parts(mouth: Mouth, ear: Ear, events: Sequence[dict[str, Any]]) -> list[dict[str, float]]:
    """Per burst, in ms, where its time went. Raises `ValueError` where a burst was lost."""
    stages = {name: [e for e in events if e["stage"] == name] for name in STAGES}
    counts = {name: len(found) for name, found in stages.items()} | {"ear": len(ear.times)}
    if set(counts.values()) != {len(mouth.times)}:
        raise ValueError(f"{len(mouth.times)} bursts were played, found {counts}")
    columns = zip(mouth.times, *stages.values(), ear.times, strict=True)
    return [_split(*column) for column in columns]


STAGES = ("heard", "stepped", "captured")


def _split(
    mouth: float,
    heard: dict[str, Any],
    stepped: dict[str, Any],
    captured: dict[str, Any],
    ear: float,
) -> dict[str, float]:
    framing = (FRAME - heard["onset"]) / EAR_RATE
    ahead = captured["queued"] + captured["onset"] / EAR_RATE
    seconds = {
        "uplink": heard["at"] - framing - mouth,
        "framing": framing,
        "engine_wait": stepped["at"] - heard["at"],
        "source": captured["at"] - stepped["at"] + ahead,
        "downlink": ear - captured["at"] - ahead,
        "mouth_to_ear": ear - mouth,
    }
    return {name: value * 1e3 for name, value in seconds.items()}


def plain_ms(mouth: Mouth, ear: Ear) -> list[float]:
    if len(mouth.times) != len(ear.times):
        raise ValueError(f"{len(mouth.times)} bursts were played, {len(ear.times)} came back")
    return [(back - out) * 1e3 for out, back in zip(mouth.times, ear.times, strict=True)]


def measure(bursts: int) -> dict[str, Any]:
    """Both agents, one after the other, on one server."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        server = LiveKitServer(folder)
        server.start()
        worker = WorkerProcess(folder, server.url)
        events = folder / "events.jsonl"
        worker.command[1:4] = ["-m", "tests.bench.room_worker", f"--events={events}"]
        worker.start()
        try:
            ours = asyncio.run(_in_time(through_worker(server.url, bursts), bursts))
            plain = asyncio.run(_in_time(through_plain_echo(server.url, bursts), bursts))
        finally:
            worker.stop()
            server.stop()
        rows = parts(*ours, [json.loads(line) for line in events.read_text().splitlines()])
        return summary(rows, plain_ms(*plain))


def summary(rows: Sequence[dict[str, float]], plain: Sequence[float]) -> dict[str, Any]:
    medians = {name: statistics.median(row[name] for row in rows) for name in rows[0]}
    floors = {name: min(row[name] for row in rows) for name in rows[0]}
    return {
        "bursts": len(rows),
        "median_ms": medians,
        "min_ms": floors,
        "plain_echo_median_ms": statistics.median(plain),
        "plain_echo_min_ms": min(plain),
        "ratio": medians["mouth_to_ear"] / statistics.median(plain),
        "load": os.getloadavg(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="tests.bench.room", description=__doc__)
    parser.add_argument("--bursts", type=int, default=100)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    report = measure(options.bursts)
    print(json.dumps(report, indent=1))
    if options.json:
        options.json.write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
