"""Starts, a long prefill beside running calls, capacity: on the real model, counted in steps."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

from model.checkpoint.load import load_checkpoint
from model.core import EngineStats, ResourceExhausted, SessionSpec
from model.device import DeviceStepper
from model.loading import PersonaPlexEngine, build_engine
from model.prefill import CHUNK
from model.prompt import SILENCE_FRAMES
from tests.unit.model.engine.real import (
    RING_POSITIONS,
    VOICES,
    WHOLE_TINY,
    RealCaller,
    RealRig,
    Track,
    said,
    torch_threads,
)

pytestmark = pytest.mark.unit
HALF = WHOLE_TINY.lm.context // 2
CHUNKS_OF_HALF = -(-HALF // CHUNK)
HALF_VOICE = {**VOICES, "half.pt": HALF - 2 * SILENCE_FRAMES}
ROUNDS = 8


# contract: I3
@pytest.mark.parametrize("neighbours", [0, 3])
def test_with_a_warm_prefix_the_first_output_comes_in_the_step_of_the_first_input(
    neighbours: int,
) -> None:
    rig = RealRig(4, config=WHOLE_TINY)
    track = Track.draw(1, 4)
    expected = rig.alone(track)
    others = [rig.caller(Track.draw(2, 4)) for _ in range(neighbours)]
    rig.tick(6)
    before = rig.engine.stats()
    caller = rig.caller(track)
    for each in (caller, *others):
        each.play()
    rig.tick()
    after = rig.engine.stats()
    assert said(caller.results) == expected[:1] and caller.results[0].seq == 1
    assert counted(before, after) == (1, 1 + neighbours, 0)
    assert after.prefix_hits == before.prefix_hits + 1


def counted(before: EngineStats, after: EngineStats) -> tuple[int, int, int]:
    """Steps, frames and chunks of prefill between two readings."""
    return (
        after.steps - before.steps,
        after.frames - before.frames,
        after.prefill_chunks - before.prefill_chunks,
    )


# contract: I2
def test_while_one_call_prefills_half_the_context_seven_others_lose_no_frame() -> None:
    rig = RealRig(8, config=WHOLE_TINY, voices=HALF_VOICE)
    track = Track.draw(1, ROUNDS)
    long = dataclasses.replace(track, spec=SessionSpec("half.pt", ""))
    expected = rig.alone(track)
    callers = [rig.caller(track) for _ in range(7)]
    rig.tick(2)
    late = rig.caller(long)
    delays = [chunks_before_the_step(rig, callers) for _ in range(ROUNDS)]
    assert sorted(delays) == [0] * (ROUNDS - CHUNKS_OF_HALF) + [1] * CHUNKS_OF_HALF
    assert [bound.prefill_positions for bound in late.bound] == [HALF]
    assert all(said(caller.results) == expected for caller in callers)
    for _ in range(ROUNDS):
        late.play()
        rig.settle()
    fresh = RealRig(8, config=WHOLE_TINY, voices=HALF_VOICE)
    assert said(late.results) == fresh.alone(long), "its chunks depend on its prompt alone"


def chunks_before_the_step(rig: RealRig, callers: list[RealCaller]) -> int:
    """A frame of each caller, stepped together; the chunks of prefill that came before."""
    before = rig.engine.stats()
    for caller in callers:
        caller.play()
    while rig.engine.stats().steps == before.steps:
        rig.tick()
    steps, frames, chunks = counted(before, rig.engine.stats())
    assert (steps, frames) == (1, len(callers))
    return chunks


# contract: I2; Gate A
def test_a_call_does_not_hear_how_old_its_neighbours_are() -> None:
    """They decide how far all rows read their rings: one length alone, another beside them."""
    rig = RealRig(2, config=WHOLE_TINY, voices=HALF_VOICE)
    young = Track.draw(1, ROUNDS)
    old = dataclasses.replace(Track.draw(2, ROUNDS), spec=SessionSpec("half.pt", ""))
    expected = rig.alone(young)
    neighbour, caller = rig.caller(old), rig.caller(young)
    rig.tick(CHUNKS_OF_HALF + 2)
    for _ in range(ROUNDS):
        neighbour.play()
        caller.play()
        rig.settle()
    assert said(caller.results) == expected
    assert neighbour.results[-1].position > 2 * RING_POSITIONS > caller.results[-1].position


# contract: A4, E1
def test_a_hundred_restarts_of_every_slot_at_capacity_need_no_further_slot() -> None:
    rig = RealRig(3)
    tracks = [Track.draw(seed, 1) for seed in (1, 2, 3)]
    expected = [RealRig(3).alone(track) for track in tracks]
    callers = [rig.caller(track) for track in tracks]
    rig.tick(6)
    for _ in range(100):
        for caller in callers:
            caller.restart()
            caller.play()
        rig.tick(2)
        assert rig.engine.stats().used == 3
    assert [caller.epoch for caller in callers] == [100] * 3
    for caller, first in zip(callers, expected, strict=True):
        assert all(caller.of_epoch(epoch) == first for epoch in range(1, 101))
    assert rig.engine.stats().prefills == 3


# contract: A1
@pytest.mark.parametrize("slots", [1, 2, 3])
def test_every_pool_and_report_of_the_engine_has_max_sessions_slots(
    slots: int, tiny_checkpoint: Path
) -> None:
    cpu = torch.device("cpu")
    checkpoint = load_checkpoint(str(tiny_checkpoint), device=cpu)
    with torch_threads(1):
        engine = build_engine(checkpoint, cpu, max_sessions=slots, sampling=True)
    assert pools(engine) == dict.fromkeys(pools(engine), slots)
    assert engine.max_sessions == engine.stats().max_sessions == slots
    for number in range(slots):
        assert engine.stats().used == number
        engine.bind(engine.open(lambda event: None), engine.default_spec)
    with pytest.raises(ResourceExhausted) as refusal:
        engine.open(lambda event: None)
    assert (refusal.value.current, refusal.value.maximum) == (slots, slots)
    engine.tick()
    assert engine.stats().used == slots
    engine.shutdown()


def pools(engine: PersonaPlexEngine) -> dict[str, int]:
    """Slots of everything that is kept per slot."""
    stepper = engine._stepper
    assert isinstance(stepper, DeviceStepper)
    step = stepper.frame_step
    lm, codec, sampler = step.lm_slots.state, step.codec_state, step.lm_slots.sampler
    assert sampler is not None
    return {
        "stepper": stepper.slots,
        "rows of a step": stepper.rows,
        "temporal keys": lm.ring.k.shape[1],
        "temporal values": lm.ring.v.shape[1],
        "tokens and positions": len(lm.tokens),
        "sampler": len(sampler.seed),
        "encoder keys": codec.encoder.k.shape[1],
        "decoder keys": codec.decoder.k.shape[1],
        "codec frames": len(codec.frames),
        "carries": len(step.carry.old),
        "staged carries": len(step.carry.new),
        "origins": len(step.origins),
        "calls": len(engine._table._calls),
    }
