"""Matrix products for a few rows on a CPU in fp32, packed once: a `Maker` of the prepared form.

Results equal the plain maker's up to the rounding of fp32 sums, and a row's result does not depend
on the other rows. Packing copies matrices, so it is for models that are small beside the memory;
the weights must not change afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from model.layers import NORM_EPS
from model.prepared import Project

PACK_FROM = 1 << 17
"""Values of a matrix below which the packed product's own overhead outweighs its speed."""


def can_pack() -> bool:
    """Whether this build of torch has the packed product, which is no public operation."""
    try:
        FastMatrix(torch.zeros(PACK_FROM, 1), rows=2)(torch.ones(2, 1))
    except (AttributeError, NotImplementedError, RuntimeError):
        return False
    return True


class FastMatrix:
    """A weight `[O, D]` for one row and, where `rows` is larger, for exactly `rows` of them.

    One row, or a small matrix, is read fastest along its longer side; several rows of a large one
    go through oneDNN's own blocks.
    """

    def __init__(self, weight: Tensor, rows: int) -> None:
        outputs, inputs = weight.shape
        whole = weight.contiguous()
        self.plain = whole.T.contiguous() if outputs > inputs else whole.T
        self.packed = None
        if rows > 1 and whole.numel() >= PACK_FROM:
            self.packed = torch.ops.mkldnn._reorder_linear_weight(whole, rows)

    def __call__(self, x: Tensor) -> Tensor:
        if self.packed is None or len(x) == 1:
            return torch.mm(x, self.plain)
        out: Tensor = torch.ops.mkldnn._linear_pointwise(x, self.packed, None, "none", [], "")
        return out


class NormedMatrix:
    """RMS norm and product; the norm's `alpha` `[D]` is folded into the weight `[O, D]`."""

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
        return NormedMatrix(alpha, weight, self.rows)

    def fan(self, weights: Sequence[Tensor]) -> Callable[[Tensor], Sequence[Tensor]]:
        """One product for all of them."""
        joint = FastMatrix(torch.cat(list(weights)), self.rows)
        return lambda x: joint(x).chunk(len(weights), dim=1)
