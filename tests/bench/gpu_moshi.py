"""The `moshi` package on the same weights, beside ours: whole frames, rings full, 7B shape."""

from __future__ import annotations

import torch
from torch import Tensor

from model.core import AGENT_CODEBOOKS, FRAME_SAMPLES
from model.lm_slots import LMSlots
from model.modes import prepare_fastest
from model.random_weights import RandomWeights
from tests.bench.gpu_stages import Write
from tests.bench.plant import Plant
from tests.bench.sides import Reference, self_talk

CHECKED_CALLS = 12


def side_by_side(plant: Plant, write: Write) -> None:
    """The package on its own graphs, 16 steps, beside ours with 16 and with 8."""
    whole, rows = plant.whole(), list[dict[str, object]]()
    weights = RandomWeights(whole.lm.state_dict(), whole.mimi.state_dict())
    reference = Reference(whole.config, weights, whole.device, whole.dtype)
    with reference.lm_stream(1) as generator:
        agreement = agreeing(whole, self_talk(generator, 1, CHECKED_CALLS))
    for batch in [1, 2] if whole.dry else [1, 8]:
        theirs = reference_frames(whole, reference, batch)
        row: dict[str, object] = {"batch": batch, "moshi_16": theirs}
        for steps in (16, 8):
            ours = our_frames(whole, batch, steps)
            row |= {f"ours_{steps}": ours, f"ratio_{steps}": theirs["p50_ms"] / ours["p50_ms"]}
        rows.append(row)
        write({"tokens_agreeing": agreement, "rows": rows})


def our_frames(plant: Plant, batch: int, steps: int) -> dict[str, float]:
    """Milliseconds of whole frames of ours, by `steps` of the depformer."""
    stepper = plant.stepper(batch, steps=steps)
    return plant.timed_steps(stepper, plant.config.lm.context, plant.steps // 5 + 1)


def agreeing(plant: Plant, spoken: list[Tensor]) -> float:
    """Share of the agent's tokens of frames `[1, 17]` that ours decides too, given the user's.

    In bf16 sums are rounded in different orders, so that near choices differ: a share, no gate.
    """
    slots = LMSlots(prepare_fastest(plant.lm, 1)[0], plant.config, 1)
    hear(slots, torch.zeros(1, AGENT_CODEBOOKS, dtype=torch.int64, device=plant.device))
    same = [(hear(slots, frame[:, 9:]) == frame[:, :9]).float().mean() for frame in spoken]
    return float(torch.stack(same).mean())


@torch.inference_mode()
def hear(slots: LMSlots, user: Tensor) -> Tensor:
    """The emitted frame `[1, 9]` of user codes `[1, 8]`."""
    one = torch.ones(1, dtype=torch.bool, device=user.device)
    output = slots.step(range(1), user, ~one)
    slots.commit(range(1), one)
    return torch.cat([output.text[:, None], output.codes], dim=1)


def reference_frames(plant: Plant, reference: Reference, batch: int) -> dict[str, float]:
    """Milliseconds of encode, step and decode of the package."""
    plant.clear()
    pcm = 0.1 * torch.randn(batch, 1, FRAME_SAMPLES, device=plant.device)
    nothing = torch.zeros(batch, 0, 1, dtype=torch.int64, device=plant.device)
    with reference.lm_stream(batch) as generator, reference.codec_stream(batch):
        self_talk(generator, batch, 3)

        def whole() -> None:
            reference.mimi.encode(pcm)
            tokens = generator.step(nothing)
            reference.mimi.decode(tokens[:, 1:9].clamp(0, plant.config.lm.card - 1))

        return plant.timed(whole, plant.steps // 5 + 1)
