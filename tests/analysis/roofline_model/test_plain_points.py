"""Points of the chart and rates of ops, row by row in plain Python."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import polars as pl
import pytest

from stepscope.analysis.ops.rows import COSTS, RATES, work_rates
from stepscope.analysis.options import RooflineModelOptions
from stepscope.analysis.roofline_model.model import (
    KERNEL_ROWS,
    roofline_points,
    unknown_percent,
)
from stepscope.analysis.roofline_model.work import MEASURED, SHAPES, ops_with_counters

US = 1_000_000
GIB = 2**30
Row = dict[str, Any]
WORK = {
    "kernel_name": pl.String,
    "op_name": pl.String,
    "occurrences": pl.Int64,
    "total_ps": pl.Int64,
    "share_ps": pl.Int64,
    "flops": pl.Float64,
    "accessed_bytes": pl.Float64,
    "peak_flops": pl.Float64,
    "peak_bytes": pl.Float64,
    "evidence": pl.String,
}


def drawn(seed: int) -> list[Row]:
    """Kernels of which some did not run, did nothing, or are not known."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    return [
        {
            "kernel_name": f"k{number % 3}",
            "op_name": f"op{number}",
            "occurrences": number,
            "total_ps": chance.choice([0, 10 * US, 25 * US]),
            "share_ps": chance.choice([5 * US, 10 * US, 10 * US]),
            "flops": chance.choice([None, 0.0, 4e6, 6e7]),
            "accessed_bytes": chance.choice([None, 0.0, 2e6, 3e7]),
            "peak_flops": chance.choice([None, 8e7]),
            "peak_bytes": chance.choice([None, 4e7, 5e6]),
            "evidence": chance.choice([MEASURED, SHAPES]),
        }
        for number in range(12)
    ]


