"""What each GPU stage measures of ours; every stage writes after each of its figures."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping

import torch

from model.core import FRAME_SECONDS
from model.device import DeviceStepper
from model.prefill import Prefill, Prefix, prefill
from tests.bench.plant import Plant, bytes_read, percentiles

Write = Callable[[dict[str, object]], None]
COPY_BYTES = 4 << 30
JOIN_SECONDS = 2.0
YOUNG = 200
"""A position at which rings are nearly empty."""
FLOAT8 = torch.float8_e4m3fn
KV_DTYPES = {"of the weights": None, "float8": FLOAT8}
MOST_SESSIONS = 160
UNTRIED = {"skipped": "the time of the stage was spent before"}


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
        if plant.spent:
            write({"rows": rows, "time_spent_at": batch})
            return
        try:
            for row in steps_of(plant, batch, speed):
                rows.append(row)
                write({"rows": rows})
        except torch.OutOfMemoryError:
            write({"rows": rows, "out_of_memory_at": batch})
            return


def steps_of(plant: Plant, batch: int, speed: float) -> Iterator[dict[str, object]]:
    """A row for each age; the stepper goes when they are done."""
    stepper = plant.stepper(batch)
    for position in (YOUNG, plant.config.lm.context):
        taken = plant.timed_steps(stepper, position, plant.steps)
        read = bytes_read(plant.config.lm, plant.dtype.itemsize, position, batch)
        yield (
            {"batch": batch, "position": position, "mode": stepper.mode, **taken}
            | {"bandwidth_share": read / speed / (taken["p50_ms"] / 1000)}
            | {"memory": memory(plant)}
        )


def memory(plant: Plant) -> int:
    """The most bytes that were taken since the stepper was begun, the weights among them."""
    return torch.cuda.max_memory_allocated() if plant.device.type == "cuda" else 0


def paced(plant: Plant, write: Write) -> None:
    """One step every 80 ms, a call joining every two seconds by its prefix."""
    seconds = 0.5 if plant.dry else 30.0
    stepper = plant.largest([2] if plant.dry else [32, 16, 8, 4, 2, 1])
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
        {"batch": stepper.slots, "missed": missed, "steps": len(calm) + len(joining)}
        | {"calm": percentiles(calm), "joining": percentiles(joining)}
    )


def start(plant: Plant, write: Write) -> None:
    """Cold: the prompt's pass, and its longest chunk. Warm: a prefix's copy. And by steps."""
    stepper, rows = plant.stepper(1), list[dict[str, object]]()
    step_ms = plant.timed_steps(stepper, YOUNG, plant.steps)["p50_ms"]
    for positions in (30, 90) if plant.dry else (200, 400):
        passes = [chunks(plant, positions) for _ in range(2 if plant.dry else 5)]
        prefix: Prefix = prefill(plant.lm, plant.config, plant.prompt(positions))
        warm = min(plant.seconds(lambda p=prefix: stepper.admit(0, p, None)) for _ in range(5))
        rows.append(
            {"positions": positions, "cold_ms": 1000 * min(sum(each) for each in passes)}
            | {"chunk_ms": 1000 * min(max(each) for each in passes)}
            | {"warm_ms": 1000 * warm, "stepped_ms": positions * step_ms}
        )
        write({"rows": rows})


def chunks(plant: Plant, positions: int) -> list[float]:
    """Seconds of each chunk of one prefill."""
    work, taken = Prefill(plant.lm, plant.config, plant.prompt(positions)), list[float]()
    while work.done < positions:
        taken.append(plant.seconds(work.advance))
    return taken


def sessions(plant: Plant, write: Write) -> None:
    """The most calls, all at full context, whose step stays under 80 ms at p99, by KV dtype."""
    found: dict[str, object] = dict.fromkeys(KV_DTYPES, UNTRIED)
    for name, kv_dtype in KV_DTYPES.items():
        low, high = 0, 3 if plant.dry else MOST_SESSIONS
        tried = list[dict[str, object]]()
        while high - low > 1 and not plant.spent:
            batch = (low + high) // 2
            taken = full_steps(plant, batch, kv_dtype)
            fits = taken.get("p99_ms", 1e9) < 1000 * FRAME_SECONDS
            tried.append({"batch": batch, "fits": fits, **taken})
            low, high = (batch, high) if fits else (low, batch)
            found[name] = {"at_least": low, "below": high, "tried": tried}
            write({"kv": found})
    write({"kv": found})


def full_steps(plant: Plant, batch: int, kv_dtype: torch.dtype | None) -> dict[str, float]:
    """Steps over whole rings and the bytes of a slot; nothing where it does not fit."""
    try:
        stepper = plant.stepper(batch, cut=False, kv_dtype=kv_dtype)
        taken = plant.timed_steps(stepper, plant.config.lm.context, plant.steps // 6 + 1)
    except torch.OutOfMemoryError:
        return {}
    return taken | {"slot_bytes": stepper.slot_bytes}


def ablations(plant: Plant, write: Write) -> None:
    """What graphs, cut rings, eight depformer steps, float8 KV and int8 weights are worth."""
    whole = plant.whole()
    batch, context = whole.batches[1 if whole.dry else 3], whole.config.lm.context
    rows: dict[str, object] = {}

    def measure(ages: Mapping[str, int], stepper: DeviceStepper) -> None:
        for name, position in ages.items():
            rows[name] = whole.timed_steps(stepper, position, whole.steps // 5 + 1)
            write({"batch": batch, "rows": rows})

    measure({"served": context, "young": YOUNG}, whole.stepper(batch))
    measure({"young, whole rings": YOUNG}, whole.stepper(batch, cut=False))
    measure({"16 depformer steps": context}, whole.stepper(batch, steps=whole.config.lm.dep_q))
    measure({"float8 keys and values": context}, whole.stepper(batch, cut=False, kv_dtype=FLOAT8))
    measure({"eager": context}, whole.stepper(batch, graph=False))
    # Last, since it replaces the layers of the model itself.
    measure({"int8 weights": context}, whole.stepper(batch, quantise="int8"))
