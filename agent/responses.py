"""When a response opens, what belongs to it and how it ends: one state machine for every mood.

Takes stepped frames in order and tells the sink. It knows no engine and no time; it counts frames.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from agent.errors import SessionError
from agent.policy import Policy
from agent.sink import OutputFrame, ResponseEnd, ResponseInfo, ResponseStatus, Sink
from agent.turns import FLOOR_DBFS, SpeechDetector, TurnThresholds, level_dbfs

PATIENCE_FRAMES = 100
"""Frames that a requested response waits, for its turn and then for speech."""
PAD_TOKEN = 3


@dataclass(slots=True)
class _Open:
    info: ResponseInfo
    spoke: bool = False
    silent: int = 0
    frames: int = 0
    text: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Request:
    """A `response.create` that is not taken up yet."""

    metadata: Mapping[str, Any] | None
    event_id: str | None
    frames_before: int
    """Input frames that have to be stepped first."""
    waited: int = 0


class Responses:
    """The responses of one session."""

    def __init__(self, policy: Policy, session_id: str, sink: Sink, turns: TurnThresholds) -> None:
        self._policy = policy
        self._session_id = session_id
        self._sink = sink
        self._detector = SpeechDetector(turns)
        self._open: _Open | None = None
        self._request: _Request | None = None
        self._unsent: OutputFrame | None = None
        self.emitted = 0
        self.withheld = 0

    @property
    def current(self) -> ResponseInfo | None:
        """The open response."""
        return self._open.info if self._open else None

    @property
    def wanted(self) -> bool:
        """A response is open or asked for."""
        return self._open is not None or self._request is not None

    def request(
        self,
        epoch: int,
        frames_before: int,
        metadata: Mapping[str, Any] | None,
        event_id: str | None,
    ) -> None:
        """A `response.create`; taken up at once where nothing stands before it."""
        requested = self._open is not None and self._open.info.requested
        blocked = self._open is not None and not self._policy.cut_responses
        if self._request or requested or blocked:
            raise SessionError("response_already_active", "a response is already active")
        self._request = _Request(metadata, event_id, frames_before)
        if self._policy.cut_responses:
            self._settle(epoch)

    def step(self, frame: OutputFrame) -> None:
        """One stepped frame, held or not: open, send, end."""
        if self._policy.cut_responses:
            self._step_cut(frame)
        elif frame.held:
            self.withheld += 1
        else:
            if self._open is None:
                self._start(frame.epoch, self._take_request())
            self._send(frame)

    def end(self, status: ResponseStatus, reason: str, epoch: int) -> bool:
        """End what is open, and what is asked for with it; false where there is neither."""
        if self._request is not None and self._open is None:
            # A client that asked gets its response, cancelled, rather than nothing.
            self._start(epoch, self._take_request())
        self._request = None
        self._detector.reset()
        self._unsent = None
        return self._finish(status, reason)

    def _step_cut(self, frame: OutputFrame) -> None:
        if self._request is not None:
            self._request.frames_before -= 1
            self._settle(frame.epoch)
        level = FLOOR_DBFS if frame.held else level_dbfs(frame.pcm)
        speaking = self._detector.step(level, PAD_TOKEN if frame.held else frame.text_token)
        if self._open is None and speaking:
            self._start(frame.epoch, None)
        if self._open is None:
            self._send_outside(frame)
            return
        self._send(frame)
        self._judge(self._open, speaking)
        self._wait_turn(frame.epoch)

    def _send_outside(self, frame: OutputFrame) -> None:
        """A frame of no response: withheld, and kept as the onset of the next one."""
        if self._policy.only_responses:
            self.withheld += 1
            self._unsent = None if frame.held else frame
        else:
            self.emitted += 1
            self._sink.output(frame)

    def _send(self, frame: OutputFrame) -> None:
        assert self._open is not None
        if self._unsent is not None:
            onset, self._unsent = self._unsent, None
            self.withheld -= 1
            self._send(onset)
        self._open.frames += 1
        self._open.text.append(frame.text)
        self.emitted += 1
        self._sink.output(replace(frame, response_id=self._open.info.id))

    def _judge(self, response: _Open, speaking: bool) -> None:
        """End a response that has been spoken, or in which nothing was said."""
        if speaking:
            response.spoke = True
        elif response.spoke:
            self._finish("completed", "")
        else:
            response.silent += 1
            if response.silent >= PATIENCE_FRAMES:
                self._finish("incomplete", "no_speech")

    def _wait_turn(self, epoch: int) -> None:
        """A request whose audio was stepped waits for the agent's own response, not for ever."""
        if self._request is None or self._request.frames_before > 0:
            return
        self._settle(epoch)
        if self._request is None:
            return
        self._request.waited += 1
        if self._request.waited >= PATIENCE_FRAMES:
            event_id, self._request = self._request.event_id, None
            error = SessionError("response_already_active", "the agent is still speaking")
            error.event_id = event_id
            self._sink.error(error)

    def _settle(self, epoch: int) -> None:
        """Take the request up where its audio was stepped and nothing is open."""
        ready = self._request is not None and self._request.frames_before <= 0
        if ready and self._open is None:
            self._start(epoch, self._take_request())

    def _take_request(self) -> _Request | None:
        request, self._request = self._request, None
        return request

    def _start(self, epoch: int, request: _Request | None) -> None:
        info = ResponseInfo(
            id=f"resp-{self._session_id}-{epoch}-{uuid.uuid4().hex[:8]}",
            epoch=epoch,
            requested=request is not None,
            metadata=request.metadata if request else None,
        )
        self._open = _Open(info)
        self._sink.response_started(info)

    def _finish(self, status: ResponseStatus, reason: str) -> bool:
        if self._open is None:
            return False
        response, self._open = self._open, None
        text = "".join(response.text)
        info = response.info
        self._sink.response_done(
            ResponseEnd(info.id, info.epoch, status, reason, text, response.frames)
        )
        return True
