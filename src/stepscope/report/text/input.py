"""Where the input's time goes, where the program waits for it."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

from stepscope.report.page import Piece, bar, line, more, wrapped
from stepscope.report.words.names import (
    INPUT_CATEGORY_NAMES,
    WORKER_STATES,
    listed,
    percent,
    us,
)
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.analysis.input_pipeline_analyzer import InputPipelineResult
    from stepscope.report.document import Document
    from stepscope.report.page import Line

#: Category of a call that waits for worker processes.
_WAITED_FOR: Final = "waiting_for_workers"
#: So many functions of worker processes are told here.
_MOST_FUNCTIONS: Final = 8
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
    lines += _workers(result, width)
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


def _workers(result: InputPipelineResult, width: int) -> list[Line]:
    """Write what worker processes do; why nobody knows, where steps wait for them."""
    rows = result.worker_functions
    if not len(rows):
        waited_for = (result.input_ops["category"] == _WAITED_FOR).any()
        why = (one for one in result.missing if one.field == "worker_functions")
        texts = (f"{one.reason} {one.remedy}" for one in why if waited_for)
        return [it for text in texts for it in wrapped(text, width, indent=2)]
    several = rows["host"].n_unique() > 1
    workers = int(rows.unique("host")["workers"].sum())
    label = (
        f"What the worker processes ({workers} looked at) do while steps run, of their "
        "own time:"
    )
    lines = wrapped(label, width, indent=2, role="dim")
    for row in rows.head(_MOST_FUNCTIONS).iter_rows(named=True):
        where = f" on {row['host']}" if several else ""
        text = f"{percent(row['time_percent']):>7}  {_done_by_worker(row)}{where}"
        lines += wrapped(text, width, indent=4)
    return lines


def _done_by_worker(row: dict[str, Any]) -> str:
    if row["function"] is None:
        return WORKER_STATES[row["state"]]
    file = PurePath((row["file"] or "").replace("\\", "/")).name
    place = f" ({file}:{row['line']})" if file and row["line"] is not None else ""
    inside = f", most of it in {row['inside']}" if row["inside"] else ""
    hot = row["hot_line"]
    line_ = "" if hot is None or inside or hot == row["line"] else f", line {hot}"
    return f"{row['function']}{place}{line_}{inside}"


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
