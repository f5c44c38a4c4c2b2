"""The command `sip`: telephone numbers through the LiveKit API. Running it twice changes nothing.

It provisions one inbound trunk and one dispatch rule, both named after the agent. It knows nothing
of calls: a caller is a participant like any other by the time the worker sees one.
"""

from __future__ import annotations

import argparse
import asyncio
import ipaddress
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus

import aiohttp
from livekit import api
from livekit.api.sip_service import SipService
from livekit.protocol.room import RoomConfiguration
from livekit.protocol.sip import (
    CreateSIPDispatchRuleRequest,
    CreateSIPInboundTrunkRequest,
    DeleteSIPDispatchRuleRequest,
    DeleteSIPTrunkRequest,
    ListSIPDispatchRuleRequest,
    ListSIPInboundTrunkRequest,
    SIPDispatchRule,
    SIPDispatchRuleIndividual,
    SIPDispatchRuleInfo,
    SIPInboundTrunkInfo,
)

from agent import settings
from agent.command import CommandError
from agent.dispatch import read_metadata
from agent.errors import SessionError
from agent.settings import Settings, check_livekit_url

NUMBER = re.compile(r"\+[1-9][0-9]{4,14}")


@dataclass(frozen=True, slots=True)
class Plan:
    """What `setup` is to bring about."""

    name: str
    numbers: tuple[str, ...]
    allowed_addresses: tuple[str, ...]
    room_prefix: str
    metadata: str

    def trunk(self) -> SIPInboundTrunkInfo:
        return SIPInboundTrunkInfo(
            name=self.name, numbers=self.numbers, allowed_addresses=self.allowed_addresses
        )

    def rule(self, trunk_id: str) -> SIPDispatchRuleInfo:
        """A room of its own for each call, with the agent dispatched into it."""
        agent = api.RoomAgentDispatch(agent_name=self.name, metadata=self.metadata)
        individual = SIPDispatchRuleIndividual(room_prefix=self.room_prefix)
        return SIPDispatchRuleInfo(
            name=self.name,
            trunk_ids=[trunk_id],
            rule=SIPDispatchRule(dispatch_rule_individual=individual),
            room_config=RoomConfiguration(agents=[agent]),
        )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    setup = actions.add_parser("setup", help="make or update the trunk and the dispatch rule")
    setup.add_argument(
        "--number", action="append", required=True, help="a number in E.164 form; repeatable"
    )
    setup.add_argument(
        "--allowed-addresses",
        default="",
        help="comma-separated addresses or networks of the provider; empty: anyone may call in",
    )
    setup.add_argument("--room-prefix", default="call-", help="begins the name of each call's room")
    setup.add_argument(
        "--metadata", default="", help="JSON for the agent: voice, persona, seed, heard"
    )
    for action in (
        setup,
        actions.add_parser("list", help="show what is provisioned for this agent"),
        actions.add_parser("remove", help="delete the trunk and the dispatch rule"),
    ):
        settings.add_arguments(action, "livekit")


def run(args: argparse.Namespace) -> int:
    loaded = settings.load(args)
    if not (loaded.livekit_url and loaded.livekit_api_key and loaded.livekit_api_secret):
        raise CommandError("set LIVEKIT_URL, LIVEKIT_API_KEY and LIVEKIT_API_SECRET")
    check_livekit_url(loaded.livekit_url)
    if args.action == "setup":
        plan = plan_of(args, loaded)
        return asyncio.run(_with_server(loaded, lambda sip: setup(sip, plan)))
    action = remove if args.action == "remove" else show
    return asyncio.run(_with_server(loaded, lambda sip: action(sip, loaded.agent_name)))


def plan_of(args: argparse.Namespace, loaded: Settings) -> Plan:
    """The flags of `setup`, checked."""
    for number in args.number:
        if not NUMBER.fullmatch(number):
            raise CommandError(f"--number {number!r} is not in E.164 form, such as +12025550100")
    try:
        read_metadata(args.metadata)
    except SessionError as error:
        raise CommandError(f"--metadata: {error.message}") from None
    addresses = [part.strip() for part in args.allowed_addresses.split(",") if part.strip()]
    return Plan(
        name=loaded.agent_name,
        numbers=tuple(sorted(set(args.number))),
        allowed_addresses=tuple(map(_address, addresses)),
        room_prefix=args.room_prefix,
        metadata=args.metadata,
    )


