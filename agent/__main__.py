"""The command line: `python -m agent COMMAND`. It finds the command and reports its errors.

Commands are imported when they are asked for, so that `console` needs no LiveKit and `driver`
no torch. Bad input ends as one line on stderr and exit code 2, never as a traceback.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import NoReturn

from agent.command import INTERRUPTED, CommandError, ended_by_signals, printing

COMMANDS = {
    "start": ("agent.start", "run the worker and the HTTP app against a LiveKit server"),
    "dev": ("agent.start", "the same with verbose logs"),
    "demo": ("agent.demo", "a LiveKit server, the worker and the page on this machine"),
    "console": ("agent.console", "talk in this terminal, without LiveKit"),
    "offline": ("agent.offline", "a WAV in, a WAV and a transcript out"),
    "driver": ("agent.driver.command", "end-to-end and load measurements of a running server"),
    "voices": ("agent.voices", "list, check or add the voices of a checkpoint"),
    "doctor": ("agent.doctor", "check this machine and a checkpoint, then say what to do"),
    "sip": ("agent.sip", "provision telephone numbers"),
}
DAEMONS = frozenset({"start", "dev", "demo"})
"""They serve on, whoever reads what they print."""
BAD_INPUT = 2


def usage() -> str:
    lines = ["usage: python -m agent COMMAND [options]", "", "commands:"]
    lines += [f"  {name:<8} {meaning}" for name, (_, meaning) in COMMANDS.items()]
    return "\n".join([*lines, "", "python -m agent COMMAND --help lists its options."])


def parser_of(name: str, module: ModuleType) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m agent {name}", description=COMMANDS[name][1])
    module.add_arguments(parser)
    parser.set_defaults(command=name)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        with ended_by_signals(), printing(needed=DAEMONS.isdisjoint(words[:1])):
            return _run(words)
    except CommandError as error:
        print(f"error: {error}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        return INTERRUPTED


def _run(words: Sequence[str]) -> int:
    if not words or words[0] in ("-h", "--help"):
        print(usage())
        return 0 if words else BAD_INPUT
    name = words[0]
    if name not in COMMANDS:
        raise CommandError(f"there is no command {name!r}; there are {', '.join(COMMANDS)}")
    module = importlib.import_module(COMMANDS[name][0])
    return int(module.run(parser_of(name, module).parse_args(words[1:])))


def end(code: int) -> NoReturn:
    """Leave with this code, at once where rooms were joined.

    LiveKit's native threads call into the interpreter even while it is being taken down, which now
    and then aborts the process after all was well.
    """
    if "livekit.rtc" in sys.modules:
        os._exit(code)
    sys.exit(code)


if __name__ == "__main__":
    end(main())
