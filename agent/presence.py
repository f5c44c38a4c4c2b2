"""Who is in the room, who of them is heard, and when the call is over.

Contract H1, H4 and A6 as bookkeeping on times that are passed in. It knows neither LiveKit's
kinds nor its disconnect reasons: the room translates them into `Leaving`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

JOIN_SECONDS = 30.0
"""A room that nobody to be heard has joined by then is closed."""
EVERYBODY = "all"
FIRST = "first"


class Leaving(Enum):
    """How somebody went."""

    CLEAN = "clean"
    """On purpose; nobody waits for them."""
    LOST = "lost"
    """The connection broke, or the same identity joined anew."""


class Ending(Enum):
    """Why a call is over."""

    NO_INPUT = "no_input"
    LEFT = "participant_left"
    NOT_RESUMED = "resume_grace"


@dataclass(slots=True)
class Person:
    """Somebody who is heard. `connection` tells two arrivals of one identity apart."""

    connection: str
    answered: bool


class Presence:
    """The people of one call, in the order in which they joined."""

    def __init__(self, heard: str, grace: float, now: float) -> None:
        self.heard = heard
        self.grace = grace
        self._join_by = now + JOIN_SECONDS
        self._first: str | None = None
        self._people: dict[str, Person] = {}
        self._bystanders: dict[str, str] = {}
        """People who are not heard, with their connections."""
        self._deserted_at: float | None = None
        """When the last bystander's leaving counts."""
        self._lost: dict[str, float] = {}

    def hears(self, identity: str) -> bool:
        """Whether this person is one to listen to."""
        if self.heard == EVERYBODY:
            return True
        if self.heard == FIRST:
            return self._first in (None, identity)
        return identity == self.heard

    @property
    def people(self) -> tuple[str, ...]:
        return tuple(self._people)

    @property
    def answered(self) -> bool:
        """Whether somebody is there to hear a greeting; a phone that rings is not."""
        return any(person.answered for person in self._people.values())

    def joined(self, identity: str, connection: str, answered: bool) -> None:
        if not self.hears(identity):
            self._bystanders[identity] = connection
            return
        self._first = self._first or identity
        self._lost.pop(identity, None)
        self._people[identity] = Person(connection, answered)

    def answer(self, identity: str) -> None:
        """The phone has been picked up."""
        if identity in self._people:
            self._people[identity].answered = True

    def left(self, identity: str, connection: str, how: Leaving, now: float) -> None:
        """Somebody went; news of a connection that was replaced meanwhile changes nothing."""
        if self._bystanders.get(identity) == connection:
            del self._bystanders[identity]
            self._deserted_at = now + (self.grace if how is Leaving.LOST else 0.0)
            return
        person = self._people.get(identity)
        if person is None or person.connection != connection:
            return
        del self._people[identity]
        if how is Leaving.LOST:
            self._lost[identity] = now + self.grace

    @property
    def ends_at(self) -> float | None:
        """When the call is over unless somebody joins; none while somebody is there."""
        if self._people:
            return None
        if self._first is None:
            deserted = None if self._bystanders else self._deserted_at
            return self._join_by if deserted is None else min(deserted, self._join_by)
        return max(self._lost.values(), default=0.0)

    def ending(self, now: float) -> Ending | None:
        """Why the call is over by now, or none."""
        ends_at = self.ends_at
        if ends_at is None or now < ends_at:
            return None
        if self._first is None:
            return Ending.NO_INPUT if ends_at == self._join_by else Ending.LEFT
        return Ending.NOT_RESUMED if self._lost else Ending.LEFT
