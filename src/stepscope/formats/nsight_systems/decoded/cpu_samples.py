"""Convert CPU samples to intervals of functions, for each thread.

A sample of a core records which thread is on the core, and the thread's stack. Only two
kinds of a stack's frames are kept: the program's own functions, outermost first, and
the first call of a device's runtime below them. Frames inside libraries explain little,
and many have no name. Samples without a function of the program are ignored.

Definition: docs/formats/nsight_systems.md#samples-of-processor-cores.
"""

from __future__ import annotations

import re
from enum import IntEnum
from pathlib import PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.formats.nsight_systems.decoded.events import (
    EVENT_COLUMNS,
    process_expr,
    thread_expr,
)
from stepscope.frozen import Frozen
from stepscope.units import PS_PER_NS, PS_PER_S
from stepscope.xspace.samples_line import SAMPLES_BASE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepscope.formats.nsight_systems.database.rows import Export
    from stepscope.formats.nsight_systems.decoded.events import Names

#: Maximum gap between two samples of one interval, in sampling periods.
_MAX_GAP_PERIODS: Final = 2
#: Maximum number of functions kept per stack, starting with the outermost.
_MAX_DEPTH: Final = 48
#: Matches names of calls of a device's runtime.
_CALL: Final = re.compile(r"(?:cu|cuda|hip)[A-Z]\w*")
#: Matches names of functions that are not the program's own: functions that a vendor
#: links into programs, startup code, and addresses without a name.
_NOT_OWN: Final = re.compile(
    r"(?:lib)?cudart(?:_static_|::)|(?:_start|__libc_start_\w+)\Z|\[|0x[0-9a-f]"
)
#: Namespaces of header functions, which the compiler puts into the program's file.
_FROM_HEADERS: Final = ("std::", "__gnu_cxx::")
#: Match names of files whose functions are not the program's own.
_INTERPRETER: Final = re.compile(r"(?:python|pypy)[\d.]*\w?(?:\.exe)?", re.IGNORECASE)
_SHARED: Final = re.compile(r"\.(?:so|dll|dylib)\b|^\[", re.IGNORECASE)


class _Place(IntEnum):
    LIBRARY = 0  # a function of a library, startup code, or a function without a name
    OWN = 1
    CALL = 2  # a call of a device's runtime


class CpuSamples(Frozen, frozen=True, kw_only=True, eq=True):
    """Intervals of functions from CPU samples.

    Attributes:
        frame: Events on separate tracks next to the tracks of the threads.
        hz: Number of samples per second of a running thread; 0 if there are none.
    """

    frame: pl.DataFrame
    hz: float


def cpu_samples(export: Export, names: Names, *, threads: Sequence[int]) -> CpuSamples:
    """Return the intervals in which the program's threads were in functions.

    Args:
        threads: Global ids of the threads.
    """
    # Keep the samples of the given threads, grouped by thread, in time order.
    samples = (
        export.frame("COMPOSITE_EVENTS")
        .drop_nulls()
        .filter(
            pl.col("globalTid").is_in(list(threads)),
            # ±36 years in ns: twice the difference of two such times fits 64 bits.
            pl.col("start").is_between(-(2**60), 2**60),
        )
        .unique("id", keep="first", maintain_order=True)
        .sort("globalTid", "start", maintain_order=True)
    )
    stacks = _sample_stacks(export, names, samples)
    samples = samples.join(stacks.select("id").unique(), on="id", how="semi")
    # Median time between two samples of one thread, in ns.
    intervals = samples.select(pl.col("start").diff().over("globalTid")).to_series()
    period = int(intervals.filter(intervals > 0).median() or 0)  # type: ignore[arg-type]
    if period == 0:
        return CpuSamples(frame=pl.DataFrame(schema=EVENT_COLUMNS), hz=0.0)
    samples = samples.with_row_index("look")
    runs = pl.concat(
        list(_runs_of_functions(samples, stacks.join(samples, on="id"), period))
    )
    return CpuSamples(
        frame=runs.select(
            "start",
            "dur",
            process=process_expr("globalTid", machines=export.machines),
            id=SAMPLES_BASE + thread_expr("globalTid"),
            name="name",
        ),
        hz=float(f"{PS_PER_S / PS_PER_NS / period:.3g}"),
    )


