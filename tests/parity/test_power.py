"""The power of the parity suite: a subset of it passes as things are and fails for each mistake."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from moshi.models import MimiModel, loaders
from torch import Tensor

import model.lm_step
import model.prompt
from model.config import ModelConfig
from model.lm import LanguageModel
from model.prefill import prefill
from model.prepared import PlainMaker, prepare
from model.presets import TINY
from model.random_weights import build_mimi, random_weights
from tests.conftest import SEED
from tests.parity.lm_calls import (
    agreement,
    random_codes,
    random_words,
    run_single,
    saved_voice,
    tiny_config,
    tiny_lm,
    worst,
)
from tests.parity.lm_oracle import first_steps, kyutai_run, moshi_model, prompt_frames
from tests.parity.power import MUTATIONS, Mutation
from tests.unit.model.mimi.codecs import Stepper, noise_frames

pytestmark = pytest.mark.parity

CONTEXT = 40
FRAMES = 60
LONG = 300
QUIET = 0.1
"""Smaller embeddings, so that the norm's epsilon counts."""
Check = Callable[[], None]


def lm_check(live: int) -> Check:
    """A `.pt` voice, a persona and `live` frames, past the window, against the reference."""
    config = tiny_config(CONTEXT, dep_q=8)
    full = random_weights(tiny_config(CONTEXT), SEED).lm
    weights = first_steps(full, tiny_config(CONTEXT).lm, 8)
    for name in weights:
        if name.startswith(("emb.", "text_emb.")):
            weights[name] = weights[name] * QUIET
    reference = moshi_model(weights, config.lm)
    voice, persona, user = random_codes(6, 1), random_words(5, 2), random_codes(live, 3)
    frames = prompt_frames(voice, persona, config)
    theirs = kyutai_run(reference, [frames], [user], live)[0]
    saved = saved_voice(reference, voice, config)
    lm = tiny_lm(weights, config)

    def check() -> None:
        prompt = model.prompt.build_prompt(saved, persona, config)
        spoken = model.prompt.build_prompt_from_codes(voice, persona, config)
        prefixes = [prefill(lm, config, each) for each in (prompt, spoken)]
        assert float((prefixes[0].hidden - prefixes[1].hidden).abs().max()) <= 1e-4
        ours = run_single(lm, config, prompt, user, live)
        assert agreement(ours, theirs) == (live, live)
        assert worst(ours, theirs) <= 1e-4

    return check


def mimi_check(live: int) -> Check:
    """`live` streamed frames of the codec, past its window, against the reference."""
    config = tiny_config(CONTEXT)
    weights = random_weights(config, SEED).mimi
    ours = build_mimi(config, weights)
    reference = small_moshi_mimi()
    reference.load_state_dict(weights)
    sound = noise_frames(live, 1, SEED)
    codes, pcm = [], []
    with torch.no_grad(), reference.streaming(1):
        for frame in sound:
            codes.append(reference.encode(frame))
            pcm.append(reference.decode(codes[-1])[:, 0])

    def check() -> None:
        our_codes, our_pcm = Stepper.of(ours, rows=1).run(sound)
        assert torch.equal(our_codes, torch.stack(codes)[..., 0])
        assert float((our_pcm - torch.stack(pcm)).abs().max()) <= 1e-5

    return check


def small_moshi_mimi() -> MimiModel:
    """The reference's codec in the shape of the tiny preset."""
    dim, shape = TINY.mimi.seanet.dimension, TINY.mimi.transformer
    transformer = {
        "d_model": dim,
        "num_heads": shape.num_heads,
        "num_layers": shape.num_layers,
        "context": shape.context,
        "dim_feedforward": shape.dim_feedforward,
        "input_dimension": dim,
        "output_dimensions": [dim],
    }
    quantizer = {
        "dimension": TINY.mimi.quantizer.dimension,
        "n_q": TINY.mimi.quantizer.n_q,
        "bins": TINY.mimi.quantizer.bins,
        "input_dimension": dim,
        "output_dimension": dim,
    }
    seanet = {"dimension": dim, "n_filters": TINY.mimi.seanet.n_filters}
    config = {
        "sample_rate": 24_000,
        "channels": 1,
        "frame_rate": 12.5,
        "seanet": {**loaders._seanet_kwargs, **seanet},
        "transformer": {**loaders._transformer_kwargs, **transformer},
        "quantizer": {**loaders._quantizer_kwargs, **quantizer},
    }
    return loaders.get_mimi(None, config, device="cpu", num_codebooks=8)


def bf16_check() -> Check:
    """Both sums of embeddings, bit for bit."""
    config = tiny_config(CONTEXT, dep_q=8)
    full = random_weights(tiny_config(CONTEXT), SEED).lm
    weights = {k: v.bfloat16() for k, v in first_steps(full, tiny_config(CONTEXT).lm, 8).items()}
    lm = tiny_lm(weights, config)
    tokens = prompt_frames(random_codes(6, 1), random_words(5, 2), config)
    expected = embedded_by_reference(weights, config, tokens)

    def check() -> None:
        prepared = prepare(lm, PlainMaker(), 8)
        assert torch.equal(embed(lm, tokens), expected)
        assert torch.equal(model.lm_step.embed_column(prepared, list(tokens)), expected)

    return check


@torch.inference_mode()
def embed(lm: LanguageModel, tokens: Tensor) -> Tensor:
    return lm.embed(tokens[None])[0]


@torch.inference_mode()
def embedded_by_reference(
    weights: dict[str, Tensor], config: ModelConfig, tokens: Tensor
) -> Tensor:
    reference = moshi_model(weights, config.lm, torch.bfloat16)
    total = reference.emb[0](tokens[1])
    for row in range(1, 16):
        total = total + reference.emb[row](tokens[row + 1])
    out: Tensor = total + reference.text_emb(tokens[0])
    return out


@pytest.fixture(scope="module")
def checks() -> dict[str, Check]:
    return {"lm": lm_check(FRAMES), "mimi": mimi_check(FRAMES), "bf16": bf16_check()}


@pytest.mark.parametrize("part", ["lm", "mimi", "bf16"])
def test_the_subset_passes_as_things_are(checks: dict[str, Check], part: str) -> None:
    checks[part]()


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_the_subset_fails_for(
    checks: dict[str, Check], mutation: Mutation, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutation.apply(monkeypatch)
    with pytest.raises(AssertionError):
        checks[mutation.part]()


@pytest.mark.full
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_the_long_form_fails_for(
    long_checks: dict[str, Check], mutation: Mutation, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutation.apply(monkeypatch)
    with pytest.raises(AssertionError):
        long_checks[mutation.part]()


@pytest.fixture(scope="module")
def long_checks() -> dict[str, Check]:
    checks = {"lm": lm_check(LONG), "mimi": mimi_check(LONG), "bf16": bf16_check()}
    for check in checks.values():
        check()
    return checks
