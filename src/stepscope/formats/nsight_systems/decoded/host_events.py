"""Events of host threads: CUDA calls, named ranges, and system calls."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.formats.nsight_systems.decoded.events import (
    Sense,
    call_name,
    process_expr,
    thread_expr,
    timed_rows,
)
from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from stepscope.formats.nsight_systems.database.rows import Export
    from stepscope.formats.nsight_systems.decoded.events import Names

#: `eventClass` of a second record of a call, which only adds the call's stack.
_CALL_CHAIN: Final = 67
#: `eventType` of NVTX marks, of push/pop ranges, and of start/end ranges.
_MARKS: Final = (34,)
_NESTED: Final = (59, 70)
_SPANS: Final = (60, 71)
#: Matches the suffix that PyTorch adds to range names: ids, and shapes of operands.
_SUFFIX: Final = r"^(.+?), ((?:seq|op_id|sizes|input_op_ids) = .*)$"
#: Match range names of PyProf and DLProf: a call of PyTorch with its operands, or the
#: source location of the call (a line of each caller, and the function stack).
_CALLED: Final = r"^\{'mod': '([^']+)', 'op': '([^']+)'"
_CALLER: Final = r"^\{'traceMarker': \['([^']+)'"
_STACK: Final = r"'funcStack': '[^']*?([^'/]+)'\}"
#: Matches names of gradient nodes, which have no namespace.
_GRADIENT: Final = r"^[A-Za-z]\w*Backward\d*$"

_BACKWARD: Final = "of threads without a time, or that end before they begin"
_OPEN: Final = "of named ranges that were open when the recording ended"


class HostEvents(Frozen, frozen=True, kw_only=True, eq=True):
    """Events of threads, one frame per sort of event.

    Attributes:
        calls: Calls of the CUDA runtime and driver, with `correlation` and `returned`.
        ranges: Marks and push/pop ranges, with `op_id`, `seq` and `sizes`, which are
            null if PyTorch did not write them.
        spans: Ranges that may overlap other ranges.
        system_calls: Calls of the system's libraries by the program's threads.
        threads: Global ids of threads that call CUDA or name ranges; if there are none,
            of all threads with system calls.
        doubled: Number of call records that repeat another record.
    """

    calls: pl.DataFrame
    ranges: pl.DataFrame
    spans: pl.DataFrame
    system_calls: pl.DataFrame
    threads: tuple[int, ...]
    doubled: int
    refused: Counter[str]


def host_events(export: Export, names: Names) -> HostEvents:
    """Return the events of a file's threads."""
    refused: Counter[str] = Counter()
    calls, doubled = _read_calls(export, names, refused)
    nvtx = export.frame("NVTX_EVENTS")
    nvtx = nvtx.filter(pl.col("eventType").is_in([*_MARKS, *_NESTED, *_SPANS]))
    ranges = _read_ranges(nvtx, export, names, refused)
    is_span = pl.col("eventType").is_in(list(_SPANS))
    syscalls = export.frame("OSRT_API")
    threads = _thread_ids(calls, ranges) or _thread_ids(syscalls)
    syscalls = timed_rows(
        syscalls.filter(pl.col("globalTid").is_in(list(threads))), _BACKWARD, refused
    )
    syscalls = syscalls.with_columns(name=names.number_ids(syscalls["nameId"]))

    def placed(frame: pl.DataFrame) -> pl.DataFrame:
        return frame.with_columns(
            process=process_expr("globalTid", machines=export.machines),
            id=thread_expr("globalTid"),
        )

    return HostEvents(
        calls=placed(calls),
        ranges=placed(ranges.filter(~is_span)),
        spans=placed(ranges.filter(is_span)),
        system_calls=placed(syscalls),
        threads=threads,
        doubled=doubled,
        refused=refused,
    )


def _thread_ids(*frames: pl.DataFrame) -> tuple[int, ...]:
    ids = pl.concat([frame.select("globalTid") for frame in frames])[:, 0]
    return tuple(ids.drop_nulls().unique().sort().to_list())


