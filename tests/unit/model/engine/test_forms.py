"""Faster forms of a step against the plain one: fixed addresses, int8 layers, agreeing slots."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from model import graphs, lm_step
from model.config import LMConfig
from model.device import DeviceStepper
from model.graphs import TEXT, EagerStep, PackedStep, StaticStep, replays_equally, ring_cuts
from model.mimi.transformer import FrameView, StreamingTransformer
from model.modes import prepare_fastest
from model.modules import adopt, meta_lm
from model.prefill import prefill
from model.prompt import SILENCE_FRAMES
from model.quantize import Int8Linear, quantise
from model.random_weights import random_weights
from model.selftest import cuts_agree, rows_agree, rows_for, settle_threads
from model.step import FrameStep
from model.stepper import StepInput
from tests.unit.model.engine.real import (
    CONFIG,
    WHOLE_TINY,
    Track,
    read_prompt,
    torch_threads,
    weights,
)

pytestmark = pytest.mark.unit
CPU, SLOTS = torch.device("cpu"), 4
LONG_CODEC = dataclasses.replace(
    WHOLE_TINY,
    mimi=dataclasses.replace(
        WHOLE_TINY.mimi,
        transformer=dataclasses.replace(WHOLE_TINY.mimi.transformer, context=150),
    ),
)
"""The codec's rings can be cut too."""
HELD = range(4, 8)


def run(make: Callable[[FrameStep], PackedStep], crossing: int) -> list[np.ndarray]:
    """Packed rows of twelve steps of two calls, a greedy one and an older one with a sampler.

    The older one passes position `crossing` and is held at the steps `HELD`.
    """
    lm, mimi = weights(WHOLE_TINY)
    step = FrameStep(lm, mimi, WHOLE_TINY, SLOTS, sampling=True)
    tracks = [Track.draw(seed, 12) for seed in (1, 0)]
    assert [track.spec.sampling is None for track in tracks] == [True, False]
    voices = {"two.pt": 5, "one.pt": crossing - 6 - 2 * SILENCE_FRAMES}
    for slot, track in enumerate(tracks):
        prompt = read_prompt(track.spec, WHOLE_TINY, voices)
        step.admit(slot, prefill(lm, WHOLE_TINY, prompt), track.spec.sampling)
    form, packed = make(step), []
    for index in range(12):
        pcm = np.zeros((SLOTS, 1920), np.float32)
        pcm[:2] = [track.pcm[index] for track in tracks]
        stepped = np.arange(SLOTS) < 2
        positions = [origin + index for origin in step.origins]
        held = (np.arange(SLOTS) == 1) & (index in HELD)
        frames = StepInput(pcm, stepped, held, positions)
        packed.append(form(range(SLOTS), frames)[:2].copy())
        assert np.array_equal(form(range(SLOTS), frames)[:2], packed[-1]), "nothing was committed"
        form.commit(range(SLOTS), frames)
    return packed


# contract: I5, I7
@torch.inference_mode()
@pytest.mark.parametrize("crossing", [64, 128])
def test_the_step_from_fixed_addresses_says_what_the_eager_one_says(crossing: int) -> None:
    used = set[int]()

    class Noted(StaticStep):
        def _run(self, cut: int) -> None:
            used.add(cut)
            super()._run(cut)

    eager = run(lambda step: EagerStep(step, CPU), crossing)
    static = run(lambda step: Noted(step, CPU, range(64, 321, 64)), crossing)
    assert used == {crossing, crossing + 64}
    for one, two in zip(eager, static, strict=True):
        assert np.array_equal(one, two)
    padding = WHOLE_TINY.lm.existing_text_padding_id
    silent = [index for index, rows in enumerate(static) if rows[1, TEXT] == padding]
    assert set(silent) >= {index + 1 for index in HELD}, "what a step decides, the next one says"


def test_a_ring_is_captured_at_doubling_lengths_and_whole() -> None:
    assert ring_cuts(3008) == (256, 512, 1024, 2048, 3008)
    assert ring_cuts(256) == (256,) and ring_cuts(320) == (256, 320) and ring_cuts(64) == (64,)


