"""Which threads drive which windows, and what devices do, against plain loops."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.traces.literal_tables import (
    activity_of,
    correlation_of,
    kinds_of,
    steps_of,
)

from stepscope.derive.device.precision import Precision, PrecisionEvidence
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.names.event_kinds import EventFlag
from stepscope.derive.step_time.device_sets import (
    DeviceSets,
    device_sets,
    owner_indices,
)
from stepscope.derive.step_time.input_between_steps import (
    InputBetweenSteps,
    input_between_steps,
)
from stepscope.derive.step_time.owners import BUSY_OWNERS
from stepscope.derive.step_time.threads import (
    EVIDENCE,
    StepThreads,
    of_the_program,
    step_threads,
)
from stepscope.unavailable import Unavailable

WHY = Unavailable(code="NOT_RECORDED", reason="no", remedy="record it")


def windows_of(step_rows: list[int | None]) -> pl.DataFrame:
    """Windows of 10, one after the other."""
    return pl.DataFrame(
        {
            "step_row": pl.Series(step_rows, dtype=pl.Int32),
            "start_ps": [10 * row for row in range(len(step_rows))],
            "end_ps": [10 * row + 10 for row in range(len(step_rows))],
        }
    )


def evidence_of(found: StepThreads) -> dict[str, list[tuple[int, int]]]:
    """Kind of evidence → pairs of (track, window)."""
    return {
        name: list(zip(*(at.tolist() for at in np.nonzero(marks)), strict=True))
        for name, marks in zip(EVIDENCE, found.by_evidence, strict=True)
        if marks.any()
    }


GROUPS = (np.array([0, 1, 2, 3], np.int32), np.array([40, 41, 42, 99]))
#: Two calls on the tracks 2 and 3; the third never reaches a device.
CALLS = [(2, 0, 0, 1), (3, 0, 1, 1), (1, 0, 2, 1)]


def test_every_kind_of_evidence_names_its_threads_and_windows() -> None:
    """Three steps, whose windows are in another order; the first has none."""
    activity = activity_of([(9, 0, "kernel", 0, 0, 5)] * 4)
    found = step_threads(
        windows_of([2, 1]),
        tracks=5,
        event_tracks=np.array([4, 0, 1, 2, 3], np.int32),
        steps=steps_of([0, 10, 20], track=[0, 1, None], group=[40, 41, 42]),
        correlation=correlation_of(activity, CALLS, [0, 1, -1, 0]),
        activity_steps=np.array([1, -1, 1, 2], np.int32),
        groups=GROUPS,
        with_ops=[3],
    )
    assert evidence_of(found) == {
        "marker": [(1, 1)],
        "launch": [(2, 0), (2, 1)],
        "group": [(0, 1), (1, 0)],
        "ops": [(3, 0), (3, 1)],
    }
    assert found.driving_tracks() == [0, 1, 2, 3]
    assert found.driven_spans(1) == Spans.of([(0, 20)])
    assert found.driven_spans(1, evidence=["marker"]) == Spans.of([(10, 20)])
    assert found.driven_spans(1, evidence=["group", "ops"]) == Spans.of([(0, 10)])
    assert found.driven_spans(4) == Spans.empty()


def test_a_step_without_a_group_has_no_events_of_the_group_zero() -> None:
    """No event is of the group 7, and no step of the group 3."""
    found = step_threads(
        windows_of([0, 1, 2]),
        tracks=4,
        event_tracks=np.array([0, 1, 2, 3], np.int32),
        steps=steps_of([0, 10, 20], track=[None] * 3, group=[None, 2, 7]),
        correlation=WHY,
        activity_steps=WHY,
        groups=(np.arange(4, dtype=np.int32), np.array([0, 2, 3, 1])),
        with_ops=(),
    )
    assert evidence_of(found) == {"group": [(1, 1)]}


def test_without_steps_every_thread_that_launched_work_drives_the_window() -> None:
    activity = activity_of([(9, 0, "kernel", 0, 0, 5)] * 2)
    found = step_threads(
        windows_of([None]),
        tracks=5,
        event_tracks=np.zeros(4, np.int32),
        steps=WHY,
        correlation=correlation_of(activity, CALLS, [0, 1]),
        activity_steps=WHY,
        groups=GROUPS,
        with_ops=(),
    )
    assert evidence_of(found) == {"launch": [(2, 0), (3, 0)]}


@pytest.mark.parametrize("lacks", ["correlation", "activity_steps", "groups", "calls"])
def test_evidence_that_was_not_recorded_names_no_thread(lacks: str) -> None:
    activity = activity_of([(9, 0, "kernel", 0, 0, 5)])
    calls = [] if lacks == "calls" else CALLS
    of = [-1] if lacks == "calls" else [0]
    given: dict[str, Any] = {
        "correlation": correlation_of(activity, calls, of),
        "activity_steps": np.array([0], np.int32),
        "groups": GROUPS,
    }
    if lacks in given:
        given[lacks] = None if lacks == "groups" else WHY
    found = step_threads(
        windows_of([0]),
        tracks=4,
        event_tracks=np.array([3, 0, 0, 0], np.int32),
        steps=steps_of([0], track=[1], group=[40]),
        with_ops=(),
        **given,
    )
    expected = {"marker": [(1, 0)], "launch": [(2, 0)], "group": [(3, 0)]}
    del expected["group" if lacks == "groups" else "launch"]
    assert evidence_of(found) == expected


def test_only_marked_ranges_and_calls_of_the_program_are_its_own() -> None:
    kinds = kinds_of(
        7,
        flags={
            0: EventFlag.PYTHON_FRAME,
            1: EventFlag.PJIT,
            2: EventFlag.FUNCTION_CALL,
            3: EventFlag.ANNOTATION,
            4: EventFlag.ANNOTATION | EventFlag.LIBRARY_RANGE,
            5: EventFlag.ANNOTATION,
            6: EventFlag.EXECUTOR,
        },
    )
    types = pl.DataFrame({"annotation": [None, None, False, True, True, None, True]})
    found = of_the_program(types, kinds)
    assert found.tolist() == [True, True, True, True, False, False, False]


# The batch between the markers.


def between(
    spans: list[tuple[int, int | None]], waits: list[tuple[int, int]], **columns: Any
) -> InputBetweenSteps | None:
    steps = steps_of(
        [start for start, _ in spans], end_ps=[end for _, end in spans], **columns
    )
    classes: Any = SimpleNamespace(input_wait=Spans.of(waits))
    return input_between_steps(steps=steps, host_classes=classes)


def test_waits_inside_and_between_markers_are_counted() -> None:
    """Markers overlap, touch, and lack an end; what is between two of them is a gap."""
    spans: list[tuple[int, int | None]] = [
        *((10, 30), (15, 20), (25, 40), (40, 50), (60, 70), (75, None), (80, 90)),
    ]
    found = between(spans, [(0, 11), (28, 29), (52, 55), (57, 61), (90, 99)])
    # The gaps are [50, 60) and [70, 80).
    assert found == InputBetweenSteps(
        gaps=2, gaps_with_wait=1, markers_with_wait=3, wait_ps=6, covered_ps=80
    )


def test_without_markers_with_an_end_nothing_is_counted() -> None:
    assert between([(0, 10)], [], source="device_line") is None
    assert between([(0, None)], []) is None
    alone = between([(3, 10)], [(10, 11)])
    assert alone == InputBetweenSteps(0, 0, 0, 0, 7)
    assert not alone.outside


@pytest.mark.parametrize(
    ("counts", "outside"),
    [((4, 2, 0), True), ((4, 1, 0), False), ((4, 4, 1), False), ((0, 0, 0), False)],
)
def test_batches_are_fetched_outside_where_half_of_the_gaps_wait(
    counts: tuple[int, int, int], *, outside: bool
) -> None:
    assert InputBetweenSteps(*counts, 0, 0).outside is outside


# Devices.

WORK = st.tuples(
    st.integers(0, 2),  # device
    st.sampled_from(
        ("kernel", "collective", "h2d", "d2h", "p2p_copy", "memset", "transfer_wait")
    ),
    st.integers(0, 25),
    st.integers(0, 8),
    st.sampled_from((16, 19, 32, 64)),
    st.sampled_from((PrecisionEvidence.NAME, PrecisionEvidence.DEFAULT)),
)


def owner_of(kind: str, bits: int, evidence: PrecisionEvidence) -> str:
    if kind == "kernel" and evidence == PrecisionEvidence.DEFAULT:
        return "compute_unknown"
    kernels = {16: "compute_16", 19: "compute_tf32", 32: "compute_32"}
    if kind == "kernel":
        return kernels.get(bits, "compute_64")
    copies = {"h2d": "copy_in", "d2h": "copy_out", "p2p_copy": "copy_within"}
    return copies.get(kind, kind)


def charged_instants(at: dict[str, set[int]]) -> dict[str, set[int]]:
    """The instants of each owner's work without those of earlier owners."""
    charged: dict[str, set[int]] = {}
    for name in BUSY_OWNERS:
        charged[name] = at[name] - set().union(*charged.values())
    return charged


