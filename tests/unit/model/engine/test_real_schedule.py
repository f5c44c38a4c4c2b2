"""Starts, a long prefill beside running calls, capacity: on the real model, counted in steps."""

from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
import torch

from model.checkpoint.load import load_checkpoint
from model.core import EngineStats, InputOverflow, ResourceExhausted, SessionSpec
from model.device import DeviceStepper
from model.loading import PersonaPlexEngine, build_engine
from model.prefill import CHUNK
from model.prompt import SILENCE_FRAMES
from model.selftest import rows_for
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
TIMEOUT = 20.0


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


# contract: C4, C6
def test_a_burst_of_a_hundred_frames_is_refused_at_its_bound_and_else_answered_bit_equally() -> (
    None
):
    track = Track.draw(1, 100)
    expected = RealRig(4).alone(track)
    rig = RealRig(4)
    caller, refused = rig.caller(track), 0
    for _ in track.pcm:
        try:
            caller.play()
        except InputOverflow:
            refused += 1
    assert (caller.seq, refused, rig.engine.stats().waiting_frames) == (25, 75, 25)
    rig.settle()
    assert said(caller.results) == expected[:25]
    for _ in range(3):
        for _ in range(25):
            caller.play()
        rig.settle()
    assert said(caller.results) == expected
    assert [result.seq for result in caller.results] == list(range(1, 101))


# contract: B7, A2
def test_eight_racing_opens_of_one_pair_read_and_prefill_it_once() -> None:
    track = Track.draw(2, 2)
    expected = RealRig(8).alone(track)
    rig, gate = RealRig(8), Barrier(8)

    def race(index: int) -> RealCaller:
        gate.wait(TIMEOUT)
        return rig.caller(track)

    with ThreadPoolExecutor(8) as pool:
        opening = [pool.submit(race, index) for index in range(8)]
        while not all(future.done() for future in opening):
            rig.tick()
    callers = [future.result() for future in opening]
    rig.tick(6)
    assert {caller.handle.slot for caller in callers} == set(range(8))
    assert rig.engine.stats().prefills == rig.engine.stats().voice_reads == 1
    for _ in track.pcm:
        for caller in callers:
            caller.play()
        rig.settle()
    assert all(said(caller.results) == expected for caller in callers)


# contract: A1
@pytest.mark.parametrize(("slots", "threads", "rows"), [(1, 1, 1), (2, 1, 2), (3, 1, 3), (3, 2, 4)])
def test_every_pool_and_report_of_the_engine_has_max_sessions_slots(
    slots: int, threads: int, rows: int, tiny_checkpoint: Path
) -> None:
    """Tensors may have rows beyond them, which no call ever gets and no report counts."""
    cpu = torch.device("cpu")
    checkpoint = load_checkpoint(str(tiny_checkpoint), device=cpu)
    with torch_threads(threads):
        assert rows_for(slots, cpu) == rows
        engine = build_engine(checkpoint, cpu, max_sessions=slots, sampling=True)
    given_out = {"stepper": slots, "calls": slots}
    assert pools(engine) == dict.fromkeys(pools(engine), rows) | given_out
    assert engine.max_sessions == engine.stats().max_sessions == slots
    for number in range(slots):
        assert engine.stats().used == number
        handle = engine.open(lambda event: None)
        assert handle.slot == number
        engine.bind(handle, engine.default_spec)
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
