"""Copies of a device, and slow steps, of literal tables: every field, by hand."""

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
    fields_of,
    types_named,
    windows_at,
)

from stepscope.derive.device.attribution import OpEvidence
from stepscope.derive.facts.devices.device_copies import (
    CopyGroup,
    DeviceCopies,
    copy_signals,
)
from stepscope.derive.facts.evidence import Evidence, Fact, Part
from stepscope.derive.facts.slow_steps import (
    excess_by_owner,
    held_time,
    longest_period,
    longest_slow_steps,
    named_parts,
    period_of_slow_steps,
    rare_function,
    slow_steps,
)
from stepscope.derive.facts.step_shares import NamedTime, StepShares
from stepscope.thresholds import THRESHOLDS

MIB = 2**20
KIB = 2**10
PS_PER_S = 10**12


def ops_named(*ops: tuple[str, OpEvidence], of: list[int]) -> Any:
    return SimpleNamespace(
        op=np.array(of, np.int32),
        ops=pl.DataFrame(
            {
                "name": [name for name, _ in ops],
                "evidence": [int(evidence) for _, evidence in ops],
            }
        ),
    )


def copied(activity: pl.DataFrame, **given: Any) -> Any:
    names = types_named("kernel", "Memcpy HtoD (Pageable -> Device)", "HtoD", "Pinned")
    return copy_signals.function(
        **{
            "trace": Tables(event_types=names, strings=given.pop("strings", ())),
            "device_activity": activity,
            "activity_classes": ABSENT,
            "activity_ops": ABSENT,
            "correlation": ABSENT,
            "exposure": ABSENT,
            "launching_ops": ABSENT,
            "windows": windows_at((0, 1000), (1000, PS_PER_S)),
            **given,
        }
    )


#: 1 MiB in this time is 6e9 bytes a second.
LIMIT_PS = MIB * PS_PER_S // 6_000_000_000


def group(owner: str, count: int, alone: int, **fields: Any) -> CopyGroup:
    return CopyGroup(
        **{
            "owner": owner,
            "source": None,
            "certainty": None,
            "per_step": count / 2,
            "bytes_per_step": None,
            "bytes_per_s": None,
            "alone_ps": alone,
            "pageable_ps": 0,
            "blocking_ps": 0,
            **fields,
        }
    )


def test_every_field_of_the_copies_of_a_device() -> None:
    activity = activities(
        *(("h2d", 0, 10, 100), ("h2d", 0, 200, 50), ("h2d", 0, 2000, LIMIT_PS)),
        *(("h2d", 0, 3000, LIMIT_PS + 10), ("h2d", 0, 4000, LIMIT_PS + 10)),
        *(("d2h", 0, 20, 30), ("p2p_copy", 0, 5, 7), ("local_copy", 0, 6, 8)),
        *(("kernel", 0, 0, 99), ("h2d", 0, 2 * PS_PER_S, 99), ("kernel", 1, 0, 9)),
        type=[1, 2, 2, 2, 3, 2, 2, 2, 0, 2, 0],
        bytes=[
            *(64 * KIB - 1, 64 * KIB, MIB, MIB, MIB),
            *(None, 100, MIB, None, 5, None),
        ],
    )
    alone = [90, 40, 1000, 2000, 3000, 30, 0, 8, 5, 6, 5]
    launches = pl.DataFrame({"start_ps": [0, 0], "dur_ps": [80, 39]})
    found = copied(
        activity,
        exposure=SimpleNamespace(alone_ps=np.array(alone)),
        correlation=SimpleNamespace(
            launches=launches,
            launch_of_activity=np.array(
                [0, 1, -1, -1, 0, -1, 1, -1, -1, -1, -1], np.int32
            ),
        ),
    )
    expected = DeviceCopies(
        groups=(
            group(
                "copy_in",
                *(5, 6_130),
                bytes_per_step=(128 * KIB - 1 + 3 * MIB) / 2,
                bytes_per_s=3 * MIB * 1e12 / (3 * LIMIT_PS + 20),
                # By its name, and by how slow it is unless its memory is known.
                pageable_ps=90 + 2000,
                # 80 of 100 ps are its call's; 39 of 50 are too few.
                blocking_ps=90,
            ),
            group("copy_out", 1, 30),
            group(
                "copy_within",
                *(1, 8),
                bytes_per_step=MIB / 2,
                bytes_per_s=MIB * 1e12 / 8,
            ),
            group("copy_within", 1, 0, bytes_per_step=50.0),
        ),
        small_per_step=1.0,
        small_alone_ps=90,
        longest=(
            (4000, 4000 + LIMIT_PS + 10, "Pinned"),
            (3000, 3000 + LIMIT_PS + 10, "HtoD"),
            (2000, 2000 + LIMIT_PS, "HtoD"),
        ),
    )
    # The call of 39 ps lasts longer than the copy of 7.
    assert fields_of(found[0]) == fields_of(expected)
    assert fields_of(found[1]) == fields_of(DeviceCopies((), 0.0, 0, ()))
    plain = copied(activity)[0]
    assert plain.groups[0].alone_ps == 150 + 3 * LIMIT_PS + 20
    assert plain.groups[0].blocking_ps == 0


