"""The acoustic delay and the order of what a call begins with."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from model.enrol import ring_of
from model.presets import TINY
from model.prompt import build_prompt, build_prompt_from_codes, call_frames, lay_out
from model.voices import Voice

pytestmark = pytest.mark.unit

CODES = torch.arange(8 * 5).view(8, 5)
PERSONA = [40, 41, 42]


def test_calls_are_voice_silence_persona_silence() -> None:
    frames = call_frames(CODES, PERSONA, TINY)
    assert frames.shape == (17, 5 + 6 + 3 + 6)
    assert frames[0].tolist() == [3] * 11 + PERSONA + [3] * 6
    assert torch.equal(frames[1:9, :5], CODES)
    assert frames[1:9, 5:].unique(dim=1).flatten().tolist() == list(TINY.silence_codes)
    assert frames[9:].unique(dim=1).flatten().tolist() == list(TINY.sine_codes)


def test_delayed_rows_land_one_position_later_and_call_0_is_lost() -> None:
    frames = torch.arange(17 * 4).view(17, 4)
    columns = lay_out(frames, TINY.lm)
    for row, delay in enumerate(TINY.lm.delays):
        start = TINY.lm.card if row else TINY.lm.text_card
        assert columns[row, : delay + 1].tolist() == [start] * (delay + 1)
        assert columns[row, delay + 1 : 4 + delay].tolist() == frames[row, 1:].tolist()


def test_tail_stands_one_position_past_the_end() -> None:
    prompt = build_prompt_from_codes(CODES, PERSONA, TINY)
    assert prompt.positions == 20
    tail = prompt.tokens[:, prompt.positions]
    assert tail[2:9].tolist() == list(TINY.silence_codes[1:])
    assert tail[10:].tolist() == list(TINY.sine_codes[1:])


def test_empty_persona_has_no_tokens() -> None:
    assert build_prompt_from_codes(CODES, [], TINY).positions == 5 + 12


@pytest.mark.parametrize("frames", [1, 2, 5])
def test_voice_file_gives_the_columns_of_its_codes(frames: int) -> None:
    codes = CODES[:, :frames]
    columns = lay_out(call_frames(codes, [], TINY)[:, :frames], TINY.lm)
    embeddings = torch.zeros(frames - 1, TINY.lm.dim)
    voice = Voice("A.pt", embeddings, ring_of(TINY.lm, columns, frames))
    ours = build_prompt(voice, PERSONA, TINY)
    expected = build_prompt_from_codes(codes, PERSONA, TINY)
    assert ours.positions == expected.positions
    assert torch.equal(ours.tokens[:, frames - 1 :], expected.tokens[:, frames - 1 :])


def test_constants_come_from_the_configuration() -> None:
    config = replace(TINY, silence_codes=(1, 2, 3, 4, 5, 6, 7, 8))
    assert call_frames(CODES, [], config)[1:9, -1].tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
