"""Mimi's causal convolutions: weights under the released key names, and their streaming form.

`CausalConv1d` and `CausalConvTranspose1d` hold weights and run whole sequences, differentiably, on
`[B, C, T]`. `StreamingConv` is either of them prepared for one frame at a time: channels last, one
matrix product over the windows, the tail of its input carried per row. It knows nothing of slots
beyond the rows of the carry that it is given.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.state import Carry, CarryLayout


class CausalConv1d(nn.Module):
    """A convolution that sees nothing of the future: `kernel - stride` samples of left padding.

    The start is padded with zeros, or (`replicate`) with copies of the first column. Released key:
    `conv.conv.{weight,bias}`, weight `[C_out, C_in, K]`.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel: int,
        stride: int = 1,
        *,
        bias: bool = True,
        replicate: bool = False,
    ) -> None:
        super().__init__()
        inner = nn.Conv1d(in_channels, out_channels, kernel, stride, bias=bias)
        self.conv = nn.ModuleDict({"conv": inner})
        self.stride = stride
        self.pad = kernel - stride
        self.replicate = replicate

    @property
    def inner(self) -> nn.Conv1d:
        inner = self.conv["conv"]
        assert isinstance(inner, nn.Conv1d)
        return inner

    def prepare(self, layout: CarryLayout) -> StreamingConv:
        """Windows are rows `(K, C_in)`, so the matrix is `[K * C_in, C_out]`."""
        weight = self.inner.weight.detach()
        return StreamingConv(
            layout,
            weight.transpose(1, 2).flatten(1),
            self.inner.bias,
            channels=self.inner.in_channels,
            kernel=self.inner.kernel_size[0],
            stride=self.stride,
        )

    def forward(self, x: Tensor) -> Tensor:
        """`[B, C_in, T]` to `[B, C_out, T / stride]`; T is a multiple of the stride."""
        padded = F.pad(x, (self.pad, 0), mode="replicate" if self.replicate else "constant")
        out: Tensor = self.inner(padded)
        return out


class CausalConvTranspose1d(nn.Module):
    """A transposed convolution of `kernel = 2 * stride`, its overhang trimmed at the right.

    Released key: `convtr.convtr.{weight,bias}`, weight `[C_in, C_out / groups, K]`.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        stride: int,
        *,
        bias: bool = True,
        groups: int = 1,
    ) -> None:
        super().__init__()
        inner = nn.ConvTranspose1d(
            in_channels, out_channels, 2 * stride, stride, bias=bias, groups=groups
        )
        self.convtr = nn.ModuleDict({"convtr": inner})
        self.stride = stride

    @property
    def inner(self) -> nn.ConvTranspose1d:
        inner = self.convtr["convtr"]
        assert isinstance(inner, nn.ConvTranspose1d)
        return inner

    def prepare(self, layout: CarryLayout) -> StreamingConv:
        """Each input column reaches into its own `stride` output samples and the next ones.

        Seen from the outputs that is a convolution over (previous, current) column whose
        `stride * C_out` channels unfold in time: no overlap is added up and no bias counted twice.
        """
        weight = self.inner.weight.detach()
        weight = weight.view(*weight.shape[:2], 2, self.stride)
        current, previous = weight.permute(2, 3, 1, 0).flatten(1, 2)
        bias = self.inner.bias
        return StreamingConv(
            layout,
            torch.cat((previous, current), 1),
            None if bias is None else bias.repeat(self.stride),
            channels=self.inner.in_channels,
            kernel=2,
            stride=1,
            unfold=self.stride,
        )

    def forward(self, x: Tensor) -> Tensor:
        """`[B, C_in, T]` to `[B, C_out, T * stride]`."""
        out: Tensor = self.inner(x)
        return out[..., : x.shape[-1] * self.stride]


def gemm_operand(weight: Tensor) -> Tensor:
    """A weight `[N, K]` as the right operand `[K, N]` of `x @ w`, its longer side contiguous.

    For the few rows of a frame that layout is up to twice as fast on CPU.
    """
    outputs, inputs = weight.shape
    if inputs > outputs:
        return weight.contiguous().T
    return weight.T.contiguous()


MIN_COLUMNS = 8
"""Narrower products are widened by columns of zeros: one column would be a matrix-vector product,
in which the bits of a row depend on its place.
"""
SLIDE_STEPS = 64
SLIDE_TAPS = 3
"""From so many outputs a row on, and up to so many taps, sliding beats gathering on CPU."""


class StreamingConv:
    """A causal convolution of one frame: `[B, T, C_in]` to `[B, T / stride * unfold, C_out]`.

    Channels last, a window is one run of memory. Few windows are gathered into the rows of one
    matrix product; for many the copy would cost more than it saves, and the product slides over
    the input in place, one tap (`stride` samples) of every window at a time.
    """

    def __init__(
        self,
        layout: CarryLayout,
        weight: Tensor,
        bias: Tensor | None,
        *,
        channels: int,
        kernel: int,
        stride: int,
        unfold: int = 1,
    ) -> None:
        widened = max(MIN_COLUMNS, len(weight))
        bias = weight.new_zeros(len(weight)) if bias is None else bias.detach()
        self.weight = gemm_operand(F.pad(weight, (0, 0, 0, widened - len(weight))))
        self.bias = F.pad(bias, (0, widened - len(bias)))
        self.columns = len(weight)
        self.kernel = kernel
        self.stride = stride
        self.taps = kernel // stride
        self.unfold = unfold
        self.pad = kernel - stride
        self.tail = layout.add(self.pad, channels)

    def __call__(self, x: Tensor, carry: Carry, first: Tensor | None = None) -> Tensor:
        """`first`, bool `[B]`: rows whose padding is a copy of their first column, not zeros."""
        steps = x.shape[1] // self.stride
        x = self._extend(x, carry, first) if self.pad else x.contiguous()
        slide = steps >= SLIDE_STEPS and 1 < self.taps <= SLIDE_TAPS
        out = self._slide(x, steps) if slide else self._gather(x, steps)
        out = out.view(len(x), steps, -1)[..., : self.columns]
        return out.reshape(len(x), steps * self.unfold, -1)

    def _extend(self, x: Tensor, carry: Carry, first: Tensor | None) -> Tensor:
        """Put the carried tail in front and stage the new one."""
        tail = carry.read(self.tail)
        if first is not None:
            tail = torch.where(first[:, None, None], x[:, :1], tail)
        extended = torch.cat((tail, x), 1)
        carry.write(self.tail, extended[:, -self.pad :])
        return extended

    def _gather(self, x: Tensor, steps: int) -> Tensor:
        rows, length, channels = x.shape
        windows = x.as_strided(
            (rows, steps, self.kernel * channels), (length * channels, self.stride * channels, 1)
        )
        return torch.addmm(self.bias, windows.reshape(rows * steps, -1), self.weight)

    def _slide(self, x: Tensor, steps: int) -> Tensor:
        """All rows lie end to end; the windows that reach from one into the next are left out."""
        rows, length, channels = x.shape
        columns = x.view(-1, self.stride * channels)
        count = len(columns) - self.taps + 1
        first, *others = self.weight.chunk(self.taps)
        out = torch.addmm(self.bias, columns[:count], first)
        for tap, weight in enumerate(others, 1):
            out.addmm_(columns[tap : tap + count], weight)
        width = out.shape[1]
        return out.as_strided((rows, steps, width), (length // self.stride * width, width, 1))
