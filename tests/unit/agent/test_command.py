"""Signals while a command starts: they end it wherever they arrive, and nothing remembers them."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from agent.command import ended_by_signals

pytestmark = pytest.mark.unit
BOTH = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
ARRIVES_IN_A_FINALISER = """
import os, signal, sys
from agent.command import ended_by_signals

class Doomed:
    def __del__(self):
        os.kill(os.getpid(), {number})

if {ignored}:
    signal.signal({number}, signal.SIG_IGN)
with ended_by_signals(lambda: print("last", flush=True)):
    Doomed()
    print("went on")
"""


def end_of(number: int, *, ignored: bool = False) -> tuple[int, str]:
    """How a process ends, and what it printed, whose finaliser sends this signal to itself."""
    script = ARRIVES_IN_A_FINALISER.format(number=int(number), ignored=ignored)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert not done.stderr
    return done.returncode, done.stdout


@BOTH
def test_a_signal_ends_it_where_an_exception_would_be_lost(number: int) -> None:
    assert end_of(number) == (128 + number, "last\n")


@BOTH
def test_what_was_ignored_stays_ignored(number: int) -> None:
    assert end_of(number, ignored=True) == (0, "went on\n")


@BOTH
def test_afterwards_the_handlers_are_what_they_were(number: int) -> None:
    before = signal.getsignal(number)
    with pytest.raises(KeyError), ended_by_signals():
        assert signal.getsignal(number) is not before
        raise KeyError
    assert signal.getsignal(number) is before