def test_the_op_of_a_copy_is_recorded_or_called() -> None:
    ops = ops_named(
        ("", OpEvidence.NONE),
        ("read", OpEvidence.ANNOTATION),
        ("(copy)", OpEvidence.COPY),
        of=[1, 2, 2, 0],
    )
    activity = activities(*(("h2d", 0, at, 10) for at in range(4)), bytes=[9] * 4)
    found = copied(
        activity,
        activity_ops=ops,
        correlation=SimpleNamespace(
            launches=pl.DataFrame({"start_ps": [0, 0], "dur_ps": [0, 0]}),
            launch_of_activity=np.array([0, 0, 1, -1], np.int32),
        ),
        launching_ops=SimpleNamespace(
            op=np.array([0, -1], np.int32), ops=pl.DataFrame({"name": ["fed"]})
        ),
    )[0]
    told = [(one.source, one.certainty, one.per_step) for one in found.groups]
    assert told == [
        (None, None, 1.0),
        ("fed", "recorded", 0.5),
        ("read", "recorded", 0.5),
    ]


@pytest.mark.parametrize(
    ("texts", "source"),
    [
        # 128 KiB, which only kernels of `a` have.
        (("(f32[32,1024])", "(f32[8])"), "a"),
        (("(f32[32,1024])", "(f32[32768])"), None),
        (("(f32[8])", "(f32[8])"), None),
    ],
)
def test_the_size_of_a_copy_may_tell_its_op(
    texts: tuple[str, str], source: str | None
) -> None:
    ops = ops_named(
        ("", OpEvidence.NONE),
        ("a", OpEvidence.ANNOTATION),
        ("b", OpEvidence.ANNOTATION),
        of=[0],
    )
    classes = SimpleNamespace(rows=pl.DataFrame({"shape": [0, 1, -1], "op": [1, 2, 2]}))
    activity = activities(("h2d", 0, 1, 10), bytes=[128 * KIB])
    (found,) = copied(
        activity, activity_ops=ops, activity_classes=classes, strings=texts
    )[0].groups
    certainty = None if source is None else "by size"
    assert (found.source, found.certainty) == (source, certainty)


@pytest.mark.parametrize(
    ("between", "named"),
    [
        # Four of five are 80 %, and one copy alone proves nothing.
        (["ab"] * 4 + ["ba"], True),
        (["ab"] * 3 + ["ba"], False),
        (["ab"], False),
        (["a?"] * 5, False),
    ],
)
def test_copies_between_the_same_ops_are_named_by_them(
    between: list[str], *, named: bool
) -> None:
    ops = [
        ("(no annotation)", OpEvidence.NONE),
        ("a", OpEvidence.ANNOTATION),
        ("b", OpEvidence.ANNOTATION),
    ]
    rows, of = [], []
    for at, (before, after) in enumerate(between):
        rows += [
            ("kernel", 0, 30 * at, 1),
            ("h2d", 0, 30 * at + 10, 10),
            ("kernel", 0, 30 * at + 20, 1),
        ]
        of += ["?ab".index(before), 0, "?ab".index(after)]
    # Another size, and another device, between other ops.
    rows += [("h2d", 0, 1, 10), ("kernel", 1, 15, 1), ("kernel", 1, 5, 1)]
    of += [0, 2, 2]
    sizes = [100] * len(rows)
    sizes[-3] = 7
    activity = activities(*rows, bytes=sizes)
    found = copied(activity, activity_ops=ops_named(*ops, of=of))[0]
    sources = {(one.source, one.certainty): one.per_step for one in found.groups}
    expected: dict[Any, float] = {(None, None): (1 + len(between)) / 2}
    if named:
        expected = {("between a and b", "by position"): 2.0, (None, None): 1.0}
    assert sources == expected


# --- slow steps ---

MS = 1_000_000_000


def account(window_ms: list[float], **fields: Any) -> StepShares:
    count = len(window_ms)
    return StepShares(
        **{
            "host": "vm",
            "device": 0,
            "step_source": "marker",
            "step_confidence": 0.9,
            "closed": True,
            "window_ps": tuple(round(ms * MS) for ms in window_ms),
            "inside_ps": {},
            "between_ps": {},
            "missing": {},
            "working_ps": 0,
            "names": (),
            "callers": (),
            "gaps": 0,
            "clock_error_ps": 0,
            "lost_ps": 0,
            "ranges": {},
            "bounds": tuple((10 * at, 10 * at + 9) for at in range(count)),
            **fields,
        }
    )


