"""Matrix products for a few rows on a CPU, packed once: a `Maker` of the prepared form.

For fp32, and for bf16 where the CPU multiplies it. Results equal the plain maker's up to rounding,
and a row's result does not depend on the other rows. Packing copies matrices, so it is for models
that are small beside the memory; the weights must not change afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from model.layers import NORM_EPS, rms_norm
from model.prepared import Project
from model.quantize import is_right

PACK_FROM = 1 << 17
"""Values of a matrix below which the packed product's own overhead outweighs its speed."""


PROBE_INPUTS = 256


def can_pack(dtype: torch.dtype, rows: int) -> bool:
    """Whether packed products of `rows` rows are right here, in `dtype`, and each row on its own.

    They are no public operations of torch, and not every build or CPU has them.
    """
    random = torch.Generator().manual_seed(0)
    shapes = ((PACK_FROM // PROBE_INPUTS, PROBE_INPUTS), (rows, PROBE_INPUTS))
    weight, x = (torch.randn(shape, generator=random).to(dtype) for shape in shapes)
    try:
        product = FastMatrix(weight, rows)
        together, single = product(x), product(x[-1:])
        repeated = product(x[-1:].repeat(rows, 1))
    except (AttributeError, NotImplementedError, RuntimeError):
        return False
    return (
        together.dtype == dtype
        and is_right(together, x, weight.float())
        and is_right(single, x[-1:], weight.float())
        and torch.equal(together[-1], repeated[-1])
    )


class FastMatrix:
    """A weight `[O, D]` for one row and, where `rows` is larger, for exactly `rows` of them.

    In fp32 one row, or a small matrix, is read fastest along its longer side; several rows of a
    large one go through oneDNN's own blocks. In bf16 one row of a large one does so too: a product
    that is not packed would be packed anew at each call.
    """

    def __init__(self, weight: Tensor, rows: int) -> None:
        outputs, inputs = weight.shape
        whole = weight.contiguous()
        counts = {1, rows} if whole.dtype == torch.bfloat16 else {rows} - {1}
        self.packed: dict[int, Tensor] = {}
        if whole.numel() >= PACK_FROM:
            pack = torch.ops.mkldnn._reorder_linear_weight
            self.packed = {count: pack(whole, count) for count in counts}
        turned = outputs > inputs and 1 not in self.packed
        self.plain = whole.T.contiguous() if turned else whole.T

    def __call__(self, x: Tensor) -> Tensor:
        packed = self.packed.get(len(x))
        if packed is None:
            return torch.mm(x, self.plain)
        out: Tensor = torch.ops.mkldnn._linear_pointwise(x, packed, None, "none", [], "")
        return out


class NormedMatrix:
    """RMS norm and product in fp32; the norm's `alpha` `[D]` is folded into the weight `[O, D]`."""

    def __init__(self, alpha: Tensor, weight: Tensor, rows: int) -> None:
        self.product = FastMatrix(weight * alpha, rows)
        self.epsilon = torch.full((1, 1, 1), NORM_EPS)
        self.scale = 1 / weight.shape[1]

    def __call__(self, x: Tensor) -> Tensor:
        row = x[:, None]
        variance = torch.baddbmm(self.epsilon, row, row.mT, alpha=self.scale)
        return self.product(x * variance.rsqrt_()[:, 0])


class FastMaker:
    """Packs for steps of one row and of `rows` rows."""

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def matrix(self, weight: Tensor) -> Project:
        return FastMatrix(weight, self.rows)

    def normed(self, alpha: Tensor, weight: Tensor) -> Project:
        if weight.dtype == torch.float32:
            return NormedMatrix(alpha, weight, self.rows)
        product = FastMatrix(weight, self.rows)  # with `alpha` in it, it would be rounded again
        return lambda x: product(rms_norm(x, alpha))

    def fan(self, weights: Sequence[Tensor]) -> Callable[[Tensor], Sequence[Tensor]]:
        """One product for all of them."""
        joint = FastMatrix(torch.cat(list(weights)), self.rows)
        return lambda x: joint(x).chunk(len(weights), dim=1)
