"""The workers of a run side by side, as a page of text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.report.page import Piece, line, plain_text, table, wrapped
from stepscope.report.to_table import MOST_ROWS
from stepscope.report.words.names import CATEGORY_NAMES, CLOCK_WORDS, ms, percent, us
from stepscope.report.words.pages import slowest_words, worker_name
from stepscope.report.words.reasons import reasons

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.analysis.pod_viewer import PodViewerResult
    from stepscope.analysis.pod_viewer.workers import WorkerSummary
    from stepscope.report.page import Align, Line
    from stepscope.unavailable import Missing

_UNKNOWN: Final = "–"
#: Field of a worker → heading of its column; a column that is null for all workers is
#: left out.
_COLUMNS: Final = {
    "total_ms": "step",
    "device_work_ms": "own work",
    "collective_wait_ms": "waited",
    "collective_transfer_ms": "transferred",
    "collective_untold_ms": "wait or transfer",
    "waited_for_ms": "others waited for it",
}
#: Category → heading of its column, which must be short.
_SHORT: Final = {
    "compilation": "compile",
    "input": "input",
    "output": "output",
    "kernel_launch": "launch",
    "host_compute": "host",
    "device_collectives": "collectives",
    "device_to_device": "D2D",
    "device_compute_16": "compute 16",
    "device_compute_32": "compute 32",
    "other": "others",
}


def render(
    result: PodViewerResult,
    *,
    title: str,
    doubts: Sequence[str],
    others: Sequence[str],
    width: int,
) -> str:
    """Write which worker is slow and why, how the clocks were compared, all workers.

    Args:
        result: The workers of a run.
        title: Tool, run and hosts.
        doubts: Doubts about the run as a whole.
        others: Names of the tables that can be shown or exported whole.
        width: Number of characters in a line.
    """
    lines = [line(Piece(title, "title")), line()]
    for message in (*doubts, *(note.message for note in result.quality)):
        lines += wrapped(message, width, indent=2, role="warn")
    lines += _slowest(result, width)
    lines += wrapped(_clocks(result), width, indent=2)
    for section in (_workers, _breakdown):
        lines += [line(), *section(result.workers[:MOST_ROWS], width)]
    lines += [line(), *_left_out(result, others, width)]
    return plain_text([*lines, *reasons(_of_the_page(result), width)])


def _slowest(result: PodViewerResult, width: int) -> list[Line]:
    head, because = slowest_words(result)
    if result.slowest is None:
        # The doubts above may say so already.
        said = head in {note.message for note in result.quality}
        return [] if said else wrapped(head, width, indent=2)
    return [
        *wrapped(head, width, indent=2, role="heading"),
        *wrapped(because, width, indent=2),
    ]


def _clocks(result: PodViewerResult) -> str:
    if len(result.clocks) < 2:
        return ""
    sources = {clock.source for clock in result.clocks} - {"reference"}
    for source in ("none", "steps", "recorded"):
        if source in sources:
            return f"{len(result.clocks)} hosts. {CLOCK_WORDS[source]}."
    doubt = max(clock.doubt_us or 0.0 for clock in result.clocks)
    return (
        f"{len(result.clocks)} hosts. {CLOCK_WORDS['collectives']}, "
        f"to within {us(doubt)}."
    )


def _workers(workers: Sequence[WorkerSummary], width: int) -> list[Line]:
    fields = [
        field
        for field in _COLUMNS
        if any(getattr(one, field) is not None for one in workers)
    ]
    if not any(one.collective_untold_ms for one in workers):
        fields = [field for field in fields if field != "collective_untold_ms"]
    body = [
        (
            worker_name(one.host, one.device),
            *(_time(getattr(one, field)) for field in fields),
            CATEGORY_NAMES[one.bottleneck],
        )
        for one in workers
    ]
    numbers: list[Align] = [">"] * len(fields)
    align: Sequence[Align] = ("<", *numbers, "<")
    header = ("worker", *(_COLUMNS[field] for field in fields), "largest category")
    return table(header, body, align=align, width=width, stretch=0)


def _breakdown(workers: Sequence[WorkerSummary], width: int) -> list[Line]:
    """Write the categories that hold time, side by side, in percent of the step."""
    shown = [
        category
        for category in _SHORT
        if any(one.breakdown_ms.get(category) for one in workers)
    ]
    body = [
        (
            worker_name(one.host, one.device),
            *(_share(one, category) for category in shown),
        )
        for one in workers
    ]
    numbers: list[Align] = [">"] * len(shown)
    align: Sequence[Align] = ("<", *numbers)
    header = ("% of the step", *(_SHORT[category] for category in shown))
    return table(header, body, align=align, width=width, stretch=0)


def _share(worker: WorkerSummary, category: str) -> str:
    part = worker.breakdown_ms.get(category)
    if part is None or not worker.total_ms:
        return _UNKNOWN
    return percent(100.0 * part / worker.total_ms).removesuffix(" %")


def _left_out(result: PodViewerResult, others: Sequence[str], width: int) -> list[Line]:
    notes = ["Times are means of a step."]
    if len(result.workers) > MOST_ROWS:
        notes.append(
            f"{len(result.workers) - MOST_ROWS:,} of {len(result.workers):,} workers "
            "are not shown; --format csv has all."
        )
    notes.append(f"Whole tables (--table NAME): {', '.join(others)}.")
    return wrapped(" ".join(notes), width, indent=2)


def _of_the_page(result: PodViewerResult) -> list[Missing]:
    """Return the reasons for missing values of this page, without those of steps."""
    own = [one for one in result.missing if one.field.startswith("workers")]
    # A worker that is a host has no device: nothing is missing.
    return [one for one in own if one.field != "workers.device"]


def _time(value: float | None) -> str:
    return _UNKNOWN if value is None else ms(value) if value else "0"
