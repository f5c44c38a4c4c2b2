"""What a client is told of an error and sees of its session, compared with the table of codes."""

from __future__ import annotations

from typing import Any, Literal

from agent.errors import CODES
from tests.fakes.server import Client

Outcome = Literal["goes on", "refused", "ended"]
"""Of the session: as if nothing had been, never opened, or closed."""
CONSISTENT: dict[Outcome, set[str]] = {
    "goes on": {"no", "at open", "at binding"},
    "refused": {"at open", "at binding", "yes"},
    "ended": {"at binding", "yes"},
}


class Told:
    """Compares the errors of one test, and what was seen of the session, with the table."""

    def __init__(self) -> None:
        self.codes: set[str] = set()

    def compare(
        self, error: dict[str, Any], code: str, outcome: Outcome, event_id: str | None = None
    ) -> None:
        """All that an error tells, whoever caused it; the id of the event that did, if one did."""
        self.codes.add(code)
        assert (error["code"], error["type"]) == (code, CODES[code].type)
        assert error["event_id"] == event_id
        assert error["message"]
        assert error.get("retryable", False) == CODES[code].retryable
        assert CODES[code].ends in CONSISTENT[outcome]

    async def goes_on(self, client: Client, code: str, event_id: str | None = None) -> None:
        """Answered by an error, and so is the next event by what it asks for."""
        event = await client.until("error")
        await client.send("session.heartbeat")
        await client.until("session.heartbeat_ack")
        self.compare(event["error"], code, "goes on", event_id)

    async def refused(
        self, client: Client, code: str, event_id: str | None = None, *, close_code: int = 1000
    ) -> dict[str, Any]:
        """The error is all that comes of the opening; the socket ends."""
        await client.rest()
        assert client.types == ["error"]
        error: dict[str, Any] = client.seen[0]["error"]
        self.compare(error, code, "refused", event_id)
        assert client.socket.close_code == close_code
        return error

    async def ended(self, client: Client, code: str, event_id: str | None = None) -> None:
        """The session is closed with the error, and the socket ends."""
        await client.rest()
        assert client.types[-2:] == ["error", "session.closed"]
        self.compare(client.seen[-2]["error"], code, "ended", event_id)
