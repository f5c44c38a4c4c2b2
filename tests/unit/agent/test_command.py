"""What stands round a command: signals end it wherever they arrive, all words can be printed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from io import BytesIO, TextIOWrapper
from pathlib import Path
from random import Random

import pytest

from agent.command import ended_by_signals, printing
from tests.e2e.processes import ROOT

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

A_COMMAND = """
import os

class Doomed:
    def __del__(self):
        os.kill(os.getpid(), {number})

def now(moment):
    if moment == "{moment}":
        Doomed()

def add_arguments(parser):
    now("parsing")

def run(args):
    now("run")
    print("went on")
    return 0

now("import")
"""
RUN_IT = """
import sys
from agent import __main__ as cli

cli.COMMANDS["doomed"] = ("doomed", "a command of the test's own")
sys.exit(cli.main(["doomed"]))
"""
RUN_A_REAL_ONE = """
import os, sys
from agent.__main__ import main

seen = 0

def on_event(event, details):
    global seen
    seen += 1
    if seen == {moment}:
        os.kill(os.getpid(), {number})

sys.addaudithook(on_event)
code = main(["voices", "list", "--model", {model!r}])
print(seen)
sys.exit(code)
"""
"""The interpreter tells of each import, opened file and compiled piece of code as an event."""
MOMENTS = 2
"""Of each signal."""


def python(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )


def end_of(number: int, *, ignored: bool = False) -> tuple[int, str]:
    """How a process ends, and what it printed, whose finaliser sends this signal to itself."""
    script = ARRIVES_IN_A_FINALISER.format(number=int(number), ignored=ignored)
    done = python(script)
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


@BOTH
@pytest.mark.parametrize("moment", ["import", "parsing", "run"])
def test_a_command_can_be_ended_from_its_import_to_its_run(
    number: int, moment: str, tmp_path: Path
) -> None:
    (tmp_path / "doomed.py").write_text(A_COMMAND.format(number=int(number), moment=moment))
    done = python(RUN_IT, PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}")
    assert (done.returncode, done.stdout, done.stderr) == (128 + number, "", "")


def test_a_signal_at_any_moment_of_a_real_start_ends_it(tiny_checkpoint: Path, rng: Random) -> None:
    def start(moment: int, number: int) -> subprocess.CompletedProcess[str]:
        script = RUN_A_REAL_ONE.format(moment=moment, number=number, model=str(tiny_checkpoint))
        return python(script)

    whole = start(0, 0)
    assert whole.returncode == 0, whole.stderr
    events = int(whole.stdout.split()[-1])
    for number in (signal.SIGINT, signal.SIGTERM) * MOMENTS:
        moment = rng.randrange(1, events * 9 // 10)
        print(f"{signal.Signals(number).name} at event {moment} of {events}")
        done = start(moment, number)
        assert (done.returncode, done.stderr) == (128 + number, "")


def test_words_that_a_terminal_has_no_letters_for_are_printed_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    printed = BytesIO()
    monkeypatch.setattr(sys, "stdout", TextIOWrapper(printed, encoding="ascii"))
    with printing(needed=True):
        print("caf\u00e9 \udce9")
    assert printed.getvalue() == b"caf\\xe9 \\udce9\n"
