"""Gate A on the device: does a call hear its neighbours? And does a replay say what eager says?

The call is bound like one that is served, crosses the first cut of its ring and outlasts the
codec's window. What the others do comes from one seed, so that any form can be played the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from model.device import DeviceStepper, step_and_commit
from model.graphs import FIRST_CUT, EagerStep, PackedStep, StaticStep, ring_cuts
from model.mimi.transformer import POSITIONS_PER_FRAME
from model.prefill import Prefix, prefill
from model.selftest import rows_agree
from model.stepper import StepInput, StepOutput
from tests.bench.gpu_stages import Write
from tests.bench.plant import Plant

SEED = 3
JOINS, LEAVES, PAUSES, HOLDS = 0.3, 0.05, 0.1, 0.1
"""Chances of a neighbour in each step."""
NEIGHBOURS = (30, 290)
"""Positions of their prompts: a young one, and one past the first cut while the call is not."""

Said = tuple[int, tuple[int, ...], bytes]
Run = Callable[[range, StepInput], StepOutput]


@dataclass(frozen=True)
class Size:
    """How many slots there are, where the call begins, and for how long it is heard."""

    slots: int
    prompt: int
    steps: int


WHOLE, DRY = Size(8, 200, 140), Size(4, 250, 60)


@dataclass(frozen=True)
class Play:
    """What the call said, and who was there."""

    said: list[Said]
    crowd: Crowd


def isolation(plant: Plant, write: Write) -> None:
    """Gate A: a call alone in the first slot and in the last among others that come and go."""
    size = DRY if plant.dry else WHOLE
    stepper = plant.stepper(size.slots)
    found: dict[str, object] = {
        "mode": stepper.mode,
        "slots_agree": rows_agree(stepper.frame_step),
        "cuts_agree": stepper.cut,
    }
    scene = Scene(plant, stepper, size)
    alone = scene.play(stepper.step, slot=0, crowded=False)
    write(found | {"steps": len(alone.said)})
    among = scene.play(stepper.step, slot=size.slots - 1, crowded=True)
    found |= {"first_difference": first_difference(alone, among), **covered(plant, size, among)}
    write(found)
    write(found | replayed(plant, scene, among))


def covered(plant: Plant, size: Size, play: Play) -> dict[str, object]:
    """What the comparison has seen: fewer steps, where the time was spent before, see less."""
    steps = len(play.said)
    window = plant.config.mimi.transformer.context // POSITIONS_PER_FRAME
    return {
        "steps": steps,
        "past_codec_window": steps > window,
        "crossed_cut": size.prompt < FIRST_CUT < size.prompt + steps,
        "joined": play.crowd.joined,
        "released": play.crowd.released,
        "held": play.crowd.held,
    }


def replayed(plant: Plant, scene: Scene, among: Play) -> dict[str, object]:
    """The same schedule by the form that is not served here: eager steps beside a captured one.

    A CPU serves eager steps; there the fixed addresses are called plainly.
    """
    stepper = scene.stepper
    step, cut = stepper.frame_step, stepper.cut
    if plant.dry:
        cuts = ring_cuts(step.capacity) if cut else (step.capacity,)
        other: PackedStep = StaticStep(step, plant.device, cuts)
    elif "cuda graph" in stepper.mode:
        other = EagerStep(step, plant.device, cut=cut)
    else:
        return {"replay_skipped": f"nothing is replayed: {stepper.mode}"}

    def run(rows: range, frames: StepInput) -> StepOutput:
        return step_and_commit(other, rows, frames, stepper.rows)

    play = scene.play(run, slot=stepper.slots - 1, crowded=True)
    difference = first_difference(among, play)
    return {"replay_steps": len(play.said), "replay_first_difference": difference}


def first_difference(one: Play, two: Play) -> int | None:
    """The first step at which the call said something else; none where it never did."""
    pairs = enumerate(zip(one.said, two.said, strict=False))
    return next((at for at, (a, b) in pairs if a != b), None)


class Scene:
    """One call that hears one and the same sound in every play, and neighbours by a seed."""

    def __init__(self, plant: Plant, stepper: DeviceStepper, size: Size) -> None:
        self.plant, self.stepper, self.size = plant, stepper, size
        self.prefix, *self.others = (
            prefill(plant.lm, plant.config, plant.prompt(positions))
            for positions in (size.prompt, *NEIGHBOURS)
        )

    def play(self, run: Run, *, slot: int, crowded: bool) -> Play:
        """Step by `run` what begins in clean slots; no further than the stage's time."""
        for each in range(self.stepper.slots):
            self.stepper.release(each)
        self.stepper.admit(slot, self.prefix, None)
        others = [row for row in range(self.stepper.slots) if row != slot] if crowded else []
        crowd, holds, said = Crowd(self.stepper, others, self.others), Random(SEED), list[Said]()
        while len(said) < self.size.steps and not (self.plant.spent and said):
            frames = self.plant.frames(self.stepper.rows, len(said))
            frames.stepped[:], frames.positions[:] = False, [0] * self.stepper.rows
            frames.pcm[slot] = frames.pcm[0]
            frames.positions[slot] = self.prefix.positions + len(said)
            frames.stepped[slot], frames.held[slot] = True, holds.random() < HOLDS
            crowd.enter(frames)
            output = run(range(self.stepper.rows), frames)
            codes = tuple(output.codes[slot].tolist())
            said.append((int(output.text[slot]), codes, output.pcm[slot].tobytes()))
        return Play(said, crowd)


class Crowd:
    """The neighbours in `rows`: they join, leave, pause and are held."""

    def __init__(
        self, stepper: DeviceStepper, rows: Sequence[int], prefixes: Sequence[Prefix]
    ) -> None:
        self._stepper, self._prefixes, self._random = stepper, prefixes, Random(SEED)
        self._positions = dict.fromkeys(rows, 0)
        self.joined = self.released = self.held = 0

    def enter(self, frames: StepInput) -> None:
        """Come and go, then take part in the step of `frames`."""
        for row in self._positions:
            self._come_or_go(row)
            frames.positions[row] = position = self._positions[row]
            stepped = position > 0 and self._random.random() > PAUSES
            held = stepped and self._random.random() < HOLDS
            frames.stepped[row], frames.held[row] = stepped, held
            self._positions[row] += stepped
            self.held += held

    def _come_or_go(self, row: int) -> None:
        if self._positions[row] and self._random.random() < LEAVES:
            self._stepper.release(row)
            self._positions[row] = 0
            self.released += 1
        elif not self._positions[row] and self._random.random() < JOINS:
            prefix = self._random.choice(self._prefixes)
            self._stepper.admit(row, prefix, None)
            self._positions[row] = prefix.positions
            self.joined += 1
