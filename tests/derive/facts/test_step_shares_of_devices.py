"""The breakdown of step time that rules read, for each device: every field, by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import polars as pl
from tests.support.traces.literal import (
    ABSENT,
    OTHER,
    Tables,
    fields_of,
    spans_of,
    windows_at,
)

from stepscope.derive.account.parts import CALLER_ROWS, PART_ROWS
from stepscope.derive.account.topics import TOPICS
from stepscope.derive.facts.step_shares import (
    AccountSignals,
    NamedTime,
    account_signals,
    step_shares,
)
from stepscope.derive.step_time.owners import IDLE_OWNERS, OWNERS
from stepscope.unavailable import Unavailable

OWNER_NAMES = [owner.name for owner in OWNERS]
# The second step is left out of all numbers.
WINDOWS = windows_at((0, 1000), (1000, 2000), (2000, 3100), flags=[[], ["warm_up"], []])
STEPS = SimpleNamespace(
    source="marker", confidence=0.75, rows=pl.DataFrame({"step": [5, 6, 8]})
)
LATE = SimpleNamespace(clock_error_ps=7, lost_ps=9)


def times(
    *rows: tuple[int, int | None, Any], owners: Any = OWNER_NAMES
) -> pl.DataFrame:
    """Owners' times by window and device; 0 unless told."""
    columns = [f"{owner}_ps" for owner in owners]
    table = [
        {"window": window, "device": device, "device_working_ps": None}
        | {"window_ps": (1000, 1000, 1100)[window]}
        | dict.fromkeys(columns, 0)
        | {f"{owner}_ps": time for owner, time in of.items()}
        for window, device, of in rows
    ]
    whole: dict[str, Any] = dict.fromkeys(
        (*columns, "device_working_ps", "window_ps"), pl.Int64
    )
    return pl.DataFrame(table, schema={"window": pl.Int32, "device": pl.Int32} | whole)


ROWS = times(
    (0, 1, {"launch": 100, "input": 50, "unexplained": 10, "compute_16": 840}
     | {"device_working": 850, "collective": 30, "peer": None}),
    (1, 1, {"launch": 999, "device_working": 999, "peer": None}),
    (2, 1, {"launch": 300, "input": 60, "unexplained": 0, "compute_16": 700}
     | {"device_working": None, "collective": 20, "peer": None}),
    (0, 0, {"launch": 1, "sync": None, "device_working": 8}),
    (2, 0, {"launch": 2, "sync": None, "device_working": 9}),
)  # fmt: skip
BETWEEN = times(
    (0, 1, {"input": 50, "peer": None}),
    (1, 1, {"input": 99}),
    (2, 1, {"input": 45, "launch": 5}),
    (0, 0, {}),
    (2, 0, {"launch": 2}),
    owners=IDLE_OWNERS,
)
ACCOUNT = SimpleNamespace(
    rows=ROWS,
    between=BETWEEN,
    missing={"peer": ABSENT, "sync": OTHER},
    devices=(
        SimpleNamespace(device=0, idle={"launch": spans_of()}, between=spans_of()),
        SimpleNamespace(
            device=1,
            idle={
                "launch": spans_of(
                    (100, 200), (1200, 1900), (2100, 2400), (3100, 3500)
                ),
                "input": spans_of((900, 1050), (2940, 3000)),
                "peer": spans_of((500, 600)),
                "unexplained": spans_of((300, 310)),
            },
            between=spans_of((900, 1000), (2950, 3000)),
        ),
    ),
)
GARBAGE, WRITING = TOPICS[:2]
IDLE = SimpleNamespace(
    missing={"debugging": OTHER},
    devices=(
        SimpleNamespace(device=0, spans={GARBAGE: spans_of((0, 1000))}),
        SimpleNamespace(
            device=1,
            spans={
                GARBAGE: spans_of((150, 350), (1100, 1900), (2990, 3000)),
                WRITING: spans_of((550, 560)),
            },
        ),
    ),
)


def part(device: int, owner: str, **fields: Any) -> dict[str, Any]:
    usual = {"place": "inside", "name": "f", "loop": False, "time_ps": 5}
    return {"device": device, "owner": owner, **usual, **fields}


PARTS = SimpleNamespace(
    rows=pl.DataFrame(
        [part(1, "launch", name="loop", loop=True), part(0, "input")], schema=PART_ROWS
    ),
    topics=pl.DataFrame([part(1, GARBAGE, detail="d", line=3)], schema=PART_ROWS),
    callers=pl.DataFrame(
        [
            {key: value for key, value in row.items() if key in CALLER_ROWS}
            for row in (
                part(1, "sync", function="f", file="a.py", line=9),
                part(0, "input", function="g"),
            )
        ],
        schema=CALLER_ROWS,
    ),
)


def broken_down(**given: Any) -> Any:
    usual: dict[str, Any] = {
        "trace": Tables(),
        "account": ACCOUNT,
        "account_parts": PARTS,
        "idle_topics": IDLE,
        "launch_facts": LATE,
        "steps": STEPS,
        "windows": WINDOWS,
    }
    return step_shares(**(usual | given))


