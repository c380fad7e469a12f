"""One thing that is looked at."""

from __future__ import annotations

from typing import Literal

import msgspec

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


def plain_check(group: str, name: str, fact: str, *, state: State = "ok") -> Check:
    """Return a check that needs no remedy."""
    return Check(group=group, name=name, state=state, fact=fact)


def problem_check(
    group: str, name: str, fact: str, remedy: str, *commands: str, state: State = "warn"
) -> Check:
    """Return a check of something that cannot be recorded, and what fixes it."""
    return Check(
        group=group, name=name, state=state, fact=fact, remedy=remedy, commands=commands
    )
