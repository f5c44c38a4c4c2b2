"""Random sequences of everything that can happen to a session, and the search through them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from agent.policy import CHAT, DUPLEX, ROOM, STOCK, Policy
from model import FRAME_SAMPLES
from tests.conftest import SEED

SOUND, QUIET = st.integers(1, 3 * FRAME_SAMPLES), st.sampled_from([1, 2, 4, 24, 30])
MODES = st.sampled_from(["hard", "soft", None])

OPERATION = st.one_of(
    st.tuples(st.just("append"), SOUND),
    st.tuples(st.just("append"), SOUND),
    st.tuples(st.just("silence"), QUIET),
    st.tuples(st.just("step"), st.integers(1, 12)),
    st.tuples(st.just("step"), st.integers(1, 12)),
    st.tuples(st.just("wait"), st.sampled_from([0.01, 0.08, 0.5, 3.0, 40.0])),
    st.tuples(st.just("cancel"), MODES),
    st.tuples(st.just("create"), st.none()),
    st.tuples(st.just("commit"), st.booleans()),
    st.tuples(st.just("clear"), st.none()),
    st.tuples(st.just("prompt"), st.sampled_from(["a", "b", "x" * 5000])),
    st.tuples(st.just("cancel mode"), MODES),
    st.tuples(st.just("repeat"), st.none()),
    st.tuples(st.just("refuse"), st.integers(1, 3)),
    st.tuples(st.just("cleanup fails"), st.integers(1, 2)),
    st.tuples(st.just("settle"), st.none()),
)
ENDING = st.one_of(
    st.tuples(st.sampled_from(["close", "socket loss", "call fails", "fault", "drain"]), st.none()),
    st.tuples(st.just("task cancelled"), st.sampled_from([0.0, 0.0005, 0.002, 0.01, 0.3])),
)
"""A task is cancelled so many seconds later, where an operation takes a millisecond."""
Step = tuple[str, Any]
STEPS = st.builds(
    lambda before, ending, after: [*before, ending, *after],
    st.lists(OPERATION, max_size=30),
    ENDING,
    st.lists(st.one_of(OPERATION, ENDING), max_size=10),
)
POLICIES = st.sampled_from([DUPLEX, STOCK, ROOM, CHAT])


def explore(count: int, play: Callable[[Policy, bool, list[Step]], None]) -> None:
    """Play so many sequences, the same ones with the same seed; a failing one is made short.

    `play` takes the mood, whether silence continues a pause, and the steps.
    """
    drawn = given(policy=POLICIES, continued=st.booleans(), steps=STEPS)(play)
    phases = (Phase.explicit, Phase.generate, Phase.shrink)
    checks = settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=phases,
        suppress_health_check=list(HealthCheck),
    )
    seed(SEED)(checks(drawn))()
