"""Made-up calls do what the agent is meant to learn: greet, answer, stop, speak up once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from model.config import ModelConfig
from model.demo import dialogue
from model.demo.bank import Bank, Line, Said
from model.demo.dialogue import ANSWER_FRAMES, NOBODY, STOP_FRAMES, Call, Dialogues, Mix
from model.demo.listening import BACKGROUNDS
from model.demo.shape import BINS, MIMI, lm_config
from model.demo.speakers import AGENT_PITCHES
from model.demo.texts import Texts, load_texts
from model.demo.wording import TEXT_CARD, TEXT_LEAD, write_tokenizer
from model.tokenizer import Tokenizer

pytestmark = pytest.mark.unit

FRAMES = 448
QUIET, GAP, PERSON = 1, 2, 3
"""Codes of the agent's silence, of backgrounds and of people."""
VOICE = 50
"""The last codebook's code of the first voice; the second one's is one more."""


def fake_bank(texts: Texts) -> Bank:
    """Lines of 20 frames, utterances of 10, each with codes that tell what they are."""
    said = [
        Said(torch.full((8, 14), PERSON), 2, 12, "known", topic.say, kind)
        for topic in texts.topics
        for kind in BACKGROUNDS
    ]
    for kind in ("off_topic", "near_miss"):
        said += [
            Said(torch.full((8, 6 + n), PERSON), 2, 4 + n, kind, "", "clean") for n in (6, 22, 50)
        ]
    lines = {}
    for voice in (0, 1):
        for index, text in enumerate(texts.spoken):
            row = torch.full((20 + TEXT_LEAD,), 3)
            row[0] = 10 + index
            codes = torch.full((8, 20 + TEXT_LEAD), 100 + index)
            codes[-1] = VOICE + voice
            codes[:, :TEXT_LEAD] = QUIET
            lines[text, voice] = Line(row, codes)
    gaps = {kind: (torch.full((8, 125), GAP),) for kind in BACKGROUNDS}
    return Bank(tuple(said), gaps, lines, (torch.full((8, 16), 7), torch.full((8, 16), 8)))


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    folder: Path = tmp_path_factory.mktemp("tokenizer")
    return write_tokenizer(load_texts(), folder / "tokenizer.model")


@pytest.fixture(scope="module")
def config() -> ModelConfig:
    codes = (QUIET,) * 8
    return ModelConfig(lm=lm_config(TEXT_CARD), mimi=MIMI, silence_codes=codes, sine_codes=(9,) * 8)


def draw(config: ModelConfig, tokenizer: Tokenizer, seed: int, mix: Mix | None = None) -> Call:
    texts = load_texts()
    dialogues = Dialogues(texts, fake_bank(texts), config, tokenizer, FRAMES)
    return dialogues.draw(np.random.default_rng(seed), mix or Mix())


def spoken(call: Call) -> list[tuple[int, str]]:
    """Where each line begins, and which it is."""
    texts = load_texts()
    row = call.frames[0, call.live :]
    return [(int(t), texts.spoken[int(row[t]) - 10]) for t in (row > 9).nonzero()[:, 0]]


def voice_at(call: Call, start: int) -> int:
    """Which voice says the line whose text begins at `start`."""
    return int(call.frames[8, call.live + start + TEXT_LEAD]) - VOICE


def test_calls_follow_from_the_seed(config: ModelConfig, tokenizer: Tokenizer) -> None:
    first, second = (draw(config, tokenizer, 4) for _ in range(2))
    assert torch.equal(first.frames, second.frames)
    assert first.frames.shape == (17, FRAMES)
    assert int(first.frames.max()) < max(BINS, TEXT_CARD)


def test_a_call_begins_with_its_prefill_and_the_greeting_of_its_persona(
    config: ModelConfig, tokenizer: Tokenizer
) -> None:
    texts = load_texts()
    seen = set()
    for seed in range(12):
        call = draw(config, tokenizer, seed, Mix(middle=0.0))
        prompt = [int(t) for t in call.frames[0, : call.live] if t != 3]
        persona = next(
            p for p in texts.personas for q in p.prompts if tokenizer.encode_persona(q) == prompt
        )
        assert spoken(call)[0] == (dialogue.GREETING_FRAME, persona.greeting)
        assert (call.frames[9:, 1 : call.live] == 9).all()
        assert not call.text_weight[: call.live].any()
        seen.add(persona.name)
    assert seen == {p.name for p in texts.personas}


