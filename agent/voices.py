"""The command `voices`: list the voices of a checkpoint, add one from a recording, check them.

An operator's tool. Enrolling somebody's voice is for the operator to have consent for; callers can
only ever name voices that are bundled. What needs torch is imported where it is used: that takes
seconds, and a wrong path is said before.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from agent import settings
from agent.command import CommandError, configure_logging
from agent.paths import demand_model
from agent.wav import read_wav
from model import CheckpointError, Pcm

if TYPE_CHECKING:
    from model import VoiceReport


def add_arguments(parser: argparse.ArgumentParser) -> None:
    settings.add_arguments(parser, "model", "log")
    parser.set_defaults(action="list")
    actions = parser.add_subparsers(metavar="ACTION")
    actions.add_parser("list", help="the names that clients may use").set_defaults(action="list")
    actions.add_parser("check", help="read every voice").set_defaults(action="check")
    add = actions.add_parser("add", help="make a voice of a recording of 1 to 30 s")
    add.set_defaults(action="add")
    add.add_argument("name", help="what clients will call it")
    add.add_argument("recording", type=Path, help="speech of one person, any rate")
    for action in actions.choices.values():
        action.add_argument(
            "--model", dest="model", default=argparse.SUPPRESS, help="as for the command itself"
        )


def run(args: argparse.Namespace) -> int:
    loaded = settings.load(args)
    configure_logging(loaded.log_level)
    demand_model(loaded.model)
    try:
        if args.action == "add":
            return _add(loaded.model, args.name, read_wav(args.recording))
        return _list(loaded.model) if args.action == "list" else _check(loaded.model)
    except CheckpointError as error:
        raise CommandError(str(error)) from error


def _list(model: str) -> int:
    from model import describe

    info = describe(model, voiceless=True)
    for name in info.voices:
        print(f"{name} (default)" if name == info.default_voice else name)
    return 0


def _check(model: str) -> int:
    from model import check_voices, describe

    reports = check_voices(describe(model, voiceless=True))
    for report in reports:
        print(_line(report))
    return 1 if any(report.problem for report in reports) else 0


def _line(report: VoiceReport) -> str:
    return report.problem or f"{report.name} {report.seconds:.2f} s, good"


def _add(model: str, name: str, pcm: Pcm) -> int:
    from agent.loading import BUNDLED
    from model import add_voice

    path = add_voice(model, name, pcm)
    print(f"{path.name} written to {path.parent}; restart the worker to offer it")
    if model == BUNDLED:
        print("the bundled demo's codec reproduces only its own voice", file=sys.stderr)
    print("use it only with the consent of the person who spoke", file=sys.stderr)
    return 0
