"""Prometheus metrics: every name, once. Values are read when scraped; nothing is counted twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import fields

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from agent.counters import Counters
from agent.manager import SessionManager
from agent.tally import RoomTally

FRAME_KINDS = tuple(entry.name for entry in fields(Counters) if entry.name != "epochs")
HEARD_KINDS = ("frames_in", "lead_frames", "mixed", "clocked", "discarded", "made")
RING_KINDS = ("ring_dropped", "ring_missing")
SPOKEN_KINDS = ("captured", "dropped", "cleared", "failed")


class ServerMetrics(Collector):
    """Sessions, frames and the engine, as of now."""

    def __init__(self, manager: SessionManager) -> None:
        self._manager = manager

    def collect(self) -> Iterable[Metric]:
        yield from self._sessions()
        yield from self._frames()
        yield from self._engine()

    def _sessions(self) -> Iterable[Metric]:
        manager = self._manager
        yield _gauge("duplex_sessions", "Slots in use.", manager.used)
        yield _gauge("duplex_sessions_max", "Slots there are.", manager.max_sessions)
        yield _gauge("duplex_ready", "1 where new calls are taken.", manager.ready)
        yield _counter("duplex_sessions_opened", "Sessions admitted.", manager.opened)
        yield _counter("duplex_sessions_refused", "Sessions refused.", manager.refused)

    def _frames(self) -> Iterable[Metric]:
        totals = self._manager.totals()
        counts = {kind: getattr(totals, kind) for kind in FRAME_KINDS}
        yield _kinds("duplex_frames", "Frames of 80 ms by what became of them.", counts)
        yield _counter(
            "duplex_epochs", "Epochs begun, the first of each session too.", totals.epochs
        )

    def _engine(self) -> Iterable[Metric]:
        stats = self._manager.engine.stats()
        yield _counter("engine_steps", "Batched steps.", stats.steps)
        yield _counter("engine_frames", "Frames stepped, all rows.", stats.frames)
        yield _counter("engine_prefills", "Prefixes computed.", stats.prefills)
        yield _counter("engine_prefix_hits", "Prefixes taken from the cache.", stats.prefix_hits)
        yield _counter("engine_retried_steps", "Steps tried twice.", stats.retried_steps)
        yield _counter("engine_failed_rows", "Calls that failed alone.", stats.failed_rows)
        yield _counter("engine_undelivered", "Results for a closed loop.", stats.undelivered)
        yield _counter("engine_bucket_changes", "Changes of batch size.", stats.bucket_changes)
        yield _gauge("engine_step_p50_seconds", "Median step.", stats.step_p50_s)
        yield _gauge("engine_step_p99_seconds", "99th percentile step.", stats.step_p99_s)
        yield _gauge("engine_prefix_bytes", "Prefix cache in use.", stats.prefix_bytes)
        yield _gauge("engine_faulted", "1 after a device fault.", stats.faulted)


class RoomMetrics(Collector):
    """Frames of calls in rooms, before their sessions and after them."""

    def __init__(self, tally: RoomTally) -> None:
        self._tally = tally

    def collect(self) -> Iterable[Metric]:
        totals = self._tally.totals()
        heard, spoken = (totals.get(stage, Counter()) for stage in ("hearing", "speaker"))
        families = (
            ("room_heard_frames", "Frames on their way in.", HEARD_KINDS, heard),
            ("room_ring_samples", "Samples too many or too few.", RING_KINDS, heard),
            ("room_spoken_frames", "Frames on their way out.", SPOKEN_KINDS, spoken),
        )
        for name, text, kinds, counts in families:
            yield _kinds(name, text, {kind: counts[kind] for kind in kinds})


def _kinds(name: str, text: str, counts: Mapping[str, int]) -> CounterMetricFamily:
    family = CounterMetricFamily(name, text, labels=["kind"])
    for kind, count in counts.items():
        family.add_metric([kind], count)
    return family


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, value=float(value))


def _counter(name: str, text: str, value: float) -> CounterMetricFamily:
    return CounterMetricFamily(name, text, value=float(value))


def registry_for(manager: SessionManager, *others: Collector) -> CollectorRegistry:
    """A registry of this server's own, so that two servers in one process do not meet."""
    registry = CollectorRegistry()
    for collector in (ServerMetrics(manager), *others):
        registry.register(collector)
    return registry


def render(registry: CollectorRegistry) -> bytes:
    """The text of `GET /metrics`."""
    return generate_latest(registry)
