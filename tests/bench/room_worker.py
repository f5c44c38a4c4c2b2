"""The worker around the echo engine, telling when each burst passes: `--events FILE`.

One JSON line each time a loud frame follows a quiet one: its stage, the monotonic time and the
index of the first loud sample within the frame.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from livekit import rtc

from agent import start
from agent.command import configure_logging
from agent.ports import listen
from agent.room import RoomCall
from agent.serve import run_worker
from agent.settings import Settings, load
from agent.sink import OutputFrame
from agent.speaker import Speaker
from model import Pcm
from tests.fakes.echo import EchoEngine

LOUD = 0.05


class Events:
    """Onsets per stage, written as they happen."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", buffering=1)
        self._loud: dict[str, bool] = {}

    def frame(self, stage: str, pcm: Pcm, **more: float) -> None:
        loud = np.flatnonzero(np.abs(pcm) > LOUD)
        began = loud.size > 0 and not self._loud.get(stage, False)
        self._loud[stage] = loud.size > 0
        if began:
            event = {"stage": stage, "at": time.monotonic(), "onset": int(loud[0]), **more}
            self._file.write(json.dumps(event) + "\n")


def before(owner: type, name: str, watch: Callable[..., None]) -> None:
    """Let `watch` see every call of a method first."""
    method = getattr(owner, name)

    def watched(self: Any, *args: Any, **kwargs: Any) -> Any:
        watch(self, *args)
        return method(self, *args, **kwargs)

    setattr(owner, name, watched)


def instrument(events: Events) -> None:
    def heard(_call: RoomCall, pcm: Pcm, *_: object) -> None:
        events.frame("heard", pcm)

    def stepped(_call: RoomCall, frame: OutputFrame) -> None:
        events.frame("stepped", frame.pcm)

    def captured(speaker: Speaker, pcm: Pcm) -> None:
        source = speaker._source
        queued = source.queued_duration if isinstance(source, rtc.AudioSource) else 0.0
        events.frame("captured", pcm, queued=queued)

    before(RoomCall, "_heard", heard)
    before(RoomCall, "output", stepped)
    before(Speaker, "_capture", captured)


def main() -> int:
    parser = argparse.ArgumentParser()
    start.add_arguments(parser)
    parser.add_argument("--events", type=Path, required=True)
    args = parser.parse_args()
    instrument(Events(args.events))

    def engine(settings: Settings) -> EchoEngine:
        return EchoEngine(settings.max_sessions)

    settings = load(args)
    configure_logging(settings.log_level)
    with listen(settings) as listener:
        return run_worker(settings, listener, engine, start.announce)


if __name__ == "__main__":
    sys.exit(main())
