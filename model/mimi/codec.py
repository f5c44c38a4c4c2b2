"""Mimi, the codec: 24 kHz mono PCM to eight codes every 80 ms, and back.

`Mimi` holds the weights under the released key names and runs whole sequences from a fresh start,
differentiably. It knows nothing of slots, of the language model or of files.
"""

from __future__ import annotations

from math import prod

from torch import Tensor, nn

from model.config import AttentionWindow, MimiConfig
from model.core import FRAME_SAMPLES
from model.mimi.conv import CausalConv1d, CausalConvTranspose1d
from model.mimi.quantizer import Quantized, SplitQuantizer
from model.mimi.seanet import SeanetDecoder, SeanetEncoder
from model.mimi.transformer import POSITIONS_PER_FRAME, CodecTransformer


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
        self.convtr = CausalConvTranspose1d(dim, dim, 2 * stride, stride, bias=False, groups=dim)

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