def with_awaited_copies(at: dict[str, set[int]]) -> dict[str, set[int]]:
    """Those of one device: of two copies at once, the one that ends last counts."""
    charged = charged_instants(at)
    copying = charged["copy_out"] | charged["copy_in"]
    for begin in sorted(t for t in copying if t - 1 not in copying):
        end = begin
        while end in copying:
            end += 1
        last = {
            name: max(
                (t for t in range(begin, end) if {t, t + 1} & at[name] == {t}),
                default=-1,
            )
            for name in ("copy_in", "copy_out")
        }
        if last["copy_in"] > last["copy_out"]:
            both = set(range(begin, end)) & at["copy_in"] & charged["copy_out"]
            charged["copy_in"] |= both
            charged["copy_out"] -= both
    return charged


@given(rows=st.lists(WORK, min_size=1, max_size=10), shuffled=st.booleans())
def test_what_devices_do_equals_a_count_of_every_picosecond(
    rows: list[Any], *, shuffled: bool
) -> None:
    if not shuffled:
        rows = sorted(rows, key=lambda row: row[0])
    activity = activity_of(
        [(row[0], row[0], row[1], 0, row[2], row[3]) for row in rows]
    )
    is_kernel = np.array([row[1] == "kernel" for row in rows])
    bits = np.array([row[4] for row in rows])
    precision = Precision(
        np.where(is_kernel, np.where(bits == 16, 16, 32), 0).astype(np.uint8),
        is_kernel & (bits == 64),
        is_kernel & (bits == 19),
        np.where(is_kernel, [row[5] for row in rows], 0).astype(np.uint8),
        np.empty((0, 4), np.uint8),
    )
    named = [owner_of(row[1], *row[4:]) for row in rows]
    kind = activity["kind"].to_physical().to_numpy()
    order = owner_indices(kind, precision)
    assert [BUSY_OWNERS[at] for at in order.tolist()] == named
    found = device_sets(device_activity=activity, precision=precision, devices=WHY)
    assert isinstance(found, DeviceSets)
    # Precisions are doubtful if kernels without one take 5 % of the kernels' time.
    compute = sum(row[3] for row in rows if row[1] == "kernel")
    unknown = sum(
        row[3]
        for row in rows
        if row[1] == "kernel" and row[5] == PrecisionEvidence.DEFAULT
    )
    doubtful = set()
    if compute and unknown >= 0.05 * compute:
        present = {name for row, name in zip(rows, named, strict=True) if row[3] > 0}
        doubtful = {"compute_16", "compute_tf32", "compute_64"} - present
    numbers = sorted({row[0] for row in rows})
    assert [each.device for each in found.devices] == numbers
    assert found.any_device.device == -1
    of_any: dict[str, set[int]] = {name: set() for name in BUSY_OWNERS}
    for each, own in (
        *zip(found.devices, ({number} for number in numbers), strict=True),
        (found.any_device, set(numbers)),
    ):
        assert set(each.unknown) == doubtful
        at: dict[str, set[int]] = {name: set() for name in BUSY_OWNERS}
        for row, name in zip(rows, named, strict=True):
            if row[0] in own:
                at[name] |= set(range(row[2], row[2] + row[3]))
        assert set(each.orders) == set(BUSY_OWNERS) - doubtful
        if each is found.any_device and len(numbers) > 1:
            charged = charged_instants(of_any)
        else:
            charged = with_awaited_copies(at)
        for name in BUSY_OWNERS:
            if name not in doubtful:
                assert each.orders[name] == Spans.of(
                    (t, t + 1) for t in sorted(at[name])
                )
            left = sorted(charged[name])
            assert each.charged[name] == Spans.of((t, t + 1) for t in left)
            of_any[name] |= charged[name]
        busy = sorted(set().union(*at.values()))
        assert each.busy == Spans.of((t, t + 1) for t in busy)
        idle = sorted(set(range(40)) - at["compute_16"] - at["compute_tf32"])
        expected = Spans.of((t, t + 1) for t in idle)
        assert each.idle_until("compute_tf32", Spans.of([(0, 40)])) == expected


