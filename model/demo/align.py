"""Where each phone and word of a known sentence lies in its recording.

Forced alignment by pocketsphinx, on its 10 ms grid; used for training only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import soxr
from pocketsphinx import Decoder

from model.core import SAMPLE_RATE

from .speakers import Samples

ASR_RATE = 16_000
STEP_SECONDS = 0.01
SILENCE = "SIL"
PHONES = (
    SILENCE,
    *"AA AE AH AO AW AY B CH D DH EH ER EY F G HH IH IY JH K L M N NG OW OY".split(),
    *"P R S SH T TH UH UW V W Y Z ZH".split(),
)


@dataclass(frozen=True)
class Alignment:
    """Phone indices into `PHONES` every 10 ms, and each word with its start in seconds."""

    phones: tuple[int, ...]
    words: tuple[tuple[str, float], ...]


class Aligner:
    """One decoder, used again for each sentence."""

    def __init__(self) -> None:
        self._decoder = Decoder(lm=None, loglevel="FATAL", dither=True, seed=1)
        self._index = {phone: index for index, phone in enumerate(PHONES)}

    def align(self, samples: Samples, text: str) -> Alignment | None:
        """None where the sentence cannot be found in the samples."""
        pcm = to_asr(samples)
        self._decoder.set_align_text(plain(text))
        try:
            self._pass(pcm)
            self._decoder.set_alignment()
            self._pass(pcm)
        except RuntimeError:  # pocketsphinx's only sign that the search did not reach the end
            return None
        alignment = self._decoder.get_alignment()
        return None if alignment is None else self._read(alignment)

    def _pass(self, pcm: bytes) -> None:
        self._decoder.start_utt()
        self._decoder.process_raw(pcm, full_utt=True)
        self._decoder.end_utt()

    def _read(self, alignment: object) -> Alignment:
        phones: list[int] = []
        words: list[tuple[str, float]] = []
        for word in alignment:  # type: ignore[attr-defined]
            if word.name[0] not in "<[":
                words.append((word.name.split("(")[0], word.start * STEP_SECONDS))
            for phone in word:
                phones.extend([self._index.get(phone.name, 0)] * phone.duration)
        return Alignment(tuple(phones), tuple(words))


def plain(text: str) -> str:
    """Lower case words only, as the pronouncing dictionary has them."""
    return " ".join(re.findall(r"[a-z']+", text.lower()))


def to_asr(samples: Samples) -> bytes:
    """16 kHz pcm16, as pocketsphinx reads it."""
    resampled = soxr.resample(samples, SAMPLE_RATE, ASR_RATE)
    pcm: bytes = (np.clip(resampled, -1, 1) * 32767).astype(np.int16).tobytes()
    return pcm
