"""Numbers from timelines: pure functions over seconds on one monotonic clock.

No output gives `None`, never zero: a server that sent nothing has no latency.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from agent.driver.options import FRAME_SAMPLES, FRAME_SECONDS, SAMPLE_RATE

PLAYOUT_BUFFER_S = 0.12
UNDERRUN_THRESHOLD_S = 0.1


@dataclass(frozen=True)
class Arrival:
    """One nonempty audio packet: when it came and how many samples it brought."""

    at: float
    samples: int


@dataclass(frozen=True)
class Summary:
    """Median, linear p99, maximum and the index of the first maximum."""

    count: int
    median: float | None = None
    p99: float | None = None
    max: float | None = None
    argmax_index: int | None = None


def summarise(values: Sequence[float]) -> Summary:
    """Summary of `values`; everything but the count is null where there are none."""
    if not values:
        return Summary(0)
    array = np.asarray(values, dtype=np.float64)
    return Summary(
        count=len(values),
        median=float(np.median(array)),
        p99=float(np.percentile(array, 99, method="linear")),
        max=float(array.max()),
        argmax_index=int(array.argmax()),
    )


def packet_intervals_ms(arrivals: Sequence[Arrival]) -> list[float]:
    """Between consecutive packets; interval 0 ends at packet 1."""
    pairs = zip(arrivals, arrivals[1:], strict=False)
    return [(later.at - earlier.at) * 1e3 for earlier, later in pairs]


def client_stream_rtf(arrivals: Sequence[Arrival], first_send: float | None) -> float | None:
    """First send start to last audio receipt, over the received audio's duration."""
    duration = sum(arrival.samples for arrival in arrivals) / SAMPLE_RATE
    if first_send is None or duration == 0:
        return None
    return (arrivals[-1].at - first_send) / duration


@dataclass(frozen=True)
class StreamTiming:
    """How the output stream keeps up with the input stream."""

    server_stream_rtf: float | None
    lag_ms: list[float]
    lag_drift_ms: float | None


def stream_timing(arrivals: Sequence[Arrival], send_completed: Sequence[float]) -> StreamTiming:
    """Slope and lag of output-frame completion against its input frame's end.

    Output frame k completes when k * 1920 samples have come; its reference is the send completion
    of input frame k - 1 plus 80 ms. The slope is a least-squares fit over the middle 10-90 % of
    the last frames that each packet completes.
    """
    reference, completion = _completions(arrivals, send_completed)
    lag_ms = [(done - due) * 1e3 for done, due in zip(completion, reference, strict=True)]
    low, high = int(len(reference) * 0.1), int(np.ceil(len(reference) * 0.9))
    x, y = np.asarray(reference[low:high]), np.asarray(completion[low:high])
    if len(x) < 2 or np.ptp(x) == 0:
        return StreamTiming(None, lag_ms, None)
    slope = float(np.polyfit(x - x[0], y - x[0], 1)[0])
    return StreamTiming(slope, lag_ms, (slope - 1.0) * float(x[-1] - x[0]) * 1e3)


def _completions(
    arrivals: Sequence[Arrival], send_completed: Sequence[float]
) -> tuple[list[float], list[float]]:
    reference: list[float] = []
    completion: list[float] = []
    samples = done = 0
    for arrival in arrivals:
        samples += arrival.samples
        frames = samples // FRAME_SAMPLES
        if frames > done and frames <= len(send_completed):
            reference.append(send_completed[frames - 1] + FRAME_SECONDS)
            completion.append(arrival.at)
        done = frames
    return reference, completion


def playout_stall_ms(arrivals: Sequence[Arrival], start_index: int = 0) -> float | None:
    """Total stall of a player that starts 120 ms after packet `start_index` arrived.

    Packets up to that one are in its buffer; a stalled player resumes with the next packet.
    """
    if not arrivals:
        return None
    start_index = min(start_index, len(arrivals) - 1)
    head = arrivals[: start_index + 1]
    played_until = head[-1].at + PLAYOUT_BUFFER_S + _seconds(head)
    stall = 0.0
    for arrival in arrivals[start_index + 1 :]:
        late = max(0.0, arrival.at - played_until)
        stall += late
        played_until += late + arrival.samples / SAMPLE_RATE
    return stall * 1e3


def _seconds(arrivals: Sequence[Arrival]) -> float:
    return sum(arrival.samples for arrival in arrivals) / SAMPLE_RATE


@dataclass(frozen=True)
class Continuity:
    """Underruns of a player without a jitter buffer that never rebases."""

    underrun_s: float | None
    event_count: int | None
    ok: bool | None


def continuity(arrivals: Sequence[Arrival]) -> Continuity:
    """Deficit before each later packet: elapsed time minus the audio received until then."""
    if not arrivals:
        return Continuity(None, None, None)
    worst, events, received = 0.0, 0, 0
    for index, arrival in enumerate(arrivals):
        deficit = arrival.at - arrivals[0].at - received / SAMPLE_RATE
        if index and deficit > 0:
            events += 1
            worst = max(worst, deficit)
        received += arrival.samples
    return Continuity(worst, events, worst <= UNDERRUN_THRESHOLD_S)
