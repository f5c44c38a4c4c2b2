"""Writes a demo checkpoint's model card from its texts and its figures."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .goals import table
from .speakers import TRAINED, UNSEEN, Speaker
from .texts import Texts

NAME = "MODEL_CARD.md"

CARD = """\
# The demo checkpoint

A small model with PersonaPlex's architecture and file layout, trained from scratch on synthesised
speech by `python -m model.demo`. It is a demonstration, not an assistant: it recognises
{topics} questions in the wordings that it was trained on and says one fixed answer to each; to
anything else it says that it is only the demo. It holds no conversation and knows nothing.

## Data

All speech is synthesised. The agent speaks with flite's `kal16` at a constant pitch ({pitches}).
People are {count} voices of {programs}, changed in speed, level, spectrum, room, telephone band and
background. No recording of a person was used in training. Texts: `model/demo/texts.toml`.
Held out for the figures below: {held_out}; the sentences under `test` in the texts.

## Licences

The weights are licensed under Apache-2.0. What made the speech: flite and its voices carry the
permissive notice of Carnegie Mellon University (Debian: `/usr/share/doc/flite/copyright`);
festival's `cmu_us_slt_arctic_hts` the permissive notice of the festival voices and, for its
models, the three-clause BSD licence of the HTS working group; espeak-ng is GPL-3 software, of
which only the output was used. The two `.pt` voices are enrolled from flite's `kal16`.

## Measured quality

By `python -m model.demo evaluate`, greedy, streaming, {turns} turns a figure, seed {seed}, on
voices that training never used.

{table}

"Variants" are held-out variants of espeak-ng's voices. Of a person's voice that it never heard,
flite's `rms`: right {voice}, right or fallback {voice_kept}; of festival's diphone voice, right
{synthesiser}. Greeting in the words of its persona: {greeting}. Babble at 10 dB: right {babble}.
Recordings of the synthesiser itself have an open word error of 0.14.

## Limits

- English, fixed questions and answers; a question in other words is mostly not understood.
- It has heard synthesised voices only; people are answered in time, but seldom understood.
- The codec reproduces the agent's own lines; it cannot play back any other voice.
- Two voices, which differ in pitch alone; two personas, which differ in the greeting.
- The voice prompt is forgotten when a call has been silent for longer than the model remembers
  (18 s); it then goes on in the first voice.
"""


def write_card(folder: Path, texts: Texts, figures: Mapping[str, Any]) -> Path:
    """Write the card of the checkpoint in `folder`; figures that are missing are named as such."""
    path = folder / NAME
    known = figures.get("known", {})
    card = CARD.format(
        topics=len(texts.topics),
        pitches="100 Hz and 125 Hz",
        count=len(TRAINED),
        programs=", ".join(sorted({s.program for s in TRAINED})),
        held_out=_names(UNSEEN),
        turns=known.get("turns", "no"),
        seed=figures.get("seed", "none"),
        table=table(figures),
        greeting=_share(figures, "greeting"),
        babble=_share(figures, "babble_10_db"),
        voice=_share(figures, "unseen_voice"),
        voice_kept=_share(figures, "unseen_voice", "right", "fallback"),
        synthesiser=_share(figures, "unseen_synthesiser"),
    )
    path.write_text(card, encoding="utf-8")
    return path


def _names(speakers: tuple[Speaker, ...]) -> str:
    return ", ".join(f"`{speaker.name}`" for speaker in speakers)


def _share(figures: Mapping[str, Any], scene: str, *kinds: str) -> str:
    if scene not in figures:
        return "not measured"
    return f"{sum(figures[scene][kind] for kind in kinds or ('right',)):.3f}"
