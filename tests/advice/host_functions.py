"""Functions of a host without devices, written out by hand: what its rules see."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from stepscope.derive.facts.evidence import Part
from stepscope.derive.facts.step_shares import NamedTime
from stepscope.derive.intervals.spans import Spans

MS = 1_000_000_000
STARTS = np.arange(10, dtype=np.int64) * 10 * MS


def named(name: str, ms: float, *, op: bool = False, **fields: Any) -> NamedTime:
    function = None if op else name
    return NamedTime(
        "host_compute",
        "inside",
        name,
        function=function,
        time_ps=round(ms * MS),
        **fields,
    )


def part_of(name: str, percent: float, **fields: Any) -> Part:
    return Part(name=name, function=name, share_percent=percent, **fields)


def time_of(ms: float = 0.0, **fields: Any) -> Any:
    """What is known of a function: its time in each of ten steps of 10 ms, and more."""
    runs = SimpleNamespace(
        host="vm",
        exchanging="exchanging",
        collecting="collecting",
        starts_ps=STARTS,
        ends_ps=STARTS + 10 * MS,
        innermost_called=fields.pop("innermost", lambda _: 0),
    )
    percents = {name: fields.pop(name, 0.0) for name in ("exchanging", "collecting")}
    works = fields.pop("works", {})
    return SimpleNamespace(
        **{
            "runs": runs,
            "times_ps": (round(ms * MS),) * 10,
            "looks": None,
            "alone": Spans.empty(),
            "own_lines": (),
            "repeats": True,
            "collects_percent": 0.0,
            "ops_percent": 0.0,
            "asks_the_model": False,
            "percent_within": percents.get,
            "percent_of_work": lambda work: works.get(work, 0.0),
            **dict.fromkeys(
                (
                    "calls_numpy",
                    "mostly_predicts",
                    "calls_the_model",
                    "is_in_the_model",
                    "is_the_step",
                ),
                False,
            ),
            **fields,
        }
    )


def runs_of(own: tuple[Part, ...] = (), *, blurred: bool = False, **times: Any) -> Any:
    return SimpleNamespace(
        time_of_function=lambda part: times.get(part.name, time_of()),
        own_functions=lambda: own,
        is_blurred=blurred,
    )


def op(ms: float, name: str = "Conv") -> NamedTime:
    return named(name, ms, op=True)
