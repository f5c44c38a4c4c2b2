"""The cases: each checks that both sides say the same, and only then measures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial

import torch
from torch import Tensor

from model.config import ModelConfig
from model.core import FRAME_SAMPLES
from model.prefill import Prefix, prefill
from model.prompt import SILENCE_FRAMES, build_prompt_from_codes
from model.random_weights import RandomWeights
from tests.bench.sides import OurCodec, OurFrame, OurLM, Reference, self_talk
from tests.bench.timing import Comparison, Side, compare

CHECKED_CALLS = 12
PROMPT_POSITIONS = 200
STEPPED = 10
"""Steps of the reference that are timed in place of 200."""
PCM_BOUND, HIDDEN_BOUND = 1e-5, 1e-4


class OutputsDiffer(Exception):
    """A ratio of a wrong result is worth nothing and is not printed."""


@dataclass(frozen=True)
class Bench:
    """What all cases share."""

    config: ModelConfig
    weights: RandomWeights
    reference: Reference
    rounds: int

    def sound(self, rows: int, frames: int) -> Tensor:
        """`[frames, B, 1, 1920]`."""
        generator = torch.Generator().manual_seed(0)
        return 0.1 * torch.randn(frames, rows, 1, FRAME_SAMPLES, generator=generator)


def row(name: str, batch: int, result: Comparison, note: str) -> dict[str, object]:
    return {"name": name, "batch": batch, **asdict(result), "note": note}


def lm_step(bench: Bench, batch: int, *, steps: int) -> dict[str, object]:
    """One step against the reference's 16; agent tokens equal over the first calls."""
    ours = OurLM(bench.config, bench.weights, batch, steps)
    with bench.reference.lm_stream(batch) as generator:
        spoken = self_talk(generator, batch, CHECKED_CALLS)
        silence = torch.zeros(batch, 8, dtype=torch.int64)
        ours.step(silence, [0] * batch)
        for call, frame in enumerate(spoken, 1):
            if not torch.equal(ours.step(frame[:, 9:], [call] * batch), frame[:, :9]):
                raise OutputsDiffer(f"lm_step, batch {batch}: tokens differ at call {call}")
        nothing = torch.zeros(batch, 0, 1, dtype=torch.int64)
        positions = ours.age()
        result = compare(
            lambda: generator.step(nothing), lambda: ours.step(silence, positions), bench.rounds
        )
    name = "lm_step" if steps == bench.config.lm.dep_q else "lm_step_served"
    return row(name, batch, result, f"{steps} against 16 depformer steps, {ours.form}, rings full")


def mimi(bench: Bench, batch: int, *, way: str) -> dict[str, object]:
    """Encode or decode of one frame; codes equal and PCM within the bound over the first."""
    ours, theirs = OurCodec(bench.config, bench.weights, batch), bench.reference.mimi
    sound = bench.sound(batch, CHECKED_CALLS)
    with bench.reference.codec_stream(batch):
        for pcm in sound:
            codes, mine = theirs.encode(pcm), ours.encode(pcm)
            said, heard = theirs.decode(codes), ours.decode(codes[..., 0])
            ours.commit()
            if not torch.equal(codes[..., 0], mine):
                raise OutputsDiffer(f"mimi, batch {batch}: codes differ")
            if float((said[:, 0] - heard).abs().max()) > PCM_BOUND:
                raise OutputsDiffer(f"mimi, batch {batch}: PCM differs")
        ours.age()
        pcm, codes = sound[0], theirs.encode(sound[0])
        works: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
            "encode": (partial(theirs.encode, pcm), partial(ours.encode, pcm)),
            "decode": (partial(theirs.decode, codes), partial(ours.decode, codes[..., 0])),
        }
        result = compare(*works[way], bench.rounds)
    return row(f"mimi_{way}", batch, result, "rings full")


def frame_fast(bench: Bench, batch: int) -> dict[str, object]:
    """A whole frame; its parts are checked by the cases above."""
    ours = OurFrame(bench.config, bench.weights, batch)
    pcm = bench.sound(batch, 1)[0]
    nothing = torch.zeros(batch, 0, 1, dtype=torch.int64)
    with bench.reference.lm_stream(batch) as generator, bench.reference.codec_stream(batch):
        self_talk(generator, batch, 3)
        codec = bench.reference.mimi

        def whole() -> None:
            codec.encode(pcm)
            tokens = generator.step(nothing)
            codec.decode(tokens[:, 1:9].clamp(0, bench.config.lm.card - 1))

        result = compare(whole, lambda: ours.run(pcm[:, 0]), bench.rounds)
    return row("frame_fast", batch, result, "8 against 16 depformer steps, rings full")


def prefill_200(bench: Bench) -> list[dict[str, object]]:
    """A prompt of 200 positions against 200 steps, the reference's and ours; a join by its copy."""
    ours = OurLM(bench.config, bench.weights, 1, steps=8)
    generator = torch.Generator().manual_seed(0)
    frames = PROMPT_POSITIONS - 2 * SILENCE_FRAMES
    codes = torch.randint(bench.config.lm.card, (8, frames), generator=generator)
    prompt = build_prompt_from_codes(codes, [], bench.config)
    prefix = prefill(ours.lm, bench.config, prompt)
    _check_prefix(bench, prefix, prompt.tokens[:, :PROMPT_POSITIONS])
    at_once = _least_ms(lambda: prefill(ours.lm, bench.config, prompt))
    joined = _least_ms(lambda: ours.slots.admit(0, prefix, None))
    theirs, stepped = _their_steps_ms(bench), _our_steps_ms(ours)
    note = f"against {PROMPT_POSITIONS} steps of"
    return [
        _against("prefill_200", theirs, at_once, f"{note} the reference ({STEPPED} timed)"),
        _against("prefill_200_own", stepped, at_once, f"{note} our own, 8 depformer steps"),
        _against("join", theirs, joined, f"{note} the reference ({STEPPED} timed)"),
    ]


def _check_prefix(bench: Bench, prefix: Prefix, tokens: Tensor) -> None:
    with torch.inference_mode():
        hidden, _ = bench.reference.lm.forward_text(tokens[None])
    if float((hidden[:, -1] - prefix.hidden).abs().max()) > HIDDEN_BOUND:
        raise OutputsDiffer("prefill_200: the hidden state differs")


def _their_steps_ms(bench: Bench) -> float:
    """A few, multiplied: each attends over the whole ring and takes as long as any other."""
    nothing, stepping = torch.zeros(1, 0, 1, dtype=torch.int64), Side()
    with bench.reference.lm_stream(1) as stream:
        for _ in range(STEPPED):
            stepping.run(lambda: stream.step(nothing))
    return 1000 * min(stepping.cpu) * PROMPT_POSITIONS


def _our_steps_ms(ours: OurLM) -> float:
    """All of them, from an empty ring on."""
    silence, stepping = torch.zeros(1, 8, dtype=torch.int64), Side()
    ours.slots.reset(0)
    with torch.inference_mode():
        for position in range(PROMPT_POSITIONS):
            stepping.run(lambda at=position: ours.step(silence, [at]))
    return 1000 * sum(stepping.cpu)


def _least_ms(work: Callable[[], object]) -> float:
    side = Side()
    with torch.inference_mode():
        for _ in range(5):
            side.run(work)
    return 1000 * min(side.cpu)


def _against(name: str, stepped_ms: float, ours_ms: float, note: str) -> dict[str, object]:
    ratio = stepped_ms / ours_ms
    figures = {"ratio": ratio, "reference_ms": stepped_ms, "ours_ms": ours_ms}
    return {"name": name, "batch": 1, **figures, "note": note}
