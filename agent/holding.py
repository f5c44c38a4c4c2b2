"""A soft cancel in force on one call: the engine's hold, and what ends it (contract E2).

It counts input frames and tells the engine; what is open or asked for it does not know.
"""

from __future__ import annotations

from agent.turns import Hold
from model import Engine, Handle


class Holding:
    """Whether a call is held silent."""

    def __init__(self, engine: Engine, handle: Handle) -> None:
        self._engine = engine
        self._handle = handle
        self._hold: Hold | None = None

    @property
    def active(self) -> bool:
        return self._hold is not None

    def start(self) -> None:
        self._hold = Hold()
        self._engine.hold(self._handle, True)

    def heard(self, level: float) -> None:
        """Take the level of one stepped input frame."""
        if self._hold is not None and self._hold.step(level):
            self.end()

    def end(self) -> None:
        if self._hold is not None:
            self._hold = None
            self._engine.hold(self._handle, False)
