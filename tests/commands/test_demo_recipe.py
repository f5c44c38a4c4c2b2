"""The demo's recipe from the first synthesised word to a checkpoint that holds calls, at toy size.

Nothing that it learns in so few steps can be heard; losses must fall, and every stage must fit the
next one.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from model.checkpoint.load import load_checkpoint
from model.demo import bank, codec, language, listening, training
from model.demo.corpus import Corpus, Size
from model.demo.evaluate import evaluate
from model.demo.export import VOICES
from model.demo.recipe import Plan, Work, make_corpus, train, write_checkpoint
from model.demo.scenes import Casting, Extent
from model.demo.speakers import Speaker

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1200)]

TEXTS = """
[[persona]]
name = "teacher"
prompt = "You are a teacher."
greeting = "Hello, ask me something."

[silence]
after_seconds = 15
prompt = "Are you still there?"

[[fallback]]
say = "I am only the demo."

[[topic]]
name = "sum"
ask = ["what is two and two", "add two and two", "how much is two and two"]
say = "That makes four."

[off_topic]
train = ["my sister bought a bicycle"]
test = ["open the window"]

[near_miss]
train = ["what is two and nine"]
test = ["what is three and five"]

[general]
say = ["The fish twisted and turned on the bent hook.", "The birch canoe slid on the planks."]
"""
SIZE = Size(
    known_voices=2,
    other_voices=2,
    align_every=1,
    speakers=(Speaker("flite", "kal16"), Speaker("espeak-ng", "en-us")),
    unseen=(
        Speaker("espeak-ng", "en-us+m7"),
        Speaker("flite", "rms"),
        Speaker("festival", "ked_diphone"),
    ),
)
PLAN = Plan(
    seed=3, workers=1, size=SIZE, codec_steps=12, decoder_steps=4, language_steps=8, takes=1
)


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Work:
    folder = tmp_path_factory.mktemp("demo")
    texts = folder / "texts.toml"
    texts.write_text(TEXTS, encoding="utf-8")
    return Work(folder, texts)


@pytest.fixture(scope="module")
def trained(work: Work) -> Work:
    threads = torch.get_num_threads()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codec, "QUANTIZE_FROM", 8)
        patch.setattr(codec, "FIT_BATCHES", 4)
        patch.setattr(bank, "GAP_SECONDS", 2)
        patch.setattr(listening, "TRACKS", 1)
        patch.setattr(training, "SHOW_EVERY", 4)
        patch.setattr(language, "BATCH", 2)
        make_corpus(work, PLAN)
        train(work, PLAN)
    torch.set_num_threads(threads)
    return work


def curve(work: Work, name: str, key: str) -> list[float]:
    rows = (work.runs / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(row)[key] for row in rows]


def test_the_losses_fall(trained: Work) -> None:
    mel = curve(trained, "codec", "mel")
    assert mel[1] < mel[0]
    text = curve(trained, "language", "text")
    assert text[-1] < text[0]
    assert (trained.runs / "curves.png").stat().st_size > 1000


def test_the_corpus_is_the_same_for_the_same_seed(trained: Work, tmp_path: Path) -> None:
    again = Work(tmp_path, trained.texts_path)
    made = make_corpus(again, PLAN)
    before = Corpus.load(trained.corpus)
    assert made.utterances == before.utterances
    assert made.lines == before.lines
    assert (made.user_pcm == before.user_pcm).all()
    assert (made.agent_pcm == before.agent_pcm).all()


def test_the_number_of_processes_changes_nothing_that_is_heard(
    trained: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "TRACKS", 1)
    monkeypatch.setattr(bank, "CHUNK", 8)
    mimi = codec.load_codec(trained.runs)

    def heard(workers: int) -> dict[int, list[bank.Packed]]:
        shares = [bank.Share(5, 1, workers, index) for index in range(workers)]
        parts = [bank.encode_share(trained.corpus, mimi, share) for share in shares]
        return {start: chunk for part in parts for start, chunk in part.items()}

    alone, shared = heard(1), heard(3)
    assert sorted(alone) == sorted(shared)
    for start, chunk in alone.items():
        for one, other in zip(chunk, shared[start], strict=True):
            assert (one[0] == other[0]).all() and one[1:] == other[1:]


def test_the_export_is_a_checkpoint_that_holds_calls(trained: Work, tmp_path: Path) -> None:
    written = write_checkpoint(trained, PLAN, tmp_path)
    assert written["bytes"] <= 26_000_000
    assert written["text"] > 0.9
    loaded = load_checkpoint(str(tmp_path), device=torch.device("cpu"))
    assert loaded.info.voices == VOICES
    assert not loaded.info.is_random
    assert loaded.lm.text_emb.weight.dtype == torch.float32
    corpus = Corpus.load(trained.corpus)
    casting = Casting(trained.texts, corpus, 1, Extent(1, 1, 1))
    scenes = [scene for scene in casting.scenes(None) if scene.name == "known"]
    figures = evaluate(tmp_path, trained.texts, scenes, recognised=1, seed=1, workers=1)
    assert figures["known"]["turns"] == 1
    assert figures["greeting"]["calls"] == 1


def test_a_finished_training_is_not_begun_again(
    trained: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stored() -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in trained.runs.glob("*.pt")}

    before = stored()
    assert sorted(before) == ["bank.pt", "codec.pt", "decoder.pt", "language.pt", "patience.pt"]
    monkeypatch.setattr(listening, "TRACKS", 1)
    train(trained, replace(PLAN))
    assert stored() == before
