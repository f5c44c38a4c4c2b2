"""The engine on the real model at its smallest, with windows short enough to wrap in seconds.

A `Track` is one call's identity: what it is bound to and all it will ever hear. What a track must
say is taken from a run of its own; a schedule then mixes tracks, slots and starts at random.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from itertools import chain

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from model.config import CodecTransformerConfig, ModelConfig
from model.core import FRAME_SAMPLES, FrameResult, Pcm, Sampling, SessionSpec
from model.device import DeviceStepper
from model.engine import ModelFacts, ServingEngine
from model.fast import FastMatrix, NormedMatrix
from model.lm import LanguageModel
from model.mimi import Mimi
from model.modes import prepare_fastest
from model.prefill import Prefix
from model.prepared import PreparedLM
from model.presets import TINY
from model.prompt import Prompt, build_prompt_from_codes
from model.random_weights import build_lm, build_mimi, random_weights
from model.selftest import rows_for
from model.step import FrameStep
from tests.unit.model.engine.harness import Caller, Inline, ManualClock

SEED = 7
CONTEXT = 48
CODEC_WINDOW_FRAMES = 10
RING_POSITIONS = 64
"""The language model's ring holds whole 64s; positions from here on overwrite the first."""
CONFIG: ModelConfig = dataclasses.replace(
    TINY,
    lm=dataclasses.replace(TINY.lm, context=CONTEXT, dep_q=8, depformer_num_layers=1),
    mimi=dataclasses.replace(
        TINY.mimi,
        transformer=CodecTransformerConfig(
            d_model=64,
            num_heads=4,
            num_layers=1,
            context=2 * CODEC_WINDOW_FRAMES,
            dim_feedforward=128,
        ),
    ),
)
WHOLE_TINY: ModelConfig = dataclasses.replace(TINY, lm=dataclasses.replace(TINY.lm, dep_q=8))
"""The preset as it is, whose context is long enough for a prefill of several chunks."""
PACK_FROM = 1 << 13
"""With it the larger half of these small matrices is packed, as serving packs far larger ones."""
VOICES: Mapping[str, int] = {"one.pt": 3, "two.pt": 9}
"""Frames of the voice; the prompt is 12 positions longer, and one for each persona token."""


@cache
def weights(config: ModelConfig = CONFIG) -> tuple[LanguageModel, Mimi]:
    drawn = random_weights(config, SEED)
    return build_lm(config.lm, drawn.lm), build_mimi(config, drawn.mimi)


def read_prompt(
    spec: SessionSpec, config: ModelConfig = CONFIG, voices: Mapping[str, int] = VOICES
) -> Prompt:
    """A voice of random codes; the persona has a token for each character."""
    frames = voices[spec.voice]
    random = torch.Generator().manual_seed(frames)
    codes = torch.randint(config.lm.card, (8, frames), generator=random)
    return build_prompt_from_codes(codes, [5 + ord(c) % 90 for c in spec.persona], config)


@dataclass(frozen=True)
class Track:
    """One call's identity: spec and every frame that it may hear, `[T, 1920]`."""

    spec: SessionSpec
    pcm: NDArray[np.float32]

    @classmethod
    def draw(cls, seed: int, frames: int) -> Track:
        random = np.random.default_rng(seed)
        voice = sorted(VOICES)[seed % 2]
        sampling = Sampling(seed=seed, top_k_text=20, top_k_audio=40) if seed % 3 == 0 else None
        spec = SessionSpec(voice, "persona"[: seed % 4], sampling)
        loudness = random.uniform(0.02, 0.5, (frames, 1))
        noise = random.standard_normal((frames, FRAME_SAMPLES))
        return cls(spec, (loudness * noise).astype(np.float32))


Said = tuple[int, tuple[int, ...], str]
"""Text token, codes and a digest of the bits of the samples of one frame.

Of the bits themselves, what differs would take many minutes to print.
"""


def said(results: list[FrameResult]) -> list[Said]:
    return [(r.text_token, r.codes, sha256(r.pcm.tobytes()).hexdigest()) for r in results]


@dataclass
class RealCaller(Caller):
    """A caller that plays its track, again from the start in each epoch."""

    track: Track = field(kw_only=True)

    def play(self) -> None:
        self.submit_pcm(self.track.pcm[self.seq])

    def submit_pcm(self, pcm: Pcm) -> None:
        self.engine.submit(self.handle, self.epoch, self.seq + 1, pcm)
        self.seq += 1

    def of_epoch(self, epoch: int) -> list[Said]:
        return said([result for result in self.results if result.epoch == epoch])


@dataclass
class RealRig:
    """A poisoning engine over the real model, all rows computed unless a test says otherwise."""

    slots: int = 8
    fixed_rows: bool = True
    poison: bool = True
    prefix_bytes: int = 1 << 24
    config: ModelConfig = CONFIG
    voices: Mapping[str, int] = field(default_factory=lambda: VOICES)
    clock: ManualClock = field(default_factory=ManualClock)

    def __post_init__(self) -> None:
        lm, mimi = weights(self.config)
        cpu = torch.device("cpu")
        rows = rows_for(self.slots, cpu)
        prepared, _ = prepare_fastest(lm, rows)
        self.step = FrameStep(lm, mimi, self.config, rows, prepared=prepared, sampling=True)
        self.stepper = DeviceStepper(self.step, cpu, slots=self.slots, poison=self.poison)
        self.engine: ServingEngine[Prompt, Prefix] = ServingEngine(
            self.stepper,
            lambda spec: read_prompt(spec, self.config, self.voices),
            lambda: str,
            ModelFacts(
                tuple(sorted(self.voices)), SessionSpec("one.pt", ""), self.config.lm.context
            ),
            prefix_bytes=self.prefix_bytes,
            fixed_rows=self.fixed_rows,
            clock=self.clock,
            reader=Inline(),
        )

    def caller(self, track: Track) -> RealCaller:
        caller = RealCaller(self.engine, track=track)
        caller.open(track.spec)
        return caller

    def tick(self, count: int = 1) -> None:
        """Turns of the engine's thread, with more than the scheduler's patience between them."""
        for _ in range(count):
            self.engine.tick()
            self.clock.now += 0.02

    def settle(self) -> None:
        """Until no frame waits and no prefill runs."""
        self.tick()
        while self.engine.stats().waiting_frames:
            self.tick()

    def alone(self, track: Track) -> list[Said]:
        """What the track says when nobody else is there."""
        caller = self.caller(track)
        for _ in track.pcm:
            caller.play()
            self.settle()
        caller.close()
        self.tick(2)
        assert not caller.failures and len(caller.results) == len(track.pcm)
        return said(caller.results)


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def packing() -> Iterator[None]:
    """What is prepared in here computes with the packed products of large models."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("model.fast.PACK_FROM", PACK_FROM)
        yield


def packed_share(lm: PreparedLM) -> float:
    """Of the matrices of all layers and heads."""
    layers = (*lm.layers, *chain.from_iterable(lm.depformer))
    made = [matrix for x in layers for matrix in (x.qkv, x.out, x.up, x.down)]
    made += [lm.text_head, *lm.heads]
    products = [each.product if isinstance(each, NormedMatrix) else each for each in made]
    packed = [each for each in products if isinstance(each, FastMatrix) and each.packed]
    return len(packed) / len(products)
