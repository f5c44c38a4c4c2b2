"""The gate of the plugin's model on what the demo says: a turn for each line."""

from __future__ import annotations

import pytest
from livekit import rtc
from livekit.plugins import personaplex

from model import FRAME_SAMPLES, SAMPLE_RATE, Engine
from tests.e2e.asking import QUESTIONS
from tests.e2e.demo_call import GREETING, asked, lines_in
from tests.e2e.duplex_client import FRAME_BYTES, converse, make
from tests.fakes.server import serving

pytestmark = pytest.mark.e2e


def turns_in(pcm16: bytes) -> list[bytes]:
    """The sound of each stretch for which the gate was open; the last has to be over."""
    gate = personaplex.DuplexModel().audio_gate()
    turns: list[bytes] = []
    speaking = False
    for start in range(0, len(pcm16), FRAME_BYTES):
        piece = pcm16[start : start + FRAME_BYTES]
        spoke = speaking
        speaking = gate.update(rtc.AudioFrame(piece, SAMPLE_RATE, 1, FRAME_SAMPLES))
        if speaking and not spoke:
            turns.append(b"")
        if speaking:
            turns[-1] += piece
    assert not speaking, "the codec's silence is taken for speech"
    return turns


async def test_the_silence_of_the_codec_parts_the_turns(demo_engine: Engine) -> None:
    question = QUESTIONS[0]
    async with serving(demo_engine) as server, make("inline", server) as client:
        audio, _ = await converse(client, asked(question))
    assert [lines_in(turn) for turn in turns_in(audio)] == [[GREETING], [question.answer]]
