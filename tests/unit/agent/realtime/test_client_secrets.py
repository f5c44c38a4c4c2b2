"""A client secret brings its session along, whatever it opens; private keys come in by no way."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest

from agent.auth import ClientSecrets
from agent.http import HttpOptions
from agent.realtime.config import PRIVATE_KEYS
from tests.fakes.engine import FakeEngine
from tests.fakes.server import Client, Server, serving
from tests.unit.agent.realtime.offers import good_offer
from tests.unit.agent.realtime.test_calls import opened

pytestmark = pytest.mark.unit

OPTIONS = HttpOptions(api_keys=("one",))
SECRETS = "/v1/realtime/client_secrets"
CALLS = "/v1/realtime/calls"
MOODS = {"stock": "/v1/realtime?model=m", "duplex": "/v1/realtime?duplex=1&model=m"}
BRIEF = {
    "type": "realtime",
    "instructions": "Be brief.",
    "audio": {"output": {"voice": "NATM1.pt"}},
    "extra_body": {"cancel_mode": "soft"},
}


async def minted(server: Server, session: dict[str, Any]) -> dict[str, Any]:
    headers = {"Authorization": "Bearer one"}
    body = {"session": session}
    async with server.http.post(server.url + SECRETS, json=body, headers=headers) as response:
        return dict(await response.json())


async def secret_for(server: Server, session: dict[str, Any]) -> dict[str, str]:
    """The header with a secret of this session."""
    return {"Authorization": f"Bearer {(await minted(server, session))['value']}"}


def prompt_of(event: dict[str, Any]) -> tuple[str, str, str]:
    session = event["session"]
    return session["instructions"], session["voice"], session["cancel_mode"]


async def asked_for(server: Server, expires_after: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """Status and answer to a secret of this life."""
    headers = {"Authorization": "Bearer one"}
    body = {"expires_after": {"anchor": "created_at", **expires_after}}
    async with server.http.post(server.url + SECRETS, json=body, headers=headers) as response:
        return response.status, await response.json()


@pytest.mark.parametrize("seconds", [-5, 0, 9, 7201, 10**30, 60.0, "60", True])
async def test_a_life_out_of_bounds_is_refused_by_name(seconds: object) -> None:
    async with serving(FakeEngine(), OPTIONS) as server:
        status, told = await asked_for(server, {"seconds": seconds})
    assert status == 400
    assert (told["error"]["code"], told["error"]["param"]) == ("bad_event", "expires_after.seconds")
    assert "10 to 7200" in told["error"]["message"]


@pytest.mark.parametrize(
    ("asked", "seconds"), [({}, 600), ({"seconds": 10}, 10), ({"seconds": 7200}, 7200)]
)
async def test_a_secret_lives_as_long_as_asked_or_ten_minutes(
    asked: dict[str, Any], seconds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lives: list[int] = []
    monkeypatch.setattr(
        ClientSecrets, "mint", lambda self, life, session: (lives.append(life), ("ek", 0))[1]
    )
    async with serving(FakeEngine(), OPTIONS) as server:
        status, _ = await asked_for(server, asked)
    assert (status, lives) == (200, [seconds])


@pytest.mark.parametrize("mood", MOODS)
async def test_a_websocket_begins_with_the_session_of_its_secret(mood: str) -> None:
    engine = FakeEngine()
    async with serving(engine, OPTIONS) as server:
        headers = await secret_for(server, BRIEF)
        async with server.connect(MOODS[mood], headers=headers) as client:
            created = await client.until("session.created")
            assert prompt_of(created) == ("Be brief.", "NATM1.pt", "soft")
            assert created["session"]["model"] == "m"
        async with server.connect(MOODS[mood], headers={"Authorization": "Bearer one"}) as client:
            created = await client.until("session.created")
            assert "Be brief." not in prompt_of(created), "it belongs to its own connection"


@pytest.mark.parametrize("mood", MOODS)
async def test_what_the_client_says_first_updates_the_session_of_its_secret(mood: str) -> None:
    """The flat name of a field wins over the nested one that came before it."""
    async with serving(FakeEngine(), OPTIONS) as server:
        headers = await secret_for(server, BRIEF)
        path = MOODS[mood] + "&autostart=0"
        async with server.connect(path, headers=headers) as client:
            session = {"voice": "NATF2.pt", "extra_body": {}}
            await client.send("session.update", session=session)
            told = prompt_of(await client.until("session.created"))
            assert told == ("Be brief.", "NATF2.pt", "soft")


async def test_a_secret_that_names_a_model_opens_a_session_by_itself() -> None:
    async with serving(FakeEngine(), OPTIONS) as server:
        headers = await secret_for(server, BRIEF | {"model": "named"})
        async with server.connect("/v1/realtime", headers=headers) as client:
            session = (await client.until("session.created"))["session"]
            assert (session["model"], session["instructions"]) == ("named", "Be brief.")


async def test_in_duplex_mood_the_client_speaks_first_whatever_its_secret_names() -> None:
    """There the URL alone opens a session by itself.  contract: B2"""
    async with serving(FakeEngine(), OPTIONS) as server:
        headers = await secret_for(server, BRIEF | {"model": "named"})
        async with server.connect("/v1/realtime?duplex=1", headers=headers) as client:
            await client.send("session.update", session={"model": "m", "voice": "NATF2.pt"})
            created = await client.until("session.created")
            assert prompt_of(created) == ("Be brief.", "NATF2.pt", "soft")
            assert created["session"]["model"] == "m" and not client.all("error")


async def test_a_voice_that_only_stock_mood_takes_is_refused_in_duplex_mood() -> None:
    """A secret is for both moods, and is judged where it is used.  contract: B1 F2"""
    async with serving(FakeEngine(), OPTIONS) as server:
        headers = await secret_for(server, {"voice": "marin"})
        async with server.connect(MOODS["stock"], headers=headers) as client:
            created = await client.until("session.created")
            assert created["session"]["voice"] == "NATF2.pt", "the default voice"
        async with server.connect(MOODS["duplex"], headers=headers) as client:
            await client.rest()
            assert [event["error"]["code"] for event in client.seen] == ["invalid_voice"]


@pytest.mark.parametrize("key", sorted(PRIVATE_KEYS))
async def test_no_secret_is_made_with_a_private_key(key: str) -> None:  # contract: B4
    async with serving(FakeEngine(), OPTIONS) as server:
        body = await minted(server, {"extra_body": {key: 1}})
        assert_private(body, key)
        assert "value" not in body


@pytest.mark.parametrize("mood", MOODS)
@pytest.mark.parametrize("key", sorted(PRIVATE_KEYS))
async def test_private_keys_are_refused_on_a_socket_with_a_secret(
    key: str, mood: str
) -> None:  # contract: B4
    private = {"extra_body": {key: 1}}
    async with serving(FakeEngine(), OPTIONS) as server:
        headers = await secret_for(server, BRIEF)
        path = MOODS[mood]
        async with server.connect(path + "&autostart=0", headers=headers) as client:
            await client.send("session.update", session=private)
            await client.rest()
            assert client.types == ["error"]
            assert_private(client.seen[0], key)
        async with server.connect(path, headers=headers) as client:
            await client.send("session.update", session=private)
            assert_private(await client.until("error"), key)
            await goes_on(client)


async def goes_on(client: Client) -> None:
    await client.send("session.update", session={})
    told = prompt_of(await client.until("session.updated"))
    assert told == ("Be brief.", "NATM1.pt", "soft")


def assert_private(body: dict[str, Any], key: str) -> None:
    error = body["error"]
    told = (error["code"], error["param"])
    assert told == ("invalid_duplex_runtime_config", f"session.extra_body.{key}")


@pytest.mark.parametrize("secret", [False, True])
@pytest.mark.parametrize("key", sorted(PRIVATE_KEYS))
async def test_a_call_with_a_private_key_is_refused(key: str, secret: bool) -> None:  # contract: B4
    engine = FakeEngine()
    async with serving(engine, OPTIONS) as server:
        headers = {"Authorization": "Bearer one"}
        if secret:
            headers = await secret_for(server, BRIEF)
        form = aiohttp.FormData(default_to_multipart=True)
        form.add_field("sdp", await good_offer("audio"))
        form.add_field("session", f'{{"extra_body": {{"{key}": 1}}}}')
        async with server.http.post(server.url + CALLS, data=form, headers=headers) as response:
            assert response.status == 400
            assert_private(await response.json(), key)
        assert engine.stats().used == 0


@pytest.mark.parametrize("key", sorted(PRIVATE_KEYS))
async def test_a_call_goes_on_when_an_update_has_a_private_key(key: str) -> None:  # contract: B4
    call, _ = await opened()
    session = call.connection.session
    assert session is not None
    before = session.spec
    call._on_message(f'{{"type": "session.update", "session": {{"extra_body": {{"{key}": 1}}}}}}')
    assert '"invalid_duplex_runtime_config"' in call._waiting[-1] and key in call._waiting[-1]
    assert (session.state, session.spec) == ("open", before)
    await call.end("closed")
