"""Where the person starts and stops speaking, for clients that asked for server VAD.

It only labels: nothing is committed, cut or cancelled because of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from agent.framing import Samples
from agent.realtime.conversation import new_item_id
from agent.realtime.server_events import SpeechStarted, SpeechStopped
from agent.turns import SPOKEN_DBFS, level_dbfs
from model import SAMPLE_RATE

WINDOW = SAMPLE_RATE // 50
"""20 ms."""
START_SAMPLES = SAMPLE_RATE // 10


@dataclass(slots=True)
class UserSpeech:
    """Energy over windows of the appended audio, of 20 ms at most; all counts are samples."""

    silence_ms: int = 500
    _at: int = 0
    _loud: int = 0
    _quiet: int = 0
    _item_id: str = field(default="")

    def hear(self, samples: Samples) -> list[SpeechStarted | SpeechStopped]:
        """Take appended samples at 24 kHz; the events that they cause."""
        events: list[SpeechStarted | SpeechStopped] = []
        for start in range(0, samples.size, WINDOW):
            window = samples[start : start + WINDOW]
            event = self._window(window)
            if event is not None:
                events.append(event)
        return events

    def _window(self, window: Samples) -> SpeechStarted | SpeechStopped | None:
        self._at += window.size
        if level_dbfs(window) > SPOKEN_DBFS:
            self._loud, self._quiet = self._loud + window.size, 0
        else:
            self._loud, self._quiet = 0, self._quiet + window.size
        if not self._item_id and self._loud >= START_SAMPLES:
            self._item_id = new_item_id()
            return SpeechStarted(
                audio_start_ms=_milliseconds(self._at - self._loud), item_id=self._item_id
            )
        if self._item_id and _milliseconds(self._quiet) >= self.silence_ms:
            item_id, self._item_id = self._item_id, ""
            return SpeechStopped(
                audio_end_ms=_milliseconds(self._at - self._quiet), item_id=item_id
            )
        return None


def _milliseconds(samples: int) -> int:
    return 1000 * samples // SAMPLE_RATE


def user_speech_for(turn_detection: object) -> UserSpeech | None:
    """A labeller where `server_vad` was asked for, else none."""
    if not isinstance(turn_detection, dict) or turn_detection.get("type") != "server_vad":
        return None
    silence: Any = turn_detection.get("silence_duration_ms", 500)
    good = isinstance(silence, int | float) and not isinstance(silence, bool)
    return UserSpeech(silence_ms=min(10_000, max(20, int(silence))) if good else 500)
