"""`[memory]` events: whose memory, how much, and what is in use after them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.traces.kineto import PID, check_all, complete, frame

from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.trace.model import TraceData

    Build = Callable[..., TraceData]


def memory(ts: float, size: int, kind: int, **args: Any) -> dict[str, Any]:
    device = -1 if kind == 0 else 0
    given = {"Device Type": kind, "Device Id": device, "Bytes": size, **args}
    return {
        "ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]",
        "pid": PID, "tid": PID, "ts": ts, "args": given,
    }  # fmt: skip


def totals(allocated: int, reserved: int) -> dict[str, int]:
    return {"Total Allocated": allocated, "Total Reserved": reserved}


def test_allocations_are_told_by_device_and_sign(trace_of: Build) -> None:
    trace = trace_of(
        [
            memory(30, -512, 1, Addr=4096, **totals(1000, 4096)),
            memory(10, 512, 1, Addr=4096, **totals(1512, 4096)),
            memory(20, 64, 6, Addr=2**63 + 1, **totals(64, 2048)),
            memory(25, 8, 0, Addr=77, **totals(8, 0)),
            complete("aten::empty", 5, 10),
        ]
    )
    check_all(trace)
    rows = frame(trace, "allocations").select(
        "start_ps", "kind", "allocator", "address", "allocated_bytes", "heap_bytes",
        "free_bytes", "op",
    )  # fmt: skip
    # On the CPU nothing is reserved beyond what is in use.
    assert rows.rows() == [
        (5_000_000, "allocate", "cuda:0", 4096, 512, 1512, 2584, "aten::empty"),
        (15_000_000, "allocate", "hip:0", 2**63 + 1, 64, 64, 1984, None),
        (20_000_000, "allocate", "cpu", 77, 8, 8, None, None),
        (25_000_000, "deallocate", "cuda:0", 4096, 512, 1000, 3096, None),
    ]


def test_a_device_tells_its_size_and_counts_older_blocks(trace_of: Build) -> None:
    trace = trace_of(
        [
            memory(10, 512, 1, **totals(1512, 4096)),
            memory(20, 64, 0, **totals(64, 0)),
            memory(30, 64, 1, **{"Device Id": 1}, **totals(64, 64)),
            memory(40, 64, 1),
        ],
        deviceProperties=[{"id": 0, "totalGlobalMem": 16_000}, {"id": 1}],
    )
    check_all(trace)
    rows = frame(trace, "allocations").select("capacity_bytes", "older_counted")
    assert rows.rows() == [(16_000, True), (None, False), (None, True), (16_000, None)]


def test_equal_times_keep_the_order_of_the_file(trace_of: Build) -> None:
    events = [memory(10, size, 1, Addr=size) for size in (3, 1, 2)]
    found = frame(trace_of(events), "allocations")["allocated_bytes"].to_list()
    assert found == [3, 1, 2]


def test_a_total_of_0_is_not_taken_for_an_empty_heap(trace_of: Build) -> None:
    trace = trace_of(
        [
            # Memory shared with the workers of a DataLoader is not in the total.
            memory(10, 786_432, 0, **totals(0, 786_432)),
            memory(20, 100, 0, **totals(100, 0)),
            memory(30, -786_432, 0, **totals(0, 0)),
            memory(40, 50, 0, **totals(150, 0)),
            memory(50, -150, 0, **totals(0, 0)),
        ]
    )
    heap = frame(trace, "allocations")["heap_bytes"].to_list()
    assert heap == [None, 100, None, 150, 0]


def test_old_traces_have_sizes_only(trace_of: Build) -> None:
    old = memory(10, 4, 1)
    del old["cat"]
    trace = trace_of([old])
    assert frame(trace, "allocations").select(
        "allocator", "allocated_bytes", "address", "heap_bytes"
    ).rows() == [("cuda:0", 4, None, None)]
    kinds = frame(trace, "quality")["kind"].to_list()
    assert "allocations_without_address" in kinds


def test_a_device_type_without_a_name_keeps_its_number(trace_of: Build) -> None:
    trace = trace_of([memory(10, 4, 77)])
    assert frame(trace, "allocations")["allocator"].to_list() == ["device type 77:0"]


def test_no_memory_event_has_a_remedy(trace_of: Build) -> None:
    absent = trace_of([complete("aten::mm", 0, 5)]).table("allocations")
    assert isinstance(absent, Unavailable)
    assert absent.code == "NO_ALLOCATOR_EVENTS"
    assert "profile_memory=True" in absent.remedy
