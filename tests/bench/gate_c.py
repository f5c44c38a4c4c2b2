"""Gate C: what a form of the model that is another model says, beside fp32, teacher-forced.

    python -m tests.bench.gate_c [--model small] [--frames 250] [--json FILE]

Both speak the fp32 model's own call, step by step as served: each position is computed from the
tokens that fp32 decided, and what the form would have decided there is compared. `--model` is a
preset (random weights: figures of arithmetic, not of speech) or a checkpoint, such as `demo`.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from model.checkpoint.load import load_checkpoint
from model.config import ModelConfig
from model.core import AGENT_CODEBOOKS, FRAME_SAMPLES, SessionSpec
from model.lm import LanguageModel
from model.lm_slots import LMSlots
from model.loading import prompt_reader
from model.mimi import Mimi
from model.modes import Quantisation, prepare_fastest
from model.modules import adopt, meta_lm, meta_mimi
from model.prefill import prefill
from model.presets import PRESETS, SEED
from model.prompt import Prompt, build_prompt_from_codes
from model.random_weights import random_weights, voice_like_sound
from tests.bench.report import publish, surroundings, table
from tests.parity.lm_oracle import first_steps

CPU = torch.device("cpu")
VOICE_FRAMES = 25


@dataclass(frozen=True)
class Form:
    """How a model is computed: dtype of the weights, int8 layers, dtype of keys and values."""

    dtype: torch.dtype = torch.float32
    quantise: Quantisation | None = None
    kv_dtype: torch.dtype | None = None


REFERENCE = Form()
FORMS = {
    "float32": REFERENCE,
    "bfloat16": Form(torch.bfloat16),
    "int8": Form(quantise="int8"),
    "bfloat16, int8": Form(torch.bfloat16, "int8"),
    "float8 keys and values": Form(kv_dtype=torch.float8_e4m3fn),
}
"""The first is the reference, compared with itself: all its figures must be perfect."""


@dataclass(frozen=True)
class Subject:
    """One model, made anew in each dtype, since int8 layers replace those they are made of."""

    config: ModelConfig
    make: Callable[[torch.dtype], LanguageModel]
    mimi: Mimi
    prompt: Prompt

    @classmethod
    def of(cls, name: str) -> Subject:
        return cls._preset(PRESETS[name]) if name in PRESETS else cls._checkpoint(name)

    @classmethod
    def _preset(cls, whole: ModelConfig) -> Subject:
        lm = dataclasses.replace(whole.lm, dep_q=AGENT_CODEBOOKS)
        config, drawn = dataclasses.replace(whole, lm=lm), random_weights(whole, SEED)
        kept = first_steps(drawn.lm, whole.lm, AGENT_CODEBOOKS)

        def make(dtype: torch.dtype) -> LanguageModel:
            return adopt(meta_lm(lm), {name: tensor.to(dtype) for name, tensor in kept.items()})

        generator = torch.Generator().manual_seed(SEED)
        codes = torch.randint(lm.card, (AGENT_CODEBOOKS, VOICE_FRAMES), generator=generator)
        mimi = adopt(meta_mimi(config), drawn.mimi)
        return cls(config, make, mimi, build_prompt_from_codes(codes, [], config))

    @classmethod
    def _checkpoint(cls, name: str) -> Subject:
        loaded = load_checkpoint(name, device=CPU, dtype=torch.float32)
        spec = SessionSpec(loaded.info.default_voice, loaded.info.default_persona)

        def make(dtype: torch.dtype) -> LanguageModel:
            return load_checkpoint(name, device=CPU, dtype=dtype).lm

        return cls(loaded.info.config, make, loaded.mimi, prompt_reader(loaded)(spec))

    def user_codes(self, frames: int) -> Tensor:
        """Of something like speech, `[T, 8]`."""
        sound = torch.from_numpy(voice_like_sound(frames * FRAME_SAMPLES, SEED))[None, None]
        latent = self.mimi.encode_latent_sequence(sound)
        return self.mimi.quantize_latent(latent).codes[0].T


class Speaker:
    """One form of the model in a call of its own, as served."""

    def __init__(self, subject: Subject, form: Form) -> None:
        self.lm = subject.make(form.dtype)
        prepared, self.form = prepare_fastest(self.lm, 1, quantise=form.quantise)
        self.slots = LMSlots(prepared, subject.config, 1, kv_dtype=form.kv_dtype)
        self.slots.admit(0, prefill(self.lm, subject.config, subject.prompt), None)

    def hear(self, user: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """User codes `[1, 8]` to decisions `[1, 9]`, text logits and hidden; commits."""
        output = self.slots.step(range(1), user, torch.zeros(1, dtype=torch.bool))
        self.slots.commit(range(1), torch.ones(1, dtype=torch.bool))
        return output.decided, output.text_logits, output.hidden

    def logits(self, text_logits: Tensor, hidden: Tensor, decided: Tensor) -> list[Tensor]:
        """Text `[V]` and each codebook `[card]`, after the tokens `decided` `[1, 9]`."""
        audio = self.lm.depformer_logits(hidden, decided[:, 0], decided[:, 1:])
        return [text_logits[0].float(), *audio[0].float()]

    @property
    def known(self) -> Tensor:
        """What was decided for the next position, and which it is."""
        return self.slots.state.integers.old


@dataclass(frozen=True)
class Moment:
    """One position of the reference's call."""

    user: Tensor
    """`[1, 8]`"""
    known: Tensor
    """`Speaker.known` before it."""
    decided: Tensor
    """`[1, 9]`"""
    logits: list[Tensor]


