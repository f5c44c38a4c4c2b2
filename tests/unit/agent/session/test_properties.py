"""Random sequences of everything that can happen to a session, against the contract's invariants.

`playing.py` carries them out and compares the input with an account of its own after each step;
here stands what must hold of the output and at the end.
"""

from __future__ import annotations

import asyncio
from collections import Counter

import numpy as np
import pytest

from agent.policy import CHAT, DUPLEX, ROOM, Policy
from tests.conftest import SEED
from tests.fakes.clock import run
from tests.unit.agent.session.playing import Run
from tests.unit.agent.session.sequences import Step, explore

pytestmark = pytest.mark.unit

IN_CI, IN_FULL = 2_000, 20_000
HAPPENED = {
    "frames due and heard once",
    "frames of later epochs heard",
    "frames withheld",
    "frames rolled back",
    "appends refused",
    "frames dropped by a room",
    "frames cleared or lost to a cancel",
    "frames lost to a close",
    "parts of frames cleared",
    "parts of frames padded",
    "frames of silence clocked",
    "results repeated",
    "hard cancels",
    "soft cancels",
    "updates after binding",
    "closed: call_failed",
    "closed: client_close",
    "closed: disconnect",
    "closed: drain",
    "closed: engine_fault",
    "closed: no_input",
}
"""What the sequences of a search have to bring about, so that the invariants say something."""


# contract: A3 C2 C3 C4 C5 C6 D1 D2 D3 E1 E2 E3 J2


def test_any_sequence() -> None:
    search(IN_CI)


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_any_sequence_at_length() -> None:
    search(IN_FULL)


def search(count: int) -> None:
    tally: Counter[str] = Counter()

    def play(policy: Policy, continued: bool, steps: list[Step]) -> None:
        async def scene() -> None:
            one = Run(policy, continued and policy is DUPLEX)
            await one.play(steps)
            check(one)
            tally.update(happened(one))

        run(scene())

    explore(count, play)
    print(f"seed {SEED}, {count} sequences:", dict(sorted(tally.items())))
    assert {kind for kind in HAPPENED if not tally[kind]} == set()


def happened(one: Run) -> Counter[str]:
    """How often what, in one sequence."""
    count = one.session.counters
    reason, _ = one.sink.all("closed")[0]
    return Counter(
        {
            "frames due and heard once": len(one.due) if hears_all(one) else 0,
            "frames of later epochs heard": sum(frame.epoch > 0 for frame in one.sink.frames),
            "frames withheld": count.withheld,
            "frames rolled back": count.rolled_back,
            "appends refused": count.refused,
            "frames dropped by a room": count.dropped_overflow,
            "frames cleared or lost to a cancel": count.dropped_cancel,
            "frames lost to a close": count.dropped_close,
            "parts of frames cleared": one.account.parts_cleared,
            "parts of frames padded": one.account.parts_padded,
            "frames of silence clocked": count.clocked,
            "results repeated": count.stale,
            "hard cancels": count.epochs - 1,
            "soft cancels": count.holds,
            "updates after binding": one.updated_when_bound,
            f"closed: {reason}": 1,
        }
    )


def check(one: Run) -> None:
    one.compare()
    check_identities(one)
    check_frames(one)
    check_events(one)
    assert one.engine.stats().used == 0 and one.engine.releases == 1
    assert one.session.state == "closed" and not one.manager.sessions
    assert asyncio.all_tasks() == {asyncio.current_task()}


def hears_all(one: Run) -> bool:
    """Whether the mood answers each frame with one, and nothing asked it not to."""
    return one.policy is ROOM or (one.policy in (DUPLEX, CHAT) and not one.soft)


def check_identities(one: Run) -> None:
    """Each is stepped once, without a hole; each is heard at most once, of its own epoch.

    Where every frame is answered, each that was stepped while its epoch lived is heard.
    """
    stepped = [(epoch, seq) for _, _, epoch, seq in one.engine.stepped]
    assert len(set(stepped)) == len(stepped)
    by_epoch: dict[int, list[int]] = {}
    for epoch, seq in stepped:
        by_epoch.setdefault(epoch, []).append(seq)
    for sequence in by_epoch.values():
        assert sequence == list(range(1, len(sequence) + 1))
    heard = [(frame.epoch, frame.seq) for frame in one.sink.frames]
    assert len(set(heard)) == len(heard) and heard == sorted(heard)
    assert set(heard) <= set(stepped)
    assert all(made == current for made, current in one.at_output)
    if hears_all(one):
        assert one.due <= set(heard)
        assert one.session.counters.withheld == 0


def check_frames(one: Run) -> None:
    """Each frame was stepped with the bytes that were given, and is heard with what it says.

    The numbered samples came in order and none twice.
    """
    identities = [(epoch, seq) for _, _, epoch, seq in one.engine.stepped]
    for identity, pcm in zip(identities, one.engine.heard, strict=True):
        assert np.array_equal(pcm, one.account.given[identity])
    numbers = [pcm[pcm != 0] for pcm in one.engine.heard]
    assert (np.diff(np.concatenate([np.zeros(1), *numbers])) > 0).all()
    for frame in one.sink.frames:
        assert np.array_equal(frame.heard, one.account.given[frame.epoch, frame.seq])
        said = one.says(frame.epoch, frame.seq, frame.heard)
        assert frame.text == ("" if frame.held else said.text)


def check_events(one: Run) -> None:
    """Responses open and end in turn; frames belong to the open one; one last event."""
    current, seen = None, set()
    for name, payload in one.sink.events:
        if name == "started":
            assert current is None and payload.id not in seen
            current = payload.id
            seen.add(current)
        elif name == "done":
            assert payload.id == current
            current = None
        elif name == "output":
            assert payload.response_id == current
            assert current is not None or not one.policy.only_responses
    assert current is None
    assert one.sink.names.count("closed") == 1 and one.sink.names[-1] == "closed"
