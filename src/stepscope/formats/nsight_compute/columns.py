"""Convert launches and metrics of Nsight Compute to the three declared tables.

A metric has the name of its counter on the raw page and with `--metrics`, and a title
on the details page. Names and titles changed between releases of Nsight Compute.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.formats.launch_shapes import MAX_REGISTERS
from stepscope.trace.schema import read_rows
from stepscope.trace.tables import (
    KERNEL_METRIC_VALUES,
    KERNEL_METRICS,
    KERNEL_RULE_RESULTS,
)
from stepscope.units import PS_PER_NS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stepscope.formats.nsight_compute.launches import Measured

#: Metric → its column, and its rank among the column's metrics (0 is preferred).
COLUMNS_OF: Final = {
    name: (column, rank)
    for column, names in read_rows(
        Path(__file__).with_name("metrics.md").read_text(encoding="utf-8")
    )
    for rank, name in enumerate(names.split("; "))
}
#: Size of a cache sector, in bytes.
_SECTOR_BYTES: Final = 32
#: Column → formulas, each a sum of other metrics: metric → its weight in the sum. A
#: formula is used only if all its metrics were measured.
SUMMED: Final[dict[str, tuple[Mapping[str, float], ...]]] = {
    "l2_bytes": ({"lts__t_sectors.sum": _SECTOR_BYTES},),
    "l1_bytes": ({"l1tex__t_sectors.sum": _SECTOR_BYTES},),
    "shared_memory_conflicts": (
        {
            "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum": 1,
            "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum": 1,
        },
    ),
    "shared_memory_wavefronts": (
        {
            "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum": 1,
            "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum": 1,
        },
    ),
    "local_memory_sectors": (
        {
            "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum": 1,
            "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum": 1,
        },
    ),
    **{
        f"{what}_bytes_per_sector": (
            {
                f"smsp__sass_average_data_bytes_per_sector_mem_global_op_{op}.pct": (
                    _SECTOR_BYTES / 100
                )
            },
        )
        for what, op in (("load", "ld"), ("store", "st"))
    },
    **{
        f"flops_fp{bits}": tuple(
            {
                f"{unit}__sass_thread_inst_executed_op_{letter}{op}_pred_on.sum": work
                for op, work in (("add", 1), ("mul", 1), ("fma", 2))
            }
            for unit in ("smsp", "sm")
        )
        for bits, letter in ((16, "h"), (32, "f"), (64, "d"))
    },
}
#: Matches metrics of Tensor Core operations by floating-point type; integer operations
#: are not FLOPs. Metrics with (or without) sparsity are parts of the matched metrics.
TENSOR_OPS: Final = re.compile(
    r"sm__ops_path_tensor_src_(?:fp|bf|tf)\d+(?:_dst_(?:fp|bf)\d+)?\.sum\Z"
)
#: Match metrics of the cycles that a warp waits between instructions, by stall reason.
WARP_STALLS: Final = (
    re.compile(
        r"smsp__average_warps_issue_stalled_(?!selected|\w+_not_issued)"
        r"(\w+)_per_issue_active\.ratio\Z"
    ),
    re.compile(
        r"smsp__average_warp_latency_issue_stalled_(?!selected|\w+_not_issued)"
        r"(\w+)\.ratio\Z"
    ),
)
#: Metrics of all cycles between two instructions of a warp.
WARP_CYCLES: Final = (
    "smsp__average_warp_latency_per_inst_issued.ratio",
    "smsp__average_warps_active_per_issue_active.ratio",
    "Warp Cycles Per Issued Instruction",
)
_NS_PER_S: Final = 1e9
_PER_CYCLE: Final = ".per_cycle_elapsed"
_PER_SECOND: Final = ".per_second"
#: Minimum number of stall reasons; a file with fewer does not have all of them.
_MIN_STALLS: Final = 8
_END: Final = 2**62
#: Columns that are fields of `Launch`.
_IDENTITY: Final = (
    *("launch", "process", "kernel_name", "device", "compute_capability", "stream"),
)
_Values = dict[str, float]


def kernel_metrics(measured: Measured) -> pl.DataFrame:
    """Return one row per launch; a column has its most preferred measured metric."""
    of_launch: list[_Values] = [{} for _ in measured.launches]
    for sample in measured.metrics:
        if sample.value is not None:
            values = of_launch[sample.row]
            values.setdefault(sample.metric, sample.value)
            # A title may have several meanings, which the unit distinguishes.
            values.setdefault(f"{sample.metric} {sample.unit}", sample.value)
    rows = [
        {
            **{name: getattr(launch, name) for name in _IDENTITY},
            **_sizes_by_axis("block", launch.block),
            **_sizes_by_axis("grid", launch.grid),
            **_columns_of_metrics(values),
        }
        for launch, values in zip(measured.launches, of_launch, strict=True)
    ]
    schema = KERNEL_METRICS.dtypes()
    integer_columns = {name for name, dtype in schema.items() if dtype.is_integer()}
    for row in rows:
        for name in integer_columns & row.keys():
            # Round counts to integers; null if the count is out of range.
            value = row[name]
            row[name] = None
            if isinstance(value, (int, float)) and -_END < value < _END:
                row[name] = round(value)
    return pl.DataFrame(
        [{name: row.get(name) for name in schema} for row in rows], schema=schema
    )


def metric_values(measured: Measured) -> pl.DataFrame:
    """Return the table of every metric value of every launch."""
    return pl.DataFrame(
        measured.metrics, schema=KERNEL_METRIC_VALUES.dtypes(), orient="row"
    )


def rule_results(measured: Measured) -> pl.DataFrame:
    """Return the table of results of Nsight Compute's rules."""
    return pl.DataFrame(
        measured.rules, schema=KERNEL_RULE_RESULTS.dtypes(), orient="row"
    )


