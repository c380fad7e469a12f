"""What `stepscope doctor` does once its options are read."""

from __future__ import annotations

import textwrap
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import msgspec

from stepscope.doctor.checks import checks
from stepscope.doctor.machine import Machine

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepscope.doctor.check import Check

__all__ = ["answer"]

#: Version of the JSON form.
_SCHEMA: Final = 1
_WIDTH: Final = 96
_MARKS: Final = {"ok": "ok  ", "warn": "warn", "fail": "FAIL", "skip": "–   "}


def answer(path: str | None, *, logdir: str, form: str) -> int:
    """Look, and print what was found; return 1 where a check fails."""
    found = checks(Machine.here(), Path(logdir)) if path is None else _recording(path)
    if form == "json":
        told = {"schema": _SCHEMA, "checks": found}
        click.echo(msgspec.json.encode(told).decode())
    else:
        click.echo("\n".join(_lines(found)))
    return int(any(one.state == "fail" for one in found))


def _recording(path: str) -> tuple[Check, ...]:
    from stepscope.doctor.recording import (  # noqa: PLC0415 - reads nothing otherwise
        recording_checks,
    )
    from stepscope.session import open_profile  # noqa: PLC0415 - as above

    return recording_checks(open_profile(path))


def _lines(found: Sequence[Check]) -> Iterator[str]:
    for group, members in groupby(found, key=lambda one: one.group):
        yield group
        for one in members:
            text = f"{_MARKS[one.state]}  {one.name}: {one.fact}"
            yield textwrap.fill(
                text, _WIDTH, initial_indent="  ", subsequent_indent="        "
            )
            if one.remedy is not None:
                yield textwrap.fill(
                    one.remedy,
                    _WIDTH,
                    initial_indent="        → ",
                    subsequent_indent="          ",
                )
            for command in one.commands:
                # A command is copied: it is never broken.
                yield f"          {command}"
        yield ""
    states = [one.state for one in found]
    yield (
        f"{states.count('ok')} fine, {states.count('warn')} with a warning, "
        f"{states.count('fail')} failed, {states.count('skip')} do not apply."
    )
