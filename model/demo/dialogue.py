"""Makes up calls for training the language model: who speaks when, and what the agent should do.

A call is frames `[17, T]` (text, 8 agent codes, 8 user codes) before any delay, with what each
frame counts in training. Knows nothing of the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from model.config import ModelConfig
from model.core import FRAME_SECONDS
from model.prompt import call_frames
from model.tokenizer import Tokenizer

from .bank import Bank, Line, Said
from .listening import BACKGROUNDS
from .sounds import Rng
from .texts import Texts

GREETING_FRAME = 5
ANSWER_FRAMES = 5
"""From the end of speech to the text of the answer; its sound follows `TEXT_LEAD` frames later."""
STOP_FRAMES = 4
"""From the onset of speech to silence, when the agent is interrupted."""
INTERRUPTED = 0.3
SHORT_WAIT = 0.4
ASKING = 0.4
"""Share of the calls seen from their middle in which the agent asks whether someone is there."""
OWN_PROMPT = 0.6
FIRST_VOICE = 0.65
FORGOTTEN_VOICE = 0
"""In which the agent goes on after a silence that was longer than its memory."""
MEMORY_FRAMES = 200
"""Of silence at the start, after which the model hardly has its own last line before it. What a
person waits later is not counted."""
UNSURE_SECONDS = 0.12
"""Speech this close to a limit between two fallbacks is not used."""
NOBODY = -1


@dataclass(frozen=True)
class Mix:
    """How often a person asks what, in a quiet place or not, or says nothing for long."""

    known: float = 0.56
    near_miss: float = 0.16
    glued: float = 0.05
    quiet: float = 0.4
    silent: float = 0.3
    """At the beginning; less and less with every line of the agent."""
    middle: float = 0.3
    """Share of the calls that are seen from their middle on, without a prefill."""
    second_asks: bool = False
    """In those it may also have been the second voice that asked whether someone is there."""


@dataclass
class Call:
    """Frames `[17, T]`; per frame the class heard (or `NOBODY`) and weights of text and sound."""

    frames: Tensor
    live: int
    """The first frame after the prefill."""
    heard: Tensor
    text_weight: Tensor
    stop: Tensor
    """True around the place where an interrupted agent falls silent."""
    speaking: Tensor
    """True where the agent speaks."""


@dataclass
class _Script:
    """A call while it is being written, from its first live frame."""

    text: Tensor
    agent: Tensor
    user: Tensor
    heard: Tensor
    text_weight: Tensor
    stop: Tensor
    speaking: Tensor
    ends: int = 0
    """Where the agent's last line ends."""
    prompted: bool = False
    lines: list[int] = field(default_factory=list)


