"""How much memory and how many files this process holds, looked at again and again."""

from __future__ import annotations

import gc
from dataclasses import dataclass, field
from itertools import pairwise

import psutil

MIB = 2**20
SPARE_FILES = 10
"""Connections that the HTTP client keeps for the next request."""


@dataclass
class Footprint:
    """What the process holds; the server, its clients and the test are one."""

    resident: list[int] = field(default_factory=list)
    """Bytes."""
    files: list[int] = field(default_factory=list)

    def take(self) -> None:
        gc.collect()
        process = psutil.Process()
        self.resident.append(process.memory_info().rss)
        self.files.append(process.num_fds())

    def check(self, most: int) -> None:
        """Between the last two looks it grew by no more than so many bytes, and has no more files.

        All figures are printed.
        """
        growth = [after - before for before, after in pairwise(self.resident)]
        print("MiB:", [round(size / MIB, 1) for size in (*self.resident, *growth)])
        print("open files:", self.files)
        assert growth[-1] < most, growth
        assert self.files[-1] - self.files[0] < SPARE_FILES, self.files
