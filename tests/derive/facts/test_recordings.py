"""What recordings hold, and traits of programs: every field, by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.support.traces.literal import (
    ABSENT,
    Tables,
    activities,
    events_at,
    fields_of,
    types_named,
    windows_at,
)

from stepscope.derive.facts.program_traits import (
    ProgramTraits,
    anomaly_checks,
    blocking_calls,
    collected_by_hand,
    program_traits,
)
from stepscope.derive.facts.recording import (
    CaptureSignals,
    RecorderTime,
    capture_signals,
    record_grade,
    recorder_signals,
    version_signals,
)
from stepscope.derive.names.event_kinds import SYSTEM_CLASSES, EventFlag, HostClass
from stepscope.trace.quality import (
    QualityNote,
)
from stepscope.trace.tables import ACTIVITY_KINDS, INT

MS = 1_000_000_000
KINDS = ACTIVITY_KINDS.categories.to_list()


def note(kind: str, severity: str = "info", **fields: Any) -> QualityNote:
    message = fields.pop("message", "")
    return QualityNote(kind=kind, severity=severity, message=message, **fields)


def test_the_worst_flaw_of_all_hosts_grades_a_recording() -> None:
    graded = {
        "a": Tables(notes=[note("x"), note("y", "warning")]),
        "b": Tables(notes=[note("z")]),
        "c": ABSENT,
    }
    assert record_grade.function(trace=graded) == 0.9
    graded["c"] = Tables(notes=[note("x", "error")])
    assert record_grade.function(trace=graded) == 0.6
    assert record_grade.function(trace={"b": Tables(notes=[note("z")])}) == 1.0
    assert record_grade.function(trace={"b": Tables()}) == 1.0


def classes_of(*rows: tuple[int, str, int]) -> Any:
    """Classes of activities: device, kind and row of event_types."""
    device, kind, type_ = zip(*rows, strict=True)
    table = pl.DataFrame(
        {
            "device": device,
            "kind": pl.Series([KINDS.index(name) for name in kind], dtype=pl.Int16),
            "type": type_,
        }
    )
    return SimpleNamespace(rows=table)


def looked(count: int | None) -> Any:
    return SimpleNamespace(looks=lambda: count)


#: Kernels, a copy that was recorded as a kernel, a launch and a graph's launch.
TYPES = types_named("sgemm", "Memcpy DtoD", "cuLaunchKernel", "cudaGraphLaunch")
GIVEN: dict[str, Any] = {
    "activity_classes": {
        "a": classes_of(
            *((0, "kernel", 0), (1, "collective", 0), (2, "kernel", 1)),
            *((3, "p2p_copy", 0), (4, "h2d", 0), (0, "local_copy", 0)),
        ),
        "b": classes_of((0, "kernel", 0)),
    },
    "correlation": {"a": ABSENT, "b": ABSENT},
    "event_kinds": {},
    "function_frames": {},
}


def devices_listed(count: int) -> pl.DataFrame:
    return pl.DataFrame({"device": range(count)})


def captured(**given: Any) -> Any:
    hosts = {
        "a": Tables("a", devices=devices_listed(6), event_types=TYPES),
        "b": Tables("b", devices=devices_listed(1), event_types=TYPES),
    }
    return capture_signals.function(**{"trace": hosts, **GIVEN, **given})


def test_devices_that_compute_and_only_copy_are_counted() -> None:
    """Devices 0 and 1 compute; 2 and 3 copy within devices, 4 copies from a host."""
    expected = CaptureSignals(
        damaged=False,
        dropped=0,
        ranks=None,
        hosts=2,
        devices=6,
        computing=2,
        copying=2,
        functions=False,
        few_looks=None,
        # A graph was launched and nothing is known about its nodes.
        replays=True,
        without_launch_percent=None,
    )
    assert fields_of(captured()) == fields_of(expected)
    for table in ("devices", "event_types"):
        whole = Tables(devices=devices_listed(6), event_types=TYPES).tables
        found = captured(trace={"a": Tables(**(whole | {table: ABSENT}))})
        assert (found.devices, found.computing, found.copying) == (0, 0, 0)
    unknown = captured(activity_classes={"a": ABSENT, "b": ABSENT})
    assert unknown.devices == 0
    nothing = captured(trace={})
    assert (nothing.hosts, nothing.devices) == (0, 0)
    assert (nothing.computing, nothing.copying) == (0, 0)


def test_notes_tell_of_damage_and_lost_records() -> None:
    notes = [
        note("dropped_events", count=7),
        note("truncated_file"),
        note("other", count=100),
    ]
    found = captured(trace={"a": Tables(notes=notes), "b": Tables()})
    assert (found.damaged, found.dropped) == (True, 8)
    found = captured(trace={"a": Tables(notes=[note("damaged_file", count=3)])})
    assert (found.damaged, found.dropped) == (True, 0)


def test_the_job_has_as_many_processes_as_any_of_them_noted() -> None:
    def processes(count: int | None) -> Tables:
        column = pl.Series([count], dtype=pl.Int64)
        return Tables(environment=pl.DataFrame({"processes": column}))

    found = captured(trace={"a": processes(4), "b": processes(None)})
    assert found.ranks == 4
    assert captured(trace={"a": processes(None), "b": Tables()}).ranks is None


def test_functions_are_known_from_enough_samples_of_one_host() -> None:
    found = captured(function_frames={"a": looked(3), "b": looked(5), "c": ABSENT})
    assert (found.functions, found.few_looks) == (True, 5)
    found = captured(function_frames={"a": looked(3), "b": looked(None)})
    assert (found.functions, found.few_looks) == (True, None)
    many = captured(function_frames={"a": looked(3), "b": looked(10**6)})
    assert many.few_looks is None


def test_system_calls_of_all_hosts_are_counted() -> None:
    kinds = SimpleNamespace(
        host_class=np.array([0, SYSTEM_CLASSES[0], SYSTEM_CLASSES[-1]])
    )
    hosts = {
        "a": Tables(events=events_at(*((at % 3, 0, at, 1) for at in range(7)))),
        "b": Tables(),
    }
    found = captured(trace=hosts, event_kinds={"a": kinds, "b": kinds})
    assert found.system_calls == 4


def tied(dur: list[int], launch_of: list[int]) -> Any:
    return SimpleNamespace(
        activity=activities(*(("kernel", 0, 0, length) for length in dur)),
        launch_of_activity=np.array(launch_of, np.int32),
    )


@pytest.mark.parametrize(
    ("dur", "launch_of", "launched", "replays"),
    [
        # 5 % of device time without a launch call may be so; more may be a graph's.
        ([95, 5], [0, -1], [3], False),
        ([94, 6], [0, -1], [3], True),
        # Of ten graph launches one may end after the recording.
        ([10] * 9, list(range(9)), [3] * 10, False),
        ([10] * 8, list(range(8)), [3] * 10, True),
        # Graphs were launched, but no call of them was recorded.
        ([10], [0], [2], True),
    ],
)
def test_graphs_without_their_activities_hide_work(
    dur: list[int], launch_of: list[int], launched: list[int], *, replays: bool
) -> None:
    launches = events_at(*((kind, 0, 0, 1) for kind in launched))
    host = Tables(event_types=TYPES, launches=launches)
    found = captured(trace={"a": host}, correlation={"a": tied(dur, launch_of)})
    assert found.replays is replays
    loose = sum(length for length, of in zip(dur, launch_of, strict=True) if of < 0)
    assert found.without_launch_percent == pytest.approx(100 * loose / sum(dur))
    for tables in (
        {"event_types": types_named("sgemm"), "launches": launches},
        {"launches": launches},
    ):
        other = captured(
            trace={"a": Tables(**tables)}, correlation={"a": tied(dur, launch_of)}
        )
        assert not other.replays
    unknown = captured(
        trace={"a": Tables(event_types=TYPES)}, correlation={"a": tied([9], [0])}
    )
    assert unknown.replays


def test_the_newest_used_device_is_noted() -> None:
    devices = pl.DataFrame(
        {
            "activities": [1, 2, 3, 0, 1],
            "cc_major": [8, 7, 8, 9, None],
            "cc_minor": [0, 5, 6, 0, 0],
            "name": ["A100", "T4", "A10", "H100", "?"],
        }
    )
    environment = pl.DataFrame(
        {
            "cuda_runtime": [12040],
            "cuda_driver": [12050],
            "libraries": ["torch 2.9.0+cu128, cudnn 9.10.2, unversioned"],
        }
    )
    types = pl.DataFrame({"name": ["aten::conv3d"]})

    def versions(devices: pl.DataFrame, environment: pl.DataFrame) -> Any:
        return version_signals.function(
            devices=devices, environment=environment, event_types=types
        )

    found = versions(devices, environment)
    assert (found.runtime, found.driver) == (12040, 12050)
    assert (found.newest, found.device) == ((8, 6), "A10")
    assert found.libraries == {"torch": "2.9.0+cu128", "cudnn": "9.10.2"}
    assert list(found.names) == ["aten::conv3d"]
    assert versions(devices.with_columns(activities=0), environment) is None
    found = versions(devices[[4]], environment.with_columns(libraries=None))
    assert (found.newest, found.device, found.libraries) == (None, None, {})


def test_the_profilers_own_time_counts_once() -> None:
    """Start from 0 to 30 and stop from 50 to 60; buffers from 20 to 40 and at 100."""
    own, other = int(HostClass.PROFILER), int(HostClass.API)
    found = recorder_signals.function(
        events=events_at(
            *((0, 0, 0, 30), (0, 1, 50, 10), (1, 0, 20, 15), (2, 1, 30, 10)),
            *((1, 0, 100, 5), (3, 0, 0, 99)),
        ),
        event_types=types_named(
            "start", "Activity Buffer Request", "Instrumentation", "buffer"
        ),
        event_kinds=SimpleNamespace(host_class=np.array([own, own, own, other])),
        windows=windows_at((25, 55), (55, 102)),
    )
    expected = RecorderTime(
        start_stop_ps=30, buffers_ps=25, buffers=3, judged_ps=15 + 5 + 5 + 2
    )
    assert fields_of(found) == fields_of(expected)


def kinds(*flags: EventFlag | int, ops: bool = True) -> Any:
    given = np.array([int(flag) for flag in flags], np.uint32)
    return SimpleNamespace(
        has=lambda flag: (given & np.uint32(int(flag))) != 0,
        is_op=lambda: np.array([ops, *[False] * (len(flags) - 1)]),
    )


def traits(names: list[str], found_kinds: Any, *ran: int) -> ProgramTraits:
    events = events_at(*((kind, 0, 0, 10) for kind in ran))
    result: ProgramTraits = program_traits.function(
        event_kinds={"a": found_kinds, "b": ABSENT, "c": found_kinds},
        events={"a": events, "b": events, "c": ABSENT},
        event_types={"a": types_named(*names, None), "b": ABSENT, "c": ABSENT},
    )
    return result


NONE = EventFlag(0)


def test_traits_are_in_names_and_kinds_of_events() -> None:
    cases: list[tuple[str, EventFlag, bool, ProgramTraits]] = [
        ("aten::mm", NONE, True, ProgramTraits(updates=False, trains=False)),
        ("aten::mm", NONE, False, ProgramTraits()),
        ("aten::mm", EventFlag.OPTIMIZER, True, ProgramTraits()),
        ("MmBackward0", NONE, True, ProgramTraits(updates=False)),
        (
            "Torch-Compiled Region: 0/0",
            NONE,
            True,
            ProgramTraits(compiled=True, updates=False, trains=False),
        ),
        (
            "serve",
            EventFlag.ENGINE_ITERATION,
            True,
            ProgramTraits(engine=True, updates=False, trains=False),
        ),
        (
            "graph",
            EventFlag.FUNCTION_CALL,
            True,
            ProgramTraits(graphed=True, updates=False, trains=False),
        ),
    ]
    for name, flags, ops, expected in cases:
        assert traits(["x", name], kinds(0, flags, 0, ops=ops), 0, 1) == expected


def test_a_name_of_no_event_is_no_trait() -> None:
    names = ["x", "Torch-Compiled Region: 0/0", "MmBackward0"]
    found = traits(names, kinds(0, 0, 0, 0), 0)
    assert found == ProgramTraits(updates=False, trains=False)


def test_graph_calls_must_take_more_time_than_eager_ops() -> None:
    both = kinds(EventFlag.FUNCTION_CALL, EventFlag.EAGER_OP)
    assert not traits(["a"], both, 0, 1).graphed
    assert traits(["a"], both, 0, 0, 1).graphed


@pytest.mark.parametrize(
    ("generations", "by_hand"),
    [
        # Python itself examines all objects at most once in a hundred collections.
        ([2] * 3 + [0] * 149, True),
        ([2] * 3 + [0] * 100 + [1] * 50, False),
        ([2] * 2, False),
        ([2] * 4 + [1] * 199, True),
        ([0] * 5, False),
        ([], None),
    ],
)
def test_a_program_collects_garbage_itself_if_few_collections_are_of_the_young(
    generations: list[int], *, by_hand: bool | None
) -> None:
    """Other events, other values and values of other names count nowhere."""
    events = [(1, 0, 0, 1), *((at % 2 * 2, 0, at, 1) for at in range(len(generations)))]
    rows = [*range(1, len(events)), 0, 0, 0]
    stats = pl.DataFrame(
        {
            "event": pl.Series(rows, dtype=pl.Int32),
            "key": pl.Series([1] * (len(rows) - 1) + [0], dtype=pl.Int32),
            "kind": pl.Series([INT] * len(rows), dtype=pl.UInt8),
            "value": pl.Series([*generations, 2, 2, 2], dtype=pl.Int64),
            "length": pl.Series([0] * len(rows), dtype=pl.Int32),
        }
    )
    found = collected_by_hand.function(
        trace=Tables(strings=["other", "generation"]),
        event_types=types_named("garbage collection", None, "Python GC"),
        events=events_at(*events),
        stats=stats,
    )
    assert found is by_hand


def blocked(
    durs: list[int], *, call_ps: int, launch_of: list[int] | None = None
) -> Any:
    count = len(durs)
    of = list(range(count)) if launch_of is None else launch_of
    rows = [("kernel", 0, 10, dur) for dur in durs]
    return blocking_calls.function(
        correlation=SimpleNamespace(
            activity=activities(*rows, ("d2h", 0, 0, 10**9)),
            launches=events_at(*((0, 0, 5, call_ps + at) for at in range(count))),
            launch_of_activity=np.array([*of, 0], np.int32),
        )
    )


def test_calls_that_return_after_their_kernels_block() -> None:
    """Of 20 kernels that end after 50 µs, 13 calls return then or later."""
    long = 50_000_000
    assert blocked([long] * 20, call_ps=long + 5 - 7) == 65.0
    assert blocked([long] * 19, call_ps=long) is None
    assert blocked([long] * 19 + [long - 1], call_ps=long) is None
    untied = [*range(19), -1]
    assert blocked([long] * 20, call_ps=long, launch_of=untied) is None
    graph = [*range(19), 18]
    assert blocked([long] * 20, call_ps=long, launch_of=graph) is None


def test_checks_of_gradients_are_counted_in_steps() -> None:
    types = types_named("aten::_is_any_true", "other")
    events = events_at(
        *((0, 0, 5, 1), (0, 0, 15, 1), (0, 0, 19, 1), (0, 0, 20, 1), (1, 0, 5, 1))
    )
    steps = windows_at((0, 10), (10, 20))
    checks = anomaly_checks.function(events=events, event_types=types, windows=steps)
    assert checks == 1.5
    outside = windows_at((6, 9))
    assert (
        anomaly_checks.function(events=events, event_types=types, windows=outside)
        is None
    )
