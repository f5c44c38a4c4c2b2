"""The weights: released key names, whole sequences, gradients, configurations refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from model.config import MimiConfig
from model.mimi import Mimi
from tests.unit.model.mimi.codecs import SMALL, noise_frames, random_mimi

pytestmark = pytest.mark.unit


def test_full_size_has_the_released_names_and_shapes() -> None:
    with torch.device("meta"):
        state = Mimi(MimiConfig(), "personaplex").state_dict()
    assert len(state) == 318
    assert sum(tensor.numel() for tensor in state.values()) == 96_151_393
    shapes = {name: tuple(tensor.shape) for name, tensor in state.items()}
    assert shapes["encoder.model.0.conv.conv.weight"] == (64, 1, 7)
    assert shapes["encoder.model.10.block.3.conv.conv.bias"] == (512,)
    assert shapes["decoder.model.2.convtr.convtr.weight"] == (1024, 512, 16)
    layer = "decoder_transformer.transformer.layers.7"
    assert shapes[f"{layer}.self_attn.in_proj_weight"] == (1536, 512)
    assert shapes[f"{layer}.self_attn.out_proj.weight"] == (512, 512)
    assert shapes[f"{layer}.layer_scale_2.scale"] == (512,)
    assert shapes["downsample.conv.conv.conv.weight"] == (512, 512, 4)
    assert shapes["upsample.convtr.convtr.convtr.weight"] == (512, 1, 4)
    assert shapes["quantizer.rvq_first.output_proj.weight"] == (512, 256, 1)
    assert shapes["quantizer.rvq_rest.vq.layers.30._codebook.embedding_sum"] == (2048, 256)


def test_gradients_pass_straight_through_the_quantiser() -> None:
    mimi = random_mimi(SMALL, "moshi", seed=1)
    pcm = noise_frames(2, 3, seed=2).permute(1, 2, 0, 3).flatten(2)
    quantized = mimi.quantize_latent(mimi.encode_latent_sequence(pcm))
    out = mimi.decode_latent_sequence(quantized.latent)
    commitment = (quantized.inputs - quantized.chosen).square().mean()
    (out.square().mean() + commitment).backward()
    without = [name for name, p in mimi.named_parameters() if p.grad is None or not p.grad.any()]
    assert without == []


def test_quantised_latent_is_what_its_codes_stand_for() -> None:
    mimi = random_mimi(SMALL, "moshi", seed=1)
    quantized = mimi.quantize_latent(torch.randn(2, 64, 5))
    assert quantized.codes.shape == (2, 8, 5)
    torch.testing.assert_close(quantized.latent, mimi.decode_codes(quantized.codes))


def test_statistics_may_move_between_uses() -> None:
    mimi = random_mimi(SMALL, "moshi", seed=1)
    codes = torch.zeros(1, 8, 1, dtype=torch.int64)
    before = mimi.decode_codes(codes)
    for codebook in mimi.quantizer.codebooks:
        codebook.embedding_sum.mul_(2)
    torch.testing.assert_close(mimi.decode_codes(codes), 2 * before)


def test_widths_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="d_model"):
        Mimi(replace(SMALL, seanet=replace(SMALL.seanet, dimension=32)), "moshi")
    with pytest.raises(ValueError, match="ratios"):
        Mimi(replace(SMALL, seanet=replace(SMALL.seanet, ratios=(8, 6, 5, 2))), "moshi")