@torch.inference_mode()
def test_a_captured_form_that_differs_at_one_length_is_found_out() -> None:
    lm, mimi = weights(WHOLE_TINY)
    step = FrameStep(lm, mimi, WHOLE_TINY, SLOTS)
    eager, static = EagerStep(step, CPU), StaticStep(step, CPU, [64, 320])
    assert replays_equally(eager, static, SLOTS, [64, 320])
    right = static._launch[320]

    def wrong() -> None:
        right()
        static._output[-1, 0] += 1e-6

    static._launch[320] = wrong
    assert not replays_equally(eager, static, SLOTS, [64, 320])


# contract: I5
@pytest.mark.parametrize("why", ["capture failed", "replay differs"])
def test_a_capture_that_does_not_serve_falls_back_to_eager_and_says_so(
    why: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lm, mimi = weights()

    def capture(*args: object) -> None:
        if why == "capture failed":
            raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(graphs, "StaticStep", capture)
    monkeypatch.setattr(graphs, "replays_equally", lambda *args: False)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    step = FrameStep(lm, mimi, CONFIG, SLOTS)
    form, name = graphs.capture_or_eager(step, torch.device("cuda"))
    assert isinstance(form, EagerStep) and name == f"eager ({why})"
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "far slower" in caplog.text


def test_int8_rows_are_within_half_a_level_and_apart_from_each_other() -> None:
    random = torch.Generator().manual_seed(1)
    weight = torch.randn(24, 16, generator=random)
    levels, scale = quantise(weight)
    assert levels.dtype == torch.int8
    error = (levels * scale[:, None] - weight).abs()
    assert bool((error <= scale[:, None] / 2 + 1e-6).all())
    product, x = Int8Linear(weight), torch.randn(8, 16, generator=random)
    alone = product(x[3:4].expand(8, -1).contiguous())[3]
    assert torch.equal(product(x)[3], alone), "neighbours do not matter"
    assert torch.allclose(product(x), x @ product.weight.T, atol=1e-5)


@pytest.mark.parametrize("inputs", [30, 64, 100, 170, 192])
def test_the_fused_int8_product_is_taken_only_where_it_is_right(inputs: int) -> None:
    """It reads past the end of rows that are no whole number of vectors: garbage, or a crash."""
    random = torch.Generator().manual_seed(1)
    weight, x = (torch.randn(n, inputs, generator=random).to(torch.bfloat16) for n in (48, 4))
    product = Int8Linear(weight)
    assert not product.fused or inputs % 32 == 0
    wide = product.levels.double() * product.scale.double()[:, None]
    exact = x.double() @ wide.T
    assert float((product(x).double() - exact).norm() / exact.norm()) < 0.01
    alone = product(x[3:].expand(4, -1).contiguous())[3]
    assert torch.equal(product(x)[3], alone), "neighbours do not matter"


def right_product(x: Tensor, levels: Tensor, scale: Tensor) -> Tensor:
    return ((x.float() @ levels.float().T) * scale.float()).to(x.dtype)


FAULTS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "scales of other outputs": lambda x, w, s: right_product(x, w, s.flip(0)),
    "inputs in another order": lambda x, w, s: right_product(x.flip(1), w, s),
    "the last input left out": lambda x, w, s: right_product(x[:, :-1], w[:, :-1], s),
    "a rest of rows left out": lambda x, w, s: torch.cat(
        [right_product(x[:4], w, s), right_product(0 * x[4:], w, s)]
    ),
    "one output not finite": lambda x, w, s: right_product(x, w, s).index_fill(
        1, torch.tensor([7]), torch.nan
    ),
}