class Dialogues:
    """Draws calls from a bank."""

    def __init__(
        self, texts: Texts, bank: Bank, config: ModelConfig, tokenizer: Tokenizer, frames: int
    ) -> None:
        self.texts, self.bank, self.config, self.frames = texts, bank, config, frames
        self._prompts = {
            prompt: tokenizer.encode_persona(prompt) for p in texts.personas for prompt in p.prompts
        }
        self.answers = {text: index for index, text in enumerate(texts.spoken)}
        self._pool: dict[tuple[str, str], list[Said]] = {}
        self._everywhere: dict[str, list[Said]] = {}
        for said in bank.said:
            self._pool.setdefault((said.background, said.kind), []).append(said)
            self._everywhere.setdefault(said.kind, []).append(said)
        self._silence = torch.tensor(config.silence_codes)[:, None]

    def draw(self, rng: Rng, mix: Mix) -> Call:
        """A call from its beginning or, as often as `mix` says, from somewhere in its middle."""
        voice = 0 if rng.random() < FIRST_VOICE else 1
        background = "clean" if rng.random() < mix.quiet else str(rng.choice(BACKGROUNDS))
        if rng.random() < mix.middle:
            script = self._blank(rng, self.frames, background)
            asking = voice if mix.second_asks else FORGOTTEN_VOICE
            going_on = self._begin_in_silence(rng, script, asking, mix)
            self._converse(rng, script, going_on, background, mix)
            return self._call(script, torch.zeros(17, 0, dtype=torch.int64))
        persona = self.texts.personas[rng.integers(len(self.texts.personas))]
        own = not persona.also or rng.random() < OWN_PROMPT
        prompt = persona.prompt if own else persona.also[rng.integers(len(persona.also))]
        codes = self.bank.voices[voice].long()
        prefill = call_frames(codes, self._prompts[prompt], self.config)
        script = self._blank(rng, self.frames - prefill.shape[1], background)
        self._say(script, persona.greeting, voice, GREETING_FRAME)
        self._converse(rng, script, voice, background, mix)
        return self._call(script, prefill)

    def _blank(self, rng: Rng, frames: int, background: str) -> _Script:
        gaps = self.bank.gaps[background]
        parts: list[Tensor] = []
        while sum(p.shape[1] for p in parts) < frames:
            gap = gaps[rng.integers(len(gaps))]
            parts.append(gap[:, int(rng.integers(0, gap.shape[1] // 2)) :])
        none = torch.zeros(frames, dtype=torch.bool)
        return _Script(
            text=torch.full((frames,), self.config.lm.existing_text_padding_id),
            agent=self._silence.repeat(1, frames),
            user=torch.cat(parts, 1)[:, :frames].long(),
            heard=torch.full((frames,), NOBODY),
            text_weight=torch.ones(frames),
            stop=none,
            speaking=none.clone(),
        )

    def _begin_in_silence(self, rng: Rng, script: _Script, voice: int, mix: Mix) -> int:
        """The agent has asked who is there, or does so now; that it never asks again is learnt
        where the silence that follows is longer than its memory. The voice that goes on."""
        asked = rng.random() < ASKING
        if asked:
            self._say(script, self.texts.silence_prompt, voice, int(rng.integers(0, 30)))
        script.prompted = True
        since = script.ends
        if rng.random() < mix.silent:
            script.ends += int(rng.integers(0, self.frames))
        remembered = asked and script.ends - since < MEMORY_FRAMES
        return voice if remembered else FORGOTTEN_VOICE

    def _converse(self, rng: Rng, script: _Script, voice: int, background: str, mix: Mix) -> None:
        """Turns until the script is full; the person may wait long, or not let the agent finish."""
        frames = script.text.shape[0]
        while script.ends < frames:
            waited = rng.random() < mix.silent / (1 + len(script.lines))
            if waited:
                self._wait(rng, script, voice)
            if script.lines and not waited and rng.random() < INTERRUPTED:
                begun = script.lines[-1]
                start = int(rng.integers(begun + 4, max(begun + 5, script.ends - 3)))
            else:
                start = script.ends + 3 + int(rng.exponential(12))
            parts = self._question(rng, background, mix)
            self._turn(script, parts, start, voice)

    def _wait(self, rng: Rng, script: _Script, voice: int) -> None:
        """A silence, often so long that the agent speaks up, unless it has just done so."""
        after = round(self.texts.silence_seconds / FRAME_SECONDS)
        if rng.random() < SHORT_WAIT:
            script.ends += int(rng.integers(20, after - 10))
            return
        if not script.prompted and script.lines:
            self._say(script, self.texts.silence_prompt, voice, script.ends + after)
            script.prompted = True
        script.ends += int(rng.integers(10, 250))

    def _question(self, rng: Rng, background: str, mix: Mix) -> list[Said]:
        kind = "off_topic"
        draw = rng.random()
        if draw < mix.known:
            kind = "known"
        elif draw < mix.known + mix.near_miss:
            kind = "near_miss"
        pool = self._pool.get((background, kind)) or self._everywhere[kind]
        parts = [pool[rng.integers(len(pool))]]
        if kind == "off_topic" and draw > 1 - mix.glued:
            parts += [pool[rng.integers(len(pool))] for _ in range(rng.integers(1, 3))]
        if parts[0].answer == "" and self._unsure(parts):
            return self._question(rng, background, mix)
        return parts

    def _unsure(self, parts: Sequence[Said]) -> bool:
        seconds = _spoken(parts) * FRAME_SECONDS
        limits = [f.up_to_seconds for f in self.texts.fallbacks]
        return any(abs(seconds - limit) < UNSURE_SECONDS for limit in limits)

    def _turn(self, script: _Script, parts: Sequence[Said], start: int, voice: int) -> None:
        """Someone speaks from `start` on, and is answered."""
        if start < script.ends:
            self._interrupt(script, start)
        at = start
        for part in parts:
            first = max(0, at - part.first)
            codes = part.codes[:, part.first - (at - first) :]
            _write(script.user, codes.long(), first)
            end = at + part.last - part.first
            at = end + 2
        answer = parts[0].answer or self.texts.fallback(_spoken(parts) * FRAME_SECONDS)
        script.heard[end + 1 : end + ANSWER_FRAMES] = self.answers[answer]
        script.prompted = False
        self._say(script, answer, voice, end + ANSWER_FRAMES)

    def _interrupt(self, script: _Script, start: int) -> None:
        script.text[start + STOP_FRAMES - 1 :] = self.config.lm.existing_text_padding_id
        script.agent[:, start + STOP_FRAMES :] = self._silence
        script.speaking[start + STOP_FRAMES :] = False
        script.text_weight[start + STOP_FRAMES - 1 :] = 1.0
        script.text_weight[start : start + STOP_FRAMES + 4] = 3.0
        script.stop[start : start + STOP_FRAMES + 4] = True

    def _say(self, script: _Script, text: str, voice: int, start: int) -> None:
        line: Line = self.bank.lines[text, voice]
        _write(script.text[None], line.text[None], start)
        _write(script.agent, line.codes.long(), start)
        script.speaking[start : start + line.codes.shape[1]] = True
        script.text_weight[start : start + 1] = 4.0
        script.ends = start + line.codes.shape[1]
        script.lines.append(start)
        if text != self.texts.silence_prompt:
            script.prompted = False

    def _call(self, script: _Script, prefill: Tensor) -> Call:
        live = torch.cat([script.text[None], script.agent, script.user])
        count = prefill.shape[1]
        quiet = torch.zeros(count)
        none = torch.zeros(count, dtype=torch.bool)
        return Call(
            frames=torch.cat([prefill, live], 1),
            live=count,
            heard=torch.cat([torch.full((count,), NOBODY), script.heard]),
            text_weight=torch.cat([quiet, script.text_weight]),
            stop=torch.cat([none, script.stop]),
            speaking=torch.cat([none, script.speaking]),
        )


def _spoken(parts: Sequence[Said]) -> int:
    """Frames from the first onset to the last end."""
    return sum(p.last - p.first for p in parts) + 2 * (len(parts) - 1)


def _write(row: Tensor, part: Tensor, start: int) -> None:
    """Copy `part` into `row` from `start` on, as far as it fits."""
    room = max(0, row.shape[1] - start)
    row[:, start : start + room][:, : part.shape[1]] = part[:, :room]
