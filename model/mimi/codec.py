"""Mimi, the codec: 24 kHz mono PCM to eight codes every 80 ms, and back.

`Mimi` holds the weights under the released key names and runs whole sequences from a fresh start,
differentiably. `StreamingMimi` is derived from it once, after loading, and runs one frame of every
row at a time. Neither knows of the language model, of files or of which rows are live.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor, nn

from model.config import AttentionWindow, MimiConfig
from model.core import FRAME_SAMPLES
from model.mimi.conv import CausalConv1d, CausalConvTranspose1d
from model.mimi.quantizer import Quantized, SplitQuantizer, StreamingQuantizer
from model.mimi.seanet import SeanetDecoder, SeanetEncoder, StreamingSeanet
from model.mimi.transformer import POSITIONS_PER_FRAME, CodecTransformer, StreamingTransformer
from model.state import Carry, CarryLayout, KVRing


class Downsample(nn.Module):
    """25 Hz to 12.5 Hz; the start repeats the first column."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        stride = POSITIONS_PER_FRAME
        self.conv = CausalConv1d(dim, dim, 2 * stride, stride, bias=False, replicate=True)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.conv(x)
        return out


class Upsample(nn.Module):
    """12.5 Hz to 25 Hz, each channel on its own."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        stride = POSITIONS_PER_FRAME
        self.convtr = CausalConvTranspose1d(dim, dim, stride, bias=False, groups=dim)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.convtr(x)
        return out


class Mimi(nn.Module):
    """The codec's weights. D is the latent width, K the codebooks in use, F frames of 1920 samples.

    Raises `ValueError` for a configuration whose widths or hop do not fit each other.
    """

    def __init__(self, config: MimiConfig, attention_window: AttentionWindow) -> None:
        super().__init__()
        dim = config.seanet.dimension
        if config.transformer.d_model != dim:
            raise ValueError(f"mimi.transformer.d_model must be mimi.seanet.dimension, {dim}")
        if prod(config.seanet.ratios) * POSITIONS_PER_FRAME != FRAME_SAMPLES:
            raise ValueError(f"mimi.seanet.ratios {config.seanet.ratios} do not make one frame")
        self.config = config
        self.encoder = SeanetEncoder(config.seanet)
        self.encoder_transformer = CodecTransformer(config.transformer, attention_window)
        self.downsample = Downsample(dim)
        self.quantizer = SplitQuantizer(dim, config.quantizer, config.num_codebooks)
        self.upsample = Upsample(dim)
        self.decoder_transformer = CodecTransformer(config.transformer, attention_window)
        self.decoder = SeanetDecoder(config.seanet)

    def encode_latent_sequence(self, pcm: Tensor) -> Tensor:
        """PCM `[B, 1, F * 1920]` to the unquantised latent `[B, D, F]`."""
        out: Tensor = self.downsample(self.encoder_transformer(self.encoder(pcm)))
        return out

    def quantize_latent(self, latent: Tensor) -> Quantized:
        """`[B, D, F]` to codes, and the latent that they stand for, straight through."""
        out: Quantized = self.quantizer(latent)
        return out

    def decode_codes(self, codes: Tensor) -> Tensor:
        """Codes `[B, K, F]` to the latent `[B, D, F]`."""
        return self.quantizer.decode(codes)

    def decode_latent_sequence(self, latent: Tensor) -> Tensor:
        """A quantised latent `[B, D, F]` to PCM `[B, 1, F * 1920]`."""
        out: Tensor = self.decoder(self.decoder_transformer(self.upsample(latent)))
        return out


class StreamingUpsample:
    """An `Upsample` of one frame: `[B, 1, D]` to `[B, 2, D]`."""

    def __init__(self, module: Upsample, layout: CarryLayout) -> None:
        weight = module.convtr.inner.weight.detach()[:, 0].T
        self.current, self.previous = weight.contiguous().chunk(2)
        self.tail = layout.add(1, weight.shape[1])

    def __call__(self, x: Tensor, carry: Carry) -> Tensor:
        carry.write(self.tail, x)
        return x * self.current + carry.read(self.tail) * self.previous


@dataclass
class MimiState:
    """What every slot remembers beside the carry: KV rings and frames done, int64 `[B]`.

    Encoder and decoder step together, or only one of them is ever used.
    """

    encoder: KVRing
    decoder: KVRing
    frames: Tensor

    def rows(self, start: int, stop: int) -> MimiState:
        """Slots `start` to `stop`, sharing memory."""
        return MimiState(
            self.encoder.rows(start, stop), self.decoder.rows(start, stop), self.frames[start:stop]
        )

    def commit(self, stepped: Tensor) -> None:
        """Count the frame of the rows where `stepped`, bool `[B]`; belongs beside the carry's."""
        self.frames += stepped

    def reset(self, slot: int) -> None:
        """Back to the start; the slot's carry is its owner's to reset."""
        self.encoder.reset(slot)
        self.decoder.reset(slot)
        self.frames[slot].zero_()


