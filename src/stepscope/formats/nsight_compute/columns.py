"""Launches and metrics become the three declared tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.formats.nsight_compute.metric_names import (
    COLUMNS_OF,
    SUMMED,
    TENSOR_OPS,
    WARP_CYCLES,
    WARP_STALLS,
)
from stepscope.trace.reading.launch_limits import MOST_REGISTERS
from stepscope.trace.tables import (
    KERNEL_METRIC_VALUES,
    KERNEL_METRICS,
    KERNEL_RULE_RESULTS,
)
from stepscope.units import PS_PER_NS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from re import Pattern

    from stepscope.formats.nsight_compute.launches import Launch, Measured

_NS_PER_S: Final = 1e9
_PER_CYCLE: Final = ".per_cycle_elapsed"
_PER_SECOND: Final = ".per_second"
#: So few reasons are not all of them.
_FEWEST_STALLS: Final = 8
_END: Final = 2**62

_Values = dict[str, float]


def metrics(measured: Measured) -> pl.DataFrame:
    """Return one row per launch, each column by the best of its metrics."""
    of_launch: list[_Values] = [{} for _ in measured.launches]
    for it in measured.metrics:
        if it.value is not None:
            values = of_launch[it.row]
            values.setdefault(it.metric, it.value)
            # Titles that have several meanings are told apart by their units.
            values.setdefault(f"{it.metric} {it.unit}", it.value)
    rows = [
        {**_identity(launch), **_columns(values)}
        for launch, values in zip(measured.launches, of_launch, strict=True)
    ]
    schema = KERNEL_METRICS.dtypes()
    whole = {name for name, dtype in schema.items() if dtype.is_integer()}
    for row in rows:
        for name in whole & row.keys():
            row[name] = _whole(row[name])
    return pl.DataFrame(
        [{name: row.get(name) for name in schema} for row in rows], schema=schema
    )


def metric_values(measured: Measured) -> pl.DataFrame:
    """Return every value of every launch."""
    return pl.DataFrame(
        measured.metrics,
        schema=KERNEL_METRIC_VALUES.dtypes(),
        orient="row",
    )


def rule_results(measured: Measured) -> pl.DataFrame:
    """Return what the rules of Nsight Compute say."""
    return pl.DataFrame(
        measured.rules, schema=KERNEL_RULE_RESULTS.dtypes(), orient="row"
    )


def _identity(launch: Launch) -> dict[str, object]:
    sizes: dict[str, object] = {}
    for what, of_axes in (("block", launch.block), ("grid", launch.grid)):
        for at, axis in enumerate("xyz"):
            sizes[f"{what}_{axis}"] = None if of_axes is None else of_axes[at]
    return {
        "launch": launch.launch,
        "process": launch.process,
        "kernel_name": launch.kernel_name,
        "device": launch.device,
        "compute_capability": launch.compute_capability,
        "stream": launch.stream,
        **sizes,
    }


def _columns(values: _Values) -> dict[str, object]:
    best: dict[str, tuple[int, float]] = {}
    for metric, value in values.items():
        column, rank = COLUMNS_OF.get(metric, ("", 0))
        if column and (column not in best or rank < best[column][0]):
            best[column] = (rank, value)
    row: dict[str, object] = {column: value for column, (_, value) in best.items()}
    known = {column: value for column, (_, value) in best.items()}
    counter = _counter(values, known)
    for column, ways in SUMMED.items():
        if column not in row:
            row[column] = next(
                (sum_ for way in ways if (sum_ := _sum(way, counter)) is not None),
                None,
            )
    row |= _dram(values, known)
    row["flops_tensor"] = _tensor_flops(values)
    row |= _stall(values)
    if (ns := known.get("duration_ps")) is not None:
        row["duration_ps"] = ns * PS_PER_NS if ns >= 0 else None
    if not 0 <= known.get("registers", 0) <= MOST_REGISTERS:
        row["registers"] = None
    return row


def _counter(
    values: _Values, known: Mapping[str, float]
) -> Callable[[str], float | None]:
    """Return how to look a count up that may have been measured as a rate."""
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


def _sum(
    way: Mapping[str, float], counter: Callable[[str], float | None]
) -> float | None:
    total = 0.0
    for metric, weight in way.items():
        count = counter(metric)
        if count is None:
            return None
        total += weight * count
    return total


def _dram(values: _Values, known: Mapping[str, float]) -> dict[str, object]:
    """Return the bytes of device memory, in all and each way, as far as is known."""
    counter = _counter(values, known)
    found = {
        column: known[column]
        if column in known
        else _first([counter(metric) for metric in names])
        for column, names in _DRAM.items()
    }
    read, write = found["dram_read_bytes"], found["dram_write_bytes"]
    whole = found["dram_bytes"]
    if whole is None and read is not None and write is not None:
        whole = read + write
    rate, ns = values.get("Memory Throughput byte/s"), known.get("duration_ps")
    if whole is None and rate is not None and ns is not None:
        whole = rate * ns / _NS_PER_S
    return {**found, "dram_bytes": whole}


_DRAM: Final = {
    "dram_read_bytes": ("dram__bytes_read.sum", "dram__bytes_op_read.sum"),
    "dram_write_bytes": ("dram__bytes_write.sum", "dram__bytes_op_write.sum"),
    "dram_bytes": ("dram__bytes.sum",),
}


def _first(found: Sequence[float | None]) -> float | None:
    return next((it for it in found if it is not None), None)


def _tensor_flops(values: _Values) -> float | None:
    found = [value for name, value in values.items() if TENSOR_OPS.match(name)]
    return sum(found) if found else None


def _stall(values: _Values) -> dict[str, object]:
    """Return the longest wait of warps, and its share in all their cycles."""
    for pattern in WARP_STALLS:
        waits = _matching(pattern, values)
        whole = next((values[it] for it in WARP_CYCLES if it in values), None)
        if len(waits) < _FEWEST_STALLS or not whole or whole < 0:
            continue
        reason, cycles = max(waits.items(), key=lambda it: (it[1], it[0]))
        return {"stall_reason": reason, "stall_percent": 100 * cycles / whole}
    return {}


def _matching(pattern: Pattern[str], values: _Values) -> _Values:
    found = {}
    for name, value in values.items():
        if match := pattern.match(name):
            found[match[1]] = value
    return found


def _whole(value: object) -> int | None:
    """Return a count as a whole number; None where it cannot be one."""
    if not isinstance(value, (int, float)) or not -_END < value < _END:
        return None
    return round(value)
