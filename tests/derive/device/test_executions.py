"""How often each op ran on each device, against plain counts of events."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.traces import blueprint

from stepscope.derive.device.activity_classes import DeviceExecutions, device_executions
from stepscope.derive.device.attribution import activity_ops
from stepscope.derive.host.op_events import host_op_events

#: Op of the host (None: no op), whether it ran eagerly, and what it launched: device,
#: kernel, and the op that the device names.
KERNEL = st.tuples(
    st.integers(0, 1), st.sampled_from("kl"), st.sampled_from(("a:A", "b:B", "a", None))
)
RUN = st.tuples(
    st.sampled_from(("a:A", "b:B", None)),
    st.booleans(),
    st.lists(KERNEL, max_size=3),
)


def found(lines: list[blueprint.Line]) -> tuple[DeviceExecutions, dict[Any, Any]]:
    """The executions, and their counts by device and op."""
    profile = blueprint.profile(blueprint.trace(lines))
    executions = profile.derived("vm", device_executions)
    assert isinstance(executions, DeviceExecutions)
    ops = profile.derived("vm", activity_ops).ops
    names = dict(zip(ops["group"].to_list(), ops["name"].to_list(), strict=True))
    counts = {}
    for row in executions.rows.iter_rows(named=True):
        key = (row["device"], names[row["group"]])
        columns = ("executions", "largest_kernel_count", "eager", "function")
        assert key not in counts
        counts[key] = tuple(row[name] for name in columns)
    return executions, counts


@settings(max_examples=12)
@given(st.lists(RUN, min_size=1, max_size=5), st.booleans())
def test_executions_are_events_that_launched_and_outside_of_them_kernels(
    runs: list[tuple[str | None, bool, list[tuple[int, str, str | None]]]],
    recorded: bool,  # noqa: FBT001 - drawn
) -> None:
    host: list[blueprint.Line] = []
    device: list[blueprint.Line] = []
    kernels: defaultdict[Any, Counter[str]] = defaultdict(Counter)
    outside: defaultdict[Any, Counter[str]] = defaultdict(Counter)
    launching: defaultdict[Any, dict[int, bool]] = defaultdict(dict)
    inner = any(op is not None for op, _, launched in runs if launched)
    for number, (op, eager, launched) in enumerate(runs):
        begin = 100 * number
        if op is not None:
            host.append(("main", op, begin, 50, {"is_eager": int(eager)}))
        for at, (ordinal, name, of) in enumerate(launched):
            ids: dict[str, Any] = {"correlation_id": len(device)} if recorded else {}
            if recorded:
                host.append(("main", "cuLaunchKernel", begin + 10 * at + 1, 1, ids))
            stats = ids if of is None else ids | {"tf_op": of}
            device.append((f"gpu:{ordinal}/7", name, 1000 + len(device), 1, stats))
            # Without a type, the name tells which op of the host it is. Without a
            # name, it is the work of the op that launched it, if there is one.
            named = of or (op if recorded else None)
            key = (ordinal, "(no annotation)" if named is None else named[0])
            kernel = name if named else "any"
            kernels[key][kernel] += 1
            if recorded and inner and op is not None and named and named[0] == op[0]:
                launching[key][number] = eager
            else:
                outside[key][kernel] += 1
    if not device:
        return
    executions, counts = found([*host, *device])
    expected = {
        key: (
            len(launching[key]) + max(outside[key].values(), default=0),
            max(kernels[key].values()),
            sum(launching[key].values()),
            sum(not eager for eager in launching[key].values()),
        )
        for key in kernels
    }
    assert counts == expected
    started = sorted({number for each in launching.values() for number in each})
    ops = [number for number, (op, *_) in enumerate(runs) if op is not None]
    assert [ops[row] for row in executions.launched.nonzero()[0].tolist()] == started
    owners = dict(zip(ops, executions.owner.tolist(), strict=True)) if ops else {}
    rows = list(counts)
    for number, owner in owners.items():
        on = [key for key, each in launching.items() if number in each]
        # An execution that worked for several rows belongs to none.
        assert [rows[owner]] == on if owner >= 0 else len(on) != 1


@pytest.mark.parametrize(
    ("marks", "expected"),
    [
        # Of three activities one is known to be eager: a third of the executions.
        ((1, 0, 0), (3, 3, 1, 2)),
        ((1, 1, None), (3, 3, 3, 0)),
        ((0, None, None), (3, 3, 0, 3)),
        ((None, None, None), (3, 3, 0, 0)),
    ],
)
def test_marks_of_activities_divide_the_executions(
    marks: tuple[int | None, ...], expected: tuple[int, ...]
) -> None:
    lines: list[blueprint.Line] = [
        (
            *("gpu:0/7", "k", 10 * at, 1),
            {"tf_op": "a:A"} | ({} if mark is None else {"is_eager": mark}),
        )
        for at, mark in enumerate(marks)
    ]
    # Another op, whose mark is of no matter here.
    lines.append(("gpu:0/7", "l", 50, 1, {"tf_op": "b:B", "is_eager": 1}))
    _, counts = found(lines)
    assert counts == {(0, "a"): expected, (0, "b"): (1, 1, 1, 0)}


def test_kernels_of_two_programs_are_counted_in_each() -> None:
    lines = [
        (
            *("gpu:0/7", kernel, 10 * at, 1),
            {"tf_op": "a:A", "hlo_op": "x", "hlo_module": "f", "program_id": program},
        )
        for at, (kernel, program) in enumerate(
            [("k", 1), ("k", 1), ("l", 1), ("k", 2), ("l", 2), ("l", 2), ("l", 2)]
        )
    ]
    executions, counts = found(lines)
    # Twice `k` in the first program, thrice `l` in the second one.
    assert [row[:2] for row in counts.values()] == [(5, 5)]
    profile = blueprint.profile(blueprint.trace(lines))
    assert len(executions.owner) == len(profile.derived("vm", host_op_events).event)
