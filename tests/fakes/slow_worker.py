"""The real worker with the real engine, each of whose steps takes `--step-ms` longer.

For tests of what a server that cannot keep up looks like: `python -m tests.fakes.slow_worker`.
"""

from __future__ import annotations

import argparse
import sys
import time

from agent import start
from agent.command import CommandError, configure_logging
from agent.loading import make_engine
from agent.ports import listen
from agent.serve import run_worker
from agent.settings import load
from model.device import DeviceStepper
from model.stepper import StepInput, StepOutput


def slow_down(seconds: float) -> None:
    """Let every step of this process wait first."""
    step = DeviceStepper.step

    def slow(self: DeviceStepper, rows: range, frames: StepInput) -> StepOutput:
        time.sleep(seconds)
        return step(self, rows, frames)

    DeviceStepper.step = slow  # type: ignore[method-assign]


def main() -> int:
    parser = argparse.ArgumentParser()
    start.add_arguments(parser)
    parser.add_argument("--step-ms", type=float, required=True)
    args = parser.parse_args()
    slow_down(args.step_ms / 1e3)
    try:
        settings = load(args)
        configure_logging(settings.log_level)
        with listen(settings) as listener:
            return run_worker(settings, listener, make_engine, start.announce)
    except CommandError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