def _sizes_by_axis(
    prefix: str, sizes: tuple[int, int, int] | None
) -> dict[str, int | None]:
    return {
        f"{prefix}_{axis}": None if sizes is None else sizes[index]
        for index, axis in enumerate("xyz")
    }


def _columns_of_metrics(values: _Values) -> dict[str, object]:
    best: dict[str, tuple[int, float]] = {}
    for metric, value in values.items():
        column, rank = COLUMNS_OF.get(metric, ("", 0))
        if column and (column not in best or rank < best[column][0]):
            best[column] = (rank, value)
    row: dict[str, object] = {column: value for column, (_, value) in best.items()}
    known = {column: value for column, (_, value) in best.items()}
    counter = _metric_counter(values, known)
    for column, alternatives in SUMMED.items():
        if column not in row:
            row[column] = None
            for terms in alternatives:
                counts = [(counter(metric), weight) for metric, weight in terms.items()]
                if all(count is not None for count, _ in counts):
                    row[column] = sum(
                        (weight * (count or 0.0) for count, weight in counts), 0.0
                    )
                    break
    row |= _memory_bytes(values, known)
    tensor = [value for name, value in values.items() if TENSOR_OPS.match(name)]
    row["flops_tensor"] = sum(tensor) if tensor else None
    row |= _longest_stall(values)
    if (ns := known.get("duration_ps")) is not None:
        row["duration_ps"] = ns * PS_PER_NS if ns >= 0 else None
    if not 0 <= known.get("registers", 0) <= MAX_REGISTERS:
        row["registers"] = None
    return row


def _metric_counter(
    values: _Values, known: Mapping[str, float]
) -> Callable[[str], float | None]:
    cycles, ns = known.get("elapsed_cycles"), known.get("duration_ps")

    def count(metric: str) -> float | None:
        if metric in values:
            return values[metric]
        doubled = f"derived__{metric.removesuffix('.sum')}_x2"
        if cycles is not None and (rate := values.get(metric + _PER_CYCLE)) is not None:
            return rate * cycles
        if cycles is not None and doubled in values:
            return values[doubled] * cycles / 2
        if ns is not None and (rate := values.get(metric + _PER_SECOND)) is not None:
            return rate * ns / _NS_PER_S
        return None

    return count


def _memory_bytes(values: _Values, known: Mapping[str, float]) -> dict[str, object]:
    counter = _metric_counter(values, known)
    dram = {
        column: known[column]
        if column in known
        else next((count for count in map(counter, names) if count is not None), None)
        for column, names in _DRAM.items()
    }
    read, write = dram["dram_read_bytes"], dram["dram_write_bytes"]
    total = dram["dram_bytes"]
    if total is None and read is not None and write is not None:
        total = read + write
    rate, ns = values.get("Memory Throughput byte/s"), known.get("duration_ps")
    if total is None and rate is not None and ns is not None:
        total = rate * ns / _NS_PER_S
    return {**dram, "dram_bytes": total}


_DRAM: Final = {
    "dram_read_bytes": ("dram__bytes_read.sum", "dram__bytes_op_read.sum"),
    "dram_write_bytes": ("dram__bytes_write.sum", "dram__bytes_op_write.sum"),
    "dram_bytes": ("dram__bytes.sum",),
}


def _longest_stall(values: _Values) -> dict[str, object]:
    for pattern in WARP_STALLS:
        waits = {}
        for name, value in values.items():
            if match := pattern.match(name):
                waits[match[1]] = value
        total = next((values[key] for key in WARP_CYCLES if key in values), None)
        if len(waits) < _MIN_STALLS or not total or total < 0:
            continue
        reason, cycles = max(waits.items(), key=lambda stall: (stall[1], stall[0]))
        return {"stall_reason": reason, "stall_percent": 100 * cycles / total}
    return {}
