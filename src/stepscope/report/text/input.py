"""Where the input's time goes, where the program waits for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.report.page import Piece, bar, line, more, wrapped
from stepscope.report.words.names import INPUT_CATEGORY_NAMES, listed, percent, us
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.analysis.input_pipeline_analyzer import InputPipelineResult
    from stepscope.report.document import Document
    from stepscope.report.page import Line

__all__ = ["input_pipeline"]

_NAME_WIDTH: Final = 24
_NUMBERS_WIDTH: Final = 22
#: Verdicts that this section reports; the findings report the others.
_BOUND: Final = frozenset({"moderately_input_bound", "highly_input_bound"})


def input_pipeline(document: Document, width: int) -> list[Line]:
    """Write verdict, work on input and slowest stage; nothing where all is well."""
    result = document.input_pipeline
    if isinstance(result, Unavailable) or result.verdict not in _BOUND:
        return []
    hosts = len(document.profile.hosts)
    text = f"All {hosts} hosts together: {result.text}" if hosts > 1 else result.text
    lines = wrapped(text, width, indent=2)
    lines += _work(result, width)
    stage = _stage(document, width)
    if not stage and result.next_steps:
        lines += wrapped(result.next_steps[0].advice, width, indent=2)
    lines += [*stage, more("stepscope show input_pipeline_analyzer PATH")]
    if stage:
        lines.append(more("stepscope show tf_data_bottleneck_analysis PATH"))
    return lines


def _work(result: InputPipelineResult, width: int) -> list[Line]:
    """Write the time of each kind of host-side work; name what was not measured."""
    room = max(width - _NAME_WIDTH - _NUMBERS_WIDTH - 4, 10)
    drawn: list[Line] = []
    unseen = []
    for name, title in INPUT_CATEGORY_NAMES.items():
        time = result.host_breakdown_us.get(name)
        share = result.host_breakdown_percent.get(name)
        if time is None:
            unseen.append(title)
        elif time and share is not None:
            numbers = f"  {title:<{_NAME_WIDTH}}{us(time):>11}{percent(share):>9}  "
            drawn.append(line(numbers, Piece(bar(share / 100, room), "bar")))
    if not drawn:
        return []
    label = "The host's work on input, threads added up (work, not delay):"
    lines = [*wrapped(label, width, indent=2, role="dim"), *drawn]
    if unseen:
        text = f"Not looked at: {listed(unseen)}."
        lines += wrapped(text, width, indent=2, role="dim")
    return lines


def _stage(document: Document, width: int) -> list[Line]:
    """Write the bottleneck of the slowest call, where steps wait for that call."""
    result = document.tf_data
    if isinstance(result, Unavailable):
        return []
    summary = result.summary
    slow, latency = summary.bottleneck, summary.max_latency_us
    if not summary.limits_steps or slow is None or latency is None:
        return []
    several = len(document.profile.hosts) > 1
    where = f" on {summary.host}" if several and summary.host is not None else ""
    text = (
        f"Slowest stage that a batch waits for{where}: {slow.long_name}, "
        f"{us(slow.critical_time_us)} of a call of {us(latency)}."
    )
    if summary.suggestion is not None:
        text = f"{text} {summary.suggestion}"
    return wrapped(text, width, indent=2)
