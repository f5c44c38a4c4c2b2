"""Who may use the API: server keys, short-lived client secrets, and pages of other origins."""

from __future__ import annotations

import hmac
import json
import secrets
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware

from agent.errors import Refused, SessionError
from agent.http_errors import API_PATHS, error_response
from agent.ports import LOOPBACK

SUBPROTOCOL_KEY = "openai-insecure-api-key."
"""Browsers cannot set headers on a websocket; stock clients send the key as a subprotocol."""
SECRET_PATHS = ("/v1/realtime", "/v1/realtime/calls")
MAX_SECRETS = 10_000
MAX_SECRETS_BYTES = 64 * 1024 * 1024
"""Of all their session objects as JSON: 6 KiB each when there are so many, and 64 of the largest
that a body may bring."""


class ClientSecrets:
    """Short-lived keys, each with the session object that it was made for."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._issued: dict[str, tuple[float, str]] = {}
        self._bytes = 0
        self._calls: dict[str, str] = {}
        """Paths of calls, with the key that each was made with."""

    def mint(self, lifetime_s: int, session: dict[str, Any]) -> tuple[str, int]:
        """A new secret and the second at which it ends.

        `resource_exhausted` where no more can be kept: those that were given out stay good.
        """
        self._forget_expired()
        text = json.dumps(session)
        if len(self._issued) >= MAX_SECRETS or self._bytes + len(text) > MAX_SECRETS_BYTES:
            raise Refused(
                "resource_exhausted", "no more client secrets until others expire", param="session"
            )
        value = f"ek_{secrets.token_urlsafe(32)}"
        expires = self._now() + lifetime_s
        self._issued[value] = (expires, text)
        self._bytes += len(text)
        return value, int(expires)

    def session_of(self, value: str) -> dict[str, Any] | None:
        """The session object of a secret that is still good."""
        entry = self._issued.get(value)
        if entry is None or entry[0] <= self._now():
            return None
        session: dict[str, Any] = json.loads(entry[1])
        return session

    def adopt(self, value: str, path: str) -> None:
        """The call at this path was made with this key, which may end it even when expired."""
        self._calls[path] = value

    def release(self, path: str) -> None:
        """The call at this path is over."""
        self._calls.pop(path, None)

    def owns(self, value: str, path: str) -> bool:
        """Whether the path is that of a call made with this key."""
        return bool(value) and self._calls.get(path.removesuffix("/hangup")) == value

    def _forget_expired(self) -> None:
        now = self._now()
        for value in [value for value, (expires, _) in self._issued.items() if expires <= now]:
            self._bytes -= len(self._issued.pop(value)[1])


def key_of(request: web.Request) -> str:
    """The key that came as a bearer token, in the query or as a subprotocol; else empty."""
    scheme, _, token = request.headers.get(hdrs.AUTHORIZATION, "").partition(" ")
    if scheme.lower() == "bearer" and token:
        return token.strip()
    if "api_key" in request.query:
        return request.query["api_key"]
    for name in request.headers.get(hdrs.SEC_WEBSOCKET_PROTOCOL, "").split(","):
        if name.strip().startswith(SUBPROTOCOL_KEY):
            return name.strip().removeprefix(SUBPROTOCOL_KEY)
    return ""


def _matches(given: str, keys: tuple[str, ...]) -> bool:
    """Compared in constant time, against every key."""
    found = False
    for key in keys:
        # Header bytes that are no UTF-8 arrive as surrogates.
        found |= hmac.compare_digest(given.encode(errors="surrogatepass"), key.encode())
    return found


def _own_page(request: web.Request, origins: tuple[str, ...]) -> bool:
    """No browser, the page served here, a page on this machine, or an origin that is allowed."""
    origin = request.headers.get(hdrs.ORIGIN)
    if origin is None or origin in origins or "*" in origins:
        return True
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.netloc == request.host or parts.hostname in LOOPBACK


def guard(
    keys: tuple[str, ...], origins: tuple[str, ...], client_secrets: ClientSecrets
) -> Middleware:
    """The middleware: 401 without a key, 403 for a foreign page, CORS headers for known ones."""

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        response = await _checked(request, handler)
        origin = request.headers.get(hdrs.ORIGIN)
        if origin is not None and not response.prepared and _own_page(request, origins):
            response.headers[hdrs.ACCESS_CONTROL_ALLOW_ORIGIN] = origin
            response.headers[hdrs.ACCESS_CONTROL_EXPOSE_HEADERS] = "Location"
            response.headers[hdrs.VARY] = "Origin"
        return response

    async def _checked(request: web.Request, handler: Handler) -> web.StreamResponse:
        if not request.path.startswith(API_PATHS):
            return await handler(request)
        if not _own_page(request, origins):
            return error_response(403, SessionError("forbidden_origin", "origin not allowed"))
        if request.method == hdrs.METH_OPTIONS:
            return web.Response(
                status=204,
                headers={
                    hdrs.ACCESS_CONTROL_ALLOW_METHODS: "GET, POST, DELETE",
                    hdrs.ACCESS_CONTROL_ALLOW_HEADERS: "Authorization, Content-Type",
                },
            )
        given = key_of(request)
        secret = request.path in SECRET_PATHS and client_secrets.session_of(given) is not None
        own = client_secrets.owns(given, request.path)
        if keys and not (secret or own) and not _matches(given, keys):
            return error_response(
                401,
                SessionError("invalid_api_key", "a valid API key is needed"),
                **{hdrs.WWW_AUTHENTICATE: "Bearer"},
            )
        return await handler(request)

    return check
