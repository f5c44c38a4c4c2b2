"""Split residual vector quantisation: one semantic codebook and a chain of acoustic ones.

Both branches project the same latent; the acoustic one sees no semantic residual. Modules hold
weights under the released key names. The codebooks' statistics are plain buffers that training may
move from outside; their vectors are derived at each use. `StreamingQuantizer` derives them once and
folds the projections in. Nothing here has a memory or knows of slots.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from model.config import QuantizerConfig
from model.mimi.conv import gemm_operand

MIN_USAGE = 1e-5


def nearest(x: Tensor, table: Tensor, half_norm: Tensor) -> Tensor:
    """Index of the row of `table` `[N, D]` nearest to each `x` `[..., D]`; the first on a tie.

    `half_norm` `[N]` is half of each row's squared length: the greatest `x.e - |e|^2 / 2` is the
    least distance, without `|x|^2`, which would only cost precision.
    """
    return (x @ table.T - half_norm).argmax(-1)


@dataclass(frozen=True)
class Quantized:
    """What training needs to know of one quantisation; K codebooks in use."""

    latent: Tensor
    """`[B, D, F]`, with the gradient of the unquantised one (straight through)."""
    codes: Tensor
    """`[B, K, F]` int64."""
    inputs: Tensor
    """`[K, B, F, d]`, what each codebook was asked to match, differentiable."""
    chosen: Tensor
    """`[K, B, F, d]`, the vector that each codebook chose, without gradient."""


class Codebook(nn.Module):
    """A moving average of usage and of sums; their quotient is the table of vectors."""

    def __init__(self, bins: int, dim: int) -> None:
        super().__init__()
        self.register_buffer("_initialized", torch.zeros(1))
        self.register_buffer("cluster_usage", torch.ones(bins))
        self.register_buffer("embedding_sum", torch.zeros(bins, dim))
        self.cluster_usage: Tensor
        self.embedding_sum: Tensor

    def table(self) -> Tensor:
        """The code vectors `[bins, d]`."""
        return self.embedding_sum / self.cluster_usage.clamp(min=MIN_USAGE)[:, None]


class CodebookLayer(nn.Module):
    """One level of a chain; exists for the released key `_codebook`."""

    def __init__(self, bins: int, dim: int) -> None:
        super().__init__()
        self._codebook = Codebook(bins, dim)


class ResidualQuantizer(nn.Module):
    """A chain of codebooks, `vq.layers.{i}`, between `input_proj` and `output_proj`."""

    def __init__(self, dimension: int, config: QuantizerConfig, levels: int) -> None:
        super().__init__()
        dim = config.dimension
        self.input_proj = nn.Conv1d(dimension, dim, 1, bias=False)
        self.output_proj = nn.Conv1d(dim, dimension, 1, bias=False)
        layers = nn.ModuleList(CodebookLayer(config.bins, dim) for _ in range(levels))
        self.vq = nn.ModuleDict({"layers": layers})

    @property
    def codebooks(self) -> list[Codebook]:
        """Every level, `[levels]`, coarse to fine."""
        return [m for m in self.modules() if isinstance(m, Codebook)]

    def forward(self, latent: Tensor, levels: int) -> Quantized:
        """Quantise `[B, D, F]` by the first `levels` codebooks."""
        x = self.input_proj(latent).transpose(1, 2)
        residual, codes, inputs, chosen = x, [], [], []
        for codebook in self.codebooks[:levels]:
            table = codebook.table()
            code = nearest(residual, table, table.square().sum(-1) / 2)
            inputs.append(residual)
            codes.append(code)
            chosen.append(table[code].detach())
            residual = residual - chosen[-1]
        through = x + (torch.stack(chosen).sum(0) - x).detach()
        latent = self.output_proj(through.transpose(1, 2))
        return Quantized(latent, torch.stack(codes, 1), torch.stack(inputs), torch.stack(chosen))

    def decode(self, codes: Tensor) -> Tensor:
        """`[B, K, F]` to the projected sum of the vectors `[B, D, F]`."""
        books = self.codebooks
        vectors = [books[k].table()[codes[:, k]] for k in range(codes.shape[1])]
        out: Tensor = self.output_proj(torch.stack(vectors).sum(0).transpose(1, 2))
        return out


class SplitQuantizer(nn.Module):
    """`rvq_first`, the semantic codebook, beside `rvq_rest`, the acoustic chain."""

    def __init__(self, dimension: int, config: QuantizerConfig, num_codebooks: int) -> None:
        super().__init__()
        self.num_codebooks = num_codebooks
        self.rvq_first = ResidualQuantizer(dimension, config, 1)
        self.rvq_rest = ResidualQuantizer(dimension, config, config.n_q - 1)

    @property
    def codebooks(self) -> list[Codebook]:
        """The codebooks in use, semantic first, `[num_codebooks]`."""
        return [*self.rvq_first.codebooks, *self.rvq_rest.codebooks][: self.num_codebooks]

    def forward(self, latent: Tensor) -> Quantized:
        """Quantise `[B, D, F]` with a straight-through gradient."""
        first = self.rvq_first(latent, 1)
        rest = self.rvq_rest(latent, self.num_codebooks - 1)
        return Quantized(
            first.latent + rest.latent,
            torch.cat((first.codes, rest.codes), 1),
            torch.cat((first.inputs, rest.inputs)),
            torch.cat((first.chosen, rest.chosen)),
        )

    def decode(self, codes: Tensor) -> Tensor:
        """Codes `[B, K, F]` to the latent `[B, D, F]`."""
        return self.rvq_first.decode(codes[:, :1]) + self.rvq_rest.decode(codes[:, 1:])


class StreamingQuantizer:
    """A `SplitQuantizer` prepared for one latent a row. The semantic chain has one level."""

    def __init__(self, module: SplitQuantizer) -> None:
        first, rest = module.rvq_first, module.rvq_rest
        tables = [book.table() for book in module.codebooks]
        project = torch.cat((first.input_proj.weight, rest.input_proj.weight)).detach()[:, :, 0]
        self.project = gemm_operand(project)
        self.tables = tables
        self.operands = [gemm_operand(table) for table in tables]
        self.half_norms = [table.square().sum(-1) / 2 for table in tables]
        outputs = [first.output_proj] + [rest.output_proj] * (len(tables) - 1)
        self.bins = len(tables[0])
        self.decoded = torch.cat(
            [t @ p.weight.detach()[:, :, 0].T for t, p in zip(tables, outputs, strict=True)]
        )
        self.offsets = torch.arange(len(tables), device=project.device) * self.bins

    def encode(self, latent: Tensor) -> Tensor:
        """The unquantised latent `[B, D]` to codes int64 `[B, K]`."""
        semantic, residual = torch.mm(latent, self.project).chunk(2, 1)
        codes = [self._nearest(semantic, 0)]
        for level in range(1, len(self.tables)):
            codes.append(self._nearest(residual, level))
            residual = residual - self.tables[level][codes[-1]]
        return torch.stack(codes, 1)

    def _nearest(self, x: Tensor, level: int) -> Tensor:
        return torch.addmm(self.half_norms[level], x, self.operands[level], beta=-1).argmax(1)

    def decode(self, codes: Tensor) -> Tensor:
        """Codes `[B, K]` to the latent `[B, D]`. A code out of range, as an idle row may hold, is
        clamped: it must not bring the others down.
        """
        rows = codes.clamp(0, self.bins - 1) + self.offsets
        return self.decoded[rows].sum(1)
