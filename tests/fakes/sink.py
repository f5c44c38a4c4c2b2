"""A sink that keeps what it is told, in order."""

from __future__ import annotations

from typing import Any

from agent.errors import SessionError
from agent.sink import OutputFrame, ResponseEnd, ResponseInfo


class ListSink:
    """Every event as `(name, payload)`."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Any]] = []

    def bound(self, epoch: int, prefill_positions: int) -> None:
        self.events.append(("bound", (epoch, prefill_positions)))

    def response_started(self, response: ResponseInfo) -> None:
        self.events.append(("started", response))

    def output(self, frame: OutputFrame) -> None:
        self.events.append(("output", frame))

    def response_done(self, end: ResponseEnd) -> None:
        self.events.append(("done", end))

    def error(self, error: SessionError) -> None:
        self.events.append(("error", error))

    def closed(self, reason: str, expired: bool) -> None:
        self.events.append(("closed", (reason, expired)))

    def all(self, name: str) -> list[Any]:
        return [payload for kind, payload in self.events if kind == name]

    @property
    def frames(self) -> list[OutputFrame]:
        return self.all("output")

    @property
    def names(self) -> list[str]:
        return [kind for kind, _ in self.events]
