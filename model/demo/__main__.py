"""`python -m model.demo corpus | train | evaluate | export`: the demo checkpoint's recipe.

Parses the command line and calls the stages; knows nothing of what they do. Bad input ends as one
line on stderr and exit code 2, never as a traceback.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from model.checkpoint.errors import CheckpointError

from .card import write_card
from .corpus import Corpus
from .demands import CannotBegin, demand_inputs
from .evaluate import evaluate
from .goals import table
from .recipe import Plan, Work, make_corpus, train, write_checkpoint
from .scenes import Casting, Extent
from .texts import TEXTS, InvalidTexts

AMOUNTS = ("codec_steps", "decoder_steps", "language_steps", "takes")
"""What of the plan can be changed on the command line."""
CHECKPOINT = Path(__file__).with_name("checkpoint")
BAD_INPUT = 2


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    torch.set_num_threads(1)
    work = Work(options.work, options.texts)
    plan = replace(
        Plan(),
        seed=options.seed,
        workers=options.workers,
        **{name: vars(options)[name] for name in AMOUNTS if vars(options)[name] is not None},
    )
    try:
        demand_inputs(options.stage, work, plan, options.checkpoint)
    except (CannotBegin, InvalidTexts, CheckpointError) as error:
        print(f"error: {error}", file=sys.stderr)
        return BAD_INPUT
    _run(options, work, plan)
    return 0


def _run(options: argparse.Namespace, work: Work, plan: Plan) -> None:
    if options.stage == "corpus":
        make_corpus(work, plan)
    elif options.stage == "train":
        train(work, plan)
    elif options.stage == "export":
        print(json.dumps(write_checkpoint(work, plan, options.checkpoint)))
    else:
        _evaluate(options, work)


def _evaluate(options: argparse.Namespace, work: Work) -> None:
    extent, seed = Extent(options.answers, options.recognised), options.test_seed
    casting = Casting(work.texts, Corpus.load(work.corpus), seed, extent)
    scenes = casting.scenes(options.human)
    if options.only:
        scenes = [scene for scene in scenes if scene.name in options.only]
    figures = {"seed": seed} | evaluate(
        options.checkpoint, work.texts, scenes, extent.recognised, seed, options.workers
    )
    if options.card:
        write_card(options.checkpoint, work.texts, figures)
    print(json.dumps(figures, indent=1) if options.json else table(figures))


def count(text: str) -> int:
    """A number of things, at least 1. For `argparse`."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not at least 1")
    return value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m model.demo", description=__doc__)
    parser.add_argument("stage", choices=("corpus", "train", "evaluate", "export"))
    parser.add_argument("--work", type=Path, default=Path(".cache/demo"), help="work folder")
    parser.add_argument("--texts", type=Path, default=TEXTS, help="what is asked and said")
    parser.add_argument("--checkpoint", type=Path, default=CHECKPOINT)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--workers", type=count, choices=(1, 2), default=2, help="processes, one core each"
    )
    for name in AMOUNTS:
        known = f"default {getattr(Plan(), name)}"
        parser.add_argument(f"--{name.replace('_', '-')}", type=count, help=known)
    tests = parser.add_argument_group("evaluate")
    tests.add_argument("--json", action="store_true", help="every figure, not only the goals")
    tests.add_argument("--card", action="store_true", help="write them into the model card")
    tests.add_argument("--test-seed", type=int, default=20_260)
    tests.add_argument("--answers", type=count, default=200, help="turns a figure")
    tests.add_argument("--recognised", type=count, default=200, help="read with a large vocabulary")
    tests.add_argument("--human", type=Path, help="folder of recordings of people, WAV")
    tests.add_argument("--only", nargs="*", default=(), help="figures by name")
    return parser


if __name__ == "__main__":
    sys.exit(main())
