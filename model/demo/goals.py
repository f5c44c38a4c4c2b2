"""What a demo checkpoint has to reach, and how far it got, as a table.

Reads the figures of `evaluate`; knows nothing of how they came about.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Figures = Mapping[str, Any]


@dataclass(frozen=True)
class Goal:
    """One figure with its limit, `at_least` or at most."""

    name: str
    limit: float
    at_least: bool
    figure: Callable[[Figures], float]

    def reached(self, value: float) -> bool:
        return value >= self.limit if self.at_least else value <= self.limit


def _at(scene: str, key: str) -> Callable[[Figures], float]:
    return lambda figures: float(figures[scene][key])


def _behind(scene: str) -> Callable[[Figures], float]:
    """How many right answers are lost against the plain case."""
    return lambda figures: float(figures["known"]["right"] - figures[scene]["right"])


def _pooled(figures: Figures, kind: str, *scenes: str) -> float:
    """The share of `kind` among the turns of several scenes."""
    turns = [figures[scene]["turns"] for scene in scenes]
    shares = [figures[scene][kind] for scene in scenes]
    return float(sum(n * share for n, share in zip(turns, shares, strict=True)) / sum(turns))


GOALS: Sequence[Goal] = (
    Goal("spoken lines recognised, closed set", 1.0, True, _at("speech", "closed_set_right")),
    Goal("spoken lines, open word error", 0.20, False, _at("speech", "open_word_error")),
    Goal("known, unseen variants: right", 0.92, True, _at("known", "right")),
    Goal(
        "known, unseen synthesiser: right or fallback",
        0.65,
        True,
        lambda f: float(f["unseen_synthesiser"]["right"] + f["unseen_synthesiser"]["fallback"]),
    ),
    Goal(
        "known: wrong answers overall",
        0.12,
        False,
        lambda f: _pooled(f, "wrong", "known", "unseen_voice", "unseen_synthesiser"),
    ),
    Goal("off-topic answered as if known", 0.08, False, _at("off_topic", "wrong")),
    Goal("near-misses answered as if known", 0.30, False, _at("near_miss", "wrong")),
    Goal("telephone with G.711: lost against clean", 0.10, False, _behind("telephone")),
    Goal("pink noise at 10 dB: lost against clean", 0.25, False, _behind("pink_10_db")),
    Goal("calls with a false word to nobody", 0, False, _at("quiet", "false")),
    Goal("stops within 0.5 s", 0.95, True, _at("interruption", "stopped_within_0_5_s")),
    Goal("interrupting questions: lost against others", 0.15, False, _behind("interruption")),
    Goal("human recordings answered within 1 s", 0.95, True, _at("human", "within_1_s")),
    Goal("human recordings answered early", 0.08, False, _at("human", "early")),
    Goal(
        "20 turns: lost from the first to the last five",
        0.05,
        False,
        lambda f: float(f["long"]["first_quarter_right"] - f["long"]["last_quarter_right"]),
    ),
)


def table(figures: Figures) -> str:
    """Markdown; what was not measured says so."""
    rows = ["| figure | goal | measured | |", "|---|---|---|---|"]
    for goal in GOALS:
        sign = ">=" if goal.at_least else "<="
        try:
            value = goal.figure(figures)
        except (KeyError, TypeError):
            rows.append(f"| {goal.name} | {sign} {goal.limit:g} | not measured | |")
            continue
        verdict = "reached" if goal.reached(value) else "missed"
        rows.append(f"| {goal.name} | {sign} {goal.limit:g} | {value:.3f} | {verdict} |")
    return "\n".join(rows)
