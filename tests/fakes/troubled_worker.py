"""The real worker with the real engine on a device in trouble: slow steps, or a fault for good.

For tests of what that looks like from outside: `python -m tests.fakes.troubled_worker`.
"""

from __future__ import annotations

import argparse
import sys
import time

from agent import start
from agent.loading import make_engine
from model.device import DeviceStepper
from model.stepper import StepInput, StepOutput
from tests.fakes import worker_command


def trouble(seconds: float, good_steps: int | None) -> None:
    """Let every step of this process wait first, and those behind `good_steps` raise."""
    step = DeviceStepper.step
    done = 0

    def troubled(self: DeviceStepper, rows: range, frames: StepInput) -> StepOutput:
        nonlocal done
        time.sleep(seconds)
        if done == good_steps:
            raise RuntimeError("the device is gone")
        output = step(self, rows, frames)
        done += 1
        return output

    DeviceStepper.step = troubled  # type: ignore[method-assign]


def main() -> int:
    parser = argparse.ArgumentParser()
    start.add_arguments(parser)
    parser.add_argument("--step-ms", type=float, default=0.0)
    parser.add_argument("--good-steps", type=int, help="all unless given")
    args = parser.parse_args()
    trouble(args.step_ms / 1e3, args.good_steps)
    return worker_command.run(args, make_engine)


if __name__ == "__main__":
    sys.exit(main())
