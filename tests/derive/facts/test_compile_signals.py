"""Compilations in the steps of a literal host, worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from tests.support.traces.literal import (
    ABSENT,
    Tables,
    events_at,
    fields_of,
    types_named,
    windows_at,
)
from tests.support.traces.literal_tables import kinds_of

from stepscope.derive.columns.stat_values import StatRows
from stepscope.derive.facts.hosts.compilations import compile_signals
from stepscope.derive.names.event_kinds import EventFlag, HostClass
from stepscope.trace.reading.stat_keys import StatKey
from stepscope.trace.tables import INT, REF, TABLES

NAMES = (
    "PjitFunction(train)",
    "compilation of loss",
    "XlaCompileBackend:#a=b,module=jit_f,c=d#",
    "backend_compile",
    "call",
    "PjitFunction",
    "other",
)
CALL, OF_LOSS, OF_MODULE, UNNAMED, GRAPH, NAMELESS, OTHER = range(7)
STRINGS = ("x", StatKey.REASON, "the shape", "traced-once", "concrete", "the type")


def stats_of(*rows: tuple[int, int, int]) -> pl.DataFrame:
    """Texts of events: event, key and text, by row of `STRINGS`."""
    schema = TABLES["stats"].dtypes()
    given = {
        "event": [event for event, _, _ in rows],
        "key": [key for _, key, _ in rows],
        "kind": [REF] * len(rows),
        "value": [text for *_, text in rows],
        "length": [0] * len(rows),
    }
    return pl.DataFrame(given, schema={name: schema[name] for name in given})


def calls_of(*texts: tuple[int, int], kind: int = REF) -> dict[str, StatRows]:
    """Values of calls of compiled functions: event and text."""
    owner, value = (np.array([row[at] for row in texts]) for at in range(2))
    return {
        StatKey.FUNCTION_CALL: StatRows(
            owner.astype(np.int32),
            np.zeros(len(texts), np.int32),
            np.full(len(texts), kind, np.uint8),
            value.astype(np.int64),
            np.zeros(len(texts), np.int32),
        )
    }


def compiled(*events: tuple[int, int, int, int], **given: Any) -> Any:
    """Events (type, track, start, duration) in four steps of 100 ps."""
    table = events_at(*events)
    stats = {"stats": given.pop("stats")} if "stats" in given else {}
    found = compile_signals.function(
        **{
            "trace": Tables(
                strings=STRINGS,
                events=table,
                event_types=types_named(*NAMES),
                **stats,
            ),
            "events": table,
            "event_kinds": kinds_of(
                len(NAMES),
                classes=dict.fromkeys((OF_LOSS, OF_MODULE, UNNAMED), HostClass.COMPILE),
                flags=dict.fromkeys((CALL, NAMELESS), EventFlag.PJIT),
            ),
            "host_values": ABSENT,
            "windows": windows_at(*((at, at + 100) for at in (0, 100, 200, 300))),
            **given,
        }
    )
    return fields_of(found)


def function(
    name: str, steps: int, time_ps: int, reason: str | None = None
) -> dict[str, Any]:
    return {"name": name, "steps": steps, "time_ps": time_ps, "reason": reason}


def test_every_field_of_what_was_compiled() -> None:
    events = (
        (CALL, 1, 200, 50),
        # In the call of `train`, on its thread and on another; one is in another.
        (UNNAMED, 1, 210, 20),
        (OF_MODULE, 1, 215, 10),
        (UNNAMED, 2, 210, 20),
        # As the one before ends, and once more; one is early, one is in no step.
        (OF_LOSS, 1, 230, 5),
        (OF_LOSS, 1, 320, 5),
        (OF_LOSS, 1, 199, 40),
        (OF_LOSS, 1, 400, 5),
        # Traced again, and called without.
        (GRAPH, 3, 300, 30),
        (GRAPH, 3, 350, 30),
        # Of two at once the one with a function counts.
        (UNNAMED, 4, 340, 10),
        (OF_MODULE, 4, 340, 10),
        (OTHER, 4, 360, 10),
    )
    found = compiled(
        *events,
        host_values=calls_of((8, 3), (9, 4)),
        stats=stats_of((3, 0, 2), (4, 0, 2), (5, 1, 5), (10, 1, 2)),
    )
    assert found == (
        function("call", 1, 30),
        function("backend_compile", 1, 20),
        function("train", 1, 20),
        function("jit_f", 1, 10),
        function("loss", 2, 10, "the type"),
    )


def test_the_first_reason_is_told() -> None:
    events = ((OF_LOSS, 1, 330, 5), (OF_LOSS, 1, 310, 5), (OF_LOSS, 1, 350, 5))
    found = compiled(*events, stats=stats_of((0, 1, 2), (1, 1, 5)))
    assert found == (function("loss", 1, 15, "the type"),)


def test_the_reason_of_the_first_thread_is_told() -> None:
    events = ((OF_LOSS, 2, 310, 5), (OF_LOSS, 1, 330, 5))
    found = compiled(*events, stats=stats_of((0, 1, 2), (1, 1, 5)))
    assert found == (function("loss", 1, 10, "the type"),)


def test_a_later_event_in_the_longest_before_it_is_part_of_it() -> None:
    """The second ends before the first, and the third begins in the first."""
    events = ((OF_LOSS, 1, 200, 90), (OF_LOSS, 1, 210, 10), (OF_MODULE, 1, 240, 70))
    assert compiled(*events) == (function("loss", 1, 90),)
    # One that begins with another and lasts longer is the outer one.
    events = ((OF_LOSS, 1, 200, 10), (OF_MODULE, 1, 200, 40), (OF_LOSS, 2, 200, 1))
    assert compiled(*events) == (
        function("jit_f", 1, 40),
        function("loss", 1, 1),
    )


def test_a_compilation_without_a_name_has_that_of_the_call_around_it() -> None:
    cases: list[tuple[Any, str]] = [
        ([(CALL, 1, 200, 60)], "train"),
        ([(CALL, 1, 240, 20)], "train"),
        ([(CALL, 1, 241, 60)], "backend_compile"),
        ([(CALL, 1, 200, 59)], "backend_compile"),
        ([(CALL, 2, 200, 60)], "backend_compile"),
        # The innermost call that encloses it has no function.
        ([(CALL, 1, 200, 90), (NAMELESS, 1, 210, 90)], "backend_compile"),
        ([(NAMELESS, 1, 200, 90), (CALL, 1, 210, 90)], "train"),
        ([(CALL, 1, 210, 90), (NAMELESS, 1, 200, 90)], "train"),
        ([(CALL, 1, 200, 90), *[(NAMELESS, 1, 210, 1)] * 63], "train"),
        ([(CALL, 1, 200, 90), *[(NAMELESS, 1, 210, 1)] * 64], "backend_compile"),
    ]
    for calls, name in cases:
        found = compiled(*calls, (UNNAMED, 1, 240, 20))
        assert found == (function(name, 1, 20),)


def test_without_compilations_there_is_nothing_to_tell() -> None:
    assert compiled((CALL, 1, 200, 10)) is None
    assert compiled((GRAPH, 1, 200, 10), host_values=calls_of((0, 4))) is None
    no_texts = calls_of((0, 3), kind=INT)
    assert compiled((GRAPH, 1, 200, 10), host_values=no_texts) is None
    assert compiled((OF_LOSS, 1, 20, 10)) == ()
    retraced = compiled((OF_LOSS, 1, 200, 10), host_values=calls_of((0, 3)))
    assert retraced == (function("compilation of loss", 1, 10),)
