"""Two drivers of the `moshi` package's language model that say what PersonaPlex would say.

`kyutai_run` feeds position c in call c, eight depformer steps, and forces the prefill by hooks.
`late_run` follows NVIDIA's own order of events, one call later, sixteen steps, greedy or sampled.
Neither uses anything of our `model` but the configuration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from moshi.models.lm import LMGen, LMModel
from moshi.utils.sampling import sample_token
from torch import Tensor

from model.config import LMConfig, ModelConfig

AGENT, USER = slice(1, 9), slice(9, 17)


def first_steps(weights: Mapping[str, Tensor], config: LMConfig, steps: int) -> dict[str, Tensor]:
    """The file of a model with fewer depformer steps: what an 8-step file of it would hold."""
    kept = {}
    for name, tensor in weights.items():
        if name.startswith("depformer.") and ".self_attn." in name:
            kept[name] = tensor[: tensor.shape[0] // config.dep_q * steps]
        elif _step_of(name) < steps - name.startswith("depformer_emb."):
            kept[name] = tensor
    return kept


def _step_of(name: str) -> int:
    for prefix in ("linears.", "depformer_in.", "depformer_emb."):
        if name.startswith(prefix):
            return int(name.split(".")[1])
    return int(name.split(".gating.")[1].split(".")[0]) if _has_steps(name) else -1


def _has_steps(name: str) -> bool:
    return name.startswith("depformer.") and ".gating." in name


CPU = torch.device("cpu")


def moshi_model(
    weights: Mapping[str, Tensor],
    config: LMConfig,
    dtype: torch.dtype = torch.float32,
    device: torch.device = CPU,
) -> LMModel:
    """The reference's model with `config.dep_q` steps and our weights.

    On the CPU they are copied; elsewhere there may be no room for two, so they are shared.
    """
    model = LMModel(
        device=device,
        dtype=dtype,
        dim=config.dim,
        num_heads=config.num_heads,
        num_layers=config.num_layers,
        hidden_scale=config.hidden_scale,
        text_card=config.text_card,
        existing_text_padding_id=config.existing_text_padding_id,
        n_q=config.n_q,
        dep_q=config.dep_q,
        card=config.card,
        causal=True,
        layer_scale=None,
        context=config.context,
        max_period=config.max_period,
        gating="silu",
        norm="rms_norm_f32",
        positional_embedding="rope",
        depformer_dim=config.depformer_dim,
        depformer_dim_feedforward=config.depformer_dim_feedforward,
        depformer_num_heads=config.depformer_num_heads,
        depformer_num_layers=config.depformer_num_layers,
        depformer_layer_scale=None,
        depformer_multi_linear=True,
        depformer_context=8,
        depformer_max_period=config.max_period,
        depformer_gating="silu",
        depformer_pos_emb="none",
        depformer_weights_per_step=True,
        delays=list(config.delays),
    ).eval()
    tensors = {name: tensor.to(dtype) for name, tensor in weights.items()}
    model.load_state_dict(tensors, assign=device != CPU)
    return model


def prompt_frames(voice: Tensor, persona: Sequence[int], config: ModelConfig) -> Tensor:
    """What each prefill call is given, `[17, M]`: voice `[8, N]`, silence, persona, silence."""
    columns = [[3, *voice[:, i].tolist()] for i in range(voice.shape[1])]
    silence = list(config.silence_codes)
    columns += [[3, *silence]] * 6
    columns += [[token, *silence] for token in persona]
    columns += [[3, *silence]] * 6
    return torch.tensor([[*column, *config.sine_codes] for column in columns]).T


@dataclass(frozen=True)
class Spoken:
    """What a call said from its first live frame on."""

    text: Tensor
    """`[T]`, as emitted."""
    codes: Tensor
    """`[T, 8]`, as emitted."""
    hidden: Tensor
    """`[T, D]`, the transformer's normed output at each live position."""


