"""Every field of verdicts, worked out by hand or by a plain bootstrap."""

from __future__ import annotations

import math
import random
import re
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.advice.finding import Pattern
from stepscope.advice.lost_time_verdict import (
    Verdict,
    effect_pattern,
    judge,
)
from stepscope.derive.facts.evidence import CauseShare
from stepscope.derive.verdicts.effect_status import (
    StepSeries,
    difference_interval,
    mean_interval_ms,
    pattern_kind,
    percent_of,
    ratio_interval,
)
from stepscope.thresholds import THRESHOLDS

if TYPE_CHECKING:
    from collections.abc import Sequence

MS = 1_000_000_000


def series(**fields: Any) -> StepSeries:
    """Twelve steps of 10 ms that wait for 0.5 ms and copy for 1 ms."""
    return StepSeries(
        **{
            "step_source": "marker",
            "step_confidence": 0.95,
            "window_ps": (10 * MS,) * 12,
            "parts_ps": {
                "wait": (MS // 2,) * 12,
                "none": (0,) * 12,
                "copy": (MS,) * 12,
            },
            **fields,
        }
    )


def judged(effects: StepSeries) -> Verdict:
    """Against 5 % and 20 % of the time."""
    return judge(effects, (THRESHOLDS.input_warn, THRESHOLDS.input_critical))


def test_every_field_of_a_verdict_on_two_causes() -> None:
    """15 % of 120 ms; 12 ms are of unknown cause, and 1.2 ms are in doubt."""
    verdict = judged(series(unknown_ps=12 * MS, doubt_ps=12 * MS // 10))
    assert verdict == Verdict(
        status="fail",
        severity="warn",
        note=None,
        share_percent=15.0,
        effect_ms=1.5,
        causes=(
            CauseShare(cause="copy", share_percent=10.0),
            CauseShare(cause="wait", share_percent=5.0),
        ),
        pattern=Pattern(
            kind="every",
            steps_hit=12,
            steps=12,
            shortest_ms=1.5,
            longest_ms=1.5,
            mean_ms=(1.5, 1.5),
        ),
        resolution_percent=11.0,
        confidence=0.9,
    )


def test_every_field_of_a_verdict_without_time() -> None:
    verdict = judged(series(parts_ps={}, window_ps=(0, 0, 0), step_source=None))
    assert verdict == Verdict(
        status="pass",
        severity="info",
        note=None,
        share_percent=0.0,
        effect_ms=0.0,
        causes=(),
        pattern=Pattern(
            kind="bursts", steps_hit=0, steps=3, shortest_ms=None, longest_ms=0.0
        ),
        resolution_percent=0.0,
        confidence=0.0,
    )


@pytest.mark.parametrize(
    ("fields", "confidence"),
    [
        ({}, 0.95),
        ({"step_source": None}, 1.0),
        ({"closed": False}, 0.5),
        ({"closed": False, "step_confidence": 0.4}, 0.4),
        ({"unknown_ps": 84 * MS, "closed": False}, 0.3),
        ({"window_ps": (10 * MS,) * 2, "parts_ps": {"wait": (MS, MS)}}, 0.5),
        ({"window_ps": (10 * MS,) * 3, "parts_ps": {"wait": (MS,) * 3}}, 0.95),
    ],
)
def test_the_least_of_all_doubts_is_the_confidence(
    fields: dict[str, Any], confidence: float
) -> None:
    assert judged(series(**fields)).confidence == pytest.approx(confidence)


@pytest.mark.parametrize(
    ("fields", "code", "numbers"),
    [
        # 18 of 120 ms are 15 %; up to 15 or 18 ms of them may be an error.
        ({"excess_ps": 15 * MS}, "LOST_EVENTS", ("15.0 %", "12.5 %", "5 %")),
        ({"doubt_ps": 18 * MS}, "LOST_EVENTS", ("15.0 %", "15.0 %", "5 %")),
        (
            {"doubt_ps": 12 * MS, "excess_ps": 6 * MS},
            "LOST_EVENTS",
            ("15.0 %", "15.0 %", "5 %"),
        ),
        # 2.4 ms are 2 %, and 30 ms of unknown cause, 6 of them by the clocks, 25.
        (
            {
                "parts_ps": {"wait": (MS // 5,) * 12},
                "unknown_ps": 24 * MS,
                "doubt_ps": 6 * MS,
            },
            "NOT_RECORDED",
            ("2.0 %", "25.0 %", "5 %"),
        ),
        # 0.06 ms are 0.05 %, the least that is shown.
        (
            {"parts_ps": {"wait": (5_000_000,) * 12}, "unknown_ps": 200 * MS},
            "NOT_RECORDED",
            ("0.1 %", "100.0 %", "5 %"),
        ),
        (
            {"parts_ps": {"wait": (4_900_000,) * 12}, "unknown_ps": 60 * MS},
            "NOT_RECORDED",
            ("50.0 %", "5 %"),
        ),
    ],
)
def test_a_verdict_in_doubt_says_by_how_much(
    fields: dict[str, Any], code: str, numbers: tuple[str, ...]
) -> None:
    verdict = judged(series(**fields))
    assert (verdict.status, verdict.severity, verdict.note) == (
        *("cannot_tell", "info"),
        None,
    )
    assert verdict.pattern.mean_ms is None
    why = verdict.unavailable
    assert why is not None
    assert why.code == code
    assert tuple(re.findall(r"[\d.]+ %", why.reason)) == numbers


@pytest.mark.parametrize(
    ("effects", "pattern"),
    [
        (
            (),
            Pattern(kind="every", steps_hit=0, steps=0, shortest_ms=None, longest_ms=0),
        ),
        (
            (0, 2 * MS, 4 * MS, MS),
            Pattern(
                kind="bursts", steps_hit=3, steps=4, shortest_ms=1.0, longest_ms=4.0
            ),
        ),
        (
            (0, 0, 3 * MS, MS // 4),
            Pattern(kind="once", steps_hit=1, steps=4, shortest_ms=3.0, longest_ms=3.0),
        ),
    ],
)
def test_every_field_of_a_pattern(effects: tuple[int, ...], pattern: Pattern) -> None:
    assert effect_pattern(effects, every_percent=80) == pattern


def plain_sums(
    columns: Sequence[Sequence[float]], stream: int
) -> list[tuple[float, ...]]:
    """A thousand draws of ⌈n/l⌉ blocks of l = ⌈∛n⌉ steps, wrapped around the end."""
    count = len(columns[0])
    length = 1 if count <= 2 else next(n for n in range(1, 99) if n**3 >= count)
    blocks = -(-count // length)
    numbers = random.Random(stream).randbytes(4 * 1000 * blocks)  # noqa: S311
    drawn = []
    for draw in range(1000):
        steps = []
        for block in range(blocks):
            at = 4 * (draw * blocks + block)
            begin = int.from_bytes(numbers[at : at + 4], "little") % count
            steps += [(begin + offset) % count for offset in range(length)]
        drawn.append(tuple(sum(column[step] for step in steps) for column in columns))
    return drawn


def middle(values: Sequence[float]) -> tuple[float, float]:
    """The interval of 95 % of the values, between the two nearest ones linearly."""
    ordered = sorted(values)

    def at(share: float) -> float:
        place = share * (len(ordered) - 1)
        low = math.floor(place)
        high = min(low + 1, len(ordered) - 1)
        return ordered[low] + (place - low) * (ordered[high] - ordered[low])

    return at(0.025), at(0.975)


TIMES = st.lists(st.integers(0, 9), min_size=1, max_size=30)


@settings(max_examples=20, deadline=None)
@given(TIMES)
def test_the_interval_of_a_ratio_is_that_of_a_plain_bootstrap(times: list[int]) -> None:
    windows = [10 + index for index in range(len(times))]
    drawn = [100 * part / whole for part, whole in plain_sums((times, windows), 0)]
    assert ratio_interval(times, windows) == pytest.approx(middle(drawn))


@settings(max_examples=20, deadline=None)
@given(TIMES, TIMES)
def test_the_interval_of_a_difference_draws_both_runs_on_their_own(
    base: list[int], new: list[int]
) -> None:
    means = [
        [part / count for part, count in plain_sums((run, [1] * len(run)), stream)]
        for stream, run in enumerate((base, new))
    ]
    expected = middle([after - before for before, after in zip(*means, strict=True)])
    assert difference_interval(base, new) == pytest.approx(expected, abs=1e-9)


@settings(max_examples=20, deadline=None)
@given(TIMES)
def test_the_interval_of_a_mean_draws_hit_and_other_steps_on_their_own(
    times: list[int],
) -> None:
    mean = fmean(times)
    if len(times) < 3:
        expected = (mean, mean)
    else:
        drawn = [0.0] * 1000
        hit = [time for time in times if time > 0 and time >= mean / 2]
        other = [time for time in times if not (time > 0 and time >= mean / 2)]
        for stream, group in enumerate((hit, other)):
            if group:
                sums = plain_sums((group, [1] * len(group)), stream)
                part = len(group) / len(times)
                for index, (total, count) in enumerate(sums):
                    drawn[index] += part * total / count
        low, high = middle(drawn)
        expected = (min(low, mean), max(high, mean))
    found = mean_interval_ms([time * MS for time in times])
    assert found == pytest.approx(expected)


def test_nothing_is_a_percentage_of_nothing() -> None:
    assert percent_of(3, 0) == 0.0
    assert percent_of(1, 4) == 25.0
    # Two blocks of two steps lose 12, of a time that counts as 1.
    assert ratio_interval((3, 3, 3), (0, 0, 0)) == pytest.approx((1200.0, 1200.0))
    assert pattern_kind((), every_percent=60) == "every"


@pytest.mark.parametrize(
    ("effects", "every", "kind"),
    [
        ((2, 2, 2, 0, 0), 60, "every"),
        ((2, 2, 2, 0, 0), 60.1, "bursts"),
        ((9, 0, 0), 60, "once"),
        ((0, 0), 60, "bursts"),
        # A mean of 4: two or more are hit.
        ((2, 6), 60, "every"),
        ((1, 7), 60, "once"),
    ],
)
def test_a_step_is_hit_from_half_of_the_mean(
    effects: tuple[int, ...], every: float, kind: str
) -> None:
    assert pattern_kind(effects, every_percent=every) == kind


@pytest.mark.parametrize(
    ("effects_us", "status"),
    [
        # 0.1 ms a step is a finding, and less is none, however large its share.
        ([100] * 12, ("fail", "warn", None)),
        ([99] * 12, ("pass", "info", "short")),
        # 0.1 ms in the mean of two steps.
        ([50, 150], ("fail", "warn", "few_steps")),
        ([0, 200], ("fail", "info", "once")),
        ([0, 199], ("pass", "info", "short")),
        ([200] * 12, ("fail", "critical", None)),
        ([200] * 9, ("fail", "warn", None)),
        ([300] * 9, ("fail", "critical", None)),
    ],
)
def test_levels_of_short_steps(
    effects_us: list[int], status: tuple[str, str, str | None]
) -> None:
    verdict = judged(
        series(
            window_ps=(MS,) * len(effects_us),
            parts_ps={"wait": tuple(us * MS // 1000 for us in effects_us)},
        )
    )
    assert (verdict.status, verdict.severity, verdict.note) == status


def test_windows_without_a_length_have_no_largest_share() -> None:
    """A window of no length that lost time: the others lose 10 %."""
    verdict = judged(
        series(
            window_ps=(0, *(10 * MS,) * 11), parts_ps={"wait": (MS // 2, *(MS,) * 11)}
        )
    )
    assert (verdict.status, verdict.note) == ("fail", None)
    assert verdict.share_percent == pytest.approx(100 * 11.5 / 110)
    assert np.isfinite(verdict.effect_ms)