def _meaning_literal(meaning: Sense) -> pl.Expr:
    return pl.lit(meaning.value, pl.UInt8)


def _read_calls(
    export: Export, names: Names, refused: Counter[str]
) -> tuple[pl.DataFrame, int]:
    rows = export.frame("CUPTI_ACTIVITY_KIND_RUNTIME")
    is_second = (pl.col("eventClass") == _CALL_CHAIN).fill_null(value=False)
    second = rows.filter(is_second)
    calls = rows
    if second.height:
        keys = ["globalTid", "correlationId"]
        first = rows.filter(~is_second)
        calls = pl.concat([first, second.join(first.select(keys), on=keys, how="anti")])
    doubled = rows.height - calls.height
    calls = timed_rows(calls, _BACKWARD, refused)
    correlation, returned = pl.col("correlationId"), pl.col("returnValue")
    return calls.select(
        "start",
        "dur",
        "globalTid",
        name=names.number_ids(calls["nameId"], call_name),
        correlation=pl.when(correlation != 0).then(correlation),
        returned=pl.when(returned != 0).then(returned),
    ), doubled


def _read_ranges(
    nvtx: pl.DataFrame, export: Export, names: Names, refused: Counter[str]
) -> pl.DataFrame:
    mark = pl.col("eventType").is_in(list(_MARKS))
    # A mark has a start but no end.
    nvtx = nvtx.with_columns(end=pl.when(mark).then("start").otherwise("end"))
    closed = nvtx.filter(pl.col("end").is_not_null())
    if lost := nvtx.height - closed.height:
        refused[_OPEN] += lost
    closed = timed_rows(closed, _BACKWARD, refused)
    known = pl.DataFrame(
        {"textId": list(export.strings), "of_id": list(export.strings.values())},
        schema={"textId": pl.Int64, "of_id": pl.String},
    )
    text = pl.coalesce("text", "of_id", pl.format("#{}", "textId"))
    named = closed.join(known, on="textId", how="left", maintain_order="left")
    named = named.with_columns(whole=text)
    text = pl.col("whole")
    # Show PyProf's text as `torch.nn.functional.linear`, or `cuda (train.py:34)`.
    shown = pl.coalesce(
        pl.format("{}.{}", text.str.extract(_CALLED, 1), text.str.extract(_CALLED, 2)),
        pl.format("{} ({})", text.str.extract(_STACK), text.str.extract(_CALLER)),
        text,
    )
    named = named.with_columns(whole=shown).with_columns(
        plain=pl.col("whole").str.extract(_SUFFIX, 1),
        suffix=pl.col("whole").str.extract(_SUFFIX, 2),
    )
    # PyTorch adds ids to the names of ops and of the program's ranges. Only op names
    # have a namespace. Ranges of libraries have a separate NVTX domain, or a namespace.
    plain = pl.coalesce("plain", "whole")
    namespace = plain.str.contains("::", literal=True)
    library = (pl.col("domainId") != 0).fill_null(value=False)
    op = pl.col("plain").is_not_null() & (namespace | plain.str.contains(_GRADIENT))
    meaning = (
        pl.when(op & ~library)
        .then(_meaning_literal(Sense.OP))
        .when(library | namespace | plain.is_null())
        .then(_meaning_literal(Sense.NOTHING))
        .otherwise(_meaning_literal(Sense.ANNOTATION))
    )
    suffix = pl.col("suffix")
    return named.with_columns(
        name=names.number_texts(named.select(plain)[:, 0]),
        said=meaning,
        op_id=suffix.str.extract(r"\bop_id = ([0-9]{1,18})").cast(pl.Int64),
        seq=suffix.str.extract(r"\bseq = ([0-9]{1,18})").cast(pl.Int64),
        sizes=suffix.str.extract(r"\bsizes = (\[.*?\])(?:, [a-z_]+ = |$)"),
    ).drop("whole", "plain", "suffix", "of_id")
