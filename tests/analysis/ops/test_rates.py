"""How fast ops computed and moved data, and what held them, by hand."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from tests.support.traces import blueprint
from tests.support.traces.kineto import call, complete, kernel, read_file

from stepscope.analysis import framework_op_stats, overview_page
from stepscope.analysis.framework_op_stats import FrameworkOpStatsResult, Options
from stepscope.trace.tables import HLO_OPS, INT, TYPE_STATS
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.trace.model import TraceData

GPU = "gpu:0/7(Compute)"
#: Bytes of an operand of 1,024 x 1,024 numbers of 32 bits.
SQUARE = 4 * 1024 * 1024
RATES = (
    *("measured_flop_rate", "model_flop_rate", "measured_memory_bw"),
    *("operational_intensity", "bound_by"),
)


def analysed(*traces: TraceData) -> FrameworkOpStatsResult:
    result = framework_op_stats.analyse(blueprint.profile(*traces), Options())
    assert isinstance(result, FrameworkOpStatsResult)
    return result


def rates_of(result: FrameworkOpStatsResult, name: str, side: str = "Device") -> Any:
    (row,) = result.rows.filter(name=name, host_or_device=side).select(RATES).to_dicts()
    return row


#: Opcode → one instruction on operands of 1,024 x 1,024 and what it did.
INSTRUCTIONS = {
    "dot.1": {"opcode": "dot", "attributes": "lhs_contracting_dims={1}"},
    "add.1": {"opcode": "add"},
    "copy-start.1": {"opcode": "copy-start"},
}


def compiled(
    *runs: tuple[str, float, float], programs: int = 1, host: str = "vm"
) -> TraceData:
    """Runs (instruction, start, duration in µs), of each program in turn, on an A100.

    The second program works on 512 x 1,024 and 1,024 x 1,024 numbers.
    """
    lines = []
    for instruction, start, dur in runs:
        for program in range(programs):
            name = f"ampere_sgemm_{program}"
            stats = {"hlo_module": "f", "hlo_op": instruction, "program_id": program}
            lines.append((GPU, name, start + 1e5 * program, dur, stats))
    rows = []
    for program in range(programs):
        left = "f32[1024,1024]" if program == 0 else "f32[512,1024]"
        about = {"program": program, "module": "f", "computation": "main"}
        rows += [
            about | {"name": "a", "opcode": "parameter", "shape": left},
            about | {"name": "b", "opcode": "parameter", "shape": "f32[1024,1024]"},
            *(
                about
                | {
                    "name": name,
                    "shape": left,
                    "operands": ["a", "b"] if name != "copy-start.1" else ["a"],
                    "operand_type": "f32",
                    "op_name": f"f/{name[:-2]}",
                }
                | fields
                for name, fields in INSTRUCTIONS.items()
            ),
        ]
    return blueprint.substitute(
        blueprint.trace(lines, host=host, devices={0: blueprint.A100}),
        hlo_ops=pl.DataFrame(rows, schema=HLO_OPS.dtypes()),
    )


# An A100 has 128 x 108 x 1.41 GHz = 19.49 TFLOP/s with its 32-bit units, and 1,555.2
# GB/s of memory.


def test_a_product_that_computes_all_the_time_is_bound_by_it() -> None:
    found = rates_of(
        analysed(compiled(("dot.1", 0, 200), ("dot.1", 300, 200))), "f/dot"
    )
    # Two products in 400 µs: 55 % of the units, 4 % of the memory.
    assert found["measured_flop_rate"] == pytest.approx(2 * 2 * 1024**3 / 400e-6 / 1e9)
    assert found["model_flop_rate"] == found["measured_flop_rate"]
    assert found["measured_memory_bw"] == pytest.approx(2 * 3 * SQUARE / 400e-6 / 2**30)
    assert found["operational_intensity"] == pytest.approx(2 * 1024**3 / (3 * SQUARE))
    assert found["bound_by"] == "Compute"


@pytest.mark.parametrize(
    ("dur", "bound"),
    [
        (10.0, "HBM"),  # 81 % of the memory, 0.5 % of the units
        (10_000.0, "Latency"),  # 0.08 %
        (5.0, None),  # 162 %: caches gave the rest
    ],
)
def test_a_sum_is_bound_by_what_it_uses_most(dur: float, bound: str | None) -> None:
    result = analysed(compiled(("add.1", 0, dur)))
    found = rates_of(result, "f/add")
    assert found["measured_flop_rate"] == pytest.approx(1024**2 / (dur * 1e3))
    assert found["operational_intensity"] == pytest.approx(1 / 12)
    assert found["bound_by"] == bound
    codes = {each.field: each.code for each in result.missing}
    assert codes.get("rows.bound_by") == (None if bound else "NO_PEAKS")


def test_two_programs_of_one_function_each_do_their_own_work() -> None:
    trace = compiled(("dot.1", 0, 100), ("dot.1", 200, 100), programs=2)
    work = 2 * (2 * 1024**3) + 2 * (1024**3)
    found = rates_of(analysed(trace), "f/dot")
    assert found["measured_flop_rate"] == pytest.approx(work / 400e-6 / 1e9)


def test_hosts_add_work_and_time() -> None:
    traces = [compiled(("dot.1", 0, 100 * n), host=f"h{n}") for n in (1, 3)]
    found = rates_of(analysed(*traces), "f/dot")
    assert found["measured_flop_rate"] == pytest.approx(4 * 1024**3 / 400e-6 / 1e9)
    why = Unavailable(code="NO_HLO", reason="taken away.", remedy="Put it back.")
    broken = [traces[0], blueprint.substitute(traces[1], hlo_ops=why)]
    # What one host cannot tell is no part of another's op either.
    assert rates_of(analysed(*broken), "f/dot")["measured_flop_rate"] is not None
    assert rates_of(analysed(*broken), "dot.1")["measured_flop_rate"] is None


def test_asynchronous_work_has_no_rate_in_the_time_of_its_start() -> None:
    found = rates_of(analysed(compiled(("copy-start.1", 0, 1))), "f/copy-start")
    assert set(found.values()) == {None}


def test_the_overview_shows_the_rate_of_its_top_ops() -> None:
    page = overview_page.analyse(
        blueprint.profile(compiled(("dot.1", 0, 200))), overview_page.Options()
    )
    assert isinstance(page, overview_page.OverviewPageResult)
    assert page.top_ops is not None
    (top,) = page.top_ops
    assert top.flop_rate_gflops == pytest.approx(2 * 1024**3 / 200e-6 / 1e9)
    fields = {each.field for each in page.missing}
    assert "top_ops.flop_rate_gflops" not in fields


# ------------------------------------------------------------- operands on the host

DIMS = {
    "aten::linear": [[4, 3], [5, 3], [5]],
    "aten::addmm": [[5], [4, 3], [3, 5]],
    "my::op": [[4, 3]],
}
#: 4 x 5 sums of 3 products, and the numbers that are read and written.
PRODUCT, NUMBERS = 2 * 4 * 5 * 3, 5 + 12 + 15 + 20


def op(name: str, ts: float, dur: float) -> dict[str, Any]:
    sizes = DIMS[name]
    args = {"Input Dims": sizes, "Input type": ["float"] * len(sizes)}
    return complete(name, ts, dur, args=args)


def launched(ts: float, number: int, dur: float) -> list[dict[str, Any]]:
    return [
        call("cudaLaunchKernel", ts, 1, correlation=number),
        kernel("gemm", 100 * number, dur, correlation=number),
    ]


def trace_of(path: Path, *events: dict[str, Any]) -> TraceData:
    file = path / "worker.pt.trace.json"
    file.write_text(
        json.dumps({"schemaVersion": 1, "traceEvents": list(events)}), "utf-8"
    )
    return read_file(file)


def test_executions_on_the_host_tell_the_work_of_what_they_launched(
    tmp_path: Path,
) -> None:
    trace = trace_of(
        tmp_path,
        op("aten::linear", 0, 30),
        op("aten::addmm", 5, 20),
        *launched(6, 1, 2),
        *launched(8, 2, 1),
        op("aten::addmm", 50, 20),
        *launched(55, 3, 3),
    )
    result = analysed(trace)
    found = rates_of(result, "aten::addmm")
    # Two products in three kernels of 6 µs.
    assert found["measured_flop_rate"] == pytest.approx(2 * PRODUCT / 6e3)
    assert found["measured_memory_bw"] == pytest.approx(2 * 4 * NUMBERS / 6e-6 / 2**30)
    # On the host nothing was computed but calls.
    for name in ("aten::addmm", "aten::linear"):
        assert set(rates_of(result, name, "Host").values()) == {None}


def test_what_an_inner_op_of_unknown_work_did_is_not_the_outer_op_s(
    tmp_path: Path,
) -> None:
    outer = [op("aten::linear", 0, 30), *launched(2, 1, 2)]
    alone = analysed(trace_of(tmp_path, *outer))
    rate = rates_of(alone, "aten::linear")["measured_flop_rate"]
    assert rate == pytest.approx(PRODUCT / 2e3)
    both = analysed(
        trace_of(tmp_path, *outer, op("my::op", 10, 10), *launched(12, 2, 50))
    )
    assert rates_of(both, "aten::linear")["measured_flop_rate"] is None
    assert rates_of(both, "my::op")["measured_flop_rate"] is None


def test_one_execution_without_operands_makes_the_rate_unknown(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        op("aten::addmm", 0, 20),
        *launched(5, 1, 2),
        complete("aten::addmm", 50, 20),
        *launched(55, 2, 2),
    )
    assert set(rates_of(analysed(trace), "aten::addmm").values()) == {None}


def test_a_host_that_computes_itself_has_rates(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        op("aten::linear", 0, 30),
        op("aten::addmm", 5, 20),
        op("my::op", 40, 9),
    )
    result = analysed(trace)
    # Total times hold inner ops, and so does the work.
    for name, total in (("aten::linear", 30), ("aten::addmm", 20)):
        found = rates_of(result, name, "Host")
        assert found["measured_flop_rate"] == pytest.approx(PRODUCT / (total * 1e3))
        assert found["bound_by"] is None
    assert rates_of(result, "my::op", "Host")["measured_flop_rate"] is None
    codes = {each.field: each.code for each in result.missing}
    assert codes["rows.bound_by"] == "NO_PEAKS"


# ----------------------------------------------------- what a compiler has recorded


def test_what_the_compiler_stored_stands_in_for_a_program() -> None:
    stats = {"hlo_op": "fusion.1", "hlo_module": "f", "flops": 0, "model_flops": 0}
    line = (GPU, "fusion.1", 0, 10, stats | {"bytes_accessed": 0})
    trace = blueprint.trace([line, (GPU, "fusion.1", 20, 10, stats)])
    types = trace.table("event_types")
    assert isinstance(types, pl.DataFrame)
    values = {"flops": 3000, "model_flops": 2000, "bytes_accessed": 600}
    stored = pl.DataFrame(
        {
            "type": [types["name"].to_list().index("fusion.1")] * 3,
            "key": [list(trace.strings).index(name) for name in values],
            "kind": [INT] * 3,
            "value": list(values.values()),
            "length": [0] * 3,
        },
        schema=TYPE_STATS.dtypes(),
    )
    result = analysed(blueprint.substitute(trace, type_stats=stored))
    found = rates_of(result, "fusion.1")
    # Two executions in 20 µs.
    assert found["measured_flop_rate"] == pytest.approx(2 * 3000 / 20e3)
    assert found["model_flop_rate"] == pytest.approx(2 * 2000 / 20e3)
    assert found["measured_memory_bw"] == pytest.approx(2 * 600 / 20e-6 / 2**30)
    assert found["operational_intensity"] == 5.0
    assert found["bound_by"] is None
