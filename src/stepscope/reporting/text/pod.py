"""Page of text for all workers of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.reporting.outline.cells import UNKNOWN, ms_cell, reason_parts
from stepscope.reporting.outline.parts import Break, Paragraph, Table, outlined
from stepscope.reporting.to_table import MAX_ROWS
from stepscope.reporting.words.names import CATEGORY_NAMES, CLOCK_TEXTS, percent, us
from stepscope.reporting.words.pages import slowest_worker_texts, worker_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepscope.analysis.pod_viewer import PodViewerResult
    from stepscope.analysis.pod_viewer.result import WorkerSummary
    from stepscope.reporting.outline.parts import Part

#: Field of a worker → heading of its column; columns without any value are left out.
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


@outlined
def pod_outline(
    result: PodViewerResult, *, title: str, doubts: Sequence[str], others: Sequence[str]
) -> Iterator[Part]:
    """Write the slowest worker, the reason, how clocks were aligned, and all workers.

    Args:
        doubts: Doubts about the run as a whole.
        others: Names of tables that can be shown or exported in full.
    """
    yield Paragraph(title, strong=True)
    yield Break()
    for message in (*doubts, *(note.message for note in result.quality)):
        yield Paragraph(message, role="warn")
    head, because = slowest_worker_texts(result)
    if result.slowest is not None:
        yield Paragraph(head, role="heading")
        yield Paragraph(because)
    elif head not in {note.message for note in result.quality}:
        # The doubts above may already contain this sentence.
        yield Paragraph(head)
    yield Paragraph(_clock_sentence(result))
    yield Break()
    yield _worker_table(result.workers[:MAX_ROWS])
    # A page of text puts a blank line between two tables.
    yield _breakdown_table(result.workers[:MAX_ROWS])
    yield Break()
    notes = ["Times are means per step."]
    if len(result.workers) > MAX_ROWS:
        notes.append(
            f"{len(result.workers) - MAX_ROWS:,} of {len(result.workers):,} workers "
            "are not shown; --format csv has all."
        )
    notes.append(f"Full tables (--table NAME): {', '.join(others)}.")
    yield Paragraph(" ".join(notes))
    own = [entry for entry in result.missing if entry.field.startswith("workers")]
    # A worker that is a host without devices has a null device, which is not missing.
    yield from reason_parts([entry for entry in own if entry.field != "workers.device"])


def _clock_sentence(result: PodViewerResult) -> str:
    if len(result.clocks) < 2:
        return ""
    sources = {clock.source for clock in result.clocks} - {"reference"}
    for source in ("none", "steps", "recorded"):
        if source in sources:
            return f"{len(result.clocks)} hosts. {CLOCK_TEXTS[source]}."
    doubt = max(clock.doubt_us or 0.0 for clock in result.clocks)
    return (
        f"{len(result.clocks)} hosts. {CLOCK_TEXTS['collectives']}, "
        f"to within {us(doubt)}."
    )


def _worker_table(workers: Sequence[WorkerSummary]) -> Table:
    fields = [
        field
        for field in _COLUMNS
        if any(getattr(worker, field) is not None for worker in workers)
    ]
    if not any(worker.collective_untold_ms for worker in workers):
        fields = [field for field in fields if field != "collective_untold_ms"]
    rows = tuple(
        (
            worker_name(worker.host, worker.device),
            *(ms_cell(getattr(worker, field)) for field in fields),
            CATEGORY_NAMES[worker.bottleneck],
        )
        for worker in workers
    )
    header = ("worker", *(_COLUMNS[field] for field in fields), "largest category")
    return Table(header, rows, left=frozenset({0, len(header) - 1}))


def _breakdown_table(workers: Sequence[WorkerSummary]) -> Table:
    shown = [
        category
        for category in _SHORT
        if any(worker.breakdown_ms.get(category) for worker in workers)
    ]
    rows = tuple(
        (
            worker_name(worker.host, worker.device),
            *(
                UNKNOWN
                if (part := worker.breakdown_ms.get(category)) is None
                or not worker.total_ms
                else percent(100.0 * part / worker.total_ms).removesuffix(" %")
                for category in shown
            ),
        )
        for worker in workers
    )
    return Table(("% of the step", *(_SHORT[category] for category in shown)), rows)
