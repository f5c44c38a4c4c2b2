"""PersonaPlex as a `DuplexModel`: what `AgentSession(llm=...)` takes, over the websocket client.

The framework cuts the model's endless audio into turns by the gate given here. This module knows
the events of the wire and nothing of rooms; the model behind it cannot be prompted, given tools, or
told of a chat: what it hears and its persona are all that moves it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Literal

from livekit import rtc
from livekit.agents import llm, utils
from livekit.agents.types import NOT_GIVEN, NotGivenOr
from livekit.agents.utils import is_given

from .client import (
    AudioFormat,
    DuplexClient,
    DuplexClientError,
    DuplexEvent,
    DuplexSessionClosedError,
    SessionConfig,
)

log = logging.getLogger("livekit.plugins.personaplex")

DEFAULT_URL = "ws://127.0.0.1:8000/v1/duplex"
SAMPLE_RATE = 24_000
FRAME_MS = 80
PCM16 = AudioFormat("pcm16", SAMPLE_RATE)
SILENCE_RMS = 10 ** (-50 / 20) / 3
"""The codec's silence lies below this; the gate opens at three times it, at -50 dBFS."""
UNSUPPORTED_REPLY = (
    "PersonaPlex decides for itself when to speak: generate_reply is not supported. "
    "Put what it should do into the agent's instructions, which become its persona."
)


@dataclass(frozen=True, slots=True)
class _Options:
    url: str
    api_key: str | None
    model: str
    voice: str
    persona: str
    silence_rms: float


class DuplexModel(llm.DuplexModel):
    """A PersonaPlex server as the model of an `AgentSession`.

    Args:
        url: websocket of the server; default PERSONAPLEX_URL, else the local one.
        api_key: bearer key, where the server asks for one; default PERSONAPLEX_API_KEY.
        model: name that the server knows its model by; empty takes what it runs.
        voice: one of the server's voices; empty takes its default.
        persona: used where the agent has no instructions; empty takes the server's default.
        silence_rms: level under which the model counts as silent, within 0..1.
    """

    def __init__(
        self,
        *,
        url: str | None = None,
        api_key: str | None = None,
        model: str = "",
        voice: str = "",
        persona: str = "",
        silence_rms: float = SILENCE_RMS,
    ) -> None:
        super().__init__(
            capabilities=llm.DuplexCapabilities(
                user_transcription=False, auto_tool_reply_generation=False
            )
        )
        address = url or os.environ.get("PERSONAPLEX_URL") or DEFAULT_URL
        key = api_key or os.environ.get("PERSONAPLEX_API_KEY")
        self._options = _Options(address, key, model, voice, persona, silence_rms)

    @property
    def model(self) -> str:
        return self._options.model or "personaplex"

    @property
    def provider(self) -> str:
        return "personaplex"

    def audio_gate(self) -> llm.FixedGate:
        return llm.FixedGate(self._options.silence_rms)

    def session(self) -> DuplexSession:
        return DuplexSession(self, self._options)

    async def aclose(self) -> None:
        """Nothing is held between sessions; each closes its own socket."""


