"""Gate A: in one bucket, nobody hears anybody else, bit for bit, whatever joins and leaves.

Every slot is filled with NaN when it is released, so that what a new owner could see of the last
one would show. Many calls run past the codec's window, some past the language model's ring.
"""

from __future__ import annotations

from collections.abc import Iterator
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
    torch_threads,
)

pytestmark = pytest.mark.unit
TRACKS = {1: 5, 2: 3}
SCHEDULES = {1: 17, 2: 3}
"""By torch threads: twenty in all."""
MOST_SCHEDULES = 100
"""By each number of torch threads in the long form, none of them twice."""
SLOTS, SCHEDULE_ROUNDS = 8, 32
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
        self.checked = self.longest = self.past_window = 0
        self.slots: set[int] = set()

    def run(self, rounds: int) -> None:
        for _ in range(rounds):
            self._join_or_leave()
            for caller, _ in self.calls:
                if self.random.random() < 0.9:
                    caller.play()
            self.rig.settle()
        for caller, expected in self.calls:
            self._check(caller, expected)

    def _join_or_leave(self) -> None:
        chance = self.random.random()
        if chance < 0.45 and len(self.calls) < SLOTS:
            track, expected = self.random.choice(self.alone)
            self.calls.append((self.rig.caller(track), expected))
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


def run_schedules(count: int, alone: list[tuple[Track, list[Said]]]) -> None:
    checked, longest, past_window, slots = 0, 0, 0, set[int]()
    first = SEED * 1000 + (torch.get_num_threads() - 1) * MOST_SCHEDULES
    for seed in range(first, first + count):
        schedule = Schedule(seed, alone)
        schedule.run(SCHEDULE_ROUNDS)
        assert schedule.checked, f"schedule {seed} checks nothing"
        checked += schedule.checked
        longest, slots = max(longest, schedule.longest), slots | schedule.slots
        past_window += schedule.past_window
    print(
        f"{count} schedules from seed {first}, {checked} frames, {past_window} calls past the "
        f"codec's window, the longest of {longest} frames, slots {sorted(slots)}: all bit-equal"
    )
    assert checked > 50 * count, "schedules in which hardly anybody speaks"
    assert longest > CODEC_WINDOW_FRAMES * 2 and past_window >= count
    assert count < max(SCHEDULES.values()) or slots == set(range(SLOTS))


# contract: I2, A5; Gate A
@pytest.mark.figures
def test_twenty_schedules_are_bit_identical_to_runs_alone(
    alone: list[tuple[Track, list[Said]]],
) -> None:
    run_schedules(SCHEDULES[torch.get_num_threads()], alone)


# contract: I2, A5; Gate A
@pytest.mark.figures
@pytest.mark.full
def test_two_hundred_schedules_are_bit_identical_to_runs_alone(
    alone: list[tuple[Track, list[Said]]],
) -> None:
    run_schedules(MOST_SCHEDULES, alone)


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