def _sample_stacks(export: Export, names: Names, samples: pl.DataFrame) -> pl.DataFrame:
    """Return the functions of samples: `id`, `at` (0 is the outermost) and `name`.

    Samples without a function of the program have no rows.
    """
    chains = export.frame("SAMPLING_CALLCHAINS").drop_nulls(["id", "stackDepth"])
    named = (pl.col("unresolved") == 0).fill_null(value=True)
    chains = chains.join(samples.select("id"), on="id", how="semi").select(
        "id", "module", depth="stackDepth", symbol=pl.when(named).then("symbol")
    )
    pairs = chains.select("symbol", "module").unique(maintain_order=True)
    kinds = [_kind_of_function(export, *pair) for pair in pairs.iter_rows()]
    known = pairs.with_columns(
        place=pl.Series([kind.value for kind, _ in kinds], dtype=pl.UInt8),
        name=pl.Series([names.number(text) for _, text in kinds], dtype=pl.Int32),
    ).filter(pl.col("place") > _Place.LIBRARY)
    functions = chains.join(known, on=["symbol", "module"], nulls_equal=True)
    own, call = (pl.col("place") == kind for kind in (_Place.OWN, _Place.CALL))
    # Outer functions have a larger depth. The program made the outermost runtime call.
    calls_at = pl.col("depth").filter(call).max().over("id")
    return (
        functions.filter(own.any().over("id"))
        .filter((pl.col("depth") >= calls_at).fill_null(value=True))
        .sort("id", "depth", descending=[False, True])
        .select("id", "name", at=pl.int_range(pl.len()).over("id"))
        .filter(pl.col("at") < _MAX_DEPTH)
    )


def _kind_of_function(
    export: Export, symbol: int | None, module: int | None
) -> tuple[_Place, str]:
    function = "" if symbol is None else export.strings.get(symbol, "")
    path = "" if module is None else export.strings.get(module, "")
    file = PureWindowsPath(path).name if "\\" in path else PurePosixPath(path).name
    if _CALL.fullmatch(function):
        return _Place.CALL, f"$<{file}>!{function}"
    is_library = _SHARED.search(file) or _INTERPRETER.fullmatch(file) or not file
    if is_library or not function or _NOT_OWN.match(function):
        return _Place.LIBRARY, ""
    name = _strip_types(function)
    if name.startswith(_FROM_HEADERS):
        return _Place.LIBRARY, ""
    return _Place.OWN, f"${file}!{name}"


def _strip_types(function: str) -> str:
    """Return `ns::solve<float>` for `void ns::solve<float>(int, float*) const`.

    The name of an operator keeps its arguments, because it may contain brackets.
    """
    depth, begin = 0, 0
    for index, letter in enumerate(function):
        if depth == 0 and function.startswith("operator", index):
            return function[begin:]
        if letter == "(" and depth == 0 and index > begin:
            return function[begin:index]
        if letter in "<(":
            depth += 1
        elif letter in ">)":
            depth -= 1
        elif letter == " " and depth == 0:
            begin = index + 1
    return function


def _runs_of_functions(
    samples: pl.DataFrame, stacks: pl.DataFrame, period: int
) -> Iterator[pl.DataFrame]:
    """Yield intervals per stack depth: `globalTid`, `start`, `dur`, `name`.

    Consecutive samples with the same function below the same callers are one interval.
    An interval ends halfway to the next sample, or half a period after its last sample.
    """
    thread, start = samples["globalTid"].to_numpy(), samples["start"].to_numpy()
    gap = np.diff(start)
    far = (np.diff(thread) != 0) | (gap > _MAX_GAP_PERIODS * period)
    half, middle = period // 2, start[:-1] + gap // 2
    begin = np.concatenate([[start[0] - half], np.where(far, start[1:] - half, middle)])
    end = np.concatenate([np.where(far, start[:-1] + half, middle), [start[-1] + half]])
    changed = np.concatenate([[True], far])
    levels, sample_index = stacks["at"].to_numpy(), stacks["look"].to_numpy()
    name = stacks["name"].to_numpy()
    for depth in range(int(levels.max(initial=-1)) + 1):
        function = np.full(len(start), -1, np.int32)
        function[sample_index[levels == depth]] = name[levels == depth]
        changed = changed | np.concatenate([[True], function[1:] != function[:-1]])
        first = np.flatnonzero(changed)
        last = np.concatenate([first[1:], [len(start)]]) - 1
        runs = function[first] >= 0
        first, last = first[runs], last[runs]
        yield pl.DataFrame(
            {
                "globalTid": thread[first],
                "start": begin[first],
                "dur": end[last] - begin[first],
                "name": function[first],
            }
        )