def ms_of(*times: float) -> tuple[int, ...]:
    return tuple(round(time * MS) for time in times)


@pytest.mark.parametrize(
    ("lengths", "slow"),
    [
        # 1.2 medians are not slow, and more is.
        ([10, 10, 10, 12, 12.1], [0, 0, 0, 0, 1]),
        # Five deviations of 1 are not slow either.
        ([9, 9, 10, 11, 11, 10, 9, 11, 15], [0] * 9),
        ([9, 9, 10, 11, 11, 10, 9, 11, 15.1], [0] * 8 + [1]),
    ],
)
def test_slow_steps_are_far_above_the_median(
    lengths: list[float], slow: list[int]
) -> None:
    assert slow_steps(account(lengths), THRESHOLDS).tolist() == slow


@pytest.mark.parametrize(
    ("steps", "period"), [(5, 1), (6, 2), (599, 199), (600, 200), (9_000, 200)]
)
def test_a_period_has_three_of_the_steps(steps: int, period: int) -> None:
    assert longest_period(steps) == period


def test_what_slows_the_first_step_may_lie_before_the_recording() -> None:
    slow = np.array([at in {3, 6, 9} for at in range(10)])
    found = period_of_slow_steps(account([20.0 if one else 10.0 for one in slow]), slow)
    assert found is not None
    assert (found.every, found.slow.tolist()) == (3, slow.tolist())


def test_a_period_is_the_shortest_that_explains_slow_steps() -> None:
    cases: list[tuple[int, dict[int, float], tuple[int, ...], int | None]] = [
        (9, {2: 20, 5: 20, 8: 20}, (), 3),
        # The steps before the recording shift the phase, not the period.
        (9, {0: 20, 3: 20, 6: 20}, (), 3),
        # Of few slow steps 90 % of the extra time have to be in the period.
        (9, {2: 20, 5: 20, 8: 20, 1: 12.2}, (), 3),
        (9, {2: 20, 5: 20, 8: 20, 1: 14}, (), None),
        # Of five 60 % are enough.
        (15, {2: 20, 5: 20, 8: 20, 11: 20, 14: 20, 1: 30, 3: 23}, (), 3),
        (15, {2: 20, 5: 20, 8: 20, 11: 20, 14: 20, 1: 30, 3: 24}, (), None),
        # Twice is no period, nor is one with a usual step between.
        (6, {2: 20, 5: 20}, (), None),
        (12, {2: 20, 5: 20, 11: 20}, (), None),
        # What follows the last step is outside of its window.
        (12, {2: 20, 5: 20, 8: 20}, (), 3),
        (13, {2: 20, 5: 20, 8: 20}, (), None),
        # The numbers of steps count, of which some are missing.
        (
            12,
            {0: 20, 3: 20, 6: 20, 9: 20},
            (4, 5, 6, 8, 9, 10, 12, 13, 14, 16, 17, 18),
            4,
        ),
    ]
    for count, slow_at, numbers, period in cases:
        lengths = [slow_at.get(at, 10.0) for at in range(count)]
        shares = account(lengths, numbers=numbers)
        slow = np.array([at in slow_at for at in range(count)])
        found = period_of_slow_steps(shares, slow)
        assert (found and found.every) == period
        if found is not None:
            of_steps = numbers or tuple(range(count))
            first = next(
                number
                for number, own in zip(of_steps, found.slow.tolist(), strict=True)
                if own
            )
            expected = [(number - first) % found.every == 0 for number in of_steps]
            expected[-1] &= count - 1 in slow_at
            assert found.slow.tolist() == expected


def test_the_extra_time_of_slow_steps_is_divided_by_cause() -> None:
    """The fourth step takes 6 ms more: 6 of input, 3 of sync, less of compute."""
    shares = account(
        [10, 10, 10, 16],
        inside_ps={
            "input": ms_of(1, 2, 1, 5),
            "sync": ms_of(2, 2, 2, 5),
            "compute_32": ms_of(7, 6, 7, 4),
            "launch": ms_of(0, 0, 0, 0),
        },
        between_ps={"input": ms_of(0, 0, 0, 2)},
    )
    slow = np.array([False, False, False, True])
    found = excess_by_owner(shares, slow)
    assert found.parts_ps == {
        "compute_32": (0, 0, 0, 0),
        "input": (0, 0, 0, 4 * MS),
        "sync": (0, 0, 0, 2 * MS),
    }
    assert found.window_ps == shares.window_ps
    assert (found.step_source, found.step_confidence) == ("marker", 0.9)
    assert found.closed
    # A chosen step that is shorter than usual has no extra time.
    shorter = account([10, 10, 9], inside_ps={"sync": ms_of(1, 1, 2)})
    none = excess_by_owner(shorter, np.array([False, False, True]))
    assert none.parts_ps == {"sync": (0, 0, 0)}
    # Nor has a cause that takes as long as usual.
    same = account([10, 10, 19], inside_ps={"sync": ms_of(1, 1, 1)})
    none = excess_by_owner(same, np.array([False, False, True]))
    assert none.parts_ps == {"sync": (0, 0, 0)}