class StreamingMimi:
    """The codec for serving: one frame of B rows a call, at most one call a frame and direction.

    Holds tensors derived from a loaded `Mimi`, which may be dropped or changed afterwards. A call
    stages small state in `carry.new` and writes KV in place; nothing counts until the owner
    commits carry and state, so a call may be repeated. Shapes are static, the host never waits.
    """

    def __init__(self, mimi: Mimi, layout: CarryLayout) -> None:
        self.encoder = StreamingSeanet(mimi.encoder.model, layout)
        self.encoder_transformer = StreamingTransformer(mimi.encoder_transformer)
        self.downsample = mimi.downsample.conv.prepare(layout)
        self.quantizer = StreamingQuantizer(mimi.quantizer)
        self.upsample = StreamingUpsample(mimi.upsample, layout)
        self.decoder_transformer = StreamingTransformer(mimi.decoder_transformer)
        self.decoder = StreamingSeanet(mimi.decoder.model, layout)

    @property
    def capacity(self) -> int:
        """Cells of a KV ring: the `cells` argument that is right at any age."""
        return self.encoder_transformer.capacity

    def cells(self, frames: int) -> int:
        """The least `cells` argument for rows with at most `frames` frames behind them."""
        return self.encoder_transformer.cells(frames)

    def allocate(self, slots: int, device: torch.device) -> MimiState:
        return MimiState(
            self.encoder_transformer.allocate(slots, device),
            self.decoder_transformer.allocate(slots, device),
            torch.zeros(slots, dtype=torch.int64, device=device),
        )

    def encode_latent(self, pcm: Tensor, state: MimiState, carry: Carry, cells: int) -> Tensor:
        """PCM `[B, 1, 1920]` to the unquantised latent `[B, D]`."""
        view = self.encoder_transformer.view(state.frames, cells)
        features = self.encoder(pcm.transpose(1, 2), carry)
        features = self.encoder_transformer(features, state.encoder, view)
        return self.downsample(features, carry, first=state.frames == 0)[:, 0]

    def encode(self, pcm: Tensor, state: MimiState, carry: Carry, cells: int) -> Tensor:
        """PCM `[B, 1, 1920]` to codes int64 `[B, K]`; `cells` as `self.cells` gives them."""
        return self.quantizer.encode(self.encode_latent(pcm, state, carry, cells))

    def decode(self, codes: Tensor, state: MimiState, carry: Carry, cells: int) -> Tensor:
        """Codes int64 `[B, K]` to PCM `[B, 1920]`."""
        view = self.decoder_transformer.view(state.frames, cells)
        features = self.upsample(self.quantizer.decode(codes)[:, None], carry)
        features = self.decoder_transformer(features, state.decoder, view)
        return self.decoder(features, carry)[:, :, 0]
