"""Collectives by arguments, library's range, op and kernel; their bytes and groups."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.traces import blueprint

import stepscope as ss
from stepscope.derive.collectives.arguments import host_collectives
from stepscope.derive.collectives.calls import collective_calls, collectives
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import polars as pl

US = 1_000_000
SEND_RECEIVE = "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)"
ARGUMENTS: dict[str, Any] = {
    "Collective name": "reduce_scatter",
    "In msg nelems": 4096,
    "Out msg nelems": 1024,
    "dtype": "BFloat16",
    "Group size": 4,
    "Process Group Name": "tp",
    "Process Group Ranks": "[0, 1, 2, 3]",
}


def totals_of(*lines: blueprint.Line) -> pl.DataFrame:
    found = blueprint.profile(blueprint.trace(lines)).derived("vm", collectives)
    assert not isinstance(found, Unavailable)
    return found


def calls_of(*lines: blueprint.Line) -> pl.DataFrame:
    found = blueprint.profile(blueprint.trace(lines)).derived("vm", collective_calls)
    assert not isinstance(found, Unavailable)
    return found


def launched(kernel: str, *around: str, **said: Any) -> list[blueprint.Line]:
    """A kernel whose launch the host made inside of these events, outermost first."""
    ids = {"correlation_id": 7}
    host = [("main", name, 10 + at, 100 - 2 * at) for at, name in enumerate(around)]
    return [
        *host,
        ("main", "cudaLaunchKernel", 50, 2, ids),
        ("gpu:0/9", kernel, 60, 40, {**ids, **said}),
    ]


def test_arguments_name_a_collective_before_all_else() -> None:
    (row,) = calls_of(
        *launched(SEND_RECEIVE, "c10d::alltoall_base_", "nccl:all_reduce", **ARGUMENTS)
    ).rows(named=True)
    assert row["kind"] == "reduce-scatter"
    assert (row["dtype"], row["group_size"]) == ("bfloat16", 4)
    assert row["group"] == "tp [0, 1, 2, 3]"
    # The larger side, of 2 bytes each; three of its four parts leave the member.
    assert (row["bytes"], row["bus_bytes"]) == (8192, 6144)


def test_the_range_of_the_library_names_a_collective_before_its_op() -> None:
    (row,) = calls_of(
        *launched(SEND_RECEIVE, "c10d::_allgather_base_", "nccl:all_to_all")
    ).rows(named=True)
    assert (row["kind"], row["bytes"], row["bus_bytes"]) == ("all-to-all", None, None)


def test_the_op_names_a_collective_before_its_kernel() -> None:
    found = calls_of(*launched(SEND_RECEIVE, "c10d::_allgather_base_"))
    assert found["kind"].to_list() == ["all-gather"]


def test_an_op_that_gathers_within_its_device_names_no_collective() -> None:
    found = calls_of(*launched("ncclDevKernel_Broadcast_RING_LL", "aten::gather"))
    assert found["kind"].to_list() == ["broadcast"]


def test_a_kernel_that_says_nothing_is_another_exchange() -> None:
    assert calls_of(("gpu:0/9", "ncclDevKernel_Generic", 0, 5))["kind"][0] == "other"


def test_what_the_framework_recorded_on_the_host_serves_as_well() -> None:
    lines = launched("ncclDevKernel_Generic", "c10d::op", "record_param_comms")
    lines[1] = (*lines[1], ARGUMENTS)
    (row,) = calls_of(*lines).rows(named=True)
    assert (row["kind"], row["bytes"], row["group_size"]) == ("reduce-scatter", 8192, 4)


def test_an_element_type_of_unknown_width_leaves_the_bytes_open() -> None:
    said = {**ARGUMENTS, "dtype": "Posit"}
    (row,) = calls_of(*launched(SEND_RECEIVE, **said)).rows(named=True)
    assert (row["kind"], row["bytes"]) == ("reduce-scatter", None)


def test_totals_have_the_bytes_and_the_time_of_what_is_known() -> None:
    (row,) = totals_of(
        ("gpu:0/9", SEND_RECEIVE, 0, 40, ARGUMENTS),
        ("gpu:0/9", "ncclKernel_ReduceScatter", 100, 60),
    ).rows(named=True)
    assert (row["kind"], row["count"], row["sized"]) == ("reduce-scatter", 2, 1)
    assert (row["total_ps"], row["sized_ps"]) == (100 * US, 40 * US)
    assert (row["bytes"], row["bus_bytes"], row["bus_ps"]) == (8192, 6144, 40 * US)


def test_without_collectives_there_are_no_rows() -> None:
    assert not len(totals_of(("gpu:0/9", "sgemm", 0, 40)))


def host_calls(*lines: blueprint.Line) -> pl.DataFrame:
    found = blueprint.profile(blueprint.trace(lines)).derived("vm", host_collectives)
    assert not isinstance(found, Unavailable)
    return found


def test_of_a_hosts_collectives_the_transport_counts_where_it_was_recorded() -> None:
    found = host_calls(
        ("main", "c10d::allreduce_", 0, 5),
        ("pool", "gloo:all_reduce", 2, 90),
        ("pool", "gloo:broadcast", 100, 10),
    )
    assert found.select("kind", "start_ps", "dur_ps").rows() == [
        ("all-reduce", 2 * US, 90 * US),
        ("broadcast", 100 * US, 10 * US),
    ]


def test_of_nested_collectives_of_a_host_the_outermost_counts() -> None:
    found = host_calls(
        ("main", "CollectiveReduceV2:CollectiveReduceV2", 0, 50),
        ("main", "RingReduce", 5, 30),
        ("main", "MatMul:MatMul", 60, 30),
    )
    assert found.select("kind", "dur_ps").rows() == [("all-reduce", 50 * US)]


#: Profile → kind → number of kernels, counted in the raw file by what encloses each
#: launch call. Five kernels were launched before recording began: nothing says what
#: they carry.
COUNTS = {
    "kineto/hta_negative_queue_length": {
        "all-to-all": 45, "reduce-scatter": 10, "all-reduce": 10, "all-gather": 10,
        "send-receive": 5,
    },
    "kineto/hta_nccl_parser_config": {"all-reduce": 15, "broadcast": 6},
    "kineto/hta_trace_diff_control": {"all-to-all": 42, "all-reduce": 18},
}  # fmt: skip


@pytest.mark.profiles
@pytest.mark.parametrize("name", sorted(COUNTS))
def test_real_collectives_have_the_kinds_of_what_launched_them(
    shared_profile: Callable[[str], Path], name: str
) -> None:
    profile = ss.open(shared_profile(name))
    found = profile.derived(profile.hosts[0], collective_calls)
    assert not isinstance(found, Unavailable)
    assert Counter(found["kind"]) == COUNTS[name]


@pytest.mark.profiles
def test_real_arguments_give_bytes_and_groups(
    shared_profile: Callable[[str], Path],
) -> None:
    profile = ss.open(shared_profile("kineto/hta_nccl_parser_config"))
    found = profile.derived(profile.hosts[0], collectives)
    assert not isinstance(found, Unavailable)
    (row,) = found.rows_by_key("kind", named=True)["all-reduce"]
    # The elements of the 15 kernels in the raw file, of 4 bytes; in a group of two each
    # byte crosses the link once.
    assert row["sized"] == row["count"] == 15
    assert row["bytes"] == row["bus_bytes"] == 4 * 76_671_096
