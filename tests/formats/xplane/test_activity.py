"""What ran on devices, and what the file records about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.kept_promises import check_frame
from tests.support.xspace.literal import Ref, Unsigned, event, line, plane, space

from stepscope.formats.opening import read
from stepscope.trace.tables import TABLES
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.trace.model import TraceData

DETAILS = (
    "regs:32 static_shared:0 dynamic_shared:64 grid:10,1,1 block:128,1,1 occ_pct:50"
)
GPU = "/device:GPU:0"


@pytest.fixture
def trace(tmp_path: Path) -> Any:
    def of(*planes: Any, **about: Any) -> TraceData:
        path = tmp_path / "vm.xplane.pb"
        path.write_bytes(space(*planes, **about))
        return read(path)

    return of


def stream(*events: Any, name: str = "Stream #7(Compute)") -> Any:
    return plane(GPU, line(7, name, *events))


def activity(trace: TraceData) -> list[dict[str, Any]]:
    """Rows with texts in place of handles."""
    table = trace.table("device_activity")
    assert check_frame(TABLES["device_activity"], table) == []
    found = table.to_dicts()
    for row in found:
        for column in ("op", "hlo_op", "hlo_module", "shape", "equation"):
            if row[column] is not None:
                row[column] = trace.strings[row[column]]
    return found


def notes(trace: TraceData) -> dict[str, tuple[str, int | None]]:
    return {note.kind: (note.scope, note.count) for note in trace.quality_notes()}


@pytest.mark.parametrize(
    ("name", "stats", "kind"),
    [
        ("volta_sgemm_128x64_nt", {"kernel_details": DETAILS}, "kernel"),
        ("no_details_kernel", {}, "kernel"),
        ("ncclDevKernel_AllReduce_Sum_f32", {"kernel_details": DETAILS}, "collective"),
        ("void cross_device_reduce_1stage<float>", {}, "collective"),
        ("MemcpyH2D", {}, "h2d"),
        ("MEMCPYHtoD", {}, "h2d"),
        ("MemcpyD2H", {"memcpy_details": "size:8 dest:0 async:1"}, "d2h"),
        ("MEMCPYDtoH", {}, "d2h"),
        ("MemcpyP2P", {}, "p2p_copy"),
        ("MemcpyD2D", {"memcpy_details": "size:8 dest:0 async:1"}, "local_copy"),
        ("MemcpyD2D", {"memcpy_details": "size:8 dest:3 async:1"}, "p2p_copy"),
        ("MEMCPYDtoD", {}, "local_copy"),
        ("Memset 0", {}, "memset"),
        ("__amd_rocclr_copyBuffer.kd", {"kernel_details": " grid:1,1,1"}, "local_copy"),
        ("__amd_rocclr_fillBufferAligned", {"kernel_details": " grid:1,1,1"}, "memset"),
        # A kernel that its author named after a copy is still a kernel.
        ("memcpy_kernel<float>", {"kernel_details": DETAILS}, "kernel"),
        ("memset_zero", {"kernel_details": Ref(DETAILS)}, "kernel"),
        ("UM_BYTES_TRANSFER_HTOD", {}, "h2d"),
        ("UM_BYTES_TRANSFER_DTOH", {}, "d2h"),
        (
            "MemcpyOther",
            {"memcpy_details": "kind_src:pageable kind_dst:device size:8 dest:0"},
            "h2d",
        ),
        (
            "MemcpyOther",
            {"memcpy_details": "kind_src:array kind_dst:pinned size:8 dest:0"},
            "d2h",
        ),
        (
            "MemcpyOther",
            {"memcpy_details": "kind_src:device kind_dst:managed size:8 dest:0"},
            "local_copy",
        ),
        (
            "MemcpyOther",
            {"memcpy_details": "kind_src:device kind_dst:device size:8 dest:5"},
            "p2p_copy",
        ),
        ("kernel", {"tf_op": "group/all:CollectiveReduceV2"}, "collective"),
        ("kernel", {"hlo_category": "all-gather-start"}, "collective"),
        ("kernel", {"hlo_category": "loop fusion"}, "kernel"),
    ],
)
def test_an_event_of_a_stream_is_what_its_details_and_name_say(
    trace: Any, name: str, stats: dict[str, Any], kind: str
) -> None:
    (row,) = activity(trace(stream(event(name, 5, 9, stats))))
    assert row["kind"] == kind
    assert (row["start_ps"], row["dur_ps"], row["device"], row["stream"]) == (
        5,
        9,
        0,
        7,
    )


@pytest.mark.parametrize(
    ("name", "stats"),
    [
        ("MemoryAlloc", {}),
        ("cudaMalloc of 3", {"memalloc_details": "kind:device num_bytes:3"}),
        ("freed", {"MemFree_details": "kind:device num_bytes:3"}),
        ("resident", {"MemoryResidency_details": Ref("kind:device num_bytes:3")}),
        ("MemoryFree", {}),
        ("NVTX:my range", {}),
        ("BUFFER_FLUSH", {}),
        ("Overhead", {}),
        ("HostRegister", {}),
        ("UM_GPU_PAGE_FAULT", {}),
        ("MemcpyH2H", {}),
        (
            "MemcpyOther",
            {"memcpy_details": "kind_src:pageable kind_dst:pinned size:8 dest:0"},
        ),
    ],
)
def test_what_does_no_work_is_no_activity(
    trace: Any, name: str, stats: dict[str, Any]
) -> None:
    rows = activity(trace(stream(event(name, 0, 9, stats), event("k", 20, 1))))
    assert [row["start_ps"] for row in rows] == [20]


def test_streams_of_allocations_and_derived_lines_hold_no_activity(trace: Any) -> None:
    found = trace(
        plane(
            GPU,
            line(7, "Stream #7(Compute)", event("k", 0, 5)),
            line(8, "Stream #8(MemoryAlloc,MemoryFree)", event("strange", 0, 5)),
            line(-559038737, "Steps", event("0", 0, 5)),
            line(-559038734, "TensorFlow Ops", event("a:MatMul", 0, 5)),
            line(2**63 - 1, "_counters_", event("power", 0, 0)),
        )
    )
    assert [row["stream"] for row in activity(found)] == [7]


def test_a_copy_without_direction_takes_that_of_its_stream(trace: Any) -> None:
    events = event("MemcpyOther", 0, 5), event("MemcpyOther", 9, 5)
    (row, _) = activity(trace(stream(*events, name="Stream #7(MemcpyD2H)")))
    assert row["kind"] == "d2h"
    found = trace(stream(*events, name="Stream #7(Compute,MemcpyD2H,MemcpyH2D)"))
    assert [row["kind"] for row in activity(found)] == ["local_copy", "local_copy"]
    assert notes(found)["copies_without_direction"] == ("device_activity", 2)


def test_every_column_is_taken_from_the_stats_of_the_event(trace: Any) -> None:
    stats = {
        "correlation_id": Unsigned(77),
        "kernel_details": Ref(DETAILS),
        "tf_op": "model/dense/MatMul:MatMul",
        "hlo_op": Ref("fusion.3::dot.1"),
        "hlo_module": Ref("jit_step"),
        "program_id": 12,
        "shape": "(half[8,8];half[8,8])",
        "equation": "ab,bc->ac",
        "group_id": 4,
    }
    found = trace(stream(event("gemm", 0, 5, stats), event("bare", 9, 5)))
    whole, bare = activity(found)
    expected = {
        "correlation": 77,
        "geometry": 0,
        "op": "model/dense/MatMul:MatMul",
        "hlo_op": "fusion.3::dot.1",
        "hlo_module": "jit_step",
        "program": 12,
        "shape": "(half[8,8];half[8,8])",
        "equation": "ab,bc->ac",
        "group": 4,
        "bytes": None,
        "process": None,
    }
    assert {column: whole[column] for column in expected} == expected
    assert {column: bare[column] for column in expected} == dict.fromkeys(expected)
    assert found.table("geometries").to_dicts() == [
        {
            "registers": 32,
            "static_shared_memory_bytes": 0,
            "dynamic_shared_memory_bytes": 64,
            "shared_memory_bytes": 64,
            "block_x": 128,
            "block_y": 1,
            "block_z": 1,
            "grid_x": 10,
            "grid_y": 1,
            "grid_z": 1,
            "occupancy_percent": 50.0,
        }
    ]


def test_stats_of_the_event_type_count_unless_the_event_has_its_own(trace: Any) -> None:
    found = trace(
        plane(
            GPU,
            line(
                7,
                "Stream #7(Compute)",
                event("k", 0, 5),
                event("k", 9, 5, tf_op="own:Op", correlation_id=5),
            ),
            types={"k": {"tf_op": "shared:Op", "correlation_id": 3, "group_id": 1}},
        )
    )
    assert [
        (row["op"], row["correlation"], row["group"]) for row in activity(found)
    ] == [
        ("shared:Op", 3, 1),
        ("own:Op", 5, 1),
    ]


@pytest.mark.parametrize(
    ("stats", "op"),
    [
        ({"tf_op": "a/b:C", "level 0": "x:Y"}, "a/b:C"),
        ({"tf_op": "XlaModule:", "level 0": "x:Y"}, "x:Y"),
        ({"tf_op": "", "level 0": Ref("x:Y"), "annotation": "z:Z"}, "x:Y"),
        ({"level 0": "", "annotation": "a/b:C#shape=(1)#::#edge_name=e#"}, "a/b:C"),
        ({"annotation": "outer:Op::inner:Op"}, "outer:Op"),
        ({"annotation": Ref("#edge_name=copy#")}, None),
        ({"tf_op": "(null)"}, None),
        ({"tf_op": "INVALID"}, None),
        ({}, None),
    ],
)
def test_the_op_is_the_outermost_annotation_that_says_something(
    trace: Any, stats: dict[str, Any], op: str | None
) -> None:
    (row,) = activity(trace(stream(event("k", 0, 5, stats))))
    assert row["op"] == op


def test_equal_launch_shapes_share_a_row_however_they_are_written(trace: Any) -> None:
    older = "regs:16 shm:0 grid:1,1,1 block:64,1,1"
    found = trace(
        stream(
            event("k", 0, 5, kernel_details=older),
            event("k", 9, 5, kernel_details=Ref(older)),
            event("k", 19, 5, kernel_details=older.replace(" ", "\n")),
            event("k", 29, 5, kernel_details=older.replace("64", "32")),
            event("k", 39, 5),
        )
    )
    assert [row["geometry"] for row in activity(found)] == [0, 0, 0, 1, None]
    assert found.table("geometries")["block_x"].to_list() == [64, 32]


def test_an_occupancy_beside_the_details_counts_where_they_have_none(
    trace: Any,
) -> None:
    older = "regs:16 shm:0 grid:1,1,1 block:64,1,1"
    found = trace(
        stream(
            event("k", 0, 5, kernel_details=older, theoretical_occupancy_pct=25.0),
            event("k", 9, 5, kernel_details=older, theoretical_occupancy_pct=0.0),
            event("k", 19, 5, kernel_details=DETAILS, theoretical_occupancy_pct=99.0),
        )
    )
    occupancy = found.table("geometries")["occupancy_percent"].to_list()
    assert [occupancy[row["geometry"]] for row in activity(found)] == [25.0, None, 50.0]


def test_impossible_launch_details_are_null_and_counted_by_kernel(trace: Any) -> None:
    bad = "regs:2191500840 shm:0 grid:1,1,1 block:64,1,1"
    found = trace(
        stream(*(event("k", 10 * i, 5, kernel_details=Ref(bad)) for i in range(3)))
    )
    (shape,) = found.table("geometries").to_dicts()
    assert (shape["registers"], shape["block_x"]) == (None, 64)
    assert notes(found)["impossible_launch_details"] == ("registers", 3)


def test_details_on_host_lines_are_not_read(trace: Any) -> None:
    bad = "regs:17179869185 grid:1,210453397508,0"
    found = trace(
        plane("/host:CPU", line(1, "main", event("k", 0, 5, kernel_details=bad))),
        stream(event("k", 0, 5, kernel_details=DETAILS)),
    )
    assert found.table("geometries").height == 1
    assert "impossible_launch_details" not in notes(found)


def test_bytes_come_from_the_details_of_the_copy(trace: Any) -> None:
    found = trace(
        stream(
            event("MemcpyH2D", 0, 5, memcpy_details="size:100663296 dest:0 async:1"),
            event("Memset 0", 9, 5, Memset_details="kind:device num_bytes:77 async:1"),
            event("MemcpyD2H", 19, 5, memcpy_details="kind:Unknown size:0 dest:512"),
        )
    )
    assert [row["bytes"] for row in activity(found)] == [100_663_296, 77, None]


def test_activity_of_a_child_process_carries_its_id(trace: Any) -> None:
    found = trace(
        plane(f"{GPU} [77]", line(7, "Stream #7(Compute)", event("k", 0, 5))),
        plane("/device:GPU:1", line(7, "Stream #7(Compute)", event("k", 0, 5))),
    )
    assert [(row["device"], row["process"]) for row in activity(found)] == [
        (0, 77),
        (1, None),
    ]


def test_the_innermost_ops_of_a_tpu_are_its_activity(trace: Any) -> None:
    found = trace(
        plane(
            "/device:TPU:0",
            line(2, "XLA Modules", event("jit_f(9)", 0, 100)),
            line(
                3,
                "XLA Ops",
                event("%while = while(...)", 0, 60, program_id=9),
                event("%a = add(...)", 0, 20, program_id=9),
                event("%b = all-reduce(...)", 20, 40, program_id=9),
                event("%instant = tuple()", 60, 0, program_id=9),
                event("%c = copy(...)", 60, 30, program_id=9),
                event("%d = add(...)", 80, 20, program_id=8),
            ),
            line(4, "Async XLA Ops", event("%copy-start", 0, 90)),
            types={
                "%b = all-reduce(...)": {"hlo_category": "all-reduce"},
                "%a = add(...)": {"tf_op": "jit(f)/add:"},
            },
            display_names={"%a = add(...)": "a", "%b = all-reduce(...)": "b"},
        ),
        plane("/host:metadata", types={"jit_f(9)": {}}),
    )
    assert [
        (row["hlo_op"], row["kind"], row["dur_ps"], row["op"], row["hlo_module"])
        for row in activity(found)
    ] == [
        ("a", "kernel", 20, "jit(f)/add:", "jit_f"),
        ("b", "collective", 40, None, "jit_f"),
        (None, "kernel", 30, None, "jit_f"),
        (None, "kernel", 0, None, "jit_f"),
        # It outlives the copy that it overlaps: neither holds the other.
        (None, "kernel", 20, None, None),
    ]


def test_an_instruction_that_ends_a_transfer_waits_and_computes_nothing(
    trace: Any,
) -> None:
    names = {
        "%s = copy-start(...)": ("copy-start.1", "copy-start"),
        "%a = copy-done(...)": ("copy-done.1", "copy-done"),
        "%b = slice-done(...)": ("slice-done.12", None),
        "%c = all-gather-done(...)": ("all-gather-done.2", None),
        "%d = x(...)": ("x", "all-reduce-done"),
        "%e = fusion(...)": ("half-done-fusion", "loop fusion"),
    }
    found = trace(
        plane(
            "/device:TPU:0",
            line(3, "XLA Ops", *(event(n, 10 * i, 5) for i, n in enumerate(names))),
            types={n: {"hlo_category": c} for n, (_, c) in names.items() if c},
            display_names={n: shown for n, (shown, _) in names.items()},
        ),
    )
    assert [(row["hlo_op"], row["kind"]) for row in activity(found)] == [
        ("copy-start.1", "kernel"),
        ("copy-done.1", "transfer_wait"),
        ("slice-done.12", "transfer_wait"),
        ("all-gather-done.2", "collective"),
        ("x", "collective"),
        ("half-done-fusion", "kernel"),
    ]


@pytest.mark.slow(seconds=0.3)
def test_many_events_give_the_same_rows_as_few(trace: Any) -> None:
    # More than one block of stats.
    count = 40_000
    events = [
        event("k", 10 * i, 5, {"correlation_id": i, "tf_op": Ref(f"op{i % 7}:T")})
        for i in range(count)
    ]
    table = (found := trace(stream(*events))).table("device_activity")
    assert table["correlation"].to_list() == list(range(count))
    ops = [found.strings[handle] for handle in table["op"]]
    assert ops == [f"op{i % 7}:T" for i in range(count)]


@pytest.mark.parametrize(
    ("planes", "about", "code", "words"),
    [
        ([plane("/host:CPU", line(1, "a"))], {}, "NO_DEVICE_PLANE", "no device"),
        (
            [plane("/host:CPU")],
            {"errors": ("libcupti.so could not be loaded",)},
            "NO_DEVICE_PLANE",
            "libcupti",
        ),
        ([plane("/device:TPU:0")], {}, "NO_DEVICE_EVENTS", "none of its activity"),
        (
            [plane(GPU)],
            {"errors": ("CUPTI_ERROR_INSUFFICIENT_PRIVILEGES",)},
            # Listed is not used.
            "NO_DEVICE_PLANE",
            "right to profile",
        ),
        (
            [plane(GPU, line(-559038737, "Steps", event("0", 0, 5)))],
            {"warnings": ("CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED",)},
            "NO_DEVICE_PLANE",
            "other profiler",
        ),
        (
            [
                plane(GPU),
                plane("Task Environment", stats={"profile_options": b"\x10\x02"}),
            ],
            {},
            "NO_DEVICE_PLANE",
            "device_tracer_level 1",
        ),
        ([plane("/device:CUSTOM:x")], {}, "NO_DEVICE_PLANE", "no device"),
    ],
)
def test_without_activity_the_reason_and_the_remedy_are_named(
    trace: Any, planes: list[Any], about: dict[str, Any], code: str, words: str
) -> None:
    absent = trace(*planes, **about).table("device_activity")
    assert isinstance(absent, Unavailable)
    assert absent.code == code
    assert words in f"{absent.reason} {absent.remedy}"
    for text in (*about.get("errors", ()), *about.get("warnings", ())):
        assert text in absent.reason


@pytest.mark.parametrize("planes", [[plane("/host:CPU", line(1, "a"))], [plane(GPU)]])
def test_a_warning_about_the_host_does_not_say_why_there_is_no_device(
    trace: Any, planes: list[Any]
) -> None:
    of_host = "1 annotations were open when recording stopped"
    of_device = "jax did not record: RuntimeError: busy"
    absent = trace(*planes, warnings=(of_host,)).table("device_activity")
    plain = trace(*planes).table("device_activity")
    assert (absent.reason, absent.remedy) == (plain.reason, plain.remedy)
    both = trace(*planes, warnings=(of_host, of_device)).table("device_activity")
    assert of_device in both.reason
    assert of_host not in both.reason


def test_activities_that_overlap_on_a_stream_are_noted(trace: Any) -> None:
    us = 1_000_000
    found = trace(
        plane(
            GPU,
            line(
                7,
                "Stream #7(Compute)",
                event("long", 0, 100 * us),
                event("inside", 10 * us, 5 * us),
                event("inside too", 50 * us, 5 * us),
                event("touching", 100 * us, 5 * us),
            ),
            line(8, "Stream #8(Compute)", event("other stream", 0, 90 * us)),
        )
    )
    assert notes(found)["overlapping_activity"] == ("device_activity", 2)


def test_launches_and_activity_that_do_not_match_are_counted(trace: Any) -> None:
    found = trace(
        plane(
            "/host:CPU",
            line(
                1,
                "main",
                event("any name", 0, 5, correlation_id=1),
                event("cuLaunchKernel", 9, 5, correlation_id=Unsigned(2)),
                event("no id", 19, 5),
                event("cuLaunchKernel", 29, 5, correlation_id=9),
            ),
            stats={"process_id": 6},
        ),
        stream(
            event("k", 10, 5, correlation_id=1),
            event("k", 20, 5, correlation_id=1),
            event("k", 30, 5, correlation_id=3),
            event("k", 40, 5),
        ),
    )
    launches = found.table("launches")
    assert check_frame(TABLES["launches"], launches) == []
    assert launches["correlation"].to_list() == [1, 2, 9]
    assert launches["event"].to_list() == [0, 1, 3]
    assert set(launches["process"]) == {6}
    assert notes(found)["launches_without_activity"] == ("launches", 2)
    assert notes(found)["activity_without_launch"] == ("device_activity", 2)


def test_devices_that_did_nothing_are_listed_and_noted(trace: Any) -> None:
    capabilities = {
        "clock_rate": 1_590_000,
        "core_count": 40,
        "memory_bandwidth": Unsigned(320_064_000_000),
        "memory_size": Unsigned(15_812_263_936),
        "compute_cap_major": 7,
        "compute_cap_minor": 5,
    }
    found = trace(
        plane("/device:GPU:1", stats=capabilities, plane_id=1),
        plane(
            GPU,
            line(7, "Stream #7(Compute)", event("k", 0, 5), event("k", 9, 5)),
            stats={**capabilities, "device_vendor": "AMD", "gpu_device_name": "MI"},
        ),
    )
    devices = found.table("devices")
    assert check_frame(TABLES["devices"], devices) == []
    columns = ("device", "name", "vendor", "cores", "clock_hz", "activities")
    assert devices.select(columns).rows() == [
        (0, "MI", "AMD", 40, 1_590_000_000, 2),
        (1, None, "Nvidia", 40, 1_590_000_000, 0),
    ]
    assert devices.row(0, named=True)["memory_bytes"] == 15_812_263_936
    assert notes(found)["idle_devices"] == ("file", 1)
    assert notes(found)["vendor_inferred"] == ("/device:GPU:1", 1)
