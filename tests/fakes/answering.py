"""A script for the fake engine that behaves like a polite agent: it answers when one has spoken."""

from __future__ import annotations

from agent.turns import SPOKEN_DBFS, level_dbfs
from model import Pcm
from tests.fakes.engine import Said

ANSWER = (" The", " sky", " is", " blue", ".")


class Answering:
    """After three loud frames and three quiet ones it says `ANSWER`, two frames a word."""

    def __init__(self) -> None:
        self._loud = self._quiet = 0
        self._left = 0

    def __call__(self, epoch: int, seq: int, pcm: Pcm) -> Said:
        if level_dbfs(pcm) > SPOKEN_DBFS:
            self._loud, self._quiet, self._left = self._loud + 1, 0, 0
            return Said()
        self._quiet += 1
        if self._loud >= 3 and self._quiet == 3:
            self._loud, self._left = 0, 2 * len(ANSWER)
        if not self._left:
            return Said()
        index = 2 * len(ANSWER) - self._left
        self._left -= 1
        word = ANSWER[index // 2] if index % 2 == 0 else ""
        return Said(word, 100 + index if word else 3, 0.1)
