"""Nothing grows: thousands of short calls leave the process as large as a hundred did."""

import gc

import psutil
import pytest
import torch

from model.prefill import Prefix, prefill
from model.prefix import PrefixCache
from model.prompt import build_prompt_from_codes
from tests.unit.model.engine.harness import Caller
from tests.unit.model.engine.real import WHOLE_TINY, RealRig, Track, weights

pytestmark = pytest.mark.unit
FRAMES, WARM = 5, 100


# contract: I3
def test_a_cached_prefix_holds_the_bytes_that_the_cache_counts_and_no_more() -> None:
    lm, _ = weights(WHOLE_TINY)
    prompt = build_prompt_from_codes(torch.zeros(8, 150, dtype=torch.int64), [], WHOLE_TINY)
    prefix = prefill(lm, WHOLE_TINY, prompt)
    cache: PrefixCache[Prefix] = PrefixCache(1 << 30)
    cache.put(("one.pt", ""), prefix)
    tensors = (prefix.k, prefix.v, prefix.tokens, prefix.hidden)
    assert sum(tensor.untyped_storage().nbytes() for tensor in tensors) == cache.nbytes


def resident() -> int:
    gc.collect()
    return psutil.Process().memory_info().rss


def growth(cycles: int) -> float:
    """Relative growth of resident memory from cycle 100 to the last."""
    rig = RealRig(3, fixed_rows=False)
    tracks = [Track.draw(seed, FRAMES) for seed in (1, 2)]
    first, slots = 0, set[int]()
    for cycle in range(cycles):
        below = [Caller(rig.engine).open() for _ in range(cycle % rig.slots)]
        caller = rig.caller(tracks[cycle % 2])
        for _ in range(FRAMES):
            caller.play()
            rig.settle()
        for each in (*below, caller):
            each.close()
        rig.tick(2)
        assert caller.released == 1 and len(caller.results) == FRAMES
        slots.add(caller.handle.slot)
        if cycle + 1 == WARM:
            first = resident()
    grown = resident() / first - 1
    print(f"{cycles} cycles: resident memory grew {grown:.3%} after the first {WARM}")
    assert rig.engine.stats().used == 0 and rig.engine.stats().prefills == len(tracks)
    assert slots == set(range(rig.slots))
    return grown


# contract: A3
@pytest.mark.figures
def test_two_hundred_calls_leave_memory_within_one_percent() -> None:
    assert growth(200) <= 0.01


# contract: A3
@pytest.mark.figures
@pytest.mark.full
def test_two_thousand_calls_leave_memory_within_one_percent() -> None:
    assert growth(2000) <= 0.01
