"""Reads speech back with pocketsphinx: which of some sentences it is, or which words.

Test-time only.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pocketsphinx import Decoder

from .align import plain, to_asr
from .speakers import Samples


class ClosedSet:
    """Must choose one of the given sentences."""

    def __init__(self, sentences: Sequence[str]) -> None:
        self._by_plain = {plain(sentence): sentence for sentence in sentences}
        choices = " | ".join(f"({words})" for words in self._by_plain)
        self._decoder = Decoder(lm=None, loglevel="FATAL", dither=True, seed=1)
        self._decoder.add_jsgf_string("spoken", f"#JSGF V1.0;\ngrammar g;\npublic <g> = {choices};")
        self._decoder.activate_search("spoken")

    def recognise(self, samples: Samples) -> str:
        """The sentence, or nothing where none was made out."""
        return self._by_plain.get(_decode(self._decoder, samples), "")


class OpenWords:
    """Large vocabulary, nothing known beforehand."""

    def __init__(self) -> None:
        self._decoder = Decoder(loglevel="FATAL", dither=True, seed=1)

    def recognise(self, samples: Samples) -> str:
        return _decode(self._decoder, samples)


def _decode(decoder: Decoder, samples: Samples) -> str:
    decoder.start_utt()
    decoder.process_raw(to_asr(samples), full_utt=True)
    try:
        decoder.end_utt()
    except RuntimeError:  # pocketsphinx's only sign that the search did not reach the end
        return ""
    found = decoder.hyp()
    return "" if found is None else re.sub(r"\(\d+\)", "", found.hypstr)


def word_errors(wanted: str, got: str) -> tuple[int, int]:
    """Insertions, deletions and replacements, and the number of wanted words."""
    want, have = plain(wanted).split(), plain(got).split()
    row = list(range(len(have) + 1))
    for i, word in enumerate(want, 1):
        previous, row[0] = row[0], i
        for j, other in enumerate(have, 1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (word != other))
    return row[-1], len(want)
