"""What `stepscope explain` does once its options are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import click

from stepscope.analysis.gaps.explanation import explain_gap
from stepscope.cli.explaining.times import time_ps
from stepscope.cli.forms import REPORT_FORMS
from stepscope.cli.output import check_free, deliver
from stepscope.cli.progress import progress
from stepscope.cli.report import show
from stepscope.cli.terminal import text_width
from stepscope.errors import BadUsage
from stepscope.report import to_json
from stepscope.report.outline import as_markdown, as_text
from stepscope.report.outline.gaps import gap_outline
from stepscope.session import open_profile
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.analysis.gaps.explanation import Asked

#: Exit status where the recording cannot say.
_NO = 1


class Request(NamedTuple):
    """What was asked for.

    Attributes:
        paths: Paths as given on the command line.
        at: An instant; None where two times were given.
        begin: The first of two times; None for an instant.
        end: The second of two times; None for an instant.
        host: Name of the host; None for the first one.
        device: Ordinal of the device; None for the one that has most to explain.
        form: One of `REPORT_FORMS`.
        output: File to write; standard output where None.
        force: Whether to overwrite that file.
    """

    paths: tuple[str, ...]
    at: str | None
    begin: str | None
    end: str | None
    host: str | None
    device: int | None
    form: str
    output: str | None
    force: bool


def answer(asked: Request) -> int:
    """Explain the stretch, and return the exit status."""
    wanted = _wanted(asked)
    if asked.form not in REPORT_FORMS:
        raise BadUsage.unknown_name("format", asked.form, REPORT_FORMS)
    check_free(asked.output, force=asked.force)
    with progress(2) as shown:
        shown.stage("Reading")
        profile = open_profile(*asked.paths)
        shown.stage("Explaining")
        host = profile.hosts[0] if asked.host is None else asked.host
        found = explain_gap(profile, host, wanted, device=asked.device)
    if asked.form == "json":
        deliver(to_json.render_gap(found), asked.output)
        return 0
    if isinstance(found, Unavailable):
        click.echo(f"stepscope: {found.reason} {found.remedy}", err=True)
        return _NO
    outline = gap_outline(found)
    if asked.form == "markdown":
        deliver(as_markdown.render(outline), asked.output)
    else:
        show(as_text.render(outline, width=text_width()), asked.output)
    return 0


def _wanted(asked: Request) -> Asked:
    """Read the times.

    Raises:
        BadUsage: There are too few or too many, or one of them is none.
    """
    if asked.at is not None and asked.begin is None and asked.end is None:
        return time_ps("--at", asked.at)
    if asked.at is None and asked.begin is not None and asked.end is not None:
        return time_ps("--from", asked.begin), time_ps("--to", asked.end)
    raise BadUsage("give either --at TIME, or both --from TIME and --to TIME")
