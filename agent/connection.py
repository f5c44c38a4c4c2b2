"""`POST /api/connection-details`: a token for one room, with the agent dispatched to it.

The free slot that it asks for is a hint; the engine's own counter admits or refuses the call. It
keeps no state.
"""

from __future__ import annotations

import datetime
import json
import re
import secrets
from collections.abc import Callable
from typing import Any

from aiohttp import web
from livekit import api

from agent.dispatch import KEYS as DISPATCH_KEYS
from agent.dispatch import Defaults, parse_dispatch
from agent.errors import SessionError
from agent.http_errors import busy_response, error_response
from agent.realtime.events import load_json
from agent.settings import Settings
from agent.text import is_text

TOKEN_MINUTES = 15
ROOM_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
LONGEST_NAME = 64
KEYS = ("roomName", "participantName", *DISPATCH_KEYS)


def connection_routes(
    settings: Settings, defaults: Defaults, has_room: Callable[[str], bool]
) -> list[web.RouteDef]:
    """The route; `has_room` says whether a call in the room of that name can be served."""

    async def connection_details(request: web.Request) -> web.Response:
        try:
            asked = load_json((await request.read()).strip() or b"{}")
            metadata = _metadata(asked, defaults)
            room = _room_name(asked)
            person = _person_name(asked)
        except SessionError as error:
            return error_response(400, error)
        if not has_room(room):
            return busy_response(
                SessionError("resource_exhausted", "every agent is busy, try again in a moment")
            )
        return web.json_response(
            {
                "serverUrl": settings.browser_livekit_url,
                "roomName": room,
                "participantName": person,
                "participantToken": _token(settings, room, person, metadata),
            },
            headers={"Cache-Control": "no-store"},
        )

    return [web.post("/api/connection-details", connection_details)]


def _metadata(asked: dict[str, Any], defaults: Defaults) -> str:
    """The dispatch metadata, refused here where the agent would refuse it later."""
    if unknown := sorted(asked.keys() - KEYS):
        message = f"there is no {unknown[0]!r}, there are {', '.join(KEYS)}"
        raise SessionError("bad_event", message, param=unknown[0])
    metadata = json.dumps({key: asked[key] for key in DISPATCH_KEYS if key in asked})
    parse_dispatch(metadata, defaults)
    return metadata


def _room_name(asked: dict[str, Any]) -> str:
    name = asked.get("roomName") or f"room-{secrets.token_hex(6)}"
    if not isinstance(name, str) or not ROOM_NAME.fullmatch(name):
        message = "roomName takes 1 to 64 letters, digits, '-' and '_'"
        raise SessionError("bad_event", message, param="roomName")
    return name


def _person_name(asked: dict[str, Any]) -> str:
    name = asked.get("participantName") or "guest"
    if not isinstance(name, str) or len(name) > LONGEST_NAME or not is_text(name):
        message = f"participantName takes up to {LONGEST_NAME} characters"
        raise SessionError("bad_event", message, param="participantName")
    return name


def _token(settings: Settings, room: str, person: str, metadata: str) -> str:
    dispatch = api.RoomAgentDispatch(agent_name=settings.agent_name, metadata=metadata)
    grants = api.VideoGrants(
        room_join=True, room=room, can_publish_sources=["microphone"], can_publish_data=True
    )
    return (
        api.AccessToken(settings.livekit_api_key, settings.livekit_api_secret)
        .with_identity(f"guest-{secrets.token_hex(6)}")
        .with_name(person)
        .with_grants(grants)
        .with_room_config(api.RoomConfiguration(agents=[dispatch]))
        .with_ttl(datetime.timedelta(minutes=TOKEN_MINUTES))
        .to_jwt()
    )
