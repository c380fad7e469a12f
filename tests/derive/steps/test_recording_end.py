"""Keras records one batch, then writes its summary and stops: that is not the step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.traces import blueprint

from stepscope.advice.engine import evaluate, signals_of
from stepscope.derive.step_windows.windows import windows
from stepscope.derive.steps.chosen import activity_steps
from stepscope.derive.steps.recording_end import recording_end
from stepscope.unavailable import require_available

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData

CALL = "EagerLocalExecute: __inference_train_function_9"
COMPUTE, BACK = "gpu:0/13(Compute)", "gpu:0/15(MemcpyD2H)"


def launched(
    number: int, called: float, start: float, dur: float, track: str = COMPUTE
) -> list[tuple[Any, ...]]:
    stats = {"correlation_id": number, "group_id": 0}
    name = "sgemm" if track == COMPUTE else "MemcpyD2H"
    call = "cuLaunchKernel" if track == COMPUTE else "cuMemcpyDtoHAsync_v2"
    details = "num_bytes:4" if track == BACK else None
    more = {"memcpy_details": f"kind_src:device {details}"} if details else {}
    return [
        ("main", call, called, 5, stats),
        (track, name, start, dur, stats | more),
    ]


def written(at: float, op: str = "WriteSummary") -> tuple[Any, ...]:
    return ("main", f"{op}:{op}", at, 150)


#: A batch of 36 ms: the call returns at 24 ms, its last kernel ends at 35.6 ms, and the
#: metrics are read back at 36 ms. The callback works for 50 ms, asks whether to write,
#: with an op on the device, and writes.
BATCH = [
    ("main", "train_function", 200, 23_900),
    ("main", CALL, 500, 23_500),
    *launched(1, 1_000, 1_600, 34_000),
    ("main", "cuStreamSynchronize", 24_400, 11_200),
    *launched(2, 35_700, 36_000, 2, BACK),
]
ENDING = [
    ("main", "tf.constant", 86_400, 900),
    ("main", "EagerExecute: LogicalAnd", 87_600, 190),
    ("main", "LogicalAnd:LogicalAnd", 87_650, 130),
    *launched(3, 87_700, 87_790, 4),
    written(89_100),
]
STEP_LINE = (
    "gpu:0/Steps",
    "0",
    1_600,
    86_194,
    {"group_id": 0, "step_name": "EagerKernelExecute 0"},
)


def profile_of(*lines: tuple[Any, ...]) -> ProfileData:
    return blueprint.profile(
        blueprint.trace(list(lines), devices={0: dict(blueprint.A100)})
    )


def bounds_ms(profile: ProfileData) -> list[tuple[float, float, bool]]:
    rows = require_available(profile.derived("vm", windows)).rows
    return [
        (start / 1e9, end / 1e9, is_open)
        for start, end, is_open in rows.select(
            "start_ps", "end_ps", "open_end"
        ).iter_rows()
    ]


def test_the_callback_closes_the_only_step() -> None:
    """The step took 86.2 ms, 59 % of it between steps, and its end was unknown."""
    profile = profile_of(*BATCH, *ENDING, STEP_LINE)
    assert profile.derived("vm", recording_end) == 87_600 * 1_000_000
    assert bounds_ms(profile) == [(1.6, 36.002, False)]
    # The op with which the callback asks belongs to no step.
    assert list(require_available(profile.derived("vm", activity_steps))) == [0, -1, 0]
    spans = require_available(profile.derived("vm", windows)).device_spans
    assert spans["device_step_time_ps"].to_list() == [34_402 * 1_000_000]
    (found,) = (
        each for each in evaluate(signals_of(profile)) if each.id == "gaps.between"
    )
    assert found.status == "pass"


def test_it_closes_the_last_of_several_steps_with_markers() -> None:
    marks = [
        ("main", "train", 0, 24_200, {"_r": 1, "step_num": 1}),
        ("main", "train", 100_000, 24_200, {"_r": 1, "step_num": 2}),
    ]
    second = []
    for track, name, start, dur, *stats in [*BATCH, *ENDING]:
        number = {"correlation_id": stats[0]["correlation_id"] + 20} if stats else None
        second.append(
            (track, name, start + 100_000, dur, *([number] if number else ()))
        )
    profile = profile_of(*marks, *BATCH, *second)
    assert bounds_ms(profile)[-1] == (100.0, 136.002, False)


@pytest.mark.parametrize(
    "lines",
    [
        # Nothing is written.
        [*BATCH],
        # Training goes on after a checkpoint.
        [*BATCH, written(40_000, "SaveV2"), ("main", CALL, 50_000, 20_000)],
        # The program does the same in every step.
        [
            ("main", "train", 0, 400, {"_r": 1, "step_num": 1}),
            written(100),
            ("main", "train", 1_000, 400, {"_r": 1, "step_num": 2}),
            ("main", CALL, 1_050, 300),
            written(1_500),
        ],
        # No call of a step is known, so all ops may be the step's.
        [STEP_LINE, *launched(1, 1_000, 1_600, 34_000), *ENDING],
    ],
)
def test_else_nothing_shows_where_training_ends(lines: list[tuple[Any, ...]]) -> None:
    profile = profile_of(*lines)
    assert not isinstance(profile.derived("vm", recording_end), int)