@pytest.mark.parametrize(
    ("types", "lacking"),
    [
        (["GPU"], []),
        (["TPU"], ["copy_in", "copy_out"]),
        (["TPU", "GPU"], []),
        ([], []),
    ],
)
def test_only_a_device_without_streams_records_no_transfers(
    types: list[str], lacking: list[str]
) -> None:
    """The second device has them; another device's type does not matter."""
    activity = activity_of([(0, 1, "kernel", 0, 0, 5), (1, 2, "h2d", 0, 0, 5)])
    precision = Precision(
        np.array([32, 0], np.uint8),
        np.zeros(2, np.bool_),
        np.zeros(2, np.bool_),
        np.array([PrecisionEvidence.NAME, 0], np.uint8),
        np.empty((0, 4), np.uint8),
    )
    devices = pl.DataFrame(
        {"device": [*[1] * len(types), 2, 2], "type": [*types, "TPU", "TPU"]},
        schema_overrides={"device": pl.Int32},
    )
    found = device_sets(device_activity=activity, precision=precision, devices=devices)
    assert isinstance(found, DeviceSets)
    first, second = found.devices
    assert sorted(first.unknown) == lacking
    # A transfer that was recorded shows that transfers are.
    assert sorted(second.unknown) == ["copy_out"]
    assert sorted(found.any_device.unknown) == sorted({*lacking, "copy_out"})
    assert (
        device_sets(
            device_activity=activity[:0], precision=precision, devices=devices
        ).code
        == "NO_DEVICE_EVENTS"
    )
