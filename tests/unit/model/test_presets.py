"""The random checkpoints: complete, repeatable, and fit to show mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from model.checkpoint.load import load_checkpoint
from model.core import FRAME_SAMPLES
from model.enrol import encode_frames, measure_constants
from model.presets import TINY, VOICE, write_tiny_checkpoint
from model.random_weights import build_mimi, random_weights, voice_like_sound

pytestmark = pytest.mark.unit

CPU = torch.device("cpu")


def test_the_same_seed_writes_the_same_checkpoint(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("one", "other")]
    for folder in folders:
        folder.mkdir()
        write_tiny_checkpoint(folder, seed=1)
    one, other = folders
    for path in one.rglob("*"):
        if path.is_file() and path.suffix != ".pt":
            assert path.read_bytes() == (other / path.relative_to(one)).read_bytes()
    voices = [torch.load(folder / "voices" / VOICE, weights_only=True) for folder in folders]
    assert all(torch.equal(voices[0][key], voices[1][key]) for key in voices[0])


def test_another_seed_gives_other_weights() -> None:
    one, other = (random_weights(TINY, seed) for seed in (1, 2))
    assert not torch.equal(one.lm["emb.0.weight"], other.lm["emb.0.weight"])
    assert not torch.equal(
        one.mimi["upsample.convtr.convtr.convtr.weight"],
        other.mimi["upsample.convtr.convtr.convtr.weight"],
    )


def test_its_constants_are_measured_from_its_own_codec() -> None:
    mimi = build_mimi(TINY, random_weights(TINY, 3).mimi)
    measured = measure_constants(TINY, mimi)
    assert measured == measure_constants(TINY, mimi)
    assert measured.silence_codes != measured.sine_codes
    assert all(0 <= code < TINY.lm.card for code in measured.silence_codes)


def test_decoded_audio_is_finite_moving_and_not_clipped() -> None:
    mimi = build_mimi(TINY, random_weights(TINY, 4).mimi)
    codes = torch.randint(TINY.lm.card, (1, 8, 40))
    pcm = mimi.decode_latent_sequence(mimi.decode_codes(codes))[0, 0]
    assert pcm.isfinite().all()
    assert 0.02 < pcm.abs().max() < 0.9
    frames = pcm.view(-1, FRAME_SAMPLES)
    assert frames.std(dim=1).min() > 0.001
    assert len({tuple(frame.tolist()) for frame in frames}) == 40


def test_sound_is_spread_over_the_codebooks() -> None:
    mimi = build_mimi(TINY, random_weights(TINY, 5).mimi)
    codes = encode_frames(mimi, voice_like_sound(40 * FRAME_SAMPLES, 5))
    assert min(len(set(book.tolist())) for book in codes) > 20


def test_a_written_checkpoint_is_complete_and_says_that_it_is_random(tiny_checkpoint: Path) -> None:
    loaded = load_checkpoint(str(tiny_checkpoint), device=CPU)
    assert loaded.info.is_random
    assert loaded.info.default_voice == VOICE
    assert loaded.voices.read(VOICE).frames == 25
    assert len(loaded.tokenizer) == loaded.info.config.lm.text_card
    assert loaded.tokenizer.encode_persona(loaded.info.default_persona)
