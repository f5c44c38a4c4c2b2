"""Gate A: in one bucket, nobody hears anybody else, bit for bit, whatever joins and leaves.

Every slot is filled with NaN when it is released, so that what a new owner could see of the last
one would show. Many calls run past the codec's window, some past the language model's ring. Some
schedules compute with packed products, as a CPU serves a large model.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from random import Random

import pytest
import torch

from tests.conftest import SEED
from tests.unit.model.engine.real import (
    CODEC_WINDOW_FRAMES,
    RING_POSITIONS,
    RealCaller,
    RealRig,
    Said,
    Track,
    packed_share,
    packing,
    torch_threads,
)

pytestmark = pytest.mark.unit
TRACKS = {1: 5, 2: 3}
PACKED_TRACKS = 3
SCHEDULES = {(1, "plain"): 9, (1, "packed"): 7, (2, "plain"): 1, (2, "packed"): 3}
"""By torch threads and form: twenty in all."""
MOST_SCHEDULES = 100
"""In the long form by each number of torch threads and each form, none of them twice."""
SLOTS, SCHEDULE_ROUNDS = 8, 32
NEIGHBOURS = 2
"""At most, of those that are held; they stay to the end of their schedule."""
FRAMES = 52
"""Of the track that goes past every ring; of the others no schedule hears more than its rounds."""


@pytest.fixture(scope="module", params=[1, 2], ids=["1 thread", "2 threads"])
def alone(request: pytest.FixtureRequest) -> Iterator[list[tuple[Track, list[Said]]]]:
    """Each track and what it says in a run of its own, in slot 0 of a fresh engine."""
    with torch_threads(request.param):
        *others, last = range(TRACKS[request.param])
        tracks = [Track.draw(seed, SCHEDULE_ROUNDS) for seed in others]
        tracks.append(Track.draw(last, FRAMES))
        yield [(track, RealRig(SLOTS).alone(track)) for track in tracks]


class Schedule:
    """Joins, leaves, restarts and pauses at random, all from one seed."""

    def __init__(self, seed: int, alone: list[tuple[Track, list[Said]]]) -> None:
        self.random, self.alone, self.rig = Random(seed), alone, RealRig(SLOTS)
        self.calls: list[tuple[RealCaller, list[Said]]] = []
        self.neighbours: list[RealCaller] = []
        """Held at random, so that no run alone foretells what they say; nobody may hear it."""
        self.checked = self.longest = self.past_window = self.held = 0
        self.slots: set[int] = set()

    def run(self, rounds: int) -> None:
        for _ in range(rounds):
            self._join_or_leave()
            for caller in (*(caller for caller, _ in self.calls), *self.neighbours):
                if self.random.random() < 0.9:
                    caller.play()
            self.rig.settle()
        for caller, expected in self.calls:
            self._check(caller, expected)
        for neighbour in self.neighbours:
            assert not neighbour.failures
            self.held += sum(result.held for result in neighbour.results)

    def _join_or_leave(self) -> None:
        for neighbour in self.neighbours:
            if self.random.random() < 0.2:
                self.rig.engine.hold(neighbour.handle, self.random.random() < 0.5)
        chance = self.random.random()
        if chance < 0.45 and len(self.calls) + len(self.neighbours) < SLOTS:
            track, expected = self.random.choice(self.alone)
            caller = self.rig.caller(track)
            if len(self.neighbours) < NEIGHBOURS and self.random.random() < 0.3:
                self.neighbours.append(caller)
            else:
                self.calls.append((caller, expected))
            self.rig.tick()
        elif chance < 0.53 and self.calls:
            caller, expected = self.calls.pop(self.random.randrange(len(self.calls)))
            caller.close()
            self.rig.tick(2)
            self._check(caller, expected)
            assert caller.released == 1
        elif chance < 0.58 and self.calls:
            self.random.choice(self.calls)[0].restart()

    def _check(self, caller: RealCaller, expected: list[Said]) -> None:
        assert not caller.failures
        self.slots.add(caller.handle.slot)
        assert len(caller.of_epoch(caller.epoch)) == caller.seq, "every frame is answered"
        for epoch in range(caller.epoch + 1):
            heard = caller.of_epoch(epoch)
            assert heard == expected[: len(heard)]
            self.checked += len(heard)
            self.longest = max(self.longest, len(heard))
            self.past_window += len(heard) > CODEC_WINDOW_FRAMES


def run_schedules(count: int, form: str, alone: list[tuple[Track, list[Said]]]) -> None:
    threads = torch.get_num_threads()
    first = SEED * 1000 + sorted(SCHEDULES).index((threads, form)) * MOST_SCHEDULES
    with packing() if form == "packed" else nullcontext():
        if form == "packed":
            assert 0 < packed_share(RealRig(SLOTS).step.lm_slots.prepared) < 1, "some of each"
            alone = [(track, RealRig(SLOTS).alone(track)) for track, _ in alone[-PACKED_TRACKS:]]
        schedules = [Schedule(seed, alone) for seed in range(first, first + count)]
        for schedule in schedules:
            schedule.run(SCHEDULE_ROUNDS)
            assert schedule.checked, f"a schedule from seed {first} checks nothing"
    checked, held = (sum(getattr(s, name) for s in schedules) for name in ("checked", "held"))
    past_window = sum(schedule.past_window for schedule in schedules)
    longest = max(schedule.longest for schedule in schedules)
    slots = set[int]().union(*(schedule.slots for schedule in schedules))
    print(
        f"{count} {form} schedules from seed {first}, {threads} threads, {checked} frames beside "
        f"{held} held ones, {past_window} calls past the codec's window, the longest of {longest} "
        f"frames, slots {sorted(slots)}: all bit-equal"
    )
    assert checked > 50 * count, "schedules in which hardly anybody speaks"
    assert longest > CODEC_WINDOW_FRAMES * 2 and past_window >= count and held >= count
    assert count < max(SCHEDULES.values()) or slots == set(range(SLOTS))


# contract: I2, I7, A5; Gate A
@pytest.mark.figures
@pytest.mark.parametrize("form", ["plain", "packed"])
def test_twenty_schedules_are_bit_identical_to_runs_alone(
    form: str, alone: list[tuple[Track, list[Said]]]
) -> None:
    run_schedules(SCHEDULES[torch.get_num_threads(), form], form, alone)


# contract: I2, I7, A5; Gate A
@pytest.mark.figures
@pytest.mark.full
@pytest.mark.parametrize("form", ["plain", "packed"])
def test_two_hundred_schedules_are_bit_identical_to_runs_alone(
    form: str, alone: list[tuple[Track, list[Said]]]
) -> None:
    run_schedules(MOST_SCHEDULES, form, alone)


# contract: I6
@pytest.mark.parametrize("slot", [3, 7])
def test_a_call_says_the_same_in_any_slot_past_every_ring(
    slot: int, alone: list[tuple[Track, list[Said]]]
) -> None:
    rig = RealRig(SLOTS)
    others = [rig.caller(alone[i % len(alone)][0]) for i in range(slot)]
    track, expected = alone[-1]
    caller = rig.caller(track)
    rig.tick(12)
    assert caller.handle.slot == slot
    for turn in range(FRAMES):
        caller.play()
        if turn % 3 == 0:
            others[turn % slot].play()
        rig.settle()
    assert caller.of_epoch(0) == expected
    assert caller.results[-1].position > RING_POSITIONS


# contract: A5, I6
def test_the_next_owner_of_a_poisoned_slot_is_as_on_a_fresh_engine(
    alone: list[tuple[Track, list[Said]]],
) -> None:
    rig = RealRig(1)
    fresh = RealRig(1).alone(alone[-1][0])
    for _ in range(3):
        rig.alone(alone[0][0])
    assert rig.alone(alone[-1][0]) == fresh
