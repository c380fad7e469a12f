"""One thing that is looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

if TYPE_CHECKING:
    from stepscope.remedies import Remedy

State = Literal["ok", "warn", "fail", "skip"]


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was looked at, and what was found.

    Attributes:
        group: What it belongs to: Python, frameworks, machine, NVIDIA, CUPTI, tools,
            here and now.
        name: What was looked at.
        state: "ok"; "warn" where something cannot be recorded; "fail" where nothing of
            its kind can be; "skip" where it does not apply here.
        fact: What was found, in a line.
        remedy: What to do; null where nothing is to be done.
        commands: Lines to copy, in order, the least privilege first.
    """

    group: str
    name: str
    state: State
    fact: str
    remedy: str | None = None
    commands: tuple[str, ...] = ()


def fact(group: str, name: str, text: str, *, state: State = "ok") -> Check:
    """Return a check that needs no remedy."""
    return Check(group=group, name=name, state=state, fact=text)


def mended_by(
    remedy: Remedy,
    group: str,
    name: str,
    text: str,
    *,
    state: State = "fail",
    commands: tuple[str, ...] | None = None,
) -> Check:
    """Return a check that a declared remedy fixes: reports quote the same.

    Args:
        remedy: What to do.
        group: What the check belongs to.
        name: What was looked at.
        text: What was found.
        state: How bad it is.
        commands: The lines to copy where this machine tells them exactly.
    """
    return Check(
        group=group,
        name=name,
        state=state,
        fact=text,
        remedy=remedy,
        commands=remedy.commands if commands is None else commands,
    )
