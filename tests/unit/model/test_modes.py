"""Which form a host is given, by dtype and by what its CPU multiplies; packed bf16, and its probe.

A host without bf16 products gets them from `F.linear` here, so that all round them is tested.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from model import fast, modes
from model.fast import FastMaker, can_pack
from model.lm import LanguageModel
from model.mimi import Mimi
from model.modes import packs_bf16, prepare_fastest
from model.prepared import PlainMaker
from model.random_weights import build_lm, build_mimi, random_weights
from model.selftest import rows_agree
from model.step import FrameStep
from tests.conftest import SEED
from tests.unit.model.engine.real import CONFIG, torch_threads

pytestmark = pytest.mark.unit
ROWS, BF16 = 3, torch.bfloat16
SHAPES = [(96, 64), (64, 176), (2048, 64), (256, 704)]
"""The last two are large enough to be packed."""
Product = Callable[[Tensor, Tensor], Tensor]


@pytest.fixture(scope="module")
def drawn() -> tuple[LanguageModel, Mimi]:
    tensors = random_weights(CONFIG, SEED)
    lm = build_lm(CONFIG.lm, {name: tensor.to(BF16) for name, tensor in tensors.lm.items()})
    return lm, build_mimi(CONFIG, tensors.mimi)


def lend(monkeypatch: pytest.MonkeyPatch, product: Product = F.linear) -> list[tuple[int, int]]:
    """bf16 products made of `product`; each use is noted: rows packed for, and rows given."""
    used = list[tuple[int, int]]()

    def run(x: Tensor, packed: tuple[Tensor, int], *rest: object) -> Tensor:
        weight, rows = packed
        used.append((rows, len(x)))
        return product(x, weight)

    monkeypatch.setattr(torch.ops.mkldnn, "_reorder_linear_weight", lambda *packed: packed)
    monkeypatch.setattr(torch.ops.mkldnn, "_linear_pointwise", run)
    monkeypatch.setattr(modes, "bf16_products", lambda: True)
    return used


def near(ours: Tensor, plain: Tensor) -> bool:
    """Within one rounding to bf16 of each value, or of their usual size where terms cancel."""
    assert ours.dtype == plain.dtype == BF16 and ours.shape == plain.shape
    wide, exact = ours.float(), plain.float()
    bound = torch.finfo(BF16).eps * (exact.abs() + exact.square().mean().sqrt())
    return bool(((wide - exact).abs() <= bound).all())


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rows", [1, ROWS])
def test_bf16_equals_the_plain_form_up_to_its_rounding(
    shape: tuple[int, int], rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Packed for real where the CPU can, else by `torch.mm`."""
    if not packs_bf16(ROWS):
        monkeypatch.setattr(fast, "PACK_FROM", 1 << 30)
    random = torch.Generator().manual_seed(SEED)
    weight, alpha, x = (
        torch.randn(size, generator=random).to(BF16)
        for size in (shape, shape[1:], (rows, shape[1]))
    )
    ours, plain = FastMaker(ROWS), PlainMaker()
    assert near(ours.matrix(weight)(x), plain.matrix(weight)(x))
    assert near(ours.normed(alpha, weight)(x), plain.normed(alpha, weight)(x))
    halves = list(weight.chunk(2))
    for one, other in zip(ours.fan(halves)(x), plain.fan(halves)(x), strict=True):
        assert near(one, other)