def test_every_field_of_the_breakdown_of_a_device() -> None:
    first, second = broken_down()
    assert (first.device, second.device) == (0, 1)
    nothing = dict.fromkeys(OWNER_NAMES, (0, 0))
    nowhere = dict.fromkeys(IDLE_OWNERS, (0, 0))
    assert fields_of(second) == {
        "host": "vm",
        "device": 1,
        "step_source": "marker",
        "step_confidence": 0.75,
        "closed": True,
        "window_ps": (1000, 1100),
        "inside_ps": nothing
        | {"launch": (100, 295), "input": (0, 15), "unexplained": (10, 0)}
        | {"compute_16": (840, 700), "collective": (30, 20)}
        | {GARBAGE: (200, 0), WRITING: (10, 0)},
        "between_ps": nowhere
        | {"input": (50, 45), "launch": (0, 5)}
        | {GARBAGE: (0, 10), WRITING: (0, 0)},
        # This device's own times are known, except those of its peers.
        "missing": {"peer": fields_of(ABSENT), "debugging": fields_of(OTHER)},
        "working_ps": 850 - 50,
        "names": (
            fields_of(
                NamedTime("launch", "inside", "loop", loop=True, time_ps=5)
            ),
            fields_of(NamedTime(GARBAGE, "inside", "f", "d", line=3, time_ps=5)),
        ),
        "callers": (
            fields_of(
                NamedTime("sync", "inside", "f", None, "f", "a.py", 9, time_ps=5)
            ),
        ),
        "gaps": 2,
        "clock_error_ps": 7,
        "lost_ps": 9,
        "ranges": {
            ("launch", "inside"): ((2100, 2400), (100, 200)),
            ("input", "inside"): ((2940, 2950),),
            ("input", "between"): ((900, 1000), (2950, 3000)),
            ("peer", "inside"): ((500, 600),),
            # What is unknown of other owners is not explained.
            ("unexplained", "inside"): ((500, 600), (300, 310)),
            (GARBAGE, "inside"): ((150, 350),),
            (GARBAGE, "between"): ((2990, 3000),),
            (WRITING, "inside"): ((550, 560),),
        },
        "numbers": (5, 8),
        "bounds": ((0, 1000), (2000, 3100)),
        "held": {
            (GARBAGE, "launch", "inside"): 50,
            (GARBAGE, "unexplained", "inside"): 10,
            (GARBAGE, "input", "between"): 10,
            (WRITING, "peer", "inside"): 10,
            (WRITING, "unexplained", "inside"): 10,
        },
    }  # fmt: skip


def test_what_was_not_recorded_is_missing_from_the_breakdown() -> None:
    _, bare = broken_down(
        account_parts=ABSENT, idle_topics=OTHER, launch_facts=ABSENT, steps=ABSENT
    )
    assert (bare.step_source, bare.step_confidence, bare.numbers) == (None, 0.0, ())
    assert (bare.names, bare.callers) == ((), ())
    assert (bare.gaps, bare.clock_error_ps, bare.lost_ps) == (0, 0, 0)
    assert bare.missing == {"peer": ABSENT} | dict.fromkeys(TOPICS, OTHER)
    assert bare.held == {}
    assert not {owner for owner, _ in bare.ranges} & {*TOPICS}
    assert not bare.inside_ps.keys() & {*TOPICS}
    first, _ = broken_down()
    assert first.missing == {"sync": OTHER, "debugging": OTHER}


def test_a_step_without_a_number_leaves_all_without() -> None:
    unnumbered = SimpleNamespace(
        source="launch", confidence=0.5, rows=pl.DataFrame({"step": [5, 6, None]})
    )
    _, second = broken_down(steps=unnumbered)
    assert (second.numbers, second.step_source) == ((), "launch")
    # The number of a step that is left out does not matter.
    unused = pl.DataFrame({"step": [5, None, 8]})
    _, second = broken_down(
        steps=SimpleNamespace(source="launch", confidence=0.5, rows=unused)
    )
    assert second.numbers == (5, 8)


def test_steps_are_closed_if_one_of_them_is() -> None:
    only = windows_at((0, 1000), open_end=[True])
    of_first = {"rows": ROWS.filter(pl.col("window") == 0)}
    of_first["between"] = BETWEEN.filter(pl.col("window") == 0)
    account = SimpleNamespace(**(vars(ACCOUNT) | of_first))
    assert not any(each.closed for each in broken_down(account=account, windows=only))
    last = windows_at(
        (0, 1000), (1000, 2000), (2000, 3100), open_end=[False, False, True]
    )
    assert all(each.closed for each in broken_down(windows=last))


def test_a_host_without_devices_has_no_late_launches() -> None:
    no_device = SimpleNamespace(
        rows=times((0, None, {"host_compute": 4}), (2, None, {})),
        between=times((0, None, {}), (2, None, {}), owners=IDLE_OWNERS),
        missing={},
        devices=(
            SimpleNamespace(
                device=None,
                idle={"launch": spans_of((5, 9)), "unexplained": spans_of()},
                between=spans_of(),
            ),
        ),
    )
    parts = SimpleNamespace(
        **{
            name: table.with_columns(device=pl.lit(None, pl.Int32))
            for name, table in vars(PARTS).items()
        }
    )
    (host,) = broken_down(account=no_device, account_parts=parts)
    assert (host.device, host.label, host.working_ps) == (None, "vm", 0)
    assert host.inside_ps["host_compute"] == (4, 0)
    assert (host.gaps, host.clock_error_ps, host.lost_ps) == (0, 0, 0)
    assert host.ranges == {("launch", "inside"): ((5, 9),)}
    assert [part.owner for part in host.names] == ["launch", "input", GARBAGE]
    assert [part.owner for part in host.callers] == ["sync", "input"]


def collected(**hosts: Any) -> AccountSignals | Unavailable:
    signals: AccountSignals | Unavailable = account_signals.function(step_shares=hosts)
    return signals


def test_breakdowns_of_all_hosts_are_collected() -> None:
    known = broken_down()
    both = collected(a=known, b=ABSENT, c=known[:1])
    assert isinstance(both, AccountSignals)
    assert both.shares == (*known, known[0])
    assert collected(a=(), b=OTHER, c=ABSENT) == OTHER
    nothing = collected(a=())
    assert isinstance(nothing, Unavailable)
    assert nothing.code == "NO_STEPS"