@pytest.mark.parametrize("inputs", [64, 1024])
@pytest.mark.parametrize("fault", [*FAULTS, None])
def test_a_fused_int8_product_is_taken_where_it_is_right_and_nowhere_else(
    fault: str | None, inputs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = torch.Generator().manual_seed(1)
    weight = torch.randn(48, inputs, generator=random).to(torch.bfloat16)
    kernel = FAULTS[fault] if fault else right_product
    monkeypatch.setattr(torch, "_weight_int8pack_mm", kernel)
    before = torch.random.get_rng_state()
    assert Int8Linear(weight).fused is (fault is None)
    assert torch.equal(torch.random.get_rng_state(), before), "the global sequence goes on"


# Gate C
def test_int8_layers_are_another_model_of_nearly_the_same_output() -> None:
    drawn = random_weights(CONFIG, 7).lm
    shape: LMConfig = dataclasses.replace(CONFIG.lm)
    lm, _ = weights()
    other = adopt(meta_lm(shape), {name: tensor.clone() for name, tensor in drawn.items()})
    _, name = prepare_fastest(other, SLOTS, quantise="int8")
    prompt = read_prompt(Track.draw(1, 1).spec)
    exact, close = prefill(lm, CONFIG, prompt).hidden, prefill(other, CONFIG, prompt).hidden
    distance = float((exact - close).norm() / exact.norm())
    print(f"Gate C: {name}, hidden differs by {distance:.2%}")
    assert 0 < distance < 0.2


def unfilled(step: FrameStep) -> bool:
    return not any(bool(t.any()) for s in range(SLOTS) for t in step.state_tensors(s).values())


# contract: I2
def test_slots_agree_and_the_check_leaves_them_clean() -> None:
    lm, mimi = weights()
    step = FrameStep(lm, mimi, CONFIG, SLOTS)
    with torch_threads(1):
        settle_threads(step)
        assert rows_agree(step) and torch.get_num_threads() == 1
        assert rows_for(3, CPU) == 3
    assert unfilled(step)
    with torch_threads(2):
        assert [rows_for(n, CPU) for n in (1, 2, 3, 5, 8)] == [1, 2, 4, 8, 8]


# contract: I2
def test_every_cut_of_a_ring_is_compared_with_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    lm, mimi = weights(LONG_CODEC)
    step = FrameStep(lm, mimi, LONG_CODEC, SLOTS)
    reads = set[tuple[str, int, int]]()
    attend, view = lm_step.attend_one, StreamingTransformer.view

    def seen(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        reads.add(("temporal", k.shape[2], int((mask == 0).sum() / len(mask))))
        return attend(q, k, v, mask)

    def viewed(transformer: StreamingTransformer, frames: Tensor, cells: int) -> FrameView:
        reads.add(("codec", cells, 2 * int(frames[0]) + 2))
        return view(transformer, frames, cells)

    monkeypatch.setattr(lm_step, "attend_one", seen)
    monkeypatch.setattr(StreamingTransformer, "view", viewed)
    with torch_threads(1):
        print(f"cuts agree on this host: {cuts_agree(step)}")
    temporal = {("temporal", cells, cut) for cut in (64, 128, 192, 256) for cells in (cut, 320)}
    codec = {("codec", cells, cut) for cut in (64, 128) for cells in (cut, 192)}
    assert reads == temporal | codec
    assert unfilled(step)


# contract: I2
@pytest.mark.parametrize("cut", [64, 128, 192, 256, 320])
def test_rings_are_read_whole_where_any_cut_would_be_heard(
    cut: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lm, mimi = weights(WHOLE_TINY)
    step, attend = FrameStep(lm, mimi, WHOLE_TINY, SLOTS), lm_step.attend_one

    def heard(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        return attend(q, k, v, mask) * (1 + 2e-7 * (k.shape[2] == cut))

    monkeypatch.setattr(lm_step, "attend_one", heard)
    assert not cuts_agree(step) and unfilled(step)
    served = DeviceStepper(step, CPU)
    assert not served.cut and served.mode.endswith("eager, whole rings")


# contract: I2
@pytest.mark.parametrize("cut", [64, 128, 192])
def test_a_cut_of_the_codecs_rings_that_is_heard_is_found_out(
    cut: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lm, mimi = weights(LONG_CODEC)
    step, attend = FrameStep(lm, mimi, LONG_CODEC, SLOTS), StreamingTransformer._attend

    def heard(
        transformer: StreamingTransformer, qkv: Tensor, k: Tensor, v: Tensor, view: FrameView
    ) -> Tensor:
        return attend(transformer, qkv, k, v, view) * (1 + 2e-7 * (view.cells == cut))

    monkeypatch.setattr(StreamingTransformer, "_attend", heard)
    assert not cuts_agree(step) and unfilled(step)


# contract: I2
def test_a_single_slot_has_no_neighbour_whose_age_it_could_hear(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lm, mimi = weights(WHOLE_TINY)
    step = FrameStep(lm, mimi, WHOLE_TINY, 1)
    monkeypatch.setattr(lm_step, "attend_one", None)
    assert cuts_agree(step)
