"""Enrolment: a recording becomes the prompt that the reference would have made of it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from model.checkpoint.errors import VoiceError
from model.core import FRAME_SAMPLES, SAMPLE_RATE
from model.enrol import Enroller, encode_frames, normalise_loudness, ring_of
from model.presets import TINY
from model.prompt import build_prompt, build_prompt_from_codes
from model.random_weights import (
    RandomWeights,
    build_lm,
    build_mimi,
    random_weights,
    voice_like_sound,
)

pytestmark = pytest.mark.unit


@pytest.fixture(scope="module")
def weights() -> RandomWeights:
    return random_weights(TINY, seed=1)


@pytest.fixture(scope="module")
def enroller(weights: RandomWeights) -> Enroller:
    return Enroller(TINY, build_lm(TINY.lm, weights.lm), build_mimi(TINY, weights.mimi))


@pytest.mark.parametrize("gain", [0.01, 1.0, 5.0])
def test_a_recording_is_brought_to_minus_24_lufs(gain: float) -> None:
    from pyloudnorm.meter import Meter

    louder = normalise_loudness(gain * voice_like_sound(3 * SAMPLE_RATE, 1))
    assert Meter(SAMPLE_RATE).integrated_loudness(louder) == pytest.approx(-24, abs=0.01)
    assert louder.dtype == np.float32


@pytest.mark.parametrize("frames", [13, 14, 15, 16])
def test_the_pt_prompt_is_the_prompt_of_its_codes(enroller: Enroller, frames: int) -> None:
    pcm = voice_like_sound(frames * FRAME_SAMPLES - 77, frames)
    voice = enroller.enrol("A.pt", pcm)
    codes = encode_frames(enroller.mimi, normalise_loudness(pcm))
    assert voice.frames == codes.shape[1] == frames
    stored = build_prompt(voice, [5, 6, 7], TINY)
    direct = build_prompt_from_codes(codes, [5, 6, 7], TINY)
    assert torch.equal(stored.tokens[:, frames - 1 :], direct.tokens[:, frames - 1 :])
    embedded = enroller.lm.embed(direct.tokens[None, :, : frames - 1])[0]
    assert torch.equal(stored.embeddings, embedded)


def test_the_first_embedding_is_that_of_the_initial_tokens(enroller: Enroller) -> None:
    voice = enroller.enrol("A.pt", voice_like_sound(2 * SAMPLE_RATE, 3))
    initial = torch.tensor([TINY.lm.text_card] + [TINY.lm.card] * 16)[None, :, None]
    assert torch.equal(voice.embeddings[0], enroller.lm.embed(initial)[0, 0])


def test_the_ring_holds_the_last_columns_and_the_delayed_tail() -> None:
    columns = torch.arange(8).repeat(17, 1)
    ring = ring_of(TINY.lm, columns, 7)
    assert ring[0].tolist() == [4, 5, 6, 3], "the text's tail is four positions old"
    assert ring[2].tolist() == [4, 5, 6, 7], "an acoustic row's tail is new"


@pytest.mark.parametrize("seconds", [0.5, 31.0])
def test_a_recording_too_short_or_too_long_is_refused(enroller: Enroller, seconds: float) -> None:
    with pytest.raises(VoiceError, match=f"{seconds} s"):
        enroller.enrol("A.pt", voice_like_sound(int(seconds * SAMPLE_RATE), 1))


def test_silence_is_no_voice(enroller: Enroller) -> None:
    with pytest.raises(VoiceError, match="silent"):
        enroller.enrol("A.pt", np.zeros(2 * SAMPLE_RATE, np.float32))
