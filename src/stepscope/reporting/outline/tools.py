"""Sections on the results of single tools, each of a few lines."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from stepscope.reporting.outline.cells import (
    count_cell,
    known,
    percent_cell,
    rate_cell,
    table_of_rows,
    text_cell,
    us_cell,
)
from stepscope.reporting.outline.parts import Bar, Bars, More, Paragraph, Table
from stepscope.reporting.words.names import (
    INPUT_CATEGORY_NAMES,
    WORKER_STATES,
    as_sentence,
    join_phrases,
    ms,
    percent,
    us,
)
from stepscope.unavailable import Unavailable
from stepscope.units import bytes_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepscope.analysis.input_pipeline_analyzer import InputPipelineResult
    from stepscope.reporting.document import Document
    from stepscope.reporting.outline.cells import TableColumn
    from stepscope.reporting.outline.parts import Part
    from stepscope.reporting.page import Role
    from stepscope.unavailable import Missing

_WAITED_FOR: Final = "waiting_for_workers"
#: Maximum number of functions of worker processes.
_MAX_FUNCTIONS: Final = 8
#: Verdicts that this section writes; the findings contain the other verdicts.
_BOUND: Final = frozenset({"moderately_input_bound", "highly_input_bound"})
_MAX_MEMORIES: Final = 8
#: Maximum number of annotations; the tool `model_views` lists all.
_MAX_ANNOTATIONS: Final = 3
#: Maximum number of program lines for each memory.
_MAX_LINES: Final = 3
_MEMORIES: Final[tuple[TableColumn, ...]] = (
    ("memory", "memory_id", text_cell),
    ("peak", "peak_bytes", known(bytes_text)),
    ("of capacity", "peak_capacity_percent", percent_cell),
    ("capacity", "capacity_bytes", known(bytes_text)),
    ("peak at", "peak_time_ms", known(ms)),
)
#: Columns for a file that shows memory at one instant and thus has no peak.
_AT_ONE_INSTANT: Final[tuple[TableColumn, ...]] = (
    _MEMORIES[0],
    ("in use", "peak_bytes", known(bytes_text)),
    *_MEMORIES[2:4],
)
#: Fields of the result that the section shows.
_MEMORY_COLUMNS: Final = ("rows.peak_bytes", "rows.peak_capacity", "rows.capacity")
_ROLES: Final[dict[str, Role]] = {"warning": "warn", "critical": "bad"}
_WAITING: Final = (
    "Times and rates include waiting for other ranks. The column bus GiB/s is the rate "
    "on the link of one rank."
)
_KERNELS: Final[tuple[TableColumn, ...]] = (
    ("kernel", "kernel_name", text_cell),
    ("runs", "occurrences", count_cell),
    ("total", "total_us", us),
    ("mean", "avg_us", us),
    ("of all kernels", "device_time_percent", percent_cell),
)
#: Columns of ops that are summed over the ops of a type.
_SUMMED: Final = ("occurrences", "total_self_time_us", "host_self_percent")
#: Maximum number of rows in the tables of ops and of kernels.
_MAX_ROWS: Final = 5
_ONE_OP: Final = (
    "Details of one op, with the cause of its time: "
    "stepscope show framework_op_stats PATH --op NAME"
)
_ONE_RANGE: Final = (
    "Details of one annotation: stepscope show model_views PATH --op NAME"
)


def input_pipeline(document: Document) -> Iterator[Part]:
    """Write input verdict, host work and slowest stage; nothing if input is in time."""
    result = document.input_pipeline
    if isinstance(result, Unavailable) or result.verdict not in _BOUND:
        return
    hosts = len(document.profile.hosts)
    text = f"All {hosts} hosts together: {result.text}" if hosts > 1 else result.text
    yield Paragraph(text)
    yield from _host_work_parts(result)
    yield from _worker_paragraphs(result)
    stage = _slowest_stage(document)
    if stage is not None:
        yield Paragraph(stage)
    elif result.next_steps:
        yield Paragraph(result.next_steps[0].advice)
    yield More("stepscope show input_pipeline_analyzer PATH")
    if stage is not None:
        yield More("stepscope show tf_data_bottleneck_analysis PATH")


def _host_work_parts(result: InputPipelineResult) -> Iterator[Part]:
    bars = []
    not_recorded = []
    for name, title in INPUT_CATEGORY_NAMES.items():
        time = result.host_breakdown_us.get(name)
        share = result.host_breakdown_percent.get(name)
        if time is None:
            not_recorded.append(title)
        elif time and share is not None:
            bars.append(Bar(title, us(time), share))
    if not bars:
        return
    label = "Host work on input, summed over all threads (not the delay of the step):"
    yield Paragraph(label, role="dim")
    yield Bars(tuple(bars), "time")
    if not_recorded:
        yield Paragraph(f"Not recorded: {join_phrases(not_recorded)}.", role="dim")


def _worker_paragraphs(result: InputPipelineResult) -> Iterator[Paragraph]:
    rows = result.worker_functions
    if not len(rows):
        if (result.input_ops["category"] == _WAITED_FOR).any():
            for entry in result.missing:
                if entry.field == "worker_functions":
                    yield Paragraph(f"{entry.reason} {entry.remedy}")
        return
    several = rows["host"].n_unique() > 1
    workers = int(rows.unique("host")["workers"].sum())
    yield Paragraph(
        f"Time of the worker processes ({workers} sampled) while steps run:", role="dim"
    )
    for row in rows.head(_MAX_FUNCTIONS).iter_rows(named=True):
        where = f" on {row['host']}" if several else ""
        share = f"{percent(row['time_percent']):>7}"
        yield Paragraph(f"{share}  {_worker_activity_text(row)}{where}", indent=4)


def _worker_activity_text(row: dict[str, Any]) -> str:
    if row["function"] is None:
        return WORKER_STATES[row["state"]]
    file = PurePath((row["file"] or "").replace("\\", "/")).name
    place = f" ({file}:{row['line']})" if file and row["line"] is not None else ""
    inside = f", most of it in {row['inside']}" if row["inside"] else ""
    hot = row["hot_line"]
    line_ = "" if hot is None or inside or hot == row["line"] else f", line {hot}"
    return f"{row['function']}{place}{line_}{inside}"


def _slowest_stage(document: Document) -> str | None:
    result = document.tf_data
    if isinstance(result, Unavailable):
        return None
    summary = result.summary
    slow, latency = summary.bottleneck, summary.max_latency_us
    if not summary.limits_steps or slow is None or latency is None:
        return None
    several = len(document.profile.hosts) > 1
    where = f" on {summary.host}" if several and summary.host is not None else ""
    text = (
        f"The slowest stage of the pipeline{where} is {slow.long_name}: it takes "
        f"{us(slow.critical_time_us)} of the longest call ({us(latency)})."
    )
    return text if summary.suggestion is None else f"{text} {summary.suggestion}"


def request_parts(document: Document) -> Iterator[Part]:
    """Write request latencies, also by batch size; nothing without requests."""
    result = document.inference
    if isinstance(result, Unavailable):
        return
    latency = result.latency_ms
    rate = result.throughput_per_s
    speed = "" if rate is None else f", {rate:,.1f} a second"
    yield Paragraph(
        f"{result.request_count:,} requests{speed} · latency p50 {ms(latency.p50)} · "
        f"p99 {ms(latency.p99)} · max {ms(latency.max)}"
    )
    if len(result.by_batch_size) > 1:
        rows = tuple(
            (
                f"{size.batch_size:,}",
                f"{size.requests:,}",
                ms(size.latency_ms.p50),
                ms(size.latency_ms.p99),
                known(ms)(size.per_item_ms),
            )
            for size in result.by_batch_size
        )
        header = ("batch size", "requests", "p50", "p99", "mean per item")
        yield Table(header, rows, left=frozenset())
    yield More("stepscope show inference_profile PATH")


def memory_parts(document: Document) -> Iterator[Part]:
    """Write the peak of each memory, and which memories were nearly full."""
    result = document.memory
    if isinstance(result, Unavailable):
        return
    instant = all(memory.level == "one_instant" for memory in result.memories.values())
    shown = result.rows.head(_MAX_MEMORIES)
    yield table_of_rows(shown, _AT_ONE_INSTANT if instant else _MEMORIES)
    left = result.rows.height - shown.height
    if left:
        yield Paragraph(f"{left} more memories are not shown", role="dim")
    # If several memories hold the same allocations, the allocations are listed once.
    holding: dict[tuple[str, ...], list[str]] = {}
    for name, memory in result.memories.items():
        known = memory.lines.drop_nulls("source").head(_MAX_LINES)
        columns = known.select("allocation_bytes", "share_percent", "source")
        held = tuple(
            f"{bytes_text(size)}"
            f"{'' if share is None else f', {percent(share)}'}: {source}"
            for size, share, source in columns.iter_rows()
        )
        holding.setdefault(held, []).append(name)
    for held, names in holding.items():
        further = len(names) - 1
        memories = (
            f"{names[0]} (and {further} with equal contents)" if further else names[0]
        )
        for part in held:
            yield Paragraph(f"{memories}: {part}")
    for name, memory in result.memories.items():
        # Only the page of the memory tool shows fragmentation.
        for warning in memory.warnings:
            if warning.kind == "near_capacity":
                share = percent(100 * warning.value)
                text = f"{name}: {share} of its capacity is in use at the peak."
                yield Paragraph(text, role=_ROLES[warning.severity])
    gaps = dict.fromkeys((gap.reason, gap.remedy) for gap in memory_gaps(document))
    for reason, remedy in gaps:
        yield Paragraph(f"– {as_sentence(reason)} {remedy}", role="dim")
    yield More("stepscope show memory_profile PATH")


def memory_gaps(document: Document) -> tuple[Missing, ...]:
    """Return why values in the memory section are unknown."""
    if isinstance(document.memory, Unavailable):
        return ()
    entries = document.memory.missing
    return tuple(entry for entry in entries if entry.field.startswith(_MEMORY_COLUMNS))


def collective_parts(document: Document) -> Iterator[Part]:
    """Write the collectives by kind; nothing if no collective ran."""
    overview = document.overview
    if isinstance(overview, Unavailable) or not overview.collectives:
        return
    rows = tuple(
        (
            collective.kind,
            f"{collective.count:,}",
            us(collective.mean_us * collective.count),
            us(collective.exposed_us),
            known(bytes_text)(collective.bytes),
            rate_cell(collective.gib_per_s),
            rate_cell(collective.bus_gib_per_s),
        )
        for collective in overview.collectives
    )
    header = ("kind", "count", "time", "exposed", "bytes", "GiB/s", "bus GiB/s")
    # A narrow page drops the two least informative columns.
    yield Table(header, rows, expendable=("exposed", "GiB/s"))
    if any(collective.bytes is not None for collective in overview.collectives):
        yield Paragraph(_WAITING, role="dim")


def top_ops(document: Document) -> Iterator[Part]:
    """Write the ops with the most self time: device ops, else host ops."""
    result = document.ops
    if isinstance(result, Unavailable):
        if not document.is_plain:
            yield Paragraph(f"{result.reason} {result.remedy}")
        return
    rows = result.rows
    device = rows.filter(pl.col("host_or_device") == "Device")
    side, chosen = ("device", device) if device.height else ("host", rows)
    # A column of types would only take space: a PyTorch op's type is its name, and
    # names in parentheses, such as "(no annotation)", have no type.
    named_ops = chosen.filter(~pl.col("name").str.starts_with("("))
    typed = bool((named_ops["type"] != named_ops["name"]).any())
    first: tuple[TableColumn, ...] = ((f"op on the {side}", "name", text_cell),)
    if typed and side == "host":
        # The breakdown of a program on a host is by type, over all instances.
        first = (("type on the host", "type", text_cell), ("ops", "ops", count_cell))
        chosen = chosen.group_by("type", maintain_order=True).agg(
            ops=pl.len(),
            longest=pl.col("name").sort_by("total_self_time_us").last(),
            **{name: pl.col(name).sum() for name in _SUMMED},
        )
    elif typed:
        first += (("type", "type", text_cell),)
    top = chosen.sort("total_self_time_us", descending=True).head(_MAX_ROWS)
    if top.is_empty():
        yield Paragraph("No op was recorded.")
        return
    columns: tuple[TableColumn, ...] = (
        *first,
        ("runs", "occurrences", count_cell),
        ("self time", "total_self_time_us", us),
        ("of all ops", f"{side}_self_percent", percent_cell),
        *((("longest op", "longest", text_cell),) if "longest" in top.columns else ()),
    )
    texts = [row for row, (_, _, cell) in enumerate(columns) if cell is text_cell]
    yield table_of_rows(top, columns, left=frozenset(texts), expendable=("longest op",))
    yield Paragraph(_ONE_OP, role="dim")


def top_kernels(document: Document) -> Iterator[Part]:
    """Write the kernels with the most total time; nothing without a device."""
    result = document.kernels
    if isinstance(result, Unavailable):
        return
    if result.by_kernel.is_empty():
        yield Paragraph("No kernel was recorded.")
        return
    yield table_of_rows(result.by_kernel.head(_MAX_ROWS), _KERNELS)


def top_annotations(document: Document) -> Iterator[Part]:
    """Write the named ranges of the program with the most host time."""
    rows = tuple(
        (
            annotation.name,
            f"{annotation.occurrences:,}",
            *map(
                us_cell,
                (annotation.total_us, annotation.step_us, annotation.total_device_us),
            ),
        )
        for annotation in document.results.top_annotations(_MAX_ANNOTATIONS)
    )
    if rows:
        yield Table(("annotation", "calls", "host time", "per step", "device"), rows)
        yield Paragraph(_ONE_RANGE, role="dim")
