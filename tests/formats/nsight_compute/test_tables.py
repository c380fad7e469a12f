"""Both forms of the table become the same rows."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest
from tests.support.traces.kineto import frame
from tests.support.traces.nsight_compute import (
    launch,
    line,
    long,
    long_rows,
    read_checked,
    wide,
    write,
)

from stepscope.formats.opening import open_hosts
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.trace.model import TraceData

GEMM = "void cutlass::Kernel2<gemm>(Params)"
TIME = "gpu__time_duration.sum"
READ, WRITTEN = "dram__bytes_read.sum", "dram__bytes_write.sum"
TOOL = "==PROF== Connected to process 77 (/a b/python3)\nloss 0.3, 12\n"


def read_text(tmp_path: Path, text: str, name: str = "k.csv") -> TraceData:
    return read_checked(write(tmp_path / name, text))


def row(trace: TraceData, at: int = 0) -> dict[str, object]:
    found = frame(trace, "kernel_metrics").row(at, named=True)
    return {name: value for name, value in found.items() if value is not None}


IDENTITY = {
    "launch": 0,
    "process": 77,
    "kernel_name": GEMM,
    "device": 0,
    "compute_capability": "8.0",
    "stream": 7,
    "block_x": 128,
    "block_y": 1,
    "block_z": 1,
    "grid_x": 216,
    "grid_y": 1,
    "grid_z": 1,
}
MEASURED = {
    "duration_ps": 1_500_000,
    "dram_read_bytes": 2_000_000.0,
    "dram_write_bytes": 1_000_000.0,
    "dram_bytes": 3_000_000.0,
}


def test_rows_of_metrics_without_the_cells_of_rules_are_one_launch(
    tmp_path: Path,
) -> None:
    rows = long_rows(
        launch(0, GEMM),
        (TIME, "us", "1.50"),
        (READ, "Kbyte", "2,000"),
        (WRITTEN, "byte", "1,000,000"),
    )
    trace = read_text(tmp_path, TOOL + long(*rows))
    assert row(trace) == IDENTITY | MEASURED


def test_a_row_for_each_launch_has_its_units_in_the_second_line(
    tmp_path: Path,
) -> None:
    units = {TIME: "ns", READ: "Mbyte", WRITTEN: "Mbyte"}
    text = wide(units, [(launch(0, GEMM), ("1,500", "2.00", "1.00"))])
    trace = read_text(tmp_path, "\ufeff" + TOOL + text.replace("\n", "\r\n"))
    assert row(trace) == IDENTITY | MEASURED
    values = frame(trace, "kernel_metric_values")
    assert values.rows() == [
        (0, None, TIME, 1500.0, "ns", "1,500"),
        (0, None, READ, 2e6, "byte", "2.00"),
        (0, None, WRITTEN, 1e6, "byte", "1.00"),
    ]


def test_launches_keep_the_order_of_the_file(tmp_path: Path) -> None:
    rows = [
        text
        for number in (3, 1, 2)
        for text in long_rows(launch(number, GEMM), (TIME, "ns", f"{number}"))
    ]
    found = frame(read_text(tmp_path, long(*rows)), "kernel_metrics")
    assert found["launch"].to_list() == [3, 1, 2]
    assert found["duration_ps"].to_list() == [3000, 1000, 2000]


def test_a_title_is_read_by_its_unit(tmp_path: Path) -> None:
    """`Memory Throughput` is a share of the peak, and a rate in another section."""
    rows = long_rows(
        launch(0, GEMM),
        ("Duration", "usecond", "2"),
        ("Memory Throughput", "%", "61.5"),
        ("Memory Throughput", "Gbyte/second", "500"),
        ("SM Frequency", "cycle/nsecond", "1.41"),
        ("Static Shared Memory Per Block", "Kbyte/block", "8.19"),
    )
    assert row(read_text(tmp_path, long(*rows))) == IDENTITY | {
        "duration_ps": 2_000_000,
        "memory_percent": 61.5,
        "dram_bytes": 1_000_000.0,
        "core_clock_hz": 1.41e9,
        "static_shared_memory_bytes": 8190,
    }


def test_operations_are_counted_from_adds_multiplications_and_fused_ones(
    tmp_path: Path,
) -> None:
    of = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum"
    rows = long_rows(
        launch(0, GEMM),
        (of.format("fadd"), "inst", "10"),
        (of.format("fmul"), "inst", "20"),
        (of.format("ffma"), "inst", "100"),
        # Without its multiplications nothing is known of 64 bits.
        (of.format("dadd"), "inst", "1"),
        (of.format("dfma"), "inst", "1"),
        ("sm__cycles_elapsed.max", "cycle", "1,000"),
        (of.format("hadd") + ".per_cycle_elapsed", "inst/cycle", "0.5"),
        (of.format("hmul") + ".per_cycle_elapsed", "inst/cycle", "0"),
        ("derived__smsp__sass_thread_inst_executed_op_hfma_pred_on_x2", "", "8"),
        ("sm__ops_path_tensor_src_bf16_dst_fp32.sum", "", "4,096"),
        ("sm__ops_path_tensor_src_bf16_dst_fp32_sparsity_off.sum", "", "4,096"),
        ("sm__ops_path_tensor_src_int8.sum", "", "99"),
    )
    found = row(read_text(tmp_path, long(*rows)))
    assert {name: found.get(name) for name in found if name.startswith("flops")} == {
        "flops_fp16": 500.0 + 8_000.0,
        "flops_fp32": 10.0 + 20.0 + 200.0,
        "flops_tensor": 4_096.0,
    }


def test_the_longest_wait_is_a_share_of_all_cycles(tmp_path: Path) -> None:
    waits = {
        "long_scoreboard": "6.0",
        "barrier": "2.0",
        "wait": "1.0",
        "mio": "0.5",
        "lg": "0.2",
        "math": "0.1",
        "sleeping": "0",
        "drain": "0.1",
    }
    rows = long_rows(
        launch(0, GEMM),
        *(
            (
                f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio",
                "inst",
                cycles,
            )
            for reason, cycles in (*waits.items(), ("selected", "9.0"))
        ),
        ("smsp__average_warps_active_per_issue_active.ratio", "warp", "12.0"),
    )
    found = row(read_text(tmp_path, long(*rows)))
    assert found["stall_reason"] == "long_scoreboard"
    assert found["stall_percent"] == pytest.approx(50)


def test_one_reason_to_wait_is_no_share(tmp_path: Path) -> None:
    rows = long_rows(
        launch(0, GEMM),
        ("smsp__average_warps_issue_stalled_wait_per_issue_active.ratio", "", "1"),
        ("smsp__average_warps_active_per_issue_active.ratio", "warp", "12.0"),
    )
    assert "stall_reason" not in row(read_text(tmp_path, long(*rows)))


def test_what_nvidias_rules_say_is_kept_in_its_words(tmp_path: Path) -> None:
    words = 'Waits for ""L1"", 40% of the time.'
    text = long(
        line(*launch(0, GEMM), "Occupancy", "Achieved Occupancy", "%", "31.2"),
        line(
            *(*launch(0, GEMM), "WarpStateStats", "", "", ""),
            *("CPIStall", "OPT", words, "global", "41.5"),
        ),
        line(
            *(*launch(0, GEMM), "SpeedOfLight", "", "", ""),
            *("SOLBottleneck", "INF", "All is well.", "", ""),
        ),
    )
    trace = read_text(tmp_path, text)
    assert row(trace)["achieved_occupancy_percent"] == 31.2
    said = 'Waits for "L1", 40% of the time.'
    assert frame(trace, "kernel_rule_results").rows() == [
        (0, "WarpStateStats", "CPIStall", "OPT", said, 41.5, "global"),
        (0, "SpeedOfLight", "SOLBottleneck", "INF", "All is well.", None, None),
    ]


def test_a_raw_page_says_which_page_holds_the_rules(tmp_path: Path) -> None:
    trace = read_text(tmp_path, wide({TIME: "ns"}, [(launch(0, GEMM), ("5",))]))
    absent = trace.table("kernel_rule_results")
    assert isinstance(absent, Unavailable)
    assert "--page details" in absent.remedy


def test_a_measurement_alone_has_no_timeline(tmp_path: Path) -> None:
    trace = read_text(tmp_path, wide({TIME: "ns"}, [(launch(0, GEMM), ("5",))]))
    for table in ("events", "device_activity", "launches", "tracks"):
        absent = trace.table(table)
        assert isinstance(absent, Unavailable)
        assert "--kernels" in absent.remedy


@pytest.mark.parametrize("encode", ["gzip", "utf-16"])
def test_a_packed_table_and_one_of_powershell_read_like_the_plain_one(
    tmp_path: Path, encode: str
) -> None:
    text = TOOL + wide({TIME: "ns"}, [(launch(0, GEMM), ("1,500",))])
    path = tmp_path / "k.csv"
    content = text.encode("utf-16" if encode == "utf-16" else "utf-8")
    path.write_bytes(gzip.compress(content, mtime=0) if encode == "gzip" else content)
    assert row(read_checked(path)) == IDENTITY | {"duration_ps": 1_500_000}


def test_a_table_saved_by_a_spreadsheet_is_read(tmp_path: Path) -> None:
    """Its quotes are gone where they are not needed, its delimiter is `;`."""
    text = wide({TIME: "ns"}, [(launch(0, GEMM), ("1500",))])
    saved = text.replace('","', ";").replace('"', "")
    assert row(read_text(tmp_path, saved)) == IDENTITY | {"duration_ps": 1_500_000}


def test_tables_in_the_folder_of_a_recording_are_not_taken_for_the_run(
    tmp_path: Path,
) -> None:
    (tmp_path / "rank0.json").write_text(
        '{"schemaVersion": 1, "traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "a",'
        ' "pid": 1, "tid": 1, "ts": 1, "dur": 1}]}',
        encoding="utf-8",
    )
    for name in ("a", "b"):
        text = wide({TIME: "ns"}, [(launch(0, GEMM), ("5",))])
        write(tmp_path / f"{name}.csv", text)
    _, traces = open_hosts(tmp_path)
    assert list(traces) == ["rank0"]
    (tmp_path / "rank0.json").unlink()
    _, traces = open_hosts(tmp_path)
    assert len(traces) == 2
