"""Gate A on the device: does a call hear its neighbours?"""

from __future__ import annotations

from random import Random

from model.device import DeviceStepper
from model.prefill import Prefix, prefill
from model.selftest import cuts_agree, rows_agree
from tests.bench.gpu_stages import Write
from tests.bench.plant import Plant

SEED = 3
Said = tuple[int, tuple[int, ...], bytes]


def isolation(plant: Plant, write: Write) -> None:
    """Gate A: a call alone in the first slot and in the last among others that come and go."""
    stepper = plant.stepper(plant.batches[1 if plant.dry else 3])
    checks: dict[str, object] = {
        "mode": stepper.mode,
        "slots_agree": rows_agree(stepper.frame_step),
        "cuts_agree": cuts_agree(stepper.frame_step),
    }
    prefix = prefill(plant.lm, plant.config, plant.prompt(30))
    alone = said(plant, stepper, prefix, slot=0, crowd=None)
    write(checks | {"steps": len(alone)})
    among = said(plant, stepper, prefix, slot=stepper.slots - 1, crowd=Random(SEED))
    differing = (at for at, (a, b) in enumerate(zip(alone, among, strict=False)) if a != b)
    write(checks | {"steps": len(among), "first_difference": next(differing, None)})


def said(
    plant: Plant, stepper: DeviceStepper, prefix: Prefix, slot: int, crowd: Random | None
) -> list[Said]:
    """What the call in `slot` says to one and the same sound; `crowd` decides of the others."""
    others = [row for row in range(stepper.slots) if row != slot] if crowd else []
    stepper.admit(slot, prefix, None)
    positions, heard = [0] * stepper.rows, list[Said]()
    positions[slot] = prefix.positions
    while len(heard) < (12 if plant.dry else 100) and not (plant.spent and heard):
        for other in others:
            if crowd.random() < 0.1:
                stepper.admit(other, prefix, None)
                positions[other] = prefix.positions
        frames = plant.frames(stepper.rows, len(heard))
        frames.pcm[slot] = frames.pcm[0]
        frames.positions[:] = positions
        for row, at in enumerate(positions):
            frames.stepped[row] = at > 0 and (row == slot or crowd.random() < 0.9)
        output = stepper.step(range(stepper.rows), frames)
        positions = [at + int(on) for at, on in zip(positions, frames.stepped, strict=True)]
        codes = tuple(output.codes[slot].tolist())
        heard.append((int(output.text[slot]), codes, output.pcm[slot].tobytes()))
    return heard
