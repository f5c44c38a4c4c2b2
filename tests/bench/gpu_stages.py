"""What each GPU stage measures; every stage writes after each of its figures."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch

from model.core import FRAME_SECONDS
from model.device import DeviceStepper
from model.prefill import Prefix, prefill
from model.selftest import rows_agree
from tests.bench.plant import Plant, bytes_read

Write = Callable[[dict[str, object]], None]
COPY_BYTES = 4 << 30
JOIN_SECONDS = 2.0


def env(plant: Plant, write: Write) -> None:
    """Versions, and the copy bandwidth that all fractions refer to."""
    facts: dict[str, object] = {"torch": torch.__version__, "device": str(plant.device)}
    if plant.device.type == "cuda":
        facts["name"] = torch.cuda.get_device_name()
        facts["cuda"] = torch.version.cuda
    write(facts | {"bandwidth": bandwidth(plant), "mode": plant.stepper(1).mode})


def bandwidth(plant: Plant) -> float:
    """Bytes a second that a copy on the device moves, read and written."""
    size = COPY_BYTES if plant.device.type == "cuda" else 1 << 20
    source = torch.zeros(size, dtype=torch.uint8, device=plant.device)
    target = torch.empty_like(source)
    best = min(plant.seconds(lambda: target.copy_(source)) for _ in range(5))
    return 2 * size / best


def steps(plant: Plant, write: Write) -> None:
    """Unpaced steps by batch and age: p50, p99, share of the bandwidth, memory."""
    speed, rows = bandwidth(plant), list[dict[str, object]]()
    for batch in plant.batches:
        try:
            stepper = plant.stepper(batch)
        except torch.OutOfMemoryError:
            write({"rows": rows, "out_of_memory_at": batch})
            return
        for position in (256, plant.config.lm.context):
            taken = timed(plant, stepper, position, plant.steps)
            read = bytes_read(plant.config.lm, plant.dtype.itemsize, position, batch)
            rows.append(
                {"batch": batch, "position": position, "mode": stepper.mode, **taken}
                | {"bandwidth_share": read / speed / (taken["p50_ms"] / 1000)}
                | {"memory": memory(plant)}
            )
            write({"rows": rows})


def timed(plant: Plant, stepper: DeviceStepper, position: int, count: int) -> dict[str, float]:
    plant.age(stepper.frame_step, position)
    frames, rows = plant.frames(stepper.rows, position), range(stepper.rows)
    stepper.step(rows, frames)
    taken = [plant.seconds(lambda: stepper.step(rows, frames)) for _ in range(count)]
    return percentiles(taken)


def percentiles(seconds: list[float]) -> dict[str, float]:
    p50, p99, most = np.percentile(seconds, [50, 99, 100]) * 1000
    return {"p50_ms": float(p50), "p99_ms": float(p99), "max_ms": float(most)}


def memory(plant: Plant) -> int:
    return torch.cuda.max_memory_allocated() if plant.device.type == "cuda" else 0


def paced(plant: Plant, write: Write) -> None:
    """One step every 80 ms, a call joining every two seconds by its prefix."""
    batch, seconds = plant.batches[-1 if plant.dry else 5], 0.5 if plant.dry else 45.0
    stepper = plant.stepper(batch)
    plant.age(stepper.frame_step, plant.config.lm.context)
    prefix = prefill(plant.lm, plant.config, plant.prompt(100))
    frames, rows = plant.frames(stepper.rows, plant.config.lm.context), range(stepper.rows)
    calm, joining = list[float](), list[float]()
    began = time.perf_counter()
    for index in range(int(seconds / FRAME_SECONDS)):
        time.sleep(max(0.0, began + index * FRAME_SECONDS - time.perf_counter()))
        join = index % int(JOIN_SECONDS / FRAME_SECONDS) == 0
        spent = plant.seconds(lambda: stepper.admit(0, prefix, None)) if join else 0.0
        spent += plant.seconds(lambda: stepper.step(rows, frames))
        (joining if join else calm).append(spent)
    missed = sum(spent > FRAME_SECONDS for spent in [*calm, *joining])
    write(
        {"batch": batch, "missed": missed, "steps": len(calm) + len(joining)}
        | {"calm": percentiles(calm), "joining": percentiles(joining)}
    )


def start(plant: Plant, write: Write) -> None:
    """Cold: the prompt's pass. Warm: the copy of its prefix. And the same by steps."""
    stepper, rows = plant.stepper(1), list[dict[str, object]]()
    step_ms = timed(plant, stepper, 100, plant.steps)["p50_ms"]
    for positions in (30, 60) if plant.dry else (200, 400):
        prompt = plant.prompt(positions)
        prefix: Prefix = prefill(plant.lm, plant.config, prompt)
        cold = min(
            plant.seconds(lambda p=prompt: prefill(plant.lm, plant.config, p)) for _ in range(5)
        )
        warm = min(plant.seconds(lambda p=prefix: stepper.admit(0, p, None)) for _ in range(5))
        rows.append(
            {"positions": positions, "cold_ms": 1000 * cold, "warm_ms": 1000 * warm}
            | {"stepped_ms": positions * step_ms}
        )
        write({"rows": rows})


