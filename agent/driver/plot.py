"""One picture of a load run: packet arrivals, send lateness and underruns of each session."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

from matplotlib.figure import Figure

from agent.driver.options import SAMPLE_RATE
from agent.driver.report import LoadResult, SessionResult


def draw(result: LoadResult) -> Figure:
    """The figure object; its lines hold the report's own numbers, labelled `#index …`."""
    figure = Figure(figsize=(11, 9), layout="constrained")
    arrivals, lateness, underruns = figure.subplots(3, 1)
    figure.suptitle(f"{result.model}: {result.passed_sessions} of {result.requested_sessions} pass")
    arrivals.set(xlabel="seconds from input start", ylabel="audio received, s")
    lateness.set(xlabel="frame", ylabel="send lateness, ms")
    underruns.set(xlabel="packet", ylabel="behind real time, s")
    for row in result.sessions:
        label = f"#{row.index}"
        times = [packet.received_at_s for packet in row.audio_packet_timeline]
        arrivals.step(times, _received(row), where="post", label=label)
        late = [
            _lateness_ms(send.send_started_at_s, send.planned_at_s) for send in row.input_timeline
        ]
        lateness.plot(late, label=label)
        underruns.plot(_deficits(times, _received(row)), label=label)
    lateness.axhline(result.client_pacing_warning_threshold_ms, linestyle=":", color="grey")
    for axes in (arrivals, lateness, underruns):
        if result.sessions:
            axes.legend()
    return figure


def save(result: LoadResult, path: Path) -> None:
    """Write the figure as a PNG."""
    draw(result).savefig(path, dpi=120)


def _received(row: SessionResult) -> list[float]:
    counts = accumulate(packet.samples for packet in row.audio_packet_timeline)
    return [count / SAMPLE_RATE for count in counts]


def _lateness_ms(started: float, planned: float) -> float:
    return max(0.0, started - planned) * 1e3


def _deficits(times: Sequence[float], received: Sequence[float]) -> list[float]:
    """Deficit of a player without a buffer before each packet; positive is an underrun."""
    before = [0.0, *received][: len(times)]
    return [max(0.0, at - times[0] - got) for at, got in zip(times, before, strict=True)]
