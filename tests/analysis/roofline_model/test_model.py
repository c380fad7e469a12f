"""Points under the roofs: products worked out by hand, counters, and the unknown."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from tests.support.traces import blueprint
from tests.support.traces import nsight_compute as ncu
from tests.support.traces.kineto import call, complete, kernel

import stepscope
from stepscope.analysis.roofline_model import Options, RooflineModelResult, analyse
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from stepscope.analysis.tools import ProfileWithTools

RTX_5070 = {
    "id": 0,
    "name": "NVIDIA GeForce RTX 5070",
    "totalGlobalMem": 12 << 30,
    "computeMajor": 12,
    "computeMinor": 0,
    "numSms": 48,
}
#: 48 multiprocessors of 128 lanes, each a fused operation per cycle of 2,512 MHz.
FP32_PEAK = 48 * 128 * 2 * 2512e6
MEMORY = 672e9
SGEMM = "ampere_sgemm_128x64_nn"
GRID = {"grid": [8, 8, 1], "block": [256, 1, 1]}


def op(
    number: int,
    name: str,
    dims: Sequence[Sequence[int]],
    *kernels: tuple[str, float],
    at: float | None = None,
) -> list[dict[str, Any]]:
    """An op, its launches, and their kernels (name, us) 1 ms later."""
    begin = 10_000.0 * number if at is None else at
    args = {
        "External id": number,
        "Input Dims": dims,
        "Input type": ["float"] * len(dims),
    }
    events = [complete(name, begin, 100, args=args)]
    later = begin + 1000
    for place, (kernel_name, dur) in enumerate(kernels):
        same = {"correlation": 100 * number + place, "External id": number}
        events.append(call("cudaLaunchKernel", begin + 10 + 10 * place, 5, **same))
        events.append(kernel(kernel_name, later, dur, **same, **GRID))
        later += dur + 1
    return events


def opened(
    folder: Path,
    *ops: list[dict[str, Any]],
    device: dict[str, Any] | None = None,
    kernels: Path | None = None,
) -> ProfileWithTools:
    path = folder / "worker.pt.trace.json"
    trace = {
        "schemaVersion": 1,
        "deviceProperties": [RTX_5070 if device is None else device],
        "traceEvents": [event for events in ops for event in events],
    }
    path.write_text(json.dumps(trace), encoding="utf-8")
    return stepscope.open(path, kernels=kernels)


def roofline(profile: ProfileWithTools, **options: Any) -> RooflineModelResult:
    result = profile.tool("roofline_model", **options)
    assert isinstance(result, RooflineModelResult), result
    return result


def product(number: int, us: float, m: int = 1024, k: int = 1024, n: int = 1024) -> Any:
    return op(number, "aten::mm", [[m, k], [k, n]], (SGEMM, us))


def test_a_product_lies_where_its_operations_bytes_and_time_put_it(
    tmp_path: Path,
) -> None:
    """2 x 1024^3 operations on 3 x 4 MiB in 100 us, twice."""
    result = roofline(opened(tmp_path, product(1, 100), product(2, 100)))
    flops, moved = 2 * 1024**3, 3 * 4 * 1024**2
    for rows in (result.ops, result.kernels):
        (row,) = rows.iter_rows(named=True)
        assert row["evidence"] == "shapes"
        assert (row["flops"], row["accessed_bytes"]) == (2 * flops, 2 * moved)
        assert row["operational_intensity"] == pytest.approx(flops / moved)
        assert row["gflops_per_s"] == pytest.approx(flops / 100e-6 / 1e9)
        assert row["gb_per_s"] == pytest.approx(moved / 100e-6 / 1e9)
        assert row["roof_gflops_per_s"] == pytest.approx(FP32_PEAK / 1e9)
        assert row["of_roof_percent"] == pytest.approx(100 * flops / 100e-6 / FP32_PEAK)
        assert (row["bound_by"], row["lacks"]) == ("Compute", None)
    assert result.unknown_ops_percent == 0
    assert result.unknown_kernels_percent == 0
    fp32 = result.roofs.row(by_predicate=pl.col("unit") == "fp32", named=True)
    assert fp32["peak_gflops_per_s"] == pytest.approx(FP32_PEAK / 1e9)
    assert fp32["memory_gb_per_s"] == 672
    assert fp32["ridge_flops_per_byte"] == pytest.approx(FP32_PEAK / MEMORY)
    assert fp32["source"] == "data_sheet"


def test_a_thin_product_lies_under_the_memorys_roof(tmp_path: Path) -> None:
    """A product with a vector: two operations for each value of 4 bytes."""
    result = roofline(opened(tmp_path, product(1, 1000, m=8192, k=8192, n=1)))
    (row,) = result.ops.iter_rows(named=True)
    moved = 4 * (8192 * 8192 + 8192 + 8192)
    assert row["bound_by"] == "Memory"
    assert row["of_roof_percent"] == pytest.approx(100 * moved / 1e-3 / MEMORY)
    assert row["roof_gflops_per_s"] == pytest.approx(
        2 * 8192 * 8192 / moved * MEMORY / 1e9
    )


def test_what_nobody_has_a_formula_for_is_unknown_and_keeps_its_time(
    tmp_path: Path,
) -> None:
    custom = op(2, "mylib::secret", [[4, 4]], ("secret_kernel", 300))
    result = roofline(opened(tmp_path, product(1, 100), custom))
    unknown, known = result.ops.iter_rows(named=True)
    assert (unknown["name"], unknown["evidence"]) == ("mylib::secret", "unknown")
    assert unknown["lacks"] == "operations and bytes"
    assert unknown["of_roof_percent"] is None
    assert unknown["time_percent"] == pytest.approx(75)
    assert known["name"] == "aten::mm"
    assert result.unknown_ops_percent == pytest.approx(75)
    assert result.unknown_kernels_percent == pytest.approx(75)


def test_kernels_that_share_an_execution_are_unknown(tmp_path: Path) -> None:
    shared = op(
        1, "aten::mm", [[64, 64], [64, 64]], (SGEMM, 60), ("splitKreduce_kernel", 40)
    )
    result = roofline(opened(tmp_path, shared))
    assert result.ops["evidence"].to_list() == ["shapes"]
    assert result.kernels["evidence"].to_list() == ["unknown", "unknown"]
    assert result.unknown_kernels_percent == pytest.approx(100)


def test_an_unknown_device_has_no_roof_until_its_peaks_are_given(
    tmp_path: Path,
) -> None:
    device = {"id": 0, "name": "Imaginary Accelerator 9"}
    profile = opened(tmp_path, product(1, 100), device=device)
    bare = roofline(profile)
    assert bare.roofs.is_empty()
    (row,) = bare.ops.iter_rows(named=True)
    assert row["gflops_per_s"] == pytest.approx(2 * 1024**3 / 100e-6 / 1e9)
    assert row["of_roof_percent"] is None
    why = {lack.field: lack for lack in bare.missing}
    assert why["roofs"].code == "NO_PEAKS"
    assert "--peak-tflops" in why["roofs"].remedy
    assert "ops.of_roof_percent" in why
    given = roofline(profile, peak_tflops=40, peak_gb_per_s=500)
    (row,) = given.ops.iter_rows(named=True)
    assert row["of_roof_percent"] == pytest.approx(100 * 2 * 1024**3 / 100e-6 / 40e12)
    (roof,) = given.roofs.iter_rows(named=True)
    assert (roof["unit"], roof["ridge_flops_per_byte"]) == ("given", 80)


FLOP_METRICS = tuple(
    (f"smsp__sass_thread_inst_executed_op_{letter}{kind}_pred_on.sum", "inst")
    for letter in "hfd"
    for kind in ("add", "mul", "fma")
)
DRAM = ("dram__bytes.sum", "byte")
TIME = ("gpu__time_duration.sum", "ns")
TENSOR = ("sm__inst_executed_pipe_tensor.sum", "inst")


def measured(folder: Path, name: str, **values: float) -> Path:
    """A table with one launch: fused operations in 32 bits, bytes, ns."""
    metrics = [
        (key, unit, f"{values.get('ffma', 0) if 'ffma' in key else 0:.0f}")
        for key, unit in FLOP_METRICS
    ]
    metrics.append((*DRAM, f"{values['dram']:.0f}"))
    metrics.append((*TIME, f"{values['ns']:.0f}"))
    if "tensor" in values:
        metrics.append((*TENSOR, f"{values['tensor']:.0f}"))
    leading = ncu.launch(0, name, grid=(8, 8, 1), block=(256, 1, 1))
    text = ncu.long(*ncu.long_rows(leading, *metrics), rules=False)
    return ncu.write(folder / "measured.csv", text)


def test_counters_take_the_place_of_shapes(tmp_path: Path) -> None:
    """A kernel that fuses 10^9 operations and moves 50 MB, once in each of two runs."""
    table = measured(tmp_path, SGEMM, ffma=5e8, dram=5e7, ns=90_000, tensor=0)
    profile = opened(tmp_path, product(1, 100), product(2, 300), kernels=table)
    result = roofline(profile)
    assert result.measured_kernels == 1
    for rows in (result.kernels, result.ops):
        (row,) = rows.iter_rows(named=True)
        assert row["evidence"] == "measured"
        assert (row["flops"], row["accessed_bytes"]) == (2e9, 1e8)
        assert row["operational_intensity"] == pytest.approx(20)
        # Of the time of the recording, 400 us.
        assert row["gflops_per_s"] == pytest.approx(2e9 / 400e-6 / 1e9)
        assert row["of_memory_percent"] == pytest.approx(100 * 1e8 / 400e-6 / MEMORY)
        assert row["of_compute_percent"] == pytest.approx(
            100 * 2e9 / 400e-6 / FP32_PEAK
        )
        assert row["bound_by"] == "Memory"


def test_operations_are_unknown_where_a_unit_was_not_counted(tmp_path: Path) -> None:
    """Nothing says whether the Tensor Cores were idle."""
    table = measured(tmp_path, SGEMM, ffma=5e8, dram=5e7, ns=90_000)
    result = roofline(opened(tmp_path, product(1, 100), kernels=table))
    (row,) = result.kernels.iter_rows(named=True)
    assert (row["flops"], row["accessed_bytes"]) == (None, 5e7)
    assert (row["evidence"], row["lacks"]) == ("measured", "operations")
    assert result.unknown_kernels_percent == pytest.approx(100)
    # The op keeps what its shapes say.
    assert result.ops["evidence"].to_list() == ["shapes"]


def test_a_table_alone_has_the_time_of_its_measurement(tmp_path: Path) -> None:
    table = measured(tmp_path, "saxpy", ffma=1e6, dram=12e6, ns=20_000, tensor=0)
    result = roofline(stepscope.open(table), peak_tflops=30, peak_gb_per_s=672)
    (row,) = result.kernels.iter_rows(named=True)
    assert row["gb_per_s"] == pytest.approx(600)
    assert row["of_roof_percent"] == pytest.approx(100 * 600 / 672)
    assert (row["bound_by"], result.ops_on) == ("Memory", None)
    assert "ops" in {lack.field for lack in result.missing}


def test_a_profile_without_ops_says_so(tmp_path: Path) -> None:
    result = opened(tmp_path, [complete("loop", 0, 100, cat="user_annotation")]).tool(
        "roofline_model"
    )
    assert isinstance(result, Unavailable)


def table_of(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text("utf-8").splitlines()))


@pytest.mark.profiles
def test_rates_equal_those_that_a_benchmark_worked_out_itself(
    tmp_path: Path, shared_profile: Callable[[str], Path]
) -> None:
    """Products of an RTX 5070 with the times that their benchmark took."""
    folder = shared_profile("ncu/roofline_rtx5070")
    peaks = {row["label"]: row for row in table_of(folder / "peaks.csv")}["theoretical"]
    rows = table_of(folder / "timing.csv")
    products = [row for row in rows if row["kernel"] == "gemm"]
    assert len(products) >= 5
    for row in products:
        m, n, k = (int(row[axis]) for axis in "mnk")
        profile = opened(tmp_path, product(1, 1000 * float(row["mean_ms"]), m, k, n))
        result = roofline(
            profile,
            peak_tflops=float(peaks["peak_flops"]) / 1e12,
            peak_gb_per_s=float(peaks["peak_bandwidth"]) / 1e9,
        )
        (found,) = result.ops.iter_rows(named=True)
        assert found["flops"] == float(row["flops"])
        assert found["accessed_bytes"] == float(row["theoretical_bytes"])
        # The file gives times in nanoseconds.
        achieved = float(row["achieved_gflops"])
        assert found["gflops_per_s"] == pytest.approx(achieved, rel=1e-4)
        of_peak = 100e9 * achieved / float(peaks["peak_flops"])
        assert found["of_compute_percent"] == pytest.approx(of_peak, rel=1e-4)


@pytest.mark.profiles
def test_bytes_of_a_real_table_give_its_share_of_the_memorys_roof(
    shared_profile: Callable[[str], Path],
) -> None:
    """Counted by hand from the file: 177,852,672 bytes in 292,928 ns."""
    table = shared_profile("ncu/roofline_rtx5070") / "ncu" / "saxpy.csv"
    result = roofline(stepscope.open(table), peak_tflops=32.256, peak_gb_per_s=672.048)
    (row,) = result.kernels.iter_rows(named=True)
    rate = 177_852_672 / 292_928e-9
    assert row["of_memory_percent"] == pytest.approx(100 * rate / 672.048e9)
    # The file counts no operations.
    assert (row["flops"], row["lacks"]) == (None, "operations")


def test_shares_are_of_the_self_time_and_rates_of_the_whole() -> None:
    """A host's op of 100 µs holds one of 60: 40 µs are its own."""
    trace = blueprint.trace(
        [("main", "outer:Outer", 0, 100), ("main", "inner:Inner", 20, 60)]
    )
    result = analyse(blueprint.profile(trace), Options())
    assert isinstance(result, RooflineModelResult)
    columns = ("name", "self_us", "total_us", "time_percent")
    assert result.ops.select(columns).rows() == [
        ("inner", 60.0, 60.0, 60.0),
        ("outer", 40.0, 100.0, 40.0),
    ]
