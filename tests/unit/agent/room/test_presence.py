"""Who is heard, and when a call is over."""

from __future__ import annotations

import pytest

from agent.presence import Ending, Leaving, Presence

pytestmark = pytest.mark.unit
GRACE = 10.0


def call(heard: str = "all") -> Presence:
    return Presence(heard, GRACE, 0.0)


# contract: A6
def test_a_room_that_nobody_joins_is_closed_after_30_s() -> None:
    presence = call()
    assert presence.ends_at == 30.0
    assert presence.ending(29.9) is None
    assert presence.ending(30.0) is Ending.NO_INPUT


# contract: H4
def test_a_clean_leave_of_the_last_person_ends_at_once() -> None:
    presence = call()
    presence.joined("a", "c1", answered=True)
    presence.joined("b", "c2", answered=True)
    presence.left("a", "c1", Leaving.CLEAN, 5.0)
    assert presence.ends_at is None
    presence.left("b", "c2", Leaving.CLEAN, 6.0)
    assert presence.ending(6.0) is Ending.LEFT


# contract: H4
def test_a_lost_person_is_waited_for_and_may_return() -> None:
    presence = call()
    presence.joined("a", "c1", answered=True)
    presence.left("a", "c1", Leaving.LOST, 100.0)
    assert presence.ending(109.9) is None
    presence.joined("a", "c2", answered=True)
    assert presence.ending(200.0) is None
    presence.left("a", "c2", Leaving.LOST, 200.0)
    assert presence.ends_at == 210.0
    assert presence.ending(210.0) is Ending.NOT_RESUMED


# contract: H4
def test_news_of_a_replaced_connection_changes_nothing() -> None:
    presence = call()
    presence.joined("a", "c1", answered=True)
    presence.joined("a", "c2", answered=True)
    presence.left("a", "c1", Leaving.LOST, 1.0)
    assert presence.people == ("a",)
    assert presence.ends_at is None


# contract: H1
@pytest.mark.parametrize(
    ("heard", "expected"), [("all", ("a", "b")), ("first", ("a",)), ("b", ("b",))]
)
def test_who_is_heard(heard: str, expected: tuple[str, ...]) -> None:
    presence = call(heard)
    presence.joined("a", "c1", answered=True)
    presence.joined("b", "c2", answered=True)
    assert presence.people == expected


# contract: H7
def test_a_ringing_phone_hears_no_greeting_yet() -> None:
    presence = call()
    presence.joined("phone", "c1", answered=False)
    assert not presence.answered
    presence.answer("phone")
    assert presence.answered


# contract: A6
def test_a_room_left_by_all_before_the_one_to_be_heard_came_ends_at_once() -> None:
    presence = call("boss")
    presence.joined("a", "c1", answered=True)
    presence.joined("b", "c2", answered=True)
    presence.left("a", "c1", Leaving.CLEAN, 4.0)
    assert presence.ends_at == 30.0
    presence.left("b", "an older one", Leaving.CLEAN, 4.5)
    assert presence.ends_at == 30.0
    presence.left("b", "c2", Leaving.CLEAN, 5.0)
    assert presence.ending(5.0) is Ending.LEFT


# contract: A6
def test_a_lost_bystander_is_waited_for_but_no_longer_than_for_the_one_to_be_heard() -> None:
    presence = call("boss")
    presence.joined("a", "c1", answered=True)
    presence.left("a", "c1", Leaving.LOST, 5.0)
    assert presence.ends_at == 5.0 + GRACE
    presence.joined("a", "c2", answered=True)
    presence.left("a", "c2", Leaving.LOST, 25.0)
    assert presence.ending(29.9) is None
    assert presence.ending(30.0) is Ending.NO_INPUT
    presence.joined("boss", "c3", answered=True)
    assert presence.ends_at is None
