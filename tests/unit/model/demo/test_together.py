"""Work is shared out among processes, and a process that is killed is noticed."""

from __future__ import annotations

import os
import signal
from concurrent.futures.process import BrokenProcessPool

import pytest
import torch

from model.demo.together import share_out

pytestmark = pytest.mark.unit


def threads(number: int, word: str) -> tuple[int, str]:
    return number, f"{word} {torch.get_num_threads()}"


def killed(number: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return number


def test_results_come_in_the_order_of_the_jobs_on_one_thread_each() -> None:
    assert share_out(threads, [(n, "on") for n in range(3)], 2) == [(n, "on 1") for n in range(3)]


def test_one_worker_is_this_process() -> None:
    before = torch.get_num_threads()
    assert share_out(threads, [(7, "on")], 1) == [(7, f"on {before}")]


def test_a_killed_process_is_an_error() -> None:
    with pytest.raises(BrokenProcessPool):
        share_out(killed, [(1,), (2,)], 2)
