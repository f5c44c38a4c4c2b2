"""Load mode: N sessions admitted first, then one shared start, a fixed drain, and a verdict."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import Protocol

from agent.driver.evaluate import PACING_WARNING_MS, Observation, evaluate
from agent.driver.options import FRAME_SECONDS, DriverOptions
from agent.driver.probe import DriverError
from agent.driver.progress import Progress
from agent.driver.report import (
    Acceptance,
    InputInfo,
    LoadResult,
    ReportedServer,
    SessionResult,
)
from agent.driver.source import InputAudio
from agent.driver.together import gather_all

START_DELAY_S = 0.25


class LoadSession(Protocol):
    """What load needs of a transport; the websocket probe and the room probe are both one."""

    @property
    def frames_sent(self) -> int: ...

    @property
    def frames_received(self) -> int: ...

    async def open(self) -> None: ...

    async def stream(self, audio: InputAudio, start: float) -> None: ...

    async def drain(self) -> None: ...

    def observe(self, index: int, planned_frames: int, error: str | None) -> Observation: ...

    async def close(self) -> None: ...

    async def abandon(self) -> None: ...


class LoadRun:
    """One run over sessions of either transport."""

    def __init__(
        self, options: DriverOptions, model: str, audio: InputAudio, sessions: Sequence[LoadSession]
    ) -> None:
        self._options = options
        self._model = model
        self._audio = audio.first(options.load_frames)
        self._sessions = sessions

    async def run(self, progress: Progress) -> LoadResult:
        """Admit, stream, drain, close, judge. Cancellation closes every transport."""
        try:
            refused = await gather_all(self._admit(one) for one in self._sessions)
            start = time.monotonic() + START_DELAY_S
            progress.watch(self._sessions, len(self._audio.frames))
            attempts = enumerate(zip(self._sessions, refused, strict=True))
            rows = await gather_all(
                self._one(index, session, start, error) for index, (session, error) in attempts
            )
        except BaseException:
            await gather_all(session.abandon() for session in self._sessions)
            raise
        finally:
            progress.stop()
        return self._report(rows)

    @staticmethod
    async def _admit(session: LoadSession) -> str | None:
        try:
            await session.open()
        except DriverError as error:
            return str(error)
        return None

    async def _one(
        self, index: int, session: LoadSession, start: float, refused: str | None
    ) -> SessionResult:
        error = refused
        if error is None:
            error = await self._exchange(session, start)
        # Judged before the close, so that audio which comes during cleanup cannot count.
        planned = len(self._audio.frames)
        seen = session.observe(index, planned, error)
        row = evaluate(seen, start, self._options)
        if refused is not None:
            await session.abandon()
            return row
        return await self._closed(session, row)

    async def _exchange(self, session: LoadSession, start: float) -> str | None:
        try:
            await session.stream(self._audio, start)
            await session.drain()
        except DriverError as error:
            return str(error)
        return None

    @staticmethod
    async def _closed(session: LoadSession, row: SessionResult) -> SessionResult:
        try:
            await session.close()
        except DriverError as error:
            return row.model_copy(update={"ok": False, "error": row.error or str(error)})
        return row

    def _report(self, rows: Sequence[SessionResult]) -> LoadResult:
        options = self._options
        owners = Counter(identity for row in rows for identity in set(row.response_ids))
        shared = sorted(identity for identity, count in owners.items() if count > 1)
        passed = sum(row.ok for row in rows)
        return LoadResult(
            transport="livekit" if options.transport == "livekit" else "websocket",
            model=self._model,
            requested_sessions=len(rows),
            passed_sessions=passed,
            ok=passed == len(rows) and not shared,
            input=InputInfo(
                path=self._audio.path,
                sha256=self._audio.sha256,
                tail_s=self._audio.tail_s,
                load_frames=options.load_frames,
            ),
            frame_period_s=FRAME_SECONDS,
            drain_s=options.drain_s,
            cleanup_timeout_s=options.cleanup_timeout_s,
            client_pacing_warning_threshold_ms=PACING_WARNING_MS,
            client_pacing_warning_sessions=[row.index for row in rows if row.client_pacing_warning],
            max_client_rtf=options.max_client_rtf,
            max_stream_rtf=options.max_stream_rtf,
            max_lag_drift_ms=options.max_lag_drift_ms,
            acceptance=Acceptance(
                max_frame_deficit=options.max_frame_deficit,
                voiced_frame_rms_threshold=options.voiced_frame_rms_threshold,
                min_voiced_frames=options.min_voiced_frames,
                minimum_audio_chunks=options.minimum_audio_chunks,
            ),
            shared_response_ids=shared,
            sessions=list(rows),
            reported_server=ReportedServer(
                revision=options.server_revision, hardware=options.server_hardware
            ),
        )
