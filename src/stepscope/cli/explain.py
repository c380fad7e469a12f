"""Implementation of `stepscope explain`, after its options are parsed."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING, Final

import click

from stepscope.analysis.gaps.explanation import explain_gap
from stepscope.cli.output import check_free, deliver_answer, show_progress
from stepscope.cli.report import show_outline
from stepscope.cli.requests import TEXT_FORMS
from stepscope.errors import BadUsage
from stepscope.reporting import to_json
from stepscope.reporting.outline.gaps import gap_outline
from stepscope.session import open_profile
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_MS, PS_PER_NS, PS_PER_S, PS_PER_US

if TYPE_CHECKING:
    from stepscope.analysis.gaps.explanation import RequestedTime
    from stepscope.cli.requests import ExplainRequest

#: Exit status if the recording cannot explain the interval.
_UNAVAILABLE_STATUS: Final = 1
_UNITS: Final = {
    "s": PS_PER_S,
    "ms": PS_PER_MS,
    "us": PS_PER_US,
    "µs": PS_PER_US,
    "μs": PS_PER_US,
    "ns": PS_PER_NS,
    "ps": 1,
}
#: A number, perhaps with thousands separators, and a unit.
_TIME: Final = re.compile(
    r"(?P<number>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d*)?|\.\d+)\s*(?P<unit>[^\W\d]*)",
    re.ASCII,
)
_EXAMPLES: Final = "1.2345s, 12ms or 850us"


def answer_request(request: ExplainRequest) -> int:
    """Explain the interval, and return the exit status."""
    wanted: RequestedTime
    if request.at is not None and request.begin is None and request.end is None:
        wanted = time_ps("--at", request.at)
    elif request.at is None and request.begin is not None and request.end is not None:
        wanted = time_ps("--from", request.begin), time_ps("--to", request.end)
    else:
        raise BadUsage("give either --at TIME, or both --from TIME and --to TIME")
    if request.form not in TEXT_FORMS:
        raise BadUsage.unknown_name("format", request.form, TEXT_FORMS)
    check_free(request.output, force=request.force)
    with show_progress(2) as shown:
        shown.stage("Reading")
        profile = open_profile(*request.paths)
        shown.stage("Explaining")
        host = profile.hosts[0] if request.host is None else request.host
        explanation = explain_gap(profile, host, wanted, device=request.device)
    if request.form == "json":
        deliver_answer(to_json.render_gap(explanation), request.output)
        return 0
    if isinstance(explanation, Unavailable):
        click.echo(f"stepscope: {explanation.reason} {explanation.remedy}", err=True)
        return _UNAVAILABLE_STATUS
    show_outline(gap_outline(explanation), request)
    return 0


def time_ps(option: str, text: str) -> int:
    """Parse a time since the start of the profile, in ps.

    Args:
        option: Name of the option, for the error text.
        text: Value of the option, such as "12ms".

    Raises:
        BadUsage: The text is not a number with a unit.
    """
    match = _TIME.match(text.strip())
    unit = text.strip()[match.start("unit") :] if match is not None else ""
    if match is None:
        raise BadUsage(
            f"{option}: {text!r} is not a time; write a number and a unit, as in "
            f"{_EXAMPLES}"
        )
    if not unit:
        raise BadUsage(
            f"{option}: {text!r} has no unit; write it after the number, as in "
            f"{_EXAMPLES}"
        )
    if unit not in _UNITS:
        raise BadUsage.unknown_name("unit", unit, _UNITS, hint=f"({option} {text})")
    number = Decimal(match["number"].replace(",", ""))
    return int((number * _UNITS[unit]).to_integral_value())
