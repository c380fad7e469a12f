"""What `stepscope capture` does once its options are read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from stepscope.capture.ground.options import ProfilerOptions
from stepscope.capture.launching.harmless import say
from stepscope.errors import BadUsage
from stepscope.remote import client, registry
from stepscope.remote.addresses import addresses as parsed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.remote.outcome import HostOutcome, Outcome

__all__ = ["answer"]

#: Exit status where a host was not recorded.
_INCOMPLETE: Final = 1
_NS_PER_MS: Final = 1_000_000
#: How long is recorded by default, without steps and at most with them.
_USUAL_MS: Final = 2_000
_LONGEST_MS: Final = 60_000


def answer(
    addresses: Sequence[str],
    *,
    attach: Sequence[int],
    duration_ms: int | None,
    steps: int | None,
    delay_ms: int,
    attempts: int,
    logdir: str,
    token: str | None,
    certificate: str | None,
    allow_partial: bool,
    form: str,
    no_report: bool,
    **levels: Any,
) -> int:
    """Record, say what became of each host, and report.

    Returns:
        0, or 1 where a host was not recorded and `allow_partial` is false.
    """
    attached = [one for process in attach for one in registry.reached_by(process)]
    wanted = parsed([*addresses, *(one.address for one in attached)])
    if attached and not addresses:
        # The token of a program is for nobody else.
        token = token or _their_token(attached)
    options = ProfilerOptions(delay_ms=delay_ms or None, **levels)
    if duration_ms is None:
        duration_ms = _USUAL_MS if steps is None else _LONGEST_MS
    for_steps = "" if steps is None else f"{steps} steps, at most "
    say(f"recording {', '.join(wanted)} for {for_steps}{duration_ms / 1000:g} s")
    outcome = client.trace(
        wanted,
        logdir,
        duration_ms,
        num_tracing_attempts=attempts,
        options=options,
        # What the others recorded is told even where one failed.
        allow_partial=True,
        token=token,
        root_certificate=None
        if certificate is None
        else Path(certificate).read_bytes(),
        on_progress=None if form == "json" else lambda one: say(_line(one)),
        steps=steps,
    )
    complete = not outcome.problems()
    if form == "json":
        click.echo(_json(outcome))
    else:
        say(f"recorded into {outcome.directory}")
        if not complete:
            say(
                f"{len(outcome.hosts)} of {len(outcome.all)} hosts were recorded: the "
                "report is of these alone"
            )
        if not no_report:
            _report(outcome)
    return 0 if complete or allow_partial else _INCOMPLETE


def _their_token(attached: Sequence[registry.Listening]) -> str | None:
    tokens = {one.token for one in attached}
    if len(tokens) > 1:
        raise BadUsage(
            "these processes want different tokens: record them one after the other."
        )
    return tokens.pop()


def _line(one: HostOutcome) -> str:
    if one.state != "ok":
        return f"{one.address}: {one.text}"
    line = f"{one.address}: {one.bytes:,} bytes in {one.seconds:.1f} s"
    doubt = one.clock_doubt_ns
    if one.clock_offset_ns is not None and doubt is not None:
        ahead = abs(one.clock_offset_ns) > doubt
        if ahead:
            line += (
                f"; its clock differs by {one.clock_offset_ns / _NS_PER_MS:+.3f} ms "
                f"(± {doubt / _NS_PER_MS:.3f} ms)"
            )
    return line


def _json(outcome: Outcome) -> str:
    told = {
        "schema": 1,
        "run": outcome.run,
        "path": str(outcome.directory),
        "hosts": [one._asdict() for one in outcome.all],
    }
    return msgspec.json.encode(told).decode()


def _report(outcome: Outcome) -> None:
    from stepscope.cli import (  # noqa: PLC0415 - only when there is a report
        report as reporting,
    )

    reporting.answer(reporting.Request(paths=(str(outcome.directory),)))