def test_an_answer_follows_the_end_of_the_question(
    config: ModelConfig, tokenizer: Tokenizer
) -> None:
    texts = load_texts()
    answers = 0
    for seed in range(8):
        call = draw(config, tokenizer, seed)
        heard = call.heard[call.live :]
        starts = dict(spoken(call))
        for t in (heard != NOBODY).nonzero()[:, 0].tolist():
            if heard[t - 1] == NOBODY and t + ANSWER_FRAMES < len(heard):
                assert starts[t + ANSWER_FRAMES - 1] == texts.spoken[int(heard[t])]
                answers += 1
    assert answers > 10


def test_an_interrupted_agent_falls_silent_in_time(
    config: ModelConfig, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialogue, "INTERRUPTED", 1.0)
    call = draw(config, tokenizer, 6, Mix(silent=0.0))
    user, agent = call.frames[9, call.live :], call.frames[1, call.live :]
    onsets = [t for t in range(1, len(user)) if user[t] == PERSON and user[t - 1] != PERSON]
    checked = 0
    for lead in onsets:
        onset = lead + 2
        stop = agent[onset + STOP_FRAMES : onset + 10]
        if onset + 10 < len(agent) and agent[onset] != QUIET:
            assert (stop == QUIET).all()
            assert (agent[onset : onset + STOP_FRAMES] == agent[onset]).any()
            checked += 1
    assert checked


def test_silence_is_broken_once(
    config: ModelConfig, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialogue, "SHORT_WAIT", 0.0)
    texts, waiting = load_texts(), Mix(silent=100.0, middle=0.0)
    for seed in range(6):
        said = [line for _, line in spoken(draw(config, tokenizer, seed, waiting))]
        assert said[1] == texts.silence_prompt
        assert all(
            (a, b) != (texts.silence_prompt,) * 2 for a, b in zip(said, said[1:], strict=False)
        )


def test_after_its_prompt_it_stays_silent_longer_than_its_memory(
    config: ModelConfig, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In either voice: trained in one alone, it asked again and again in the other."""
    monkeypatch.setattr(dialogue, "ASKING", 1.0)
    texts, silent = load_texts(), Mix(silent=1.0, middle=1.0, second_asks=True)
    longest = dict.fromkeys(range(len(AGENT_PITCHES)), 0)
    for seed in range(16):
        call = draw(config, tokenizer, seed, silent)
        said = spoken(call)
        assert said[0][1] == texts.silence_prompt
        assert said[1:2] == [] or said[1][1] != texts.silence_prompt
        voice = voice_at(call, said[0][0])
        longest[voice] = max(longest[voice], (said[1][0] if said[1:] else FRAMES) - said[0][0])
    assert min(longest.values()) > config.lm.context


def test_the_voice_that_asked_goes_on_until_it_is_forgotten(
    config: ModelConfig, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialogue, "ASKING", 1.0)
    talking = Mix(silent=0.0, middle=1.0, second_asks=True)

    def voices(seed: int) -> list[int]:
        call = draw(config, tokenizer, seed, talking)
        return [voice_at(call, start) for start, _ in spoken(call)]

    remembered = [set(voices(seed)) for seed in range(8)]
    assert {1} in remembered and {0, 1} not in remembered
    monkeypatch.setattr(dialogue, "MEMORY_FRAMES", 0)
    assert voices(remembered.index({1}))[:2] == [1, 0]


def test_the_unknown_gets_the_fallback_that_its_length_demands(
    config: ModelConfig, tokenizer: Tokenizer
) -> None:
    texts = load_texts()
    unknown = Mix(known=0.0, near_miss=1.0, glued=0.0)
    said = {line for s in range(6) for _, line in spoken(draw(config, tokenizer, s, unknown))}
    allowed = {f.say for f in texts.fallbacks} | {p.greeting for p in texts.personas}
    assert said <= allowed | {texts.silence_prompt}
    assert {f.say for f in texts.fallbacks} <= said
