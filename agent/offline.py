"""The command `offline`: recordings in, the agent's side of the call out, as fast as it goes.

Several inputs are stepped as one batch. It writes what NVIDIA's own offline script writes: a WAV
and a JSON list with one text entry a frame; on demand the tokens as well. Unlike there, a recording
is followed by silence, in which the answer comes, and what was said is printed.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from agent import settings
from agent.command import CommandError, configure_logging
from agent.paths import demand_apart, demand_model, demand_writable
from agent.results import show, write
from agent.sources import read_codes, read_sound
from agent.wav import add_tail


def add_arguments(parser: argparse.ArgumentParser) -> None:
    settings.add_arguments(parser, "model", "log")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--input", nargs="+", type=Path, help="recordings, any rate and format")
    source.add_argument("--codes", nargs="+", type=Path, help=".npy user codes [8, T] instead")
    add_tail(parser)
    for flag, what in (
        ("--output", "WAV of the agent, as long as the input and its tail"),
        ("--text", "JSON list, one text entry a frame"),
        ("--tokens", ".npz with text [T] and agent [T, 8]"),
    ):
        parser.add_argument(flag, nargs="+", type=Path, default=[], help=f"{what}, one an input")
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--greedy", action="store_true", help="the likeliest token (the default)")
    choice.add_argument("--seed", type=int, help="draw tokens, repeatably")


def run(args: argparse.Namespace) -> int:
    loaded = settings.load(args)
    configure_logging(loaded.log_level)
    inputs: list[Path] = args.input or args.codes
    _one_each(args, len(inputs))
    demand_apart([*args.output, *args.text, *args.tokens], inputs)
    demand_model(loaded.model)
    sources = [read_codes(path) if args.codes else read_sound(path, args.tail_s) for path in inputs]
    # torch takes seconds to import: first what can be wrong without it.
    from agent.batch import answer

    results = answer(loaded, args.seed, sources)
    try:
        write(args, sources, results)
    finally:
        show(sources, results)
    return 0


def _one_each(args: argparse.Namespace, inputs: int) -> None:
    if not (args.output or args.text or args.tokens):
        raise CommandError("nothing would be written; give --output, --text or --tokens")
    for name in ("output", "text", "tokens"):
        given: list[Path] = getattr(args, name)
        if given and len(given) != inputs:
            raise CommandError(f"--{name} names {len(given)} files for {inputs} inputs")
        for path in given:
            demand_writable(f"--{name} {path}", path)
