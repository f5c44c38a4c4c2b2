"""Data-dependent initial scales (LSUV) for Mimi: every layer's output starts with unit variance.

With torch's own defaults the encoder's gradients are some ten thousand times smaller than the
decoder's, and nothing is learnt.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from model.mimi import Mimi
from model.mimi.transformer import LayerScale

RESIDUAL_SCALE = 0.4
LAYER_SCALE = 0.3
OUTPUT_RMS = 0.1


@torch.no_grad()
def scale_layers(mimi: Mimi, pcm: Tensor) -> None:
    """Rescale the weights once, while `pcm`, `[B, 1, F * 1920]`, runs through."""
    targets = dict.fromkeys(_layers(mimi), 1.0)
    for name, module in mimi.named_modules():
        if name.endswith("block.3"):
            targets[next(m for m in module.modules() if isinstance(m, nn.Conv1d))] = RESIDUAL_SCALE
        if isinstance(module, LayerScale):
            module.scale.fill_(LAYER_SCALE)
    last = [m for m in mimi.decoder.modules() if isinstance(m, nn.Conv1d)][-1]
    targets[last] = OUTPUT_RMS
    handles = [layer.register_forward_hook(_rescale(t)) for layer, t in targets.items()]
    try:
        latent = mimi.encode_latent_sequence(pcm)
        quantizer = mimi.quantizer
        first = quantizer.rvq_first.output_proj(quantizer.rvq_first.input_proj(latent))
        rest = quantizer.rvq_rest.output_proj(quantizer.rvq_rest.input_proj(latent))
        mimi.decode_latent_sequence(first + rest)
    finally:
        for handle in handles:
            handle.remove()


def _layers(mimi: Mimi) -> list[nn.Module]:
    kinds = (nn.Conv1d, nn.ConvTranspose1d)
    return [m for m in mimi.modules() if isinstance(m, kinds)]


def _rescale(target: float) -> Any:
    def hook(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        assert isinstance(module, nn.Conv1d | nn.ConvTranspose1d)
        if module.bias is not None:
            output = output - module.bias.view(-1, 1)
            module.bias.zero_()
        gain = target / (output.std() + 1e-8)
        module.weight.mul_(gain)
        return output * gain

    return hook
