"""Which voice says what, how utterances are cut, and where a line's text stands."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from model.core import FRAME_SAMPLES
from model.demo.corpus import Size, frame_aligned, plan, spread_words, trim
from model.demo.speakers import AGENT_PITCHES, TRAINED, UNSEEN
from model.demo.texts import load_texts
from model.demo.wording import TEXT_LEAD, place_tokens, word_tokens, write_tokenizer

pytestmark = pytest.mark.unit


def test_the_plan_follows_from_the_seed() -> None:
    texts = load_texts()
    first, second, other = (list(plan(texts, seed, Size())) for seed in (1, 1, 2))
    assert first == second
    assert first != other


def test_tests_use_other_voices_and_other_unknown_sentences() -> None:
    texts = load_texts()
    jobs = list(plan(texts, 1, Size()))
    trained = {job.speaker.name for job in jobs if job.split == "train"}
    tested = {job.speaker.name for job in jobs if job.split == "test"}
    assert len(trained) >= 50
    assert not trained & tested
    unknown = {s for job in jobs if job.split == "train" for s, kind, _ in job.sentences}
    assert not unknown & {*texts.off_topic.test, *texts.near_miss.test}


def test_no_voice_of_the_unseen_synthesiser_is_trained_on() -> None:
    assert not {s.name for s in TRAINED} & {s.name for s in UNSEEN}
    assert all("diphone" not in s.voice for s in TRAINED)


def test_every_wording_is_said_by_as_many_voices_as_planned() -> None:
    texts = load_texts()
    size = Size(known_voices=3, other_voices=2)
    said = [s for job in plan(texts, 1, size) if job.split == "train" for s, _, _ in job.sentences]
    assert all(said.count(question) == 3 for question, _ in texts.questions)
    assert all(said.count(sentence) == 2 for sentence in texts.off_topic.train)


def test_the_agents_pitch_is_the_same_in_every_frame() -> None:
    assert all(24_000 % hz == 0 and FRAME_SAMPLES % (24_000 // hz) == 0 for hz in AGENT_PITCHES)


def test_lines_are_cut_by_whole_frames() -> None:
    sound = np.zeros(10 * FRAME_SAMPLES, dtype=np.float32)
    sound[3 * FRAME_SAMPLES + 500 : 5 * FRAME_SAMPLES + 20] = 0.5
    assert np.array_equal(frame_aligned(sound), sound[3 * FRAME_SAMPLES : 6 * FRAME_SAMPLES])


def test_trimming_leaves_a_small_margin() -> None:
    sound = np.zeros(24_000, dtype=np.float32)
    sound[4_800:9_600] = 0.5
    assert len(trim(sound)) == 4_800 + 2 * 480


def test_words_without_an_alignment_are_spread_over_the_line() -> None:
    starts = [at for _, at in spread_words("one two three", np.zeros(24_000, dtype=np.float32))]
    assert starts == pytest.approx([0, 4 / 14, 8 / 14])


def test_text_stands_where_its_words_are_spoken(tmp_path: Path) -> None:
    texts = load_texts()
    tokenizer = write_tokenizer(texts, tmp_path / "tokenizer.model")
    line = texts.topics[0].say
    words = word_tokens(tokenizer, line)
    assert len(words) == len(line.split())
    row = place_tokens(tokenizer, line, [("w", 6 * i) for i in range(len(words))], 40)
    assert len(row) == 40 + TEXT_LEAD
    assert all(row[6 * i] == tokens[0] for i, tokens in enumerate(words))
    assert [int(t) for t in row if t != 3] == [t for tokens in words for t in tokens]


def test_a_line_too_short_for_its_text_is_refused(tmp_path: Path) -> None:
    texts = load_texts()
    tokenizer = write_tokenizer(texts, tmp_path / "tokenizer.model")
    with pytest.raises(ValueError, match="more tokens than frames"):
        place_tokens(tokenizer, texts.topics[0].say, [], 2)


def test_all_printable_characters_can_be_told_to_the_agent(tmp_path: Path) -> None:
    tokenizer = write_tokenizer(load_texts(), tmp_path / "tokenizer.model")
    printable = "".join(map(chr, range(33, 127)))
    assert 0 not in tokenizer.encode(printable)
