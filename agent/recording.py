"""Recording of a call: a two-channel FLAC, the people left and the agent right, and JSON lines.

Both channels advance one frame per step, so they are aligned to the sample. Files are written by
a thread of their own; a disk that fails ends the recording and never the call.
"""

from __future__ import annotations

import json
import logging
import queue
import threading
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from agent.command import CommandError
from model import SAMPLE_RATE, Pcm

log = logging.getLogger(__name__)


def recording_folder(setting: str) -> Path | None:
    """The folder of the setting, made if need be. Raises `CommandError` where that fails."""
    if not setting:
        return None
    folder = Path(setting)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise CommandError(
            f"--recording {setting}: cannot write there ({error.strerror}); choose another folder"
        ) from None
    return folder


class Recorder:
    """One call's two files, `NAME.flac` and `NAME.jsonl`."""

    def __init__(self, folder: Path, name: str) -> None:
        self.failed = False
        self._stem = folder / name
        self._work: queue.SimpleQueue[tuple[Pcm, Pcm] | dict[str, Any] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=f"recorder-{name}", daemon=True)
        self._thread.start()

    def frame(self, people: Pcm, agent: Pcm) -> None:
        """What was heard and what was said in the same 80 ms."""
        if not self.failed:
            self._work.put((people, agent))

    def message(self, message: dict[str, Any]) -> None:
        """One line beside the sound, as the room was told."""
        if not self.failed:
            self._work.put(message)

    def close(self) -> None:
        """Finish both files; returns when they are complete."""
        self._work.put(None)
        self._thread.join()

    def _run(self) -> None:
        try:
            self._write()
        except (OSError, soundfile.SoundFileError) as error:
            self.failed = True
            log.error("a recording failed, its call goes on: %s", error)

    def _write(self) -> None:
        with (
            soundfile.SoundFile(
                self._stem.with_suffix(".flac"), "w", SAMPLE_RATE, 2, "PCM_16", format="FLAC"
            ) as sound,
            self._stem.with_suffix(".jsonl").open("w") as lines,
        ):
            while (item := self._work.get()) is not None:
                if isinstance(item, dict):
                    lines.write(json.dumps(item, ensure_ascii=False) + "\n")
                else:
                    sound.write(np.stack(item, axis=1))