@torch.inference_mode()
def reference_call(subject: Subject, frames: int) -> list[Moment]:
    """What every form is then asked about."""
    speaker, call = Speaker(subject, REFERENCE), list[Moment]()
    for user in subject.user_codes(frames):
        known = speaker.known.clone()
        decided, *after = speaker.hear(user[None])
        call.append(Moment(user[None], known, decided, speaker.logits(*after, decided)))
    return call


@torch.inference_mode()
def teacher_forced(subject: Subject, form: Form, call: Sequence[Moment]) -> dict[str, object]:
    """The report of one form over the reference's call."""
    other, codes = Speaker(subject, form), list[tuple[Tensor, Tensor]]()
    tally = [Tally() for _ in range(1 + AGENT_CODEBOOKS)]
    for at in call:
        other.known.copy_(at.known)
        _, *after = other.hear(at.user)
        mine = other.logits(*after, at.decided)
        rows = zip(tally, at.logits, mine, at.decided[0], strict=True)
        said = [one.add(exact, close, token) for one, exact, close, token in rows]
        codes.append((at.decided[0, 1:], torch.stack(said[1:])))
    exact, close = (torch.stack(list(each)) for each in zip(*codes, strict=True))
    return {
        "form": other.form,
        "positions": len(call),
        "text": tally[0].figures(),
        "audio": merged(tally[1:]).figures(),
        "audio_agreement_by_codebook": [one.agreed / one.positions for one in tally[1:]],
        "codec_snr_db": snr(heard(subject.mimi, exact), heard(subject.mimi, close)),
    }


@dataclass
class Tally:
    """Sums over the positions of one row of tokens, or of several."""

    positions: int = 0
    agreed: int = 0
    largest: float = 0.0
    error: float = 0.0
    scale: float = 0.0
    nll: float = 0.0
    nll_reference: float = 0.0

    def add(self, exact: Tensor, close: Tensor, token: Tensor) -> Tensor:
        """One position's logits `[V]` of both and the token that stands; what the form says."""
        choice, difference = close.argmax(), close - exact
        self.positions += 1
        self.agreed += int(choice == token)
        self.largest = max(self.largest, float(difference.abs().max()))
        self.error += float(difference.square().sum())
        self.scale += float(exact.square().sum())
        self.nll_reference -= float(F.log_softmax(exact, -1)[token])
        self.nll -= float(F.log_softmax(close, -1)[token])
        return choice

    def figures(self) -> dict[str, float]:
        return {
            "agreement": self.agreed / self.positions,
            "logit_error_max": self.largest,
            "logit_error_relative": (self.error / self.scale) ** 0.5,
            "nll_reference": self.nll_reference / self.positions,
            "nll_delta": (self.nll - self.nll_reference) / self.positions,
        }


def merged(tallies: Sequence[Tally]) -> Tally:
    """Sums of the sums; the largest of the largest."""
    total = Tally(largest=max(one.largest for one in tallies))
    for name in ("positions", "agreed", "error", "scale", "nll", "nll_reference"):
        setattr(total, name, sum(getattr(one, name) for one in tallies))
    return total


def heard(mimi: Mimi, codes: Tensor) -> Tensor:
    """Codes `[T, 8]` as decided to the samples of the `T - 1` frames that they complete.

    Codebooks 1 to 7 of a frame are decided a position after its first.
    """
    frames = torch.cat([codes[:-1, :1], codes[1:, 1:]], dim=1)
    return mimi.decode_latent_sequence(mimi.decode_codes(frames.T[None]))


def snr(exact: Tensor, close: Tensor) -> float | None:
    """In dB; none where nothing differs."""
    noise = float((close - exact).square().sum())
    return 10 * float(torch.log10(exact.square().sum() / noise)) if noise else None


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tests.bench.gate_c", description=__doc__)
    parser.add_argument("--model", default="small")
    parser.add_argument("--frames", type=int, default=250)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    subject = Subject.of(options.model)
    call = reference_call(subject, options.frames)
    forms = {name: teacher_forced(subject, form, call) for name, form in FORMS.items()}
    report = {"model": options.model, "against": "float32", "forms": forms}
    publish(report | surroundings(), markdown(options.model, forms), options.json)
    return 0


def markdown(model: str, forms: dict[str, dict[str, object]]) -> str:
    title = f"Gate C, {model}: choices and logits beside float32, teacher-forced. Not identical."
    header = ["form", "row", "agreement", "largest error", "relative error", "NLL", "NLL delta"]
    rows = [
        [name, row, *figures(report[row]), decibels(report["codec_snr_db"]) if audio else ""]
        for name, report in forms.items()
        for audio, row in enumerate(("text", "audio"))
    ]
    return f"{title}\n\n{table([*header, 'SNR dB'], rows)}"


def figures(of: object) -> list[str]:
    assert isinstance(of, dict)
    return [
        f"{of['agreement']:.2%}",
        f"{of['logit_error_max']:.2g}",
        f"{of['logit_error_relative']:.2%}",
        f"{of['nll_reference']:.3f}",
        f"{of['nll_delta']:+.4f}",
    ]


def decibels(ratio: object) -> str:
    return "-" if ratio is None else f"{ratio:.1f}"


if __name__ == "__main__":
    sys.exit(main())
