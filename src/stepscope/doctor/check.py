"""The result of one check."""

from __future__ import annotations

from typing import Literal

import msgspec

State = Literal["ok", "warn", "fail", "skip"]


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one check.

    Attributes:
        group: Group of the check: Python, frameworks, machine, NVIDIA, CUPTI, tools,
            here and now; for a recording, its host.
        name: Subject of the check.
        state: "ok"; "warn" if something cannot be recorded; "fail" if no data of its
            kind can be recorded; "skip" if the check does not apply here.
        fact: Result of the check, in one line.
        remedy: What to do; null if nothing has to be done.
        commands: Commands to copy, in order, the least privileged first.
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
    """Return a check of something that cannot be recorded, with its remedy."""
    return Check(
        group=group, name=name, state=state, fact=fact, remedy=remedy, commands=commands
    )