# Gate A
@pytest.mark.parametrize("shape", SHAPES)
def test_a_bf16_row_does_not_depend_on_place_or_neighbours(
    shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    if not packs_bf16(ROWS):
        monkeypatch.setattr(fast, "PACK_FROM", 1 << 30)
    random = torch.Generator().manual_seed(SEED)
    weight, alpha, row, x = (
        torch.randn(size, generator=random).to(BF16)
        for size in (shape, shape[1:], shape[1:], (ROWS, shape[1]))
    )
    normed, results = FastMaker(ROWS).normed(alpha, weight), []
    for place in range(ROWS):
        among = x.clone()
        among[place] = row
        results.append(normed(among)[place])
    assert all(torch.equal(result, results[0]) for result in results)


def test_a_large_bf16_matrix_is_packed_for_one_row_too(monkeypatch: pytest.MonkeyPatch) -> None:
    used = lend(monkeypatch)
    product = FastMaker(ROWS).matrix(torch.randn(2048, 64).to(BF16))
    for rows in (1, ROWS):
        product(torch.randn(rows, 64).to(BF16))
    assert used == [(1, 1), (ROWS, ROWS)]


def test_this_host_is_given_packed_bf16_or_told_that_it_has_none(
    drawn: tuple[LanguageModel, Mimi], caplog: pytest.LogCaptureFixture
) -> None:
    """The probe is right about the private operations as they are here."""
    packs = packs_bf16(ROWS)
    print(f"packed bf16 on this host: {packs}")
    if not packs and modes.bf16_products():
        pytest.fail("this CPU multiplies bf16, but not packed, or wrongly")
    if not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        assert not can_pack(BF16, ROWS) and not packs
        with pytest.raises(RuntimeError, match="bf16"):
            FastMaker(ROWS).matrix(torch.zeros(2048, 64, dtype=BF16))
    _, form = prepare_fastest(drawn[0], ROWS)
    assert form == ("bfloat16 packed" if packs else "bfloat16 plain")
    told = [(record.levelname, "float32 is faster" in record.message) for record in caplog.records]
    assert told == ([] if packs else [("WARNING", True)])


def test_packed_bf16_is_named_and_taken_silently(
    drawn: tuple[LanguageModel, Mimi],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    lend(monkeypatch)
    assert prepare_fastest(drawn[0], ROWS)[1] == "bfloat16 packed" and not caplog.records
    monkeypatch.setattr(modes, "bf16_products", lambda: False)
    assert prepare_fastest(drawn[0], ROWS)[1] == "bfloat16 plain"
    assert "float32 is faster" in caplog.text, "by way of fp32 it would be slower than fp32"


def spoilt_row(x: Tensor, weight: Tensor) -> Tensor:
    out = F.linear(x, weight)
    out[-1] += (len(x) > 1) * (x[0] - x[-1]).abs().max().clamp(max=2**-6)
    return out


FAULTS: dict[str, Product] = {
    "outputs in another order": lambda x, w: F.linear(x, w.flip(0)),
    "inputs in another order": lambda x, w: F.linear(x.flip(1), w),
    "wider than asked for": lambda x, w: F.linear(x.float(), w.float()),
    "one row wrong alone": lambda x, w: F.linear(x, w) * (len(x) > 1),
    "a row knows another": spoilt_row,
    "not finite": lambda x, w: F.linear(x, w) * torch.inf,
}


@pytest.mark.parametrize("fault", [*FAULTS, None])
def test_packed_bf16_is_taken_where_it_is_right_and_nowhere_else(
    fault: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    lend(monkeypatch, FAULTS[fault] if fault else F.linear)
    assert packs_bf16(ROWS) is (fault is None)


# contract: I2; Gate A
@pytest.mark.parametrize("right", [True, False])
def test_rows_of_packed_bf16_are_compared_at_load(
    right: bool, drawn: tuple[LanguageModel, Mimi], monkeypatch: pytest.MonkeyPatch
) -> None:
    def product(x: Tensor, weight: Tensor) -> Tensor:
        out = F.linear(x, weight)
        if not right and len(x) > 1:
            out[-1] *= 1 + 2**-6
        return out

    used = lend(monkeypatch, product)
    monkeypatch.setattr(modes, "can_pack", lambda *of: True)
    monkeypatch.setattr(fast, "PACK_FROM", 1)
    lm, mimi = drawn
    prepared, form = prepare_fastest(lm, ROWS)
    assert form == "bfloat16 packed"
    with torch_threads(1):
        assert rows_agree(FrameStep(lm, mimi, CONFIG, ROWS, prepared=prepared)) is right
    assert (ROWS, ROWS) in used
