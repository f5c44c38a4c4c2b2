"""The one HTTP app: health, metrics, the API, the websockets, and the page where there is one.

It wires handlers to paths. What they do stands in `agent/realtime/`; further routes (rooms) are
given by whoever builds the app.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import web
from prometheus_client.registry import Collector

from agent.auth import ClientSecrets, guard, key_of
from agent.capabilities import server_capabilities
from agent.errors import Refused, SessionError
from agent.http_errors import ServerLog, busy_response, error_response, json_errors
from agent.manager import SessionManager
from agent.metrics import registry_for, render
from agent.realtime.calls import Calls
from agent.realtime.config import STOCK_MOOD, Limits, SessionConfig
from agent.realtime.events import load_json
from agent.realtime.moshi import serve_chat
from agent.realtime.socket import WatchedSocket
from agent.realtime.websocket import RealtimeSocket

MAX_BODY_BYTES = 1024 * 1024
SECRET_SECONDS = (10, 600, 7200)
"""Shortest, usual and longest life of a client secret."""


@dataclass(frozen=True, slots=True)
class HttpOptions:
    """What the operator decides about the app."""

    api_keys: tuple[str, ...] = ()
    allow_sampling: bool = False
    model_name: str = "demo"
    model_notice: str | None = None
    """What the page says about the model, where there is something to say."""
    model_licence: str | None = None
    cors_origins: tuple[str, ...] = ()


class Api:
    """The handlers."""

    def __init__(
        self, manager: SessionManager, options: HttpOptions, collectors: Iterable[Collector] = ()
    ) -> None:
        self.client_secrets = ClientSecrets()
        self.limits = Limits(manager.engine.voices, manager.default_spec, options.allow_sampling)
        self.calls = Calls(manager, self.limits, self.client_secrets)
        self._manager = manager
        self._options = options
        self._registry = registry_for(manager, *collectors)
        self._started = int(time.time())

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/health", self.health),
            web.get("/ready", self.ready),
            web.get("/metrics", self.metrics),
            web.get("/v1/models", self.models),
            web.get("/v1/models/{name:.+}", self.model),
            web.get("/v1/voices", self.voices),
            web.get("/v1/capabilities", self.capabilities),
            web.get("/v1/realtime", self.realtime, allow_head=False),
            web.get("/v1/duplex", self.realtime, allow_head=False),
            web.post("/v1/realtime/calls", self.calls.create),
            web.delete("/v1/realtime/calls/{call_id}", self.calls.hang_up),
            web.post("/v1/realtime/calls/{call_id}/hangup", self.calls.hang_up),
            web.post("/v1/realtime/client_secrets", self.mint_secret),
            web.get("/api/chat", self.chat, allow_head=False),
        ]

    async def health(self, request: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def ready(self, request: web.Request) -> web.Response:
        manager = self._manager
        body = {
            "ready": manager.ready,
            "warm": manager.warm,
            "draining": manager.draining,
            "faulted": manager.faulted,
            "max_sessions": manager.max_sessions,
            "used_slots": manager.used,
            "free_slots": manager.max_sessions - manager.used,
            "mode": manager.engine.stats().mode,
            "model": {"name": self._options.model_name, "notice": self._options.model_notice},
        }
        return web.json_response(body, status=200 if manager.ready else 503)

    async def metrics(self, request: web.Request) -> web.Response:
        return web.Response(body=render(self._registry), content_type="text/plain")

    async def models(self, request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [self._model()]})

    async def model(self, request: web.Request) -> web.Response:
        if request.match_info["name"] != self._options.model_name:
            raise web.HTTPNotFound
        return web.json_response(self._model())

    def _model(self) -> dict[str, Any]:
        return {
            "id": self._options.model_name,
            "object": "model",
            "created": self._started,
            "owned_by": "personaplex",
            "licence": self._options.model_licence,
        }

    async def voices(self, request: web.Request) -> web.Response:
        default = self.limits.default.voice
        data = [
            {"id": voice, "object": "voice", "default": voice == default}
            for voice in self.limits.voices
        ]
        return web.json_response({"object": "list", "data": data})

    async def capabilities(self, request: web.Request) -> web.Response:
        return web.json_response(server_capabilities(self._manager.max_sessions))

    async def realtime(self, request: web.Request) -> web.StreamResponse:
        brought = self.client_secrets.session_of(key_of(request))
        watched = await WatchedSocket.accept(request)
        await RealtimeSocket(watched, self._manager, self.limits, brought).serve(request)
        return watched.socket

    async def chat(self, request: web.Request) -> web.StreamResponse:
        return await serve_chat(request, self._manager, self.limits)

    async def shut_down(self, app: web.Application) -> None:
        await self.calls.close_all()

    async def mint_secret(self, request: web.Request) -> web.Response:
        """A key for one browser: `{value, expires_at, session}`."""
        try:
            session, seconds = _secret_request(await _json_body(request))
            SessionConfig(self.limits.default).updated(session, STOCK_MOOD, self.limits)
            value, expires = self.client_secrets.mint(seconds, session)
        except Refused as error:
            return busy_response(error)
        except SessionError as error:
            return error_response(400, error)
        return web.json_response({"value": value, "expires_at": expires, "session": session})


async def _json_body(request: web.Request) -> dict[str, Any]:
    return load_json(await request.read() or b"{}")


def _secret_request(body: dict[str, Any]) -> tuple[dict[str, Any], int]:
    """The session object and the lifetime in seconds."""
    session, expires = body.get("session") or {}, body.get("expires_after") or {}
    if not isinstance(session, dict) or not isinstance(expires, dict):
        raise SessionError("bad_event", "session and expires_after are objects")
    shortest, usual, longest = SECRET_SECONDS
    seconds = expires.get("seconds", usual)
    whole = isinstance(seconds, int) and not isinstance(seconds, bool)
    if not whole or not shortest <= seconds <= longest:
        raise SessionError(
            "bad_event",
            f"a whole number of seconds, {shortest} to {longest}",
            param="expires_after.seconds",
        )
    return session, seconds


def build_app(
    manager: SessionManager,
    options: HttpOptions,
    routes: Iterable[web.RouteDef] = (),
    static: Path | None = None,
    collectors: Iterable[Collector] = (),
) -> web.Application:
    """The app, ready for a runner. `static` is the built page, served at `/`."""
    api = Api(manager, options, collectors)
    app = web.Application(
        client_max_size=MAX_BODY_BYTES,
        middlewares=[
            guard(options.api_keys, options.cors_origins, api.client_secrets),
            json_errors,
        ],
    )
    app.add_routes([*api.routes(), *routes])
    if static is not None:
        app.add_routes(_page_routes(static))
    app.on_shutdown.append(api.shut_down)  # type: ignore[arg-type]  # their Signal
    return app


def make_runner(app: web.Application, shutdown_s: float) -> web.AppRunner:
    """What serves the app; open requests may take `shutdown_s` seconds at the end.

    Nothing is decompressed: 240 KB can be 250 MB, and the loop would do it before any check.
    """
    return web.AppRunner(
        app, shutdown_timeout=shutdown_s, logger=ServerLog(), auto_decompress=False
    )


def _page_routes(static: Path) -> list[web.RouteDef]:
    """A route for each file there is: no path that a client makes up reaches the file system."""
    files = sorted(path for path in static.rglob("*") if path.is_file())
    named = [(f"/{path.relative_to(static).as_posix()}", path) for path in files]
    return [web.get(name, _file(path)) for name, path in [("/", static / "index.html"), *named]]


def _file(path: Path) -> Any:
    async def file(request: web.Request) -> web.FileResponse:
        return web.FileResponse(path)

    return file
