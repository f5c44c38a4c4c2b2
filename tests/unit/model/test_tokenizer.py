"""Text in and out of a SentencePiece model: the persona's wrap, pads, byte pieces."""

from __future__ import annotations

from pathlib import Path

import pytest
import sentencepiece

from model.checkpoint.errors import TokenizerError
from model.tokenizer import TextJoiner, Tokenizer, wrap_persona
from model.vocabulary import TEXT, train_tokenizer

pytestmark = pytest.mark.unit


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.model"
    path.write_bytes(train_tokenizer(TEXT.splitlines(), 200))
    return Tokenizer(path)


@pytest.fixture(scope="module")
def with_bytes(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """A model whose unknown characters become byte pieces, as the released one's do."""
    folder = tmp_path_factory.mktemp("bytes")
    sentencepiece.SentencePieceTrainer.Train(
        sentence_iterator=iter(TEXT.splitlines()),
        model_prefix=str(folder / "tokenizer"),
        vocab_size=400,
        byte_fallback=True,
        pad_id=3,
        minloglevel=2,
        hard_vocab_limit=False,
    )
    return Tokenizer(folder / "tokenizer.model")


@pytest.mark.parametrize(
    ("persona", "wrapped"),
    [
        ("Be kind.", "<system> Be kind. <system>"),
        ("  Be kind.\n", "<system> Be kind. <system>"),
        ("<system> Be kind. <system>", "<system> Be kind. <system>"),
        ("<system> Be kind.", "<system> <system> Be kind. <system>"),
        ("", ""),
        ("  \n", ""),
    ],
)
def test_the_persona_is_wrapped_once(persona: str, wrapped: str) -> None:
    assert wrap_persona(persona) == wrapped


def test_a_persona_has_neither_bos_nor_eos_and_an_empty_one_no_token(tokenizer: Tokenizer) -> None:
    tokens = tokenizer.encode_persona("You enjoy having a good conversation.")
    assert tokens and not {1, 2, 3} & set(tokens)
    assert tokenizer.encode_persona(" ") == []


def test_the_vocabulary_has_exactly_the_tokens_asked_for(tokenizer: Tokenizer) -> None:
    assert len(tokenizer) == 200
    assert [tokenizer.piece(token) for token in (1, 2)] == ["<s>", "</s>"]


def test_the_same_text_trains_the_same_model() -> None:
    assert train_tokenizer(TEXT.splitlines(), 200) == train_tokenizer(TEXT.splitlines(), 200)


@pytest.mark.parametrize("token", [0, 1, 2, 3, 200, 32_000, -1, -2])
def test_pads_controls_and_initial_tokens_say_nothing(tokenizer: Tokenizer, token: int) -> None:
    assert tokenizer.text(token) == ""


def test_text_comes_back_with_a_space_before_each_word(tokenizer: Tokenizer) -> None:
    text = "Hello, good morning, and welcome."
    joiner = TextJoiner(tokenizer)
    spoken = "".join(joiner.push(token) for token in tokenizer.encode(text))
    assert spoken == " " + text


def test_a_character_split_over_byte_pieces_is_joined(with_bytes: Tokenizer) -> None:
    joiner = TextJoiner(with_bytes)
    said = [joiner.push(token) for token in with_bytes.encode("a €")]
    assert "".join(said).strip() == "a €"
    assert said[-1] == "€", "it is said with its last byte"
    assert "<0x" not in "".join(said)


def test_a_broken_character_is_marked_and_the_text_goes_on(with_bytes: Tokenizer) -> None:
    first, *_ = [token for token in with_bytes.encode("€") if with_bytes.byte(token) is not None]
    joiner = TextJoiner(with_bytes)
    assert joiner.push(first) == ""
    word = with_bytes.encode("good")[0]
    assert joiner.push(word) == "\ufffd" + with_bytes.text(word)


def test_pads_between_the_bytes_of_a_character_do_not_break_it(with_bytes: Tokenizer) -> None:
    tokens = [token for token in with_bytes.encode("€") if with_bytes.byte(token) is not None]
    joiner = TextJoiner(with_bytes)
    assert "".join(joiner.push(token) + joiner.push(3) for token in tokens) == "€"


@pytest.mark.parametrize("body", [b"", b"no model at all", b"\x00" * 100])
def test_a_file_that_is_no_model_is_named(tmp_path: Path, body: bytes) -> None:
    path = tmp_path / "tokenizer_x.model"
    path.write_bytes(body)
    with pytest.raises(TokenizerError, match=r"tokenizer_x\.model") as refused:
        Tokenizer(path)
    assert "\n" not in str(refused.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match="gone"):
        Tokenizer(tmp_path / "gone.model")