def test_slow_steps_hold_a_share_of_all_time() -> None:
    shares = account([10, 10, 20])
    slow = np.array([False, False, True])
    expected = Fact(name="held_by_slow_steps", value=50.0, unit="percent")
    assert held_time(shares, slow) == expected
    assert held_time(shares, ~slow | slow).value == 100.0
    assert held_time(shares, slow & ~slow).value is None


def test_a_rare_function_explains_the_effect_of_slow_steps() -> None:
    asked = []

    def of(chosen: Any, excess_ps: int) -> Part:
        asked.append((chosen.tolist(), excess_ps))
        return Part(name="f", share_percent=1.0)

    slow = np.array([False, True])
    effects = SimpleNamespace(effect_ps=(0, 7))
    rarely: Any = SimpleNamespace(of=of)
    series: Any = effects
    assert rare_function(slow, series, rarely) == Part(name="f", share_percent=1.0)
    assert asked == [([False, True], 7)]
    assert rare_function(slow, series, None) is None
    assert rare_function(slow & ~slow, series, rarely) is None


@pytest.mark.parametrize(
    ("sync", "parts"),
    [
        # A fifth of the time in slow steps is rare.
        ((1, 1, 5), ("f", "op")),
        ((1.1, 1.1, 5), ("f",)),
        ((0, 0, 0), ("f",)),
    ],
)
def test_parts_that_only_slow_steps_have_are_named(
    sync: tuple[float, ...], parts: tuple[str, ...]
) -> None:
    """Of 40 ms 7 are sync: `op` takes 3 of them, and `save` 2, less than half."""
    names = (
        NamedTime("sync", "inside", "loop", loop=True, time_ps=9 * MS),
        NamedTime("sync", "inside", "op", time_ps=3 * MS),
        NamedTime("sync", "inside", "save", function="save", time_ps=2 * MS),
    )
    shares = account([10, 10, 20], inside_ps={"sync": ms_of(*sync)}, names=names)
    slow = np.array([False, False, True])
    function = Part(name="f", share_percent=1.0)
    found = named_parts(shares, slow, "sync", function)
    assert tuple(part.name for part in found) == parts
    assert named_parts(shares, slow, None, function) == (function,)
    assert named_parts(shares, slow, None, None) == ()
    assert named_parts(shares, slow & ~slow, "sync", function) == ()
    assert found[1:] == named_parts(shares, slow, "sync", None)


def test_a_function_behind_an_op_explains_no_cause_however_short() -> None:
    """Of 100 ms sync takes 1."""
    names = (
        NamedTime("sync", "inside", "op", time_ps=6 * MS // 10),
        NamedTime("sync", "inside", "save", function="save", time_ps=4 * MS // 10),
    )
    shares = account([10, 10, 80], inside_ps={"sync": ms_of(0, 0, 1)}, names=names)
    found = named_parts(shares, np.array([False, False, True]), "sync", None)
    assert [part.name for part in found] == ["op"]


@pytest.mark.parametrize(("ms", "named"), [(3.5, True), (3.4, False)])
def test_a_function_is_named_if_it_takes_half_of_the_cause(
    ms: float, *, named: bool
) -> None:
    names = (
        NamedTime("sync", "inside", "save", function="save", time_ps=round(ms * MS)),
        NamedTime("sync", "inside", "op", time_ps=MS),
    )
    shares = account([10, 10, 20], inside_ps={"sync": ms_of(1, 1, 5)}, names=names)
    found = named_parts(shares, np.array([False, False, True]), "sync", None)
    assert [part.name for part in found] == (["save", "op"] if named else ["op"])


def test_the_longest_of_the_slow_steps_are_shown() -> None:
    shares = account([10, 30, 40, 30, 30, 50], numbers=(4, 5, 6, 7, 8, 9))
    slow = np.array([False, True, True, True, True, False])

    def shown(step: int, number: int) -> Evidence:
        return Evidence(
            host="vm",
            device=0,
            track=None,
            start_ps=10 * step,
            end_ps=10 * step + 9,
            ops=(f"step {number}",),
        )

    assert longest_slow_steps(shares, slow) == (shown(2, 6), shown(1, 5), shown(3, 7))
    unnumbered = longest_slow_steps(account([1, 2, 3]), np.array([False, False, True]))
    assert unnumbered[0].ops == ()
