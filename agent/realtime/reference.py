"""The API reference, generated from the event models: `python -m agent.realtime.reference`.

`docs/api.md` holds its output, and a test holds the two equal. It knows only the models.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterator
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from agent.errors import CODES
from agent.realtime import events, server_events

HEAD = """# Realtime API reference

Generated from the event models by `python -m agent.realtime.reference`; do not edit.
What the events do together stands in [realtime.md](realtime.md).

Every client event may carry `event_id`, a string of at most 512 characters, which an `error` caused
by it echoes. Every server event carries `event_id`, and all but `session.created` carry
`server_event_seq`.
"""
CODES_HEAD = """## Error codes

`at open`: only a failed opening ends. `at binding`: so does a session whose first input came before
voice and persona, named by an update, turned out to be impossible; told earlier, it goes on with
the default ones.
"""


def reference() -> str:
    """The whole document."""
    parts = [HEAD, "## Client events\n", *_events(events, events.ClientEvent)]
    parts += ["## Server events\n", *_events(server_events, server_events.ServerEvent)]
    parts += [CODES_HEAD, _codes()]
    return "\n".join(parts)


def _events(module: types.ModuleType, base: type[BaseModel]) -> Iterator[str]:
    for _, model in inspect.getmembers(module, inspect.isclass):
        if issubclass(model, base) and "type" in model.model_fields:
            yield _event(model)


def _event(model: type[BaseModel]) -> str:
    names = get_args(model.model_fields["type"].annotation)
    title = " / ".join(f"`{name}`" for name in names)
    lines = [f"### {title}\n", f"{inspect.getdoc(model)}\n"]
    shown = {name: f for name, f in model.model_fields.items() if name not in ("type", "event_id")}
    if shown:
        lines += ["| field | type | default | |", "|---|---|---|---|"]
    for name, info in shown.items():
        default = "required" if info.is_required() else _default(info)
        kind = _type(info.annotation)
        lines.append(f"| `{name}` | {kind} | {default} | {info.description or ''} |")
    return "\n".join([*lines, ""])


def _default(info: Any) -> str:
    if info.default_factory is not None:
        return f"`{info.default_factory()!r}`"
    return "" if info.default in (None, PydanticUndefined) else f"`{info.default!r}`"


def _type(annotation: Any) -> str:
    origin = get_origin(annotation)
    if origin in (Union, types.UnionType):
        kinds = [kind for kind in get_args(annotation) if kind is not type(None)]
        return " or ".join(_type(kind) for kind in kinds)
    if origin is Literal:
        return " or ".join(f"`{value}`" for value in get_args(annotation))
    if annotation is Any:
        return "any"
    names = {str: "string", int: "integer", float: "number", bool: "boolean"}
    return names.get(annotation, "list" if origin is list else "object")


def _codes() -> str:
    lines = ["| code | type | ends the session | retry | cure |", "|---|---|---|---|---|"]
    for code, entry in CODES.items():
        retry = "yes" if entry.retryable else ""
        lines.append(f"| `{code}` | `{entry.type}` | {entry.ends} | {retry} | {entry.cure} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    print(reference(), end="")