class DuplexSession(llm.DuplexSession[Literal["server_event"]]):
    """One call. `server_event` is emitted with each raw event of the server."""

    def __init__(self, model: DuplexModel, options: _Options) -> None:
        super().__init__(model)
        self._options = options
        self._instructions = options.persona
        self._client: DuplexClient | None = None
        self._resampler: rtc.AudioResampler | None = None
        self._input = utils.aio.Chan[bytes]()
        self._output = utils.aio.Chan[llm.DuplexAudioFrame]()
        self._heard_ms = 0
        self._main = asyncio.create_task(self._run(), name="personaplex.session")

    @property
    def audio_stream(self) -> AsyncIterator[llm.DuplexAudioFrame]:
        return self._output

    @property
    def tools(self) -> llm.ToolContext:
        return llm.ToolContext.empty()

    def push_audio(self, frame: rtc.AudioFrame) -> None:
        """Dropped until the server has answered: old audio sent late would delay the whole call."""
        if self._client is None or self._input.closed:
            return
        for part in self._resample(frame):
            self._input.send_nowait(bytes(part.data))

    async def aclose(self) -> None:
        await super().aclose()
        self._input.close()
        await utils.aio.cancel_and_wait(self._main)

    async def _update_instructions(self, instructions: str) -> None:
        if self._configured.is_set():
            raise llm.RealtimeError("the persona of a running PersonaPlex session is fixed")
        self._instructions = instructions or self._options.persona

    async def _append_items(self, items: list[llm.ChatItem]) -> None:
        told = [item for item in items if getattr(item, "role", None) in ("user", "assistant")]
        if told:
            log.warning("PersonaPlex hears audio only; %d chat items were not told it", len(told))

    async def _update_tools(self, tools: list[llm.Tool]) -> None:
        if tools:
            log.warning("PersonaPlex cannot call tools; %d were left out", len(tools))

    def _update_options(
        self, *, tool_choice: NotGivenOr[llm.ToolChoice | None] = NOT_GIVEN
    ) -> None:
        if is_given(tool_choice) and tool_choice is not None:
            log.warning("PersonaPlex cannot call tools; tool_choice has no effect")

    def _generate_reply(self, **_: Any) -> None:
        raise llm.RealtimeError(UNSUPPORTED_REPLY)

    def _resample(self, frame: rtc.AudioFrame) -> list[rtc.AudioFrame]:
        if frame.sample_rate == SAMPLE_RATE and frame.num_channels == 1:
            return [frame]
        if self._resampler is None:
            self._resampler = rtc.AudioResampler(
                frame.sample_rate, SAMPLE_RATE, num_channels=frame.num_channels
            )
        return self._resampler.push(frame)

    async def _run(self) -> None:
        await self._configured.wait()
        if self._closing:
            return
        started = time.perf_counter()
        try:
            async with self._new_client() as client:
                self._client = client
                self._report_connection_acquired(time.perf_counter() - started)
                await self._converse(client)
        except DuplexClientError as error:
            self._report(error, recoverable=False)
        finally:
            self._client = None
            self._output.close()

    def _new_client(self) -> DuplexClient:
        options = self._options
        config = SessionConfig(
            input_audio=PCM16,
            output_audio=PCM16,
            instructions=self._instructions or None,
            voice=options.voice or None,
        )
        return DuplexClient(
            options.url, model=options.model, config=config, api_key=options.api_key
        )

    async def _converse(self, client: DuplexClient) -> None:
        sending = asyncio.create_task(self._send(client), name="personaplex.send")
        try:
            async for event in client.events():
                self.emit("server_event", event)
                self._take(event)
        finally:
            await utils.aio.cancel_and_wait(sending)

    async def _send(self, client: DuplexClient) -> None:
        async for pcm in self._input:
            await client.append_audio(pcm)

    def _take(self, event: DuplexEvent) -> None:
        if event.audio:
            self._take_audio(event.audio)
        elif event.text:
            start = self._heard_ms
            delta = llm.DuplexOutputTranscriptDelta(event.text, start, start + FRAME_MS)
            self.emit("transcript_delta", delta)
        elif event.type == "error":
            # The call goes on: an error that ends it is followed by `session.closed`.
            self._report(event.to_exception(), recoverable=True)
        elif event.type == "session.closed" and not self._closing:
            self._report(DuplexSessionClosedError(str(event.get("reason"))), recoverable=False)

    def _take_audio(self, pcm: bytes) -> None:
        frame = rtc.AudioFrame(pcm, SAMPLE_RATE, 1, len(pcm) // 2)
        self._output.send_nowait(llm.DuplexAudioFrame(frame, start_ms=self._heard_ms))
        self._heard_ms += round(frame.duration * 1000)

    def _report(self, error: DuplexClientError, *, recoverable: bool) -> None:
        failure = llm.RealtimeModelError(
            timestamp=time.time(),
            label=self._duplex_model.label,
            error=error,
            recoverable=recoverable,
        )
        self.emit("error", failure)
