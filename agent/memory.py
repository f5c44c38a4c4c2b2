"""Whether so many sessions of a checkpoint fit a device: one judgement for `doctor` and `start`."""

from __future__ import annotations

from model import Device, Needs

GIB = 2**30
MIB = 2**20


def shortage(needs: Needs, device: Device, sessions: int) -> str | None:
    """Why so many sessions do not fit and what to do, or none."""
    if needs.sessions_that_fit >= sessions:
        return None
    wanted = needs.weight_bytes + sessions * needs.session_bytes
    return (
        f"{sessions} sessions need {size(wanted)} and {size(device.free_bytes)}"
        f" are free on {device.kind}; {_remedy(needs)}"
    )


def _remedy(needs: Needs) -> str:
    if needs.sessions_that_fit:
        return f"set --max-sessions to {needs.sessions_that_fit} at most"
    return f"the weights alone take {size(needs.weight_bytes)}: free memory or use another device"


def size(count: int) -> str:
    return f"{count / GIB:.2f} GiB" if count >= GIB else f"{count / MIB:.1f} MiB"