def ratio(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else part / whole


def point(row: Row, options: RooflineModelOptions, whole: int) -> Row:
    """A point of the chart, with null for what cannot be known."""
    ran = row["total_ps"] > 0
    seconds = row["total_ps"] / 1e12
    peaks = {"flops": row["peak_flops"], "bytes": row["peak_bytes"]}
    if options.peak_tflops is not None:
        peaks["flops"] = options.peak_tflops * 1e12 * seconds if ran else None
    if options.peak_gb_per_s is not None:
        peaks["bytes"] = options.peak_gb_per_s * 1e9 * seconds if ran else None
    flops, size = row["flops"], row["accessed_bytes"]
    intensity = ratio(flops, size)
    compute = 0.0 if flops == 0 else ratio(flops, peaks["flops"])
    memory = None if size is None else ratio(size, peaks["bytes"])
    known = ran and compute is not None and memory is not None
    roof = None
    if ran and None not in (intensity, *peaks.values()):
        roof = min(peaks["flops"], intensity * peaks["bytes"]) / seconds / 1e9  # type: ignore[operator]
    lacks = {
        (True, True): "operations and bytes",
        (True, False): "operations",
        (False, True): "bytes",
    }.get((flops is None, size is None))
    nothing = flops is None and size is None

    def percent(share: float | None) -> float | None:
        return None if not ran or share is None else 100 * share

    return {
        "kernel_name": row["kernel_name"],
        "op_name": row["op_name"],
        "occurrences": row["occurrences"],
        "total_us": row["total_ps"] / US,
        "time_percent": 100 * row["share_ps"] / whole,
        "operational_intensity": intensity,
        "gflops_per_s": flops / seconds / 1e9 if ran and flops is not None else None,
        "gb_per_s": size / seconds / 1e9 if ran and size is not None else None,
        "roof_gflops_per_s": roof,
        "of_compute_percent": percent(compute),
        "of_memory_percent": percent(memory),
        "of_roof_percent": percent(max(compute, memory)) if known else None,  # type: ignore[type-var]
        "bound_by": ("Memory" if memory >= compute else "Compute") if known else None,  # type: ignore[operator]
        "lacks": lacks,
        "evidence": "unknown" if nothing else row["evidence"],
    }


def approximated(row: Row) -> Row:
    return {
        name: pytest.approx(value) if isinstance(value, float) else value
        for name, value in row.items()
    }


@pytest.mark.parametrize("given", [{}, {"peak_tflops": 3.0}, {"peak_gb_per_s": 200.0}])
@pytest.mark.parametrize("seed", range(3))
def test_a_point_lies_where_its_work_time_and_peaks_put_it(
    seed: int, given: dict[str, float]
) -> None:
    options = RooflineModelOptions(**given)
    rows = drawn(seed)
    whole = sum(row["share_ps"] for row in rows)
    found = roofline_points(pl.DataFrame(rows, schema=WORK), KERNEL_ROWS, options)
    rows.sort(key=lambda row: (-row["share_ps"], row["kernel_name"], row["op_name"]))
    expected = [point(row, options, whole) for row in rows]
    assert found["rank"].to_list() == list(range(1, len(rows) + 1))
    columns = [name for name in expected[0] if name in found.columns]
    assert {"lacks", "bound_by", "of_roof_percent"} <= set(columns)
    assert found.select(columns).to_dicts() == [
        approximated({name: row[name] for name in columns}) for row in expected
    ]
    outside = sum(
        row["time_percent"] for row in expected if row["operational_intensity"] is None
    )
    assert unknown_percent(found) == pytest.approx(outside)


def test_what_did_not_run_has_no_share_in_the_chart() -> None:
    row = drawn(0)[0] | {"share_ps": 0, "total_ps": 0}
    frame = pl.DataFrame([row], schema=WORK)
    found = roofline_points(frame, KERNEL_ROWS, RooflineModelOptions())
    assert unknown_percent(found) is None
    assert unknown_percent(found.clear()) is None


def costs_of(rows: list[Row]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=COSTS)


@pytest.mark.parametrize(
    ("flops", "size", "peaks", "bound"),
    [
        # 1 % of a peak is in use; less of both is latency.
        (10.0, 9.0, (1000.0, 1000.0), "Compute"),
        (9.0, 10.0, (1000.0, 1000.0), "HBM"),
        (9.0, 9.0, (1000.0, 1000.0), "Latency"),
        (10.0, 10.0, (1000.0, 1000.0), "Compute"),
        (0.0, 10.0, (None, 1000.0), "HBM"),
        (0.0, 9.0, (None, 1000.0), "Latency"),
        (1000.0, 10.0, (1000.0, 1000.0), "Compute"),
        (1001.0, 10.0, (1000.0, 1000.0), None),
        (10.0, 1001.0, (1000.0, 1000.0), None),
        (10.0, 10.0, (None, 1000.0), None),
        (10.0, None, (1000.0, 1000.0), None),
    ],
)
def test_an_op_is_bound_by_the_unit_nearest_to_its_peak(
    flops: float, size: float | None, peaks: tuple[float | None, float], bound: str
) -> None:
    cost = {"flops": flops, "model_flops": 7, "accessed_bytes": size}
    cost |= {"peak_flops": peaks[0], "peak_bytes": peaks[1]}
    ops = pl.DataFrame(
        {"module": [None, None], "name": ["a", "other"], "total_ps": [2 * US, US]},
        schema_overrides={"module": pl.String},
    )
    found = work_rates(ops, costs_of([{"name": "a", **cost}]))
    assert dict(found.schema) == RATES
    first, other = found.to_dicts()
    assert first == {
        "measured_flop_rate": pytest.approx(flops / 2e-6 / 1e9),
        "model_flop_rate": pytest.approx(7 / 2e-6 / 1e9),
        "measured_memory_bw": None
        if size is None
        else pytest.approx(size / 2e-6 / GIB),
        "operational_intensity": None if size is None else pytest.approx(flops / size),
        "bound_by": bound,
    }
    assert other == dict.fromkeys(RATES)


def test_an_op_of_no_time_has_no_rate() -> None:
    ops = pl.DataFrame(
        {"module": ["m"], "name": ["a"], "total_ps": [0]},
        schema_overrides={"total_ps": pl.Int64},
    )
    cost = dict.fromkeys(("flops", "model_flops", "accessed_bytes"), 5)
    peaks = dict.fromkeys(("peak_flops", "peak_bytes"), 10.0)
    costs = costs_of([{"module": "m", "name": "a", **cost, **peaks}])
    (found,) = work_rates(ops, costs).to_dicts()
    assert found == {**dict.fromkeys(RATES), "operational_intensity": 1.0}
    # Without any costs, nothing is known.
    assert work_rates(ops, costs.clear()).to_dicts() == [dict.fromkeys(RATES)]


def test_an_op_has_the_counters_of_its_kernels_if_all_were_measured() -> None:
    def op(name: str, total: int, module: str = "m") -> Row:
        return {
            "module": module,
            "name": name,
            "total_ps": total,
            "flops": 1.0,
            "accessed_bytes": 2.0,
            "peak_flops": 3.0,
            "peak_bytes": 4.0,
            "evidence": SHAPES,
        }

    def kernel(op_name: str, total: int, **more: Any) -> Row:
        base = {"op_name": op_name, "total_ps": total, "evidence": MEASURED}
        work = {"flops": 10.0, "accessed_bytes": 20.0}
        return {**base, **work, "peak_flops": 30.0, "peak_bytes": 40.0, **more}

    ops = pl.DataFrame(
        [
            *(op("whole", 15), op("copies too", 16), op("partly", 15)),
            *(op("twice", 15), op("twice", 15, "n"), op("no peak", 5), op("none", 5)),
        ]
    )
    counted = pl.DataFrame(
        [
            *(kernel("whole", 10), kernel("whole", 5)),
            kernel("copies too", 15),
            *(kernel("partly", 10), kernel("partly", 5, evidence=SHAPES)),
            kernel("twice", 15),
            kernel("no peak", 5, peak_flops=None),
            kernel("none", 5, flops=None),
        ]
    )
    found = ops_with_counters(ops, counted)
    columns = (
        "name",
        "flops",
        "accessed_bytes",
        "peak_flops",
        "peak_bytes",
        "evidence",
    )
    own = (1.0, 2.0, 3.0, 4.0, SHAPES)
    assert found.select(columns).rows() == [
        ("whole", 20.0, 40.0, 60.0, 80.0, MEASURED),
        ("copies too", *own),
        ("partly", *own),
        ("twice", *own),
        ("twice", *own),
        ("no peak", 10.0, 20.0, None, 40.0, MEASURED),
        ("none", *own),
    ]
    assert found.columns == ops.columns


def test_a_peak_is_more_than_nothing() -> None:
    for peak, accepted in ((-1.0, False), (0.0, False), (1e-9, True), (1e9, True)):
        for name in ("peak_tflops", "peak_gb_per_s"):
            try:
                msgspec.convert({name: peak}, RooflineModelOptions)
            except msgspec.ValidationError:
                assert not accepted
            else:
                assert accepted
