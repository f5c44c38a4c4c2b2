"""`driver`: one command, a verdict in the exit code, a report in the output folder."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import sys
from collections.abc import Sequence

import aiohttp

from agent.command import INTERRUPTED
from agent.driver.lifecycle import RESULT_NAME as LIFECYCLE_NAME
from agent.driver.lifecycle import Lifecycle
from agent.driver.load import LoadRun, LoadSession
from agent.driver.options import DriverOptions, add_arguments
from agent.driver.probe import DriverError, Probe
from agent.driver.progress import Progress
from agent.driver.report import (
    RESULT_NAME,
    LoadResult,
    ReportExists,
    refuse_existing,
    write_json,
)
from agent.driver.server import default_voice, only_model
from agent.driver.source import InputAudio, InputError, read_input
from agent.interrupts import cancelled_by_signals

__all__ = ["add_arguments", "run"]


MUTE_HINT = (
    "hint: the server hardly spoke. Let it finish its greeting before the question, and give the"
    " answer time: 4 s of silence first, --tail-s 6"
)


def run(args: argparse.Namespace) -> int:
    """Exit code: 0 passed, 1 failed, 2 unusable input, 130 cancelled."""
    options = DriverOptions.parse(args)
    try:
        refuse_existing(options.output_dir)
        audio = read_input(options.input_wav, options.tail_s, options.expected_input_sha256)
        options.output_dir.mkdir(parents=True, exist_ok=True)
    except (ReportExists, InputError, OSError) as error:
        print(f"driver: {error}", file=sys.stderr)
        return 2
    try:
        return asyncio.run(cancelled_by_signals(_main(options, audio)))
    except DriverError as error:
        print(f"driver: {error}", file=sys.stderr)
        return 1
    except asyncio.CancelledError:
        print("driver: cancelled, nothing was reported", file=sys.stderr)
        return INTERRUPTED


async def _main(options: DriverOptions, audio: InputAudio) -> int:
    async with aiohttp.ClientSession() as http:
        model = options.model or await only_model(http, options.url, options.api_key)
        voice = options.voice or await default_voice(http, options.url, options.api_key)
        options = dataclasses.replace(options, voice=voice)
        if options.sessions is None:
            return await _lifecycle(options, model, audio, http)
        return await _load(options, model, audio, http)


async def _lifecycle(
    options: DriverOptions, model: str, audio: InputAudio, http: aiohttp.ClientSession
) -> int:
    scenario = Lifecycle(options, model, audio, http)
    result = await scenario.run()
    scenario.write(result)
    for line in result.errors:
        print(f"driver: {line}", file=sys.stderr)
    _hint(result.errors)
    print(f"{'passed' if result.ok else 'FAILED'}: {options.output_dir / LIFECYCLE_NAME}")
    return 0 if result.ok else 1


async def _load(
    options: DriverOptions, model: str, audio: InputAudio, http: aiohttp.ClientSession
) -> int:
    available = len(audio.frames)
    if available < options.load_frames:
        print(
            f"plays the whole input, {available} frames: it is never looped, and"
            f" --load-frames {options.load_frames} is a bound"
        )
    sessions = _sessions(options, model, http)
    result = await LoadRun(options, model, audio, sessions).run(Progress())
    write_json(options.output_dir / RESULT_NAME, result.model_dump())
    if options.plot:
        from agent.driver import plot

        plot.save(result, options.output_dir / "load-result.png")
    _summary(result)
    print(f"{'passed' if result.ok else 'FAILED'}: {options.output_dir / RESULT_NAME}")
    return 0 if result.ok else 1


def _sessions(options: DriverOptions, model: str, http: aiohttp.ClientSession) -> list[LoadSession]:
    assert options.sessions is not None
    names = [f"session-{index}" for index in range(options.sessions)]
    if options.transport == "livekit":
        from agent.driver.rooms import RoomProbe

        return [RoomProbe(name, options, http) for name in names]
    return [Probe(name, options, model, options.persona, http) for name in names]


def _summary(result: LoadResult) -> None:
    for row in result.sessions:
        verdict = "ok" if row.ok else row.error
        print(
            f"#{row.index} {verdict}: frames {row.input_frames} in, {row.output_frames} out, "
            f"packet interval p99 {row.client_audio_packet_interval_ms.p99} ms, "
            f"client RTF {row.client_stream_rtf}"
        )
    _hint([row.error for row in result.sessions if row.error])
    if result.client_pacing_warning_sessions:
        print("warning: this client sent late; do not read its figures as the server's")


def _hint(errors: Sequence[str]) -> None:
    """What to change where a session said next to nothing; reports keep the numbers alone."""
    if any(error.startswith("voiced_frames: ") for error in errors):
        print(f"driver: {MUTE_HINT}", file=sys.stderr)