def _address(text: str) -> str:
    """An address or network as the LiveKit server reads it: a network by the length of its prefix.

    Raises `CommandError`.
    """
    try:
        if "/" in text:
            return str(ipaddress.ip_network(text, strict=False))
        return str(ipaddress.ip_address(text))
    except ValueError as error:
        raise CommandError(
            f"--allowed-addresses: {error}; give addresses or networks, such as 192.0.2.7 or "
            "198.51.100.0/24"
        ) from None


async def _with_server(loaded: Settings, act: Callable[[SipService], Awaitable[None]]) -> int:
    url = loaded.livekit_url.replace("ws", "http", 1)
    key, secret = loaded.livekit_api_key, loaded.livekit_api_secret
    async with api.LiveKitAPI(url, key, secret) as server:
        try:
            await act(server.sip)
        except api.TwirpError as error:
            raise CommandError(_explain(error, loaded.livekit_url)) from None
        except (aiohttp.ClientError, TimeoutError) as error:
            reason = type(error).__name__
            raise CommandError(f"cannot reach {loaded.livekit_url} ({reason}); see --url") from None
    return 0


def _explain(error: api.TwirpError, url: str) -> str:
    if "redis" in error.message:
        return f"the LiveKit server at {url} runs without Redis, which SIP needs; see its config"
    if error.status == HTTPStatus.UNAUTHORIZED:
        return f"the LiveKit server at {url} does not accept this API key and secret"
    return f"the LiveKit server at {url} answered {error.code}: {error.message}"


async def setup(sip: SipService, plan: Plan) -> None:
    trunk_id = await _ensure_trunk(sip, plan)
    rule_id = await _ensure_rule(sip, plan, trunk_id)
    print(f"trunk {trunk_id}: {', '.join(plan.numbers)}")
    print(f"rule {rule_id}: rooms {plan.room_prefix}*, agent {plan.name}")
    if not plan.allowed_addresses:
        print("note: calls are taken from any address; narrow it with --allowed-addresses")


async def _ensure_trunk(sip: SipService, plan: Plan) -> str:
    """Update the first trunk of this name, or make one."""
    wanted = plan.trunk()
    for known in await _trunks(sip, plan.name):
        updated = await sip.update_inbound_trunk(known.sip_trunk_id, wanted)
        return updated.sip_trunk_id
    made = await sip.create_inbound_trunk(CreateSIPInboundTrunkRequest(trunk=wanted))
    return made.sip_trunk_id


async def _ensure_rule(sip: SipService, plan: Plan, trunk_id: str) -> str:
    wanted = plan.rule(trunk_id)
    for known in await _rules(sip, plan.name):
        updated = await sip.update_dispatch_rule(known.sip_dispatch_rule_id, wanted)
        return updated.sip_dispatch_rule_id
    made = await sip.create_dispatch_rule(CreateSIPDispatchRuleRequest(dispatch_rule=wanted))
    return made.sip_dispatch_rule_id


async def show(sip: SipService, name: str) -> None:
    trunks, rules = await _trunks(sip, name), await _rules(sip, name)
    for trunk in trunks:
        allowed = ", ".join(trunk.allowed_addresses) or "any address"
        print(f"trunk {trunk.sip_trunk_id}: {', '.join(trunk.numbers)} from {allowed}")
    for rule in rules:
        prefix = rule.rule.dispatch_rule_individual.room_prefix
        print(f"rule {rule.sip_dispatch_rule_id}: rooms {prefix}*, agent {name}")
    if not trunks and not rules:
        print(f"nothing is provisioned for the agent {name}")


async def remove(sip: SipService, name: str) -> None:
    """Rules go first: a trunk without a rule takes no calls."""
    for rule in await _rules(sip, name):
        await sip.delete_dispatch_rule(
            DeleteSIPDispatchRuleRequest(sip_dispatch_rule_id=rule.sip_dispatch_rule_id)
        )
        print(f"removed rule {rule.sip_dispatch_rule_id}")
    for trunk in await _trunks(sip, name):
        await sip.delete_trunk(DeleteSIPTrunkRequest(sip_trunk_id=trunk.sip_trunk_id))
        print(f"removed trunk {trunk.sip_trunk_id}")


async def _trunks(sip: SipService, name: str) -> list[SIPInboundTrunkInfo]:
    listed = await sip.list_inbound_trunk(ListSIPInboundTrunkRequest())
    return [trunk for trunk in listed.items if trunk.name == name]


async def _rules(sip: SipService, name: str) -> list[SIPDispatchRuleInfo]:
    listed = await sip.list_dispatch_rule(ListSIPDispatchRuleRequest())
    return [rule for rule in listed.items if rule.name == name]
