"""Voices of Debian's `flite`, `espeak-ng` and `festival`, and how to make them speak.

Knows programs and voices only; what they say and what is done to the sound is decided elsewhere.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

from model.core import SAMPLE_RATE

Samples = NDArray[np.float32]
Program = Literal["flite", "espeak-ng", "festival"]


class MissingProgram(RuntimeError):
    """A synthesiser is not installed; the message says what to install."""


@dataclass(frozen=True)
class Speaker:
    """One voice of one program. Speed is in words a minute and pitch 0..99, both espeak's."""

    program: Program
    voice: str
    speed: int = 160
    pitch: int = 50

    @property
    def name(self) -> str:
        return f"{self.program}:{self.voice}"


AGENT_PITCHES = (100, 125)
"""Hz. Both periods divide a frame of 1920 samples, so that the phase is the same in every frame and
the waveform can be learnt with plain losses."""

_ESPEAK_TRAINED = (
    "en-us en-us+f1 en-us+f2 en-us+f3 en-us+f5 en-us+m1 en-us+m2 en-us+m3 en-us+m4 en-us+m5 "
    "en-us+m6 en-us+m8 en-us+klatt en-us+klatt2 en-us+klatt3 en-us+klatt5 en-us+Alex en-us+Alicia "
    "en-us+Andrea en-us+Andy en-us+Annie en-us+Denis en-us+Gene en-us+Hugo en-us+Jacky "
    "en-us+Marco en-us+Michael en-us+Mike en-us+adam en-us+belinda en-us+david en-us+ed "
    "en-us+john en-us+linda en-us+max en-us+norbert en-us+paul en-us+pedro en-us+rob en-us+sandro "
    "en-us+shelby en-us+steph en-us+steph3 en-us+victor en-us+zac en-us-nyc en-us-nyc+f3 "
    "en en+f2 en+m3 en+Alicia en+Marco en+edward en+linda en+quincy en-gb-scotland "
    "en-gb-scotland+f3 en-gb-scotland+m2 en-gb-scotland+Andy en-gb-x-rp en-gb-x-rp+f1 "
    "en-gb-x-rp+steph2 en-gb-x-gbclan+m1 en-gb-x-gbclan+f5 en-gb-x-gbcwmd en-029+m2"
).split()
"""British English is `en`: of `en-gb+f4` espeak-ng speaks plain `en-gb` and says nothing. A variant
is spelt as its file is; of another spelling, too, the plain voice speaks."""

TRAINED: tuple[Speaker, ...] = (
    *(Speaker("flite", voice) for voice in ("kal16", "kal", "awb", "slt")),
    Speaker("festival", "cmu_us_slt_arctic_hts"),
    *(Speaker("espeak-ng", voice) for voice in _ESPEAK_TRAINED),
)
UNSEEN_VARIANTS: tuple[Speaker, ...] = (
    Speaker("espeak-ng", "en-us+m7"),
    Speaker("espeak-ng", "en+f4"),
    Speaker("espeak-ng", "en-us+klatt4"),
    Speaker("espeak-ng", "en-us+Lee"),
    Speaker("espeak-ng", "en-gb-scotland+Diogo"),
)
"""Variants never trained on, of voices that were."""
UNSEEN_VOICE: tuple[Speaker, ...] = (Speaker("flite", "rms"),)
"""A person's voice never trained on, of a program of which others were."""
UNSEEN_SYNTHESISER: tuple[Speaker, ...] = (Speaker("festival", "ked_diphone"),)
"""Festival's diphone synthesis, of which no voice is trained on."""
UNSEEN = (*UNSEEN_VARIANTS, *UNSEEN_VOICE, *UNSEEN_SYNTHESISER)


def speak(speaker: Speaker, texts: Sequence[str]) -> list[Samples]:
    """Each text as 24 kHz samples. Raises `MissingProgram`, `CalledProcessError`."""
    _need(speaker.program)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if speaker.program == "festival":
            _festival(speaker, texts, folder)
        else:
            for index, text in enumerate(texts):
                _say(speaker, text, folder / f"{index}.wav")
        return [_read(folder / f"{index}.wav") for index in range(len(texts))]


def speak_agent(pitch: int, text: str) -> Samples:
    """A phase-locked monotone: flite's kal16 at a constant pitch in Hz."""
    _need("flite")
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "agent.wav"
        tune = ["--setf", f"int_f0_target_mean={pitch}", "--setf", "int_f0_target_stddev=0"]
        _run(["flite", "-voice", "kal16", *tune, "-t", text, "-o", str(path)])
        return _read(path)


def _say(speaker: Speaker, text: str, path: Path) -> None:
    if speaker.program == "flite":
        _run(["flite", "-voice", speaker.voice, "-t", text, "-o", str(path)])
        return
    tune = ["-s", str(speaker.speed), "-p", str(speaker.pitch)]
    _run(["espeak-ng", "-v", speaker.voice, *tune, "-w", str(path), text])


def _festival(speaker: Speaker, texts: Sequence[str], folder: Path) -> None:
    lines = [f"(voice_{speaker.voice})"]
    for index, text in enumerate(texts):
        quoted = text.replace("\\", " ").replace('"', " ")
        lines.append(
            f'(utt.save.wave (utt.synth (Utterance Text "{quoted}")) "{folder / str(index)}.wav")'
        )
    script = folder / "say.scm"
    script.write_text("\n".join(lines), encoding="utf-8")
    _run(["festival", "--batch", str(script)])


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True)


def _need(program: str) -> None:
    if shutil.which(program) is None:
        raise MissingProgram(
            f"{program} is not installed; on Debian: apt install flite espeak-ng festival "
            "festvox-us-slt-hts festvox-kdlpc16k"
        )


def _read(path: Path) -> Samples:
    samples, rate = soundfile.read(path, dtype="float32")
    resampled: Samples = soxr.resample(samples, rate, SAMPLE_RATE).astype(np.float32)
    return resampled
