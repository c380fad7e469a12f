"""What the producer says of a name: an operator, something else, or nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.traces import blueprint
from tests.support.traces.kineto import check_all, complete, frame, kernel

from stepscope.derive.device.attribution import activity_ops
from stepscope.derive.host.event_nesting import launching_ops
from stepscope.derive.host.op_events import HostOpEvents, host_op_events

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.trace.model import TraceData

    Build = Callable[..., TraceData]


def said(trace: TraceData) -> list[tuple[str, bool | None]]:
    types = frame(trace, "event_types")
    return list(types.select("name", "op").iter_rows())


def test_a_name_that_is_an_op_here_and_a_range_there_has_two_types(
    trace_of: Build,
) -> None:
    trace = trace_of(
        [
            complete("detach", 0, 5),
            complete("detach", 10, 50, cat="user_annotation"),
            complete("detach", 20, 5),
        ]
    )
    check_all(trace)
    assert sorted(said(trace)) == [("detach", False), ("detach", True)]
    events = frame(trace, "events")
    is_op = frame(trace, "event_types")["op"].gather(events["type"])
    assert dict(zip(events["start_ps"] // 10**6, is_op, strict=True)) == {
        0: True, 10: False, 20: True
    }  # fmt: skip


@pytest.mark.parametrize(
    ("event", "answer"),
    [
        (complete("x", 0, 5), True),
        (complete("x", 0, 5, cat="user_annotation"), False),
        (complete("x", 0, 5, cat="python_function"), False),
        (complete("x", 0, 5, cat="cuda_runtime"), False),
        (kernel("x", 0, 5), False),
        ({**complete("x", 0, 0), "ph": "i", "cat": "cpu_instant_event"}, False),
        (complete("x", 0, 5, cat="mtia_ccp_events"), None),
        # The oldest producers have one category for operators and ranges.
        (complete("x", 0, 5, cat="Operator"), None),
        (complete("ProfilerStep#3", 0, 5, cat="Operator"), False),
    ],
)
def test_the_category_says_whether_a_name_is_an_op(
    event: dict[str, Any],
    answer: bool | None,  # noqa: FBT001 - a parameter of the test's cases
    trace_of: Build,
) -> None:
    assert said(trace_of([event])) == [(event["name"], answer)]


def ops_of(trace: TraceData) -> dict[str, int]:
    """Executions by the name of the op."""
    found = blueprint.profile(trace).derived(trace.host, host_op_events)
    assert isinstance(found, HostOpEvents)
    names = found.ops["name"].gather(found.op)
    return dict(names.value_counts().iter_rows())


def test_ops_are_known_whatever_their_names(trace_of: Build) -> None:
    names = ["AddmmBackward0", "detach", "triton_poi_fused_add_0", "a b", "lib: run"]
    trace = trace_of([complete(name, 10 * at, 5) for at, name in enumerate(names)])
    assert ops_of(trace) == dict.fromkeys(names, 1)


def test_a_range_that_is_named_like_an_op_is_none(trace_of: Build) -> None:
    trace = trace_of(
        [
            complete("aten::mm", 0, 50, cat="user_annotation"),
            complete("model/dense/MatMul:MatMul", 0, 40, cat="user_annotation"),
            complete("aten::add", 10, 5),
        ]
    )
    assert ops_of(trace) == {"aten::add": 1}


def test_where_nobody_says_it_the_name_decides(trace_of: Build) -> None:
    trace = trace_of(
        [
            complete("aten::mm", 0, 5, cat="Operator"),
            complete("AddmmBackward", 10, 5, cat="Operator"),
            complete("my range", 20, 5, cat="Operator"),
        ]
    )
    assert ops_of(trace) == {"aten::mm": 1, "AddmmBackward": 1}


def test_a_kernel_launched_in_an_op_without_a_namespace_has_that_op(
    trace_of: Build,
) -> None:
    trace = trace_of(
        [
            complete("triton_poi_fused_add_0", 0, 30),
            complete("cuLaunchKernel", 10, 5, cat="cuda_driver",
                     args={"correlation": 7}),
            kernel("k", 40, 5, correlation=7),
        ]
    )  # fmt: skip
    found = blueprint.profile(trace).derived(trace.host, activity_ops)
    assert found.ops["name"].gather(found.op).to_list() == ["triton_poi_fused_add_0"]
    placed = blueprint.profile(trace).derived(trace.host, launching_ops)
    assert (placed.op >= 0).all()
