"""Text to tokens and back, by a checkpoint's SentencePiece model.

Wraps a persona the way PersonaPlex was trained, and turns emitted tokens into text, byte pieces
included. Knows nothing of positions or prompts.
"""

from __future__ import annotations

import codecs
import re
from pathlib import Path

import sentencepiece

from model.checkpoint.errors import TokenizerError

SYSTEM_TAG = "<system>"
SILENT = frozenset({0, 3})
"""EPAD and PAD: a position without text."""
WORD_START = "\u2581"
BYTE_PIECE = re.compile(r"<0x([0-9A-F]{2})>", re.ASCII)


def wrap_persona(persona: str) -> str:
    """`<system> persona <system>`, unless it is wrapped already; empty stays empty."""
    text = persona.strip()
    if not text or (text.startswith(SYSTEM_TAG) and text.endswith(SYSTEM_TAG)):
        return text
    return f"{SYSTEM_TAG} {text} {SYSTEM_TAG}"


class Tokenizer:
    """A SentencePiece model; safe to share between threads."""

    def __init__(self, path: Path) -> None:
        """Raises `TokenizerError` where `path` is no SentencePiece model."""
        try:
            self._pieces = sentencepiece.SentencePieceProcessor()
            self._pieces.LoadFromSerializedProto(path.read_bytes())
        except (OSError, RuntimeError) as error:
            reason = " ".join(str(error).split())
            raise TokenizerError(
                f"{path} is no SentencePiece model ({reason}); fetch or export it again"
            ) from error

    def __len__(self) -> int:
        """How many tokens there are."""
        count: int = self._pieces.GetPieceSize()
        return count

    def encode(self, text: str) -> list[int]:
        """Tokens of `text` as it stands, without BOS or EOS."""
        tokens: list[int] = self._pieces.EncodeAsIds(text)
        return tokens

    def encode_persona(self, persona: str) -> list[int]:
        """Tokens of the wrapped persona, without BOS or EOS; an empty persona has none."""
        return self.encode(wrap_persona(persona))

    def piece(self, token: int) -> str:
        """The raw piece of `token`; empty where the vocabulary has none (the initial token)."""
        if not 0 <= token < len(self):
            return ""
        piece: str = self._pieces.IdToPiece(token)
        return piece

    def text(self, token: int) -> str:
        """What `token` adds to the transcript, on its own.

        Empty for pads and control tokens; a leading space begins a word; a byte piece that is no
        character by itself is U+FFFD. `TextJoiner` joins the bytes of one call's tokens.
        """
        return TextJoiner(self).push(token)

    def byte(self, token: int) -> int | None:
        """The byte that `token` stands for, where it is a byte piece."""
        if not 0 <= token < len(self) or not self._pieces.IsByte(token):
            return None
        match = BYTE_PIECE.fullmatch(self.piece(token))
        return int(match[1], 16) if match else None

    def is_text(self, token: int) -> bool:
        """Whether `token` is a piece of text: no pad, no control token, nothing unknown."""
        if not 0 <= token < len(self) or token in SILENT:
            return False
        return not (self._pieces.IsControl(token) or self._pieces.IsUnknown(token))


class TextJoiner:
    """The transcript of one call: joins UTF-8 that is split over byte pieces."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._utf8 = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, token: int) -> str:
        """The text that `token` completes; bytes of an unfinished character are kept back."""
        if not self._tokenizer.is_text(token):
            return ""
        byte = self._tokenizer.byte(token)
        if byte is not None:
            return self._utf8.decode(bytes([byte]))
        broken = self._utf8.decode(b"", final=True)
        return broken + self._tokenizer.piece(token).replace(WORD_START, " ")