def sessions(plant: Plant, write: Write) -> None:
    """The most calls, all at full context, whose step stays under 80 ms at p99."""
    low, high, tried = 0, plant.batches[-1] + 1, list[dict[str, object]]()
    while high - low > 1:
        batch = (low + high) // 2
        try:
            taken = timed(plant, plant.stepper(batch), plant.config.lm.context, plant.steps)
            fits = taken["p99_ms"] < 1000 * FRAME_SECONDS
        except torch.OutOfMemoryError:
            taken, fits = {}, False
        tried.append({"batch": batch, "fits": fits, **taken})
        low, high = (batch, high) if fits else (low, batch)
        write({"sessions": low, "tried": tried})


def isolation(plant: Plant, write: Write) -> None:
    """Gate A on the device: equal calls in all slots give equal bits, eager and replayed."""
    stepper = plant.stepper(plant.batches[1 if plant.dry else 3])
    agree = rows_agree(stepper.frame_step)
    prefix = prefill(plant.lm, plant.config, plant.prompt(30))
    for slot in range(stepper.rows):
        stepper.admit(slot, prefix, None)
    differs_at = None
    for index in range(plant.steps // 3):
        frames = plant.frames(stepper.rows, prefix.positions + index)
        frames.pcm[:] = frames.pcm[0]
        output = stepper.step(range(stepper.rows), frames)
        if not (output.pcm == output.pcm[0]).all() or not (output.codes == output.codes[0]).all():
            differs_at = index
            break
    write({"mode": stepper.mode, "one_step_agrees": agree, "first_difference": differs_at})


def ablations(plant: Plant, write: Write) -> None:
    """What graphs, the length of attention and int8 weights are worth at one batch."""
    batch, rows = plant.batches[1 if plant.dry else 3], dict[str, object]()
    for name, graph in (("graph", True), ("eager", False)):
        stepper = plant.stepper(batch, graph=graph)
        rows[name] = timed(plant, stepper, plant.config.lm.context, plant.steps // 3)
        rows[f"{name}_young"] = timed(plant, stepper, 60, plant.steps // 3)
        write({"batch": batch, **rows})
    int8 = plant.stepper(batch, quantise="int8")
    rows["int8"] = timed(plant, int8, plant.config.lm.context, plant.steps // 3)
    write({"batch": batch, **rows})


STAGES: dict[str, Callable[[Plant, Write], None]] = {
    "env": env,
    "steps": steps,
    "paced": paced,
    "start": start,
    "sessions": sessions,
    "isolation": isolation,
    "ablations": ablations,
}
