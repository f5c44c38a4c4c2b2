"""One call, whatever its transport: frames in and out, epochs, cancel, hold and the way it ends.

A session lives on its transport's event loop and owns no task: it is driven by the transport's
calls, by the engine's events and by timers of that loop. It knows no wire format and no room.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, Literal, Protocol

import numpy as np

from agent.continuation import SilenceClock
from agent.counters import Counters
from agent.errors import CODES, SessionError, refusal
from agent.framing import Reservation, Samples
from agent.holding import Holding
from agent.intake import Intake
from agent.policy import CancelMode, Continuation, Policy
from agent.responses import Responses
from agent.sink import OutputFrame, ResponseInfo, Sink
from agent.timers import Timers
from agent.turns import TurnThresholds
from model import (
    FRAME_SAMPLES,
    SAMPLE_RATE,
    Bound,
    CallFailed,
    Engine,
    EngineError,
    EngineEvent,
    FrameResult,
    Pcm,
    Released,
    SessionSpec,
)

RELEASE_PATIENCE_S = 5.0
"""How long the end of a session waits for its slot; the engine goes on trying after that."""
SILENCE: Pcm = np.zeros(FRAME_SAMPLES, np.float32)
State = Literal["open", "closing", "closed"]


class Owner(Protocol):
    """What a session needs of the manager that made it."""

    engine: Engine
    turns: TurnThresholds
    default_spec: SessionSpec

    def released(self, session: Session) -> None: ...

    def failed(self, code: str) -> None: ...


class Session:
    """One call. Made by `SessionManager.open` on the running loop."""

    def __init__(self, owner: Owner, policy: Policy, sink: Sink, spec: SessionSpec) -> None:
        self.id = f"duplex-{uuid.uuid4().hex}"
        self.policy = policy
        self.counters = Counters()
        self.state: State = "open"
        self.spec = spec
        self.bound = False
        self.prefill_positions: int | None = None
        self._owner = owner
        self._engine = owner.engine
        self._sink = sink
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        self._responses = Responses(policy, self.id, sink, owner.turns)
        self._preparing: asyncio.Future[int] | None = None
        self._appended_since_commit = False
        self._clock = self._make_clock(policy)
        self._close_reason, self._expired = "", False
        self._handle = self._engine.open(
            self._deliver, queue_frames=max(2, policy.in_flight_frames)
        )
        self._holding = Holding(self._engine, self._handle)
        self._timers = Timers(self._loop, policy, self.close)
        self._intake = Intake(
            self._engine,
            self._handle,
            policy,
            self.counters,
            retry=self._timers.retry,
            fail=lambda error: self._fail(refusal(error)),
        )

    # What others may ask.

    @property
    def epoch(self) -> int:
        return self._intake.epoch

    @property
    def response(self) -> ResponseInfo | None:
        return self._responses.current

    @property
    def holding(self) -> bool:
        return self._holding.active

    @property
    def busy(self) -> bool:
        return self._intake.pending > 0

    @property
    def responding(self) -> bool:
        return self._responses.wanted

    async def wait_closed(self) -> None:
        await self._ended.wait()

    def touch(self) -> None:
        """Some message came: the session is not idle."""
        self._timers.touch()

    def adjust(
        self, *, cancel_mode: CancelMode | None = None, continuation: Continuation | None = None
    ) -> None:
        """Take up what a client may choose of its mood."""
        self.policy = replace(
            self.policy,
            cancel_mode=cancel_mode or self.policy.cancel_mode,
            continuation=continuation or self.policy.continuation,
        )
        if self._clock is None:
            self._clock = self._make_clock(self.policy)

    def _make_clock(self, policy: Policy) -> SilenceClock | None:
        rule = policy.continuation
        return SilenceClock(rule, self, self._feed_silence, self._loop) if rule else None

    # Voice and persona.

    def configure(self, spec: SessionSpec, event_id: str | None = None) -> asyncio.Future[int]:
        """Choose voice and persona before binding; the prefix is made in the background."""
        assert not self.bound
        if self._preparing is not None:
            self._preparing.cancel()
        self.spec = spec
        source: Future[int] = self._engine.prepare(spec)
        preparing = asyncio.wrap_future(source)
        self._preparing = preparing
        preparing.add_done_callback(lambda done: self._prepared(done, event_id))
        return preparing

    def bind(self) -> None:
        """Fix voice and persona; frames are stepped from here on."""
        if self.bound or self.state != "open":
            return
        self.bound = True
        try:
            self._engine.bind(self._handle, self.spec)
        except EngineError as error:
            self._fail(refusal(error))

    def _prepared(self, done: asyncio.Future[int], event_id: str | None) -> None:
        if done.cancelled():
            return
        error = done.exception()
        if error is None:
            self.prefill_positions = done.result()
        elif self.state == "open" and not self.bound:
            self.spec = self._owner.default_spec
            failure = (
                refusal(error)
                if isinstance(error, EngineError)
                else SessionError("prefill_unavailable", "voice and persona could not be prepared")
            )
            failure.event_id = event_id
            self._sink.error(failure)

    # Input.

    def append(self, samples: Samples, *, held_back: bool = False) -> None:
        """Take samples of any number; refuse them whole where they would overflow.

        `held_back` says that a resampler keeps something of this audio, perhaps all of it.
        """
        if self.state != "open":
            return
        self.check_room(samples.size)
        if not self._heard():
            return
        self._appended_since_commit |= samples.size > 0 or held_back
        if self._clock is not None:
            self._clock.appended(samples.size / SAMPLE_RATE)
        self._intake.append(samples, self._loop.time())

    def check_room(self, samples: int) -> None:
        """Refuse an append of so many samples where too much would wait."""
        self._intake.check_room(samples)

    def push_frame(self, pcm: Pcm, *, clocked: bool = False) -> None:
        """Take one whole frame of a room."""
        if self.state == "open" and self._heard():
            self._intake.push(pcm, self._loop.time(), clocked=clocked)

    def commit(self, *, final: bool = True, tail: Callable[[], Samples] | None = None) -> None:
        """Acknowledge the appended audio; a final commit zero-pads what is left and steps it.

        `tail` gives what a resampler still holds of that audio; it is not asked for by a commit
        that is refused or not final.
        """
        if not self._appended_since_commit:
            raise SessionError(
                "input_audio_buffer_empty", "nothing was appended since the last commit"
            )
        self._appended_since_commit = False
        if final:
            if tail is not None:
                self._intake.append(tail(), self._loop.time())
            self._intake.pad(self._loop.time())
        if self._clock is not None:
            self._clock.turn_given()

    def clear_input(self) -> None:
        """Forget samples that the engine has not taken."""
        self._intake.clear()
        self._appended_since_commit = False

    def _heard(self) -> bool:
        """Input of whatever kind has come, which binds; false where that has ended the call."""
        self._timers.heard()
        self.bind()
        return self.state == "open"

    def _feed_silence(self) -> None:
        """The silence clock's deadline: a waiting partial frame goes first."""
        now = self._loop.time()
        if not self._intake.pad(now):
            self._intake.push(SILENCE, now, clocked=True)

    # Responses and cancel.

    def create_response(
        self, metadata: Mapping[str, Any] | None = None, event_id: str | None = None
    ) -> None:
        """Ask for a response; see the mood for when it is taken up."""
        if self.state != "open":
            return
        self._responses.request(self.epoch, self._intake.frames_to_loud(), metadata, event_id)
        if not self._heard():
            return
        self._heed_request()
        if self._clock is not None:
            self._clock.turn_given()

    def cancel(
        self,
        mode: CancelMode | None = None,
        *,
        response_id: str | None = None,
        reason: str = "client_cancelled",
    ) -> None:
        """End the response: hard starts a new epoch without memory, soft makes the model quiet."""
        if self.state != "open":
            return
        current = self.response
        wrong = response_id is not None and (current is None or current.id != response_id)
        if wrong or not self.responding:
            raise SessionError("response_not_active", "Cancellation failed: no active response")
        self._responses.end("cancelled", reason, self.epoch)
        if (mode or self.policy.cancel_mode) == "hard":
            self._holding.end()
            self._intake.restart()
        else:
            self.counters.holds += 1
            self._holding.start()

    def _heed_request(self) -> None:
        """A `response.create` ends a hold, where responses follow speech once it is taken up.

        Before that what it asks about has not been heard, and the model would go on with what it
        was stopped in.
        """
        taken_up = self.response is not None and self.response.requested
        if taken_up or (self.responding and not self.policy.cut_responses):
            self._holding.end()

    # The engine's events, on the loop.

    def _deliver(self, event: EngineEvent) -> None:
        """In the engine's thread."""
        self._loop.call_soon_threadsafe(self._receive, event)

    def _receive(self, event: EngineEvent) -> None:
        if isinstance(event, FrameResult):
            self._take_result(event)
        elif isinstance(event, Bound):
            self._take_bound(event)
        elif isinstance(event, CallFailed):
            self._take_failure(event)
        elif isinstance(event, Released):
            self._owner.released(self)
            self._finish()

    def _take_bound(self, event: Bound) -> None:
        if self.state == "open" and event.epoch == self.epoch:
            self.prefill_positions = event.prefill_positions
            self._sink.bound(event.epoch, event.prefill_positions)

    def _take_failure(self, event: CallFailed) -> None:
        code = event.code if event.code in CODES else "call_failed"
        self._fail(SessionError(code, event.message))

    def _take_result(self, result: FrameResult) -> None:
        source = self._intake.answered(result)
        if source is None:
            return
        held = result.held or self.holding
        self._holding.heard(source.frame.level)
        self._responses.step(self._output(result, source, held))
        self._heed_request()
        self.counters.emitted = self._responses.emitted
        self.counters.withheld = self._responses.withheld
        self._intake.pump()
        if self._clock is not None:
            self._clock.stepped()

    def _output(self, result: FrameResult, source: Reservation, held: bool) -> OutputFrame:
        return OutputFrame(
            epoch=result.epoch,
            seq=result.seq,
            position=result.position,
            pcm=SILENCE if held else result.pcm,
            text="" if held else result.text,
            text_token=result.text_token,
            continuation=source.frame.clocked,
            held=held,
            response_id=None,
            accepted_at=source.frame.accepted_at,
            delivered_at=self._loop.time(),
            heard=source.frame.pcm,
        )

    # The end.

    def _fail(self, error: SessionError) -> None:
        """This call is lost: say why, end the response as failed, close."""
        if self.state != "open":
            return
        self._owner.failed(error.code)
        self._sink.error(error)
        self._responses.end("failed", error.code, self.epoch)
        self.close(error.code)

    def close(self, reason: str, *, expired: bool = False) -> None:
        """Give the slot back; `Sink.closed` follows once that has happened. Idempotent."""
        if self.state != "open":
            return
        # First of all: whoever is told of the end below may find its client gone, and close again.
        self.state = "closing"
        self._close_reason, self._expired = reason, expired
        self._responses.end("cancelled", "session_closed", self.epoch)
        self._intake.close()
        self._timers.stop()
        if self._clock is not None:
            self._clock.stop()
            self._clock = None
        if self._preparing is not None:
            self._preparing.cancel()
        self._timers.patience(0.0 if reason == "engine_fault" else RELEASE_PATIENCE_S, self._finish)
        self._engine.close(self._handle)

    def _finish(self) -> None:
        if self.state != "closing":
            return
        self.state = "closed"
        self._timers.stop()
        self._sink.closed(self._close_reason, self._expired)
        self._ended.set()
