"""How steps were found, and signs of devices: every field, by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
from tests.support.traces.literal import (
    ABSENT,
    OTHER,
    Tables,
    activities,
    fields_of,
    spans_of,
    windows_at,
)

from stepscope.derive.facts.judged_steps import (
    HostSteps,
    clean_rows,
    step_signals,
    unexplained_outside,
)
from stepscope.derive.step_time.input_between_steps import InputBetweenSteps
from stepscope.derive.steps.candidates import Candidate
from stepscope.derive.verdicts.recorded_devices import (
    DeviceSignals,
    device_signals,
    judged_device,
    working_time_ps,
)
from stepscope.trace.quality import (
    DEVICE_CALLED,
    DEVICE_IN_DOUBT,
    ENDED_EARLY,
    QualityNote,
)
from stepscope.trace.tables import ACTIVITY_KINDS

MS = 1_000_000_000
KINDS = ACTIVITY_KINDS.categories.to_list()


def note(kind: str, severity: str = "info", **fields: Any) -> QualityNote:
    message = fields.pop("message", "")
    return QualityNote(kind=kind, severity=severity, message=message, **fields)


def accounted(*rows: tuple[int, int, int | None]) -> pl.DataFrame:
    schema = {"window": pl.Int32, "window_ps": pl.Int64, "compile_ps": pl.Int64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def test_complete_and_usual_steps_are_judged() -> None:
    steps = windows_at(
        *((at, at + 1) for at in range(6)),
        open_end=[False, False, False, False, True, False],
        flags=[[], ["outlier"], [], [], [], ["other"]],
    )
    rows = accounted(
        *((0, 100, 5), (1, 100, 0), (2, 100, 6), (3, 100, None), (4, 100, 0), (5, 9, 0))
    )
    assert clean_rows(rows, steps)["window"].to_list() == [0, 3, 5]
    assert clean_rows(rows[1:3], steps)["window"].to_list() == [1, 2]
    assert clean_rows(rows[4:5], steps)["window"].to_list() == [4]


def candidate(what: str, confidence: float, *, accepted: bool) -> Any:
    return SimpleNamespace(
        candidate=Candidate("period", what, 3, 700, None, None, confidence, accepted)
    )


def described(**given: Any) -> HostSteps:
    environment = pl.DataFrame(
        {"start_unix_ns": [1_000], "begin_ps": [500], "end_ps": [90_000]}
    )
    found: HostSteps = step_signals.function(
        **{
            "trace": Tables(
                environment=environment,
                notes=[
                    note("x", message="no"),
                    note(ENDED_EARLY, message="why"),
                    note(ENDED_EARLY, message="later"),
                ],
            ),
            "step_candidates": SimpleNamespace(
                found=(
                    candidate("a", 0.2, accepted=False),
                    candidate("b", 0.5, accepted=True),
                    candidate("c", 0.9, accepted=False),
                )
            ),
            "steps": SimpleNamespace(
                source="marker", confidence=0.5, rows=pl.DataFrame({"step": range(4)})
            ),
            "windows": windows_at(
                *((2_000, 3_000), (3_000, 5_000), (5_000, 6_000), (6_000, 9_000)),
                open_end=[False, False, False, True],
                flags=[["outlier"], [], ["compiling", "outlier"], ["cut"]],
            ),
            "requests": SimpleNamespace(rows=pl.DataFrame({"x": range(7)})),
            "input_between_steps": InputBetweenSteps(3, 3, 0, 30, 200),
            **given,
        }
    )
    return found


def test_every_field_of_how_steps_were_found() -> None:
    expected = HostSteps(
        source="marker",
        confidence=0.5,
        count=4,
        anchor="host",
        period_ps=1_000,
        left_out={"compiling": 1, "outlier": 2},
        tried=(
            candidate("b", 0.5, accepted=True).candidate,
            candidate("c", 0.9, accepted=False).candidate,
            candidate("a", 0.2, accepted=False).candidate,
        ),
        requests=7,
        outside_percent=15.0,
        begins_ns=1_002,
        early_end="why",
        recorded_ps=89_500,
    )
    assert fields_of(described()) == fields_of(expected)


def test_what_is_missing_of_steps_is_not_described() -> None:
    found = described(steps=ABSENT)
    assert (found.source, found.confidence, found.count) == (None, 0.0, 0)
    assert (found.period_ps, found.begins_ns) == (None, None)
    assert found.anchor == "host"
    found = described(windows=ABSENT)
    assert (found.anchor, found.period_ps, found.begins_ns) == (None, None, None)
    assert found.left_out == {}
    found = described(requests=ABSENT, input_between_steps=ABSENT)
    assert (found.requests, found.outside_percent) == (0, None)
    inside = InputBetweenSteps(3, 3, 3, 30, 200)
    assert described(input_between_steps=inside).outside_percent is None
    nothing = InputBetweenSteps(3, 3, 0, 0, 0)
    assert described(input_between_steps=nothing).outside_percent is None
    found = described(trace=Tables())
    assert (found.early_end, found.recorded_ps, found.begins_ns) == (None, 0, None)
    unknown = {"start_unix_ns": [None], "begin_ps": [None], "end_ps": [9]}
    table = pl.DataFrame(unknown, schema=dict.fromkeys(unknown, pl.Int64))
    found = described(trace=Tables(environment=table))
    assert (found.recorded_ps, found.begins_ns) == (0, None)


def test_unexplained_time_outside_of_all_activity_is_told_apart() -> None:
    def device(number: int | None, unexplained: Any, other: Any) -> Any:
        return SimpleNamespace(
            device=number, idle={"unexplained": unexplained, "launch": other}
        )

    account = SimpleNamespace(
        devices=(
            # Works from 30 to 60: 30 ps before and 15 after are unexplained.
            device(0, spans_of((0, 30), (40, 50), (60, 75)), spans_of((75, 100))),
            device(1, spans_of((0, 100)), spans_of()),
            device(None, spans_of((0, 10)), spans_of()),
        )
    )
    whole = windows_at((0, 100), has_steps=False)
    found = unexplained_outside.function(account=account, windows=whole)
    assert found == {0: 45.0}
    steps = windows_at((0, 100))
    assert unexplained_outside.function(account=account, windows=steps) == {}


def share_of(device: int | None, working: int, total: int) -> Any:
    return SimpleNamespace(device=device, working_ps=working, total_ps=total)


def test_the_busiest_device_is_judged_else_the_host_with_most() -> None:
    shares = [
        share_of(None, 99, 100),
        share_of(0, 50, 100),
        share_of(1, 6, 10),
        share_of(2, 0, 0),
    ]
    assert judged_device(shares, lambda _: 0.0) is shares[2]
    hosts = [share_of(None, 1, 9), share_of(None, 2, 8)]
    assert judged_device(hosts, lambda share: float(share.total_ps)) is hosts[0]


def test_working_time_is_without_collectives() -> None:
    rows = pl.DataFrame(
        {"device_working_ps": [10, None, 20], "collective_ps": [4, 1, None]}
    )
    assert working_time_ps(rows) == 25


def with_devices(*rows: tuple[int, int | None, int | None]) -> pl.DataFrame:
    schema = {"activities": pl.Int64, "cc_major": pl.Int64, "cc_minor": pl.Int64}
    table = pl.DataFrame(rows, schema=schema, orient="row")
    return table.with_columns(
        plane=pl.Series(
            [f"/device:GPU:{at}" for at in range(len(rows))], dtype=pl.String
        )
    )


def of_devices(
    *traces: Any, host_ps: int | None = 5, wait_ps: int | None = None
) -> DeviceSignals:
    rows = pl.DataFrame(
        {"host_compute_ps": [host_ps, None], "wait_ps": [None, wait_ps]},
        schema={"host_compute_ps": pl.Int64, "wait_ps": pl.Int64},
    )
    found: DeviceSignals = device_signals.function(
        trace={f"h{at}": trace for at, trace in enumerate(traces)},
        account={"h0": ABSENT, "h1": SimpleNamespace(rows=rows)},
    )
    return found


def test_recorded_devices_have_their_capabilities() -> None:
    work = activities(("kernel", 0, 0, 1))
    first = Tables(
        device_activity=work,
        devices=with_devices(
            (1, 8, 0), (0, 9, 0), (2, None, 1), (3, 8, 0), (1, 7, None)
        ),
    )
    assert of_devices(first, Tables()) == DeviceSignals(
        recorded="recorded", compute_capability=((8, 0), None, (7, 0))
    )
    bare = Tables(device_activity=work)
    assert of_devices(bare).compute_capability == (None,)


TRACKS = pl.DataFrame()


def allocated(*names: str) -> pl.DataFrame:
    return pl.DataFrame({"allocator": names})


@pytest.mark.parametrize(
    ("tables", "sign"),
    [
        ({"devices": with_devices((0, 8, 0))}, "/device:GPU:0 is listed"),
        ({"devices": with_devices()}, None),
        (
            {"launches": pl.DataFrame({"x": range(1200)})},
            "the host made 1,200 launch calls",
        ),
        ({"launches": pl.DataFrame({"x": []})}, None),
        (
            {"allocations": allocated("z", "b GPU_0", "a cuda:1")},
            "memory of a cuda:1 was allocated",
        ),
        ({"allocations": allocated("gpu_host_bfc", "cpu")}, None),
    ],
)
def test_signs_of_a_device_that_was_not_recorded(
    tables: dict[str, pl.DataFrame], sign: str | None
) -> None:
    trace = Tables(tracks=TRACKS, device_activity=OTHER, **tables)
    expected = DeviceSignals(
        recorded="host_only" if sign is None else "silent", sign=sign, reason=OTHER
    )
    assert of_devices(trace, Tables(device_activity=OTHER)) == expected
    # A file with only records of memory lacks everything else.
    alone = Tables(device_activity=OTHER, **tables)
    assert of_devices(alone).sign is None


def test_what_samples_found_is_a_sign_and_a_doubt_is_one_last() -> None:
    called = Tables(tracks=TRACKS, notes=[note("x"), note(DEVICE_CALLED)])
    found = of_devices(Tables(), called)
    assert found.recorded == "silent"
    assert found.sign is not None
    assert not found.in_doubt
    doubtful = Tables(notes=[note(DEVICE_IN_DOUBT)], devices=with_devices((0, 8, 0)))
    found = of_devices(Tables(), doubtful)
    assert (found.recorded, found.in_doubt) == ("silent", True)
    assert found.sign == "/device:GPU:0 is listed"


@pytest.mark.parametrize(
    ("host_ps", "wait_ps", "recorded"),
    [
        (5, None, "host_only"),
        (0, 0, "unknown"),
        (None, None, "unknown"),
        # The program only waits.
        (0, 5, "host_only"),
    ],
)
def test_without_any_sign_the_time_of_the_host_tells(
    host_ps: int | None, wait_ps: int | None, recorded: str
) -> None:
    times = {"host_ps": host_ps, "wait_ps": wait_ps}
    found = of_devices(Tables(tracks=TRACKS), Tables(), **times)
    assert (found.recorded, found.sign) == (recorded, None)
    empty = Tables(tracks=TRACKS, device_activity=activities())
    found = of_devices(empty)
    assert found.reason is not None
    assert found.reason.code == "NO_DEVICE_EVENTS"
