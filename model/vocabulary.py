"""Trains a small SentencePiece model whose first four tokens are EPAD, BOS, EOS and PAD.

For checkpoints of our own: the random presets (on the text below) and the trained demo.
"""

from __future__ import annotations

import io
from collections.abc import Iterable

import sentencepiece

TEXT = """\
You are a wise and friendly teacher. Answer questions or provide advice in a clear way.
You enjoy having a good conversation. You work at the front desk of a quiet hotel.
Hello, good morning, and welcome. My name is Ada, and I can hear you while I speak.
What would you like to know today? Please take your time, there is no hurry at all.
The weather is bright and cold, with a little rain from the west in the evening.
Water boils at one hundred degrees, and light travels faster than any sound.
The library opens at nine and closes at half past six, except on Sunday.
Your room is on the second floor, next to the stairs, and breakfast is at seven.
I am sorry, I did not quite catch that; could you say it again more slowly?
Two and three make five, seven and eight make fifteen, and ten times ten is a hundred.
Let me think about it for a moment. Yes, that is exactly what I had in mind.
A long time ago a small ship left the harbour and sailed around the whole world.
Music is a way of telling a story without a single word being spoken.
Thank you very much for calling us. Have a pleasant journey home, and goodbye!
Every question has an answer, but not every answer is short or easy to find.
The quick brown fox jumps over the lazy dog while five wizards box quietly.
Jazz, quartz and zebra are words with rare letters; so are box, yacht and vivid.
Can you tell me where the nearest station is? Turn left, then walk straight on.
We could begin with history, or with numbers, or simply with how your day has been.
People often ask why the sky is blue, why leaves are green, and how birds fly.
"""
"""Plain sentences with every letter of the alphabet."""


def train_tokenizer(sentences: Iterable[str], pieces: int) -> bytes:
    """The serialised model of exactly `pieces` tokens; the same text gives the same model."""
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.Train(
        sentence_iterator=iter(sentences),
        model_writer=out,
        vocab_size=pieces,
        model_type="unigram",
        character_coverage=1.0,
        unk_id=0,
        bos_id=1,
        eos_id=2,
        pad_id=3,
        num_threads=1,
        minloglevel=2,
    )
    return out.getvalue()
