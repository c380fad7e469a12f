"""Stored steps whose parts on several devices lie apart, and those that do not."""

from __future__ import annotations

from typing import Any

from tests.support.traces import blueprint

from stepscope.derive.account.time_by_cause import Account, account
from stepscope.derive.consistency import consistency
from stepscope.derive.step_windows.windows import Windows, windows

US = 1_000_000


def spans_us(found: Windows) -> list[tuple[float, float]]:
    return [
        (start / US, end / US)
        for start, end in found.rows.select("start_ps", "end_ps").iter_rows()
    ]


def in_turn(begins: tuple[float, ...]) -> list[tuple[Any, ...]]:
    """One step that device k runs for 100 from begins[k] on, 60 of it a kernel."""
    return [
        line
        for device, at in enumerate(begins)
        for line in (
            (f"gpu:{device}/7(Compute)", "gemm", at, 60, {"group_id": 0}),
            (f"gpu:{device}/Steps", "0", at, 100, {"group_id": 0}),
        )
    ]


def test_parts_of_a_step_that_a_hole_divides_are_no_one_period() -> None:
    """Two devices whose parts lie 5 ms apart did not work on the step together."""
    run = blueprint.profile(blueprint.trace(in_turn((0, 5_100))))
    found = run.derived("vm", windows)
    assert isinstance(found, Windows)
    assert spans_us(found) == [(0, 100)]
    (note,) = [
        one for one in run.derived("vm", consistency) if one.kind == "steps_apart"
    ]
    assert "5 ms apart" in note.message
    assert "device 1 is outside" in note.message
    owned = run.derived("vm", account)
    assert isinstance(owned, Account)
    # The other device did nothing in this window: it says nothing of the step.
    assert [one.device for one in owned.devices] == [0]


def test_devices_that_take_turns_work_on_one_step() -> None:
    run = blueprint.profile(blueprint.trace(in_turn((0, 100, 250))))
    found = run.derived("vm", windows)
    assert isinstance(found, Windows)
    assert spans_us(found) == [(0, 350)]
    kinds = {one.kind for one in run.derived("vm", consistency)}
    assert "steps_apart" not in kinds