def kyutai_run(
    model: LMModel, prompts: Sequence[Tensor], users: Sequence[Tensor], live: int
) -> list[Spoken]:
    """Rows of prompts `[17, M]` and live user codes `[8, T]`, `live` frames each, as one batch."""
    rows, lengths = len(prompts), [prompt.shape[1] for prompt in prompts]
    call = 0

    def force_text(text: Tensor) -> None:
        for row, prompt in enumerate(prompts):
            if call + 1 < lengths[row]:
                text[row] = prompt[0, call + 1]

    def force_audio(codes: Tensor) -> None:
        for row, prompt in enumerate(prompts):
            if call + 1 < lengths[row]:
                codes[row, 0] = prompt[1, call + 1]
            if call == 0:
                codes[row, 1:] = model.card
            elif call < lengths[row]:
                codes[row, 1:] = prompt[2:9, call]

    generator = LMGen(model, use_sampling=False, on_text_hook=force_text, on_audio_hook=force_audio)
    outs, hiddens = [], []
    with torch.no_grad(), generator.streaming(rows):
        for call in range(max(lengths) + live):
            codes = [
                prompt[USER, call] if call < length else user[:, min(call - length, live - 1)]
                for prompt, user, length in zip(prompts, users, lengths, strict=True)
            ]
            step = generator._step(torch.stack(codes)[..., None])
            if step is None:
                step = (torch.zeros(rows, 9, 1, dtype=torch.int64), torch.zeros(rows, 1, 1))
            outs.append(step[0][..., 0].clone())
            hiddens.append(step[1][:, 0].expand(-1, model.dim).clone())
    out, hidden = torch.stack(outs, 1), torch.stack(hiddens, 1)
    return [
        Spoken(
            out[row, start : start + live, 0],
            out[row, start : start + live, 1:],
            hidden[row, start : start + live],
        )
        for row, start in enumerate(lengths)
    ]


@dataclass(frozen=True)
class Sampler:
    """The reference's settings; `temperature` 0 is greedy."""

    temperature_text: float = 0.7
    top_k_text: int = 25
    temperature_audio: float = 0.8
    top_k_audio: int = 250


def late_run(
    model: LMModel, prompt: Tensor, user: Tensor, live: int, sampler: Sampler | None
) -> Spoken:
    """One call on NVIDIA's schedule: call c runs position c - 1, provided rows are forced.

    Draws from torch's default generator in the reference's order, prefill included.
    """
    calls = prompt.shape[1]
    total = calls + live
    supplied = torch.cat([prompt, torch.full((17, live), -1)], dim=1)
    supplied[USER, calls:] = user[:, :live]
    columns = torch.full((17, total + 2), -1)
    initial = torch.tensor([model.text_card] + [model.card] * 16)
    columns[:, 0] = initial
    hiddens = []
    with torch.no_grad(), model.streaming(1):
        for call in range(total):
            for row, delay in enumerate(model.delays):
                if call == 0:
                    columns[row, delay] = initial[row]
                elif supplied[row, call] >= 0:
                    columns[row, call + delay] = supplied[row, call]
            if call > 0:
                hiddens.append(_late_forward(model, columns, call, sampler))
        hidden = torch.stack(hiddens)
    at = torch.arange(calls, total - 1)
    codes = torch.cat([columns[1:2, at], columns[2:9, at + 1]])
    return Spoken(columns[0, at], codes.T, hidden[calls:])


def _late_forward(model: LMModel, columns: Tensor, call: int, sampler: Sampler | None) -> Tensor:
    """Run position `call - 1` and fill what column `call` does not have yet; `[D]`."""
    settings, sampling = sampler or Sampler(), sampler is not None
    hidden, logits = model.forward_text(columns[:, call - 1].view(1, 17, 1))
    text = sample_token(logits.float(), sampling, settings.temperature_text, settings.top_k_text)
    previous = _provide(columns, 0, call, text)
    with model.depformer.streaming(1):
        for step in range(model.dep_q):
            logits = model.forward_depformer(step, previous.view(1, 1, 1), hidden)
            token = sample_token(
                logits.float(), sampling, settings.temperature_audio, settings.top_k_audio
            )
            previous = _provide(columns, 1 + step, call, token)
    return hidden[0, 0]


def _provide(columns: Tensor, row: int, position: int, token: Tensor) -> Tensor:
    """The token that stands: the one given beforehand, else the one just decided."""
    if columns[row, position] < 0:
        columns[row, position] = token.view(())
    return columns[row, position]
