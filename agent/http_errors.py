"""Errors of HTTP as clients of the API read them, and what a broken request leaves in the log.

Pages of the browser keep the plain answers of the HTTP library.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from aiohttp import hdrs, web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler

from agent.errors import SessionError

log = logging.getLogger(__name__)

API_PATHS = ("/v1/", "/api/", "/metrics")
PROBES = ("/health", "/ready")
"""Open to all, without a key; their errors are those of the API."""
RETRY_AFTER_S = 5
BODY_S = 30.0
"""In which a body has to arrive. The HTTP library waits for ever, also for one that it gave up."""
BROKEN_REQUESTS = (web.RequestPayloadError, HttpProcessingError)


def error_response(status: int, error: SessionError, **headers: str) -> web.Response:
    """A JSON error body in the shape that API clients read."""
    return web.json_response({"error": error.payload()}, status=status, headers=headers)


def busy_response(error: SessionError) -> web.Response:
    """A refusal that holds for now only."""
    return error_response(503, error, **{hdrs.RETRY_AFTER: str(RETRY_AFTER_S)})


@web.middleware
async def json_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Every error of the API has a JSON body: paths, methods and bodies, and mistakes of ours."""
    if not request.path.startswith((*API_PATHS, *PROBES)):
        return await handler(request)
    if hdrs.CONTENT_ENCODING in request.headers:
        refusal = SessionError("bad_event", "send the body as it is, without Content-Encoding")
        return error_response(415, refusal)
    hurry = asyncio.get_running_loop().call_later(BODY_S, _give_up_body, request)
    try:
        return await handler(request)
    except web.HTTPRequestEntityTooLarge as error:
        return error_response(413, SessionError("event_too_large", error.text or ""))
    except web.HTTPError as error:
        return _translated(request, error)
    except Exception as error:
        if request.writer.output_size:
            raise
        if _broke_off(request, error):
            response = error_response(400, SessionError("bad_event", "the body cannot be read"))
            # Where the next request would begin is not known either.
            response.force_close()
            return response
        log.exception("a request broke its handler")
        return error_response(500, SessionError("internal_error", "the server made a mistake"))
    finally:
        hurry.cancel()


def _broke_off(request: web.Request, error: Exception) -> bool:
    """Is this what reading the body raised, rather than something of ours?"""
    if isinstance(error, ConnectionError):
        return not request.content.is_eof()
    return isinstance(error, web.RequestPayloadError)


def _give_up_body(request: web.Request) -> None:
    """Whoever reads it hears that it cannot be read."""
    if not request.content.is_eof():
        request.content.set_exception(web.RequestPayloadError("the body did not arrive in time"))


def _translated(request: web.Request, error: web.HTTPError) -> web.Response:
    """The same status and headers; the code is null, since the status says it all."""
    kept = {
        name: value
        for name, value in error.headers.items()
        if name not in (hdrs.CONTENT_TYPE, hdrs.CONTENT_LENGTH)
    }
    body = {
        "type": "invalid_request_error" if error.status < 500 else "server_error",
        "code": None,
        "message": f"{request.method} {request.path}: {' '.join((error.text or '').split())}",
        "param": None,
        "event_id": None,
    }
    return web.json_response({"error": body}, status=error.status, headers=kept)


class ServerLog(logging.LoggerAdapter[logging.Logger]):
    """The HTTP library's log. What a client broke is one line: a traceback would show our code."""

    def __init__(self) -> None:
        super().__init__(log)

    def exception(self, msg: object, *args: object, exc_info: Any = True, **extra: Any) -> None:
        if isinstance(exc_info, BROKEN_REQUESTS):
            # Not its text, which quotes the request and so, perhaps, a key.
            self.info("a request could not be read: %s", type(exc_info).__name__)
        else:
            super().exception(msg, *args, exc_info=exc_info, **extra)
