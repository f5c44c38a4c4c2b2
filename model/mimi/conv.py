"""Mimi's causal convolutions: weights under the released key names, and their streaming form.

`CausalConv1d` and `CausalConvTranspose1d` hold weights and run whole sequences, differentiably, on
`[B, C, T]`. Neither knows of slots.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn


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

    def forward(self, x: Tensor) -> Tensor:
        """`[B, C_in, T]` to `[B, C_out, T / stride]`; T is a multiple of the stride."""
        padded = F.pad(x, (self.pad, 0), mode="replicate" if self.replicate else "constant")
        out: Tensor = self.inner(padded)
        return out


class CausalConvTranspose1d(nn.Module):
    """A transposed convolution, the overhang of `kernel - stride` samples trimmed at the right.

    Released key: `convtr.convtr.{weight,bias}`, weight `[C_in, C_out / groups, K]`.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel: int,
        stride: int,
        *,
        bias: bool = True,
        groups: int = 1,
    ) -> None:
        super().__init__()
        inner = nn.ConvTranspose1d(
            in_channels, out_channels, kernel, stride, bias=bias, groups=groups
        )
        self.convtr = nn.ModuleDict({"convtr": inner})
        self.stride = stride

    @property
    def inner(self) -> nn.ConvTranspose1d:
        inner = self.convtr["convtr"]
        assert isinstance(inner, nn.ConvTranspose1d)
        return inner

    def forward(self, x: Tensor) -> Tensor:
        """`[B, C_in, T]` to `[B, C_out, T * stride]`."""
        out: Tensor = self.inner(x)
        return out[..., : x.shape[-1] * self.stride]
