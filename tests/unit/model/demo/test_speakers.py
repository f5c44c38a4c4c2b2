"""The voices of the demo's corpus are as many as their names, and the held-out ones are strange.

espeak-ng speaks in its plain voice where it does not know a variant, and says nothing about it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import pytest

from model.demo.speakers import TRAINED, UNSEEN, speak

pytestmark = pytest.mark.unit
SENTENCE = "what is your name"
FEWEST = 50


def test_every_voice_sounds_unlike_every_other() -> None:
    speakers = (*TRAINED, *UNSEEN)
    plain = {replace(speaker, voice=speaker.voice.split("+")[0]) for speaker in speakers}
    alike: dict[bytes, list[str]] = defaultdict(list)
    for speaker in (*speakers, *(plain - set(speakers))):
        alike[speak(speaker, [SENTENCE])[0].tobytes()].append(speaker.name)
    assert [names for names in alike.values() if len(names) > 1] == []
    assert len({speaker.name for speaker in TRAINED}) >= FEWEST
