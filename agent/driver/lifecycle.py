"""Lifecycle mode: two sessions, a third refused, one closed and replaced, nothing leaked."""

from __future__ import annotations

import asyncio
import json
import time
import wave
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from agent.driver.acceptance import (
    AcceptanceError,
    SessionStatistics,
    check_capabilities,
    check_session,
    require,
    statistics,
)
from agent.driver.load import START_DELAY_S
from agent.driver.options import SAMPLE_RATE, DriverOptions
from agent.driver.packets import AUDIO_EVENTS
from agent.driver.probe import DriverError, Probe, Refused
from agent.driver.report import write_json
from agent.driver.server import http_base
from agent.driver.source import InputAudio
from agent.driver.together import gather_all

RESULT_NAME = "result.json"
RETRY_S = 0.2


@dataclass
class LifecycleResult:
    """`result.json`, filled in as the scenario goes on."""

    model: str
    input: dict[str, Any]
    output_dir: str
    ok: bool = False
    capabilities: dict[str, Any] = field(default_factory=dict)
    overflow_error_code: str | None = None
    primary: dict[str, Any] | None = None
    secondary: dict[str, Any] | None = None
    replacement: dict[str, Any] | None = None
    errors: list[str] = field(default_factory=list)


class Lifecycle:
    """The design's five requirements, in order, against one server."""

    def __init__(
        self, options: DriverOptions, model: str, audio: InputAudio, http: aiohttp.ClientSession
    ) -> None:
        self._options = options
        self._model = model
        self._audio = audio
        self._http = http
        self._probes: list[Probe] = []

    async def run(self) -> LifecycleResult:
        """Play the scenario. A failed requirement ends it with its name in `errors`."""
        audio = self._audio
        result = LifecycleResult(
            self._model,
            {"path": audio.path, "sha256": audio.sha256, "tail_s": audio.tail_s},
            str(self._options.output_dir),
        )
        async with AsyncExitStack() as transports:
            transports.push_async_callback(self._abandon)
            try:
                await self._scenario(result)
                result.ok = True
            except (DriverError, AcceptanceError) as error:
                result.errors.append(str(error))
        return result

    async def _scenario(self, result: LifecycleResult) -> None:
        await self._healthy()
        primary = await self._open("primary", self._options.persona)
        secondary = await self._open("secondary", self._options.secondary_persona)
        result.capabilities = self._equal_capabilities(primary, secondary)
        require(primary.session_id != secondary.session_id, "session_ids", "not distinct")
        result.overflow_error_code = await self._overflow()

        await self._round([primary, secondary], self._audio)
        first = self._accept(primary, self._audio)
        second = self._accept(secondary, self._audio)
        _disjoint(first, second)
        result.primary = _row(primary, first)
        result.secondary = _row(secondary, second)

        await primary.close()
        replacement = await self._replace({primary.session_id, secondary.session_id})
        before = len(secondary.audio.packets)
        again = self._audio.first(self._options.replacement_frames or len(self._audio.frames))
        await self._round([secondary, replacement], again)
        third = self._accept(replacement, again)
        result.replacement = _row(replacement, third)
        continued = self._continuation(secondary, before, again, second)
        result.secondary["continuation_frames_after_recycle"] = continued
        _disjoint(first, third)
        _disjoint(second, third)
        await secondary.close()
        await replacement.close()

    async def _healthy(self) -> None:
        try:
            async with self._http.get(f"{http_base(self._options.url)}/health") as response:
                require(response.status == 200, "health", f"status {response.status}")
        except aiohttp.ClientError as error:
            raise DriverError("health", type(error).__name__) from error

    async def _open(self, name: str, persona: str) -> Probe:
        probe = Probe(name, self._options, self._model, persona, self._http)
        self._probes.append(probe)
        await probe.open()
        check_capabilities(probe.capabilities)
        return probe

    @staticmethod
    def _equal_capabilities(one: Probe, other: Probe) -> dict[str, Any]:
        require(one.capabilities == other.capabilities, "capabilities", "differ between sessions")
        return one.capabilities

    async def _overflow(self) -> str:
        try:
            await self._open("overflow", self._options.persona)
        except Refused as refused:
            expected = refused.code == "resource_exhausted"
            require(expected, "overflow", f"refused with {refused.code}")
            return refused.code
        raise AcceptanceError("overflow", "a third session was admitted")

    async def _replace(self, known: set[str | None]) -> Probe:
        """A slot comes back once its cleanup succeeded, which a prompt reopening can outrun."""
        deadline = time.monotonic() + self._options.cleanup_timeout_s
        while True:
            try:
                probe = await self._open("replacement", self._options.replacement_persona)
                break
            except Refused as refused:
                if refused.code != "resource_exhausted" or time.monotonic() > deadline:
                    raise
                await asyncio.sleep(RETRY_S)
        require(probe.session_id not in known, "session_ids", "the replacement's is not fresh")
        return probe

    async def _round(self, probes: Sequence[Probe], audio: InputAudio) -> None:
        start = time.monotonic() + START_DELAY_S
        enough = len(audio.frames) - self._options.max_frame_deficit
        goals = [probe.audio.frames + enough for probe in probes]
        await gather_all(probe.stream(audio, start) for probe in probes)
        await gather_all(
            probe.wait_for_frames(goal) for probe, goal in zip(probes, goals, strict=True)
        )
        await asyncio.sleep(self._options.drain_s)

    def _accept(self, probe: Probe, audio: InputAudio) -> SessionStatistics:
        require(not probe.audio_before_input, "stream", "audio before the first input frame")
        return self._check(probe, len(audio.frames), 0)

    def _check(self, probe: Probe, frames: int, since: int) -> SessionStatistics:
        if probe.error_codes:
            raise DriverError("stream", "server_error")
        heard = probe.audio.since(since)
        stats = statistics(
            heard, probe.of_type(AUDIO_EVENTS), frames, self._options.voiced_frame_rms_threshold
        )
        check_session(stats, heard, frames, self._options)
        return stats

    def _continuation(
        self, probe: Probe, since: int, audio: InputAudio, before: SessionStatistics
    ) -> int:
        stats = self._check(probe, len(audio.frames), since)
        same = stats.response_ids == before.response_ids
        require(same, "response_identity", "the survivor's response changed")
        return stats.output_frames or 0

    async def _abandon(self) -> None:
        await gather_all(probe.abandon() for probe in self._probes)

    def write(self, result: LifecycleResult) -> None:
        """`result.json`, and events and a WAV for each session that was opened."""
        folder = self._options.output_dir
        write_json(folder / RESULT_NAME, asdict(result))
        for probe in self._probes:
            if probe.session_id is not None:
                _write_events(folder / f"{probe.name}-events.jsonl", probe)
                _write_wav(folder / f"{probe.name}-output.wav", probe)


def _row(probe: Probe, stats: SessionStatistics) -> dict[str, Any]:
    return {"session_id": probe.session_id, **asdict(stats)}


def _disjoint(one: SessionStatistics, other: SessionStatistics) -> None:
    shared = set(one.response_ids) & set(other.response_ids)
    require(not shared, "response_identity", f"{len(shared)} response ids shared by sessions")


def _write_events(path: Path, probe: Probe) -> None:
    """One event a line; audio is replaced by its length, so that no sound stands in the file."""
    with path.open("x", encoding="utf-8") as file:
        for timed in probe.events:
            event = dict(timed.event)
            if event.get("type") in AUDIO_EVENTS:
                event["delta"] = f"<{len(str(event.get('delta')))} base64 characters>"
            file.write(json.dumps({"received_at_s": timed.received_at, "event": event}) + "\n")


def _write_wav(path: Path, probe: Probe) -> None:
    with path.open("xb") as file, wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(SAMPLE_RATE)
        sound.writeframes(b"".join(packet.pcm16 for packet in probe.audio.packets))
