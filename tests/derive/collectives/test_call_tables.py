"""Whole tables of collectives, worked out by hand."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from tests.support.traces import blueprint

from stepscope.derive.collectives.arguments import (
    bus_share,
    element_type,
    host_collectives,
)
from stepscope.derive.collectives.calls import (
    NO_COLLECTIVES,
    collective_calls,
    collectives,
)
from stepscope.derive.reasons import WHY
from stepscope.trace.tables import HLO_OPS
from stepscope.unavailable import Unavailable

US = 1_000_000
GONE = Unavailable(code="LOST_EVENTS", reason="Taken away.", remedy="Put it back.")
#: A kernel whose name has no kind of collective.
KERNEL = "ncclDevKernel_Generic"
ARGUMENTS: dict[str, Any] = {
    "Collective name": "allreduce",
    "In msg nelems": 1024,
    "Out msg nelems": 1024,
    "dtype": "Float",
    "Group size": 4,
    "Process Group Name": "dp",
}
LINES: list[blueprint.Line] = [
    ("main", "train", 9, 191, {"_r": 1, "step_num": 3}),
    ("main", "nccl:all_gather", 10, 20),
    ("main", "cudaLaunchKernel", 12, 2, {"correlation_id": 1}),
    ("main", "cudaLaunchKernel", 40, 2, {"correlation_id": 2}),
    ("main", "train", 300, 100, {"_r": 1, "step_num": 4}),
    ("main", "record_param_comms", 310, 30, {**ARGUMENTS, "dtype": "Half"}),
    ("main", "nccl:broadcast", 312, 20),
    ("main", "cudaLaunchKernel", 320, 2, {"correlation_id": 3}),
    ("gpu:1/9", KERNEL, 320, 40, {"correlation_id": 3}),
    ("gpu:1/9", KERNEL, 60, 40, {"correlation_id": 1}),
    ("gpu:0/9", KERNEL, 50, 30, {**ARGUMENTS, "correlation_id": 2}),
    ("gpu:0/9", KERNEL, 0, 8),
    ("gpu:0/7", "sgemm", 70, 5),
]


def table_of(
    trace: blueprint.TraceData, derivation: Any = collective_calls
) -> pl.DataFrame:
    found = blueprint.profile(trace).derived("vm", derivation)
    assert isinstance(found, pl.DataFrame), found
    return found


CALLS = {
    "device": [0, 0, 1, 1],
    "step_row": [-1, 0, 0, 1],
    "kind": ["other", "all-reduce", "all-gather", "all-reduce"],
    "group": ["", "dp", "", "dp"],
    "group_size": [None, 4, None, 4],
    "dtype": [None, "float32", None, "float16"],
    "bytes": [None, 4096, None, 2048],
    # Of 4 members each sends 2 * 3 / 4 of the bytes.
    "bus_bytes": [None, 6144, None, 3072],
    "start_ps": [0, 50 * US, 60 * US, 320 * US],
    "dur_ps": [8 * US, 30 * US, 40 * US, 40 * US],
    "exposed_ps": [8 * US, 25 * US, 40 * US, 40 * US],
}


def test_all_that_is_known_of_each_collective() -> None:
    trace = blueprint.trace(LINES)
    found = table_of(trace)
    assert found.drop("activity").to_dict(as_series=False) == CALLS
    rows = trace.table("device_activity")
    assert isinstance(rows, pl.DataFrame)
    assert rows[found["activity"]]["start_ps"].to_list() == CALLS["start_ps"]


def test_the_sums_of_each_kind_and_device() -> None:
    extra = [
        ("gpu:0/9", KERNEL, 1000, 10, {**ARGUMENTS, "In msg nelems": 9000}),
        ("gpu:0/9", "ncclDevKernel_AllReduce", 1100, 3),
        # Its group is unknown, so its bytes are known and those of its link are not.
        ("gpu:0/9", KERNEL, 1200, 2, {**ARGUMENTS, "Group size": 0}),
    ]
    found = table_of(blueprint.trace([*LINES, *extra]), collectives)
    assert found.rows(named=True) == [
        {
            "kind": "all-gather",
            "device": 1,
            "count": 1,
            **dict.fromkeys(("total_ps", "min_ps", "max_ps", "exposed_ps"), 40 * US),
            "sized": 0,
            "bytes": None,
            "sized_ps": 0,
            "bus_bytes": None,
            "bus_ps": 0,
        },
        {
            "kind": "all-reduce",
            "device": 0,
            "count": 4,
            "total_ps": 45 * US,
            "min_ps": 2 * US,
            "max_ps": 30 * US,
            "exposed_ps": 40 * US,
            "sized": 3,
            "bytes": 4096 + 36000 + 4096,
            "sized_ps": 42 * US,
            "bus_bytes": 6144 + 54000,
            "bus_ps": 40 * US,
        },
        {
            "kind": "all-reduce",
            "device": 1,
            "count": 1,
            **dict.fromkeys(("total_ps", "min_ps", "max_ps", "exposed_ps"), 40 * US),
            "sized": 1,
            "bytes": 2048,
            "sized_ps": 40 * US,
            "bus_bytes": 3072,
            "bus_ps": 40 * US,
        },
        {
            "kind": "other",
            "device": 0,
            "count": 1,
            **dict.fromkeys(("total_ps", "min_ps", "max_ps", "exposed_ps"), 8 * US),
            "sized": 0,
            "bytes": None,
            "sized_ps": 0,
            "bus_bytes": None,
            "bus_ps": 0,
        },
    ]


def test_without_arguments_the_ranges_still_name_collectives() -> None:
    trace = blueprint.trace(LINES)
    bare = blueprint.substitute(trace, stats=GONE)
    found = table_of(bare)
    unknown = dict.fromkeys(("group_size", "dtype", "bytes", "bus_bytes"), [None] * 4)
    assert found["group"].to_list() == [""] * 4
    assert found.select(list(unknown)).to_dict(as_series=False) == unknown
    for name in ("device", "start_ps", "dur_ps", "exposed_ps"):
        assert found[name].to_list() == CALLS[name]


def test_without_collectives_there_are_no_calls() -> None:
    profile = blueprint.profile(blueprint.trace([("gpu:0/7", "sgemm", 0, 5)]))
    assert profile.derived("vm", collective_calls) == NO_COLLECTIVES
    rows = pl.DataFrame()
    nothing = collectives(device_activity=rows, collective_calls=NO_COLLECTIVES)
    assert isinstance(nothing, pl.DataFrame)
    assert not len(nothing)
    assert collectives(device_activity=rows, collective_calls=GONE) == GONE


def op(
    name: str, op_type: str, shape: str | None = None, **more: Any
) -> blueprint.Line:
    stats = {"tf_op": f"{name}:{op_type}"} | ({"shape": shape} if shape else {})
    return ("gpu:0/9", KERNEL, 0, 5, {**stats, **more})


@pytest.mark.parametrize(
    ("line", "kind", "size", "dtype"),
    [
        # One tensor is both input and output, or there are an input and an output.
        (op("a", "NcclAllReduce", "(float[8])"), "all-reduce", 32, "float32"),
        (op("a", "NcclAllReduce", "(float[8];float[9])"), "all-reduce", 36, "float32"),
        (op("a", "NcclReduce", "(c10::Half[8])"), "reduce", 16, "float16"),
        (op("a", "NcclAllGather", "(float[2];float[8])"), "all-gather", 32, "float32"),
        (
            op("a", "NcclReduceScatter", "(long[8];long[2])"),
            "reduce-scatter",
            64,
            "int64",
        ),
        (op("a", "NcclAllGather", "(float[8])"), "all-gather", None, None),
        (
            op("a", "NcclAllGather", "(float[2];float[2];float[8])"),
            "all-gather",
            None,
            None,
        ),
        (op("a", "NcclAllReduce", "(odd[8])"), "all-reduce", None, ""),
        (op("a", "NcclAllReduce"), "all-reduce", None, ""),
        (
            op("c10d::allreduce_", "x", "(float[8];float[9])"),
            "all-reduce",
            68,
            "float32",
        ),
        # The type alone is enough, if no op within one device is called so.
        (op("a", "CollectiveReduceV2"), "all-reduce", None, ""),
        (op("sum", "all_reduce"), "all-reduce", None, ""),
        (op("mine", "gather"), "other", None, None),
        (op("nccl_gather", "x"), "gather", None, None),
    ],
)
def test_operands_tell_the_size(
    line: blueprint.Line, kind: str, size: int | None, dtype: str | None
) -> None:
    (row,) = table_of(blueprint.trace([line])).rows(named=True)
    assert (row["kind"], row["bytes"]) == (kind, size)
    assert (row["dtype"] or None) == (dtype or None)


@pytest.mark.parametrize(
    ("opcode", "shape", "size"),
    [
        ("all-reduce", "(f32[4], f32[6])", 40),
        ("broadcast", "f32[6]", 24),
        ("all-to-all", "(f32[4], f32[4])", 32),
        # The result has the input, too.
        ("all-gather-start", "(f32[2], f32[8])", 32),
        ("collective-permute-start", "(f32[8], f32[8], u32[], u32[])", 32),
        # The operand is larger than the result, and is not known.
        ("reduce-scatter", "f32[2]", None),
        ("all-reduce", None, None),
    ],
)
def test_results_of_instructions_tell_the_size(
    opcode: str, shape: str | None, size: int | None
) -> None:
    stats = {"hlo_op": "it.1", "hlo_module": "jit", "program_id": 3}
    trace = blueprint.trace([("gpu:0/9", KERNEL, 0, 5, stats)])
    row = {"program": 3, "module": "jit", "name": "it.1", "opcode": opcode}
    known = pl.DataFrame(
        [{**row, "shape": shape, "matmul": False}], schema=HLO_OPS.dtypes()
    )
    (found,) = table_of(blueprint.substitute(trace, hlo_ops=known)).rows(named=True)
    assert found["bytes"] == size
    assert found["dtype"] in ({"f32"} if size else {None, ""})


def test_collectives_of_threads_have_their_group_and_their_start() -> None:
    lines: list[blueprint.Line] = [
        ("pool", "gloo:broadcast", 100, 10, {"Process Group Name": "dp"}),
        ("main", "c10d::allreduce_", 0, 5),
        ("other", "mpi:odd", 40, 7, {"Process Group Ranks": "[0, 1]"}),
        ("main", "gloo:all_reduce", 2, 1),
    ]
    trace = blueprint.trace(lines)
    found = table_of(trace, host_collectives)
    assert found.drop("event").rows() == [
        ("all-reduce", "", 2 * US, 1 * US),
        ("other", "[0, 1]", 40 * US, 7 * US),
        ("broadcast", "dp", 100 * US, 10 * US),
    ]
    bare = blueprint.substitute(trace, stats=GONE)
    assert table_of(bare, host_collectives)["group"].to_list() == [""] * 3


def test_collectives_inside_others_do_not_count_at_any_depth() -> None:
    found = table_of(
        blueprint.trace(
            [
                ("main", "dist.all_reduce", 0, 50),
                ("main", "anything", 2, 40),
                ("main", "c10d::allreduce_", 5, 30),
                ("main", "c10d::broadcast_", 60, 30),
                ("main", "loop", 100, 50),
                ("main", "c10d::allgather_", 110, 30),
            ]
        ),
        host_collectives,
    )
    assert [row[1:] for row in found.select("event", "kind", "dur_ps").rows()] == [
        *(("all-reduce", 30 * US), ("broadcast", 30 * US), ("all-gather", 30 * US)),
    ]


def test_a_host_without_collectives_says_so() -> None:
    profile = blueprint.profile(blueprint.trace([("main", "MatMul:MatMul", 0, 5)]))
    assert profile.derived("vm", host_collectives) == WHY["no_host_collectives"]


def test_types_of_elements_and_shares_of_a_link() -> None:
    widths = {
        4: "Float float32 Int int32", 8: "Double Long int64 ComplexFloat",
        2: "Half BFloat16 Short", 1: "Byte Char Bool Float8_e4m3fn",
        16: "ComplexDouble",
    }  # fmt: skip
    for width, names in widths.items():
        assert {element_type(name)[1] for name in names.split()} == {width}
    assert element_type("Posit") == ("posit", None)
    for kind in ("reduce-scatter", "all-gather", "all-to-all", "gather", "scatter"):
        assert bus_share(kind, 5) == 4 / 5
    for kind in ("broadcast", "send-receive", "reduce", "barrier", "other"):
        assert bus_share(kind, 5) == 1.0
