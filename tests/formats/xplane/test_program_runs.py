"""Runs of programs on cores, and the calls of the host that queued them."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.xspace.literal import event, line, plane, space

import stepscope
from stepscope.derive.account.naming import naming
from stepscope.derive.account.time_by_cause import account
from stepscope.derive.device.correlation import correlation
from stepscope.derive.steps.chosen import activity_steps
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.derive.profile_data import ProfileData

MS = 10**9
QUEUES = "DoEnqueueProgram"
MAIN = 1
ENQUEUING = 2


@pytest.fixture
def profile(tmp_path: Path) -> Any:
    def of(*planes: Any) -> ProfileData:
        path = tmp_path / "vm.xplane.pb"
        path.write_bytes(space(*planes))
        return stepscope.open(path)

    return of


def queued(run: int, at: int, *, device: int = 0) -> Any:
    return event(QUEUES, at, MS // 10, run_id=run, device_ordinal=device)


def tpu(device: int, runs: list[tuple[int | None, int, int]], *ops: Any) -> Any:
    """One core: id, begin and end of each run, and its ops."""
    modules = [
        event(
            "jit_f(9)", begin, end - begin, **({} if run is None else {"run_id": run})
        )
        for run, begin, end in runs
    ]
    return plane(
        f"/device:TPU:{device}",
        line(2, "XLA Modules", *modules),
        line(3, "XLA Ops", *ops),
    )


def calls_of_ops(profile: ProfileData) -> list[tuple[int, int, int | None]]:
    """Device and begin of each op, and the begin of the call that it came from."""
    activity, launches = (
        profile.table("vm", name) for name in ("device_activity", "launches")
    )
    found = profile.derived("vm", correlation)
    assert not isinstance(activity, Unavailable)
    assert not isinstance(launches, Unavailable)
    assert not isinstance(found, Unavailable)
    called = launches["start_ps"].to_list()
    return [
        (device, start, None if launch < 0 else called[launch])
        for device, start, launch in zip(
            activity["device"],
            activity["start_ps"],
            found.launch_of_activity.tolist(),
            strict=True,
        )
    ]


def test_all_ops_of_a_run_come_from_the_call_that_queued_it(profile: Any) -> None:
    found = profile(
        tpu(
            0,
            [(1, 100, 200), (2, 300, 400)],
            event("%a", 100, 50),
            event("%b", 150, 50),
            event("%outside", 250, 10),
            event("%a", 300, 100),
        ),
        # Runs are numbered device by device.
        tpu(1, [(1, 120, 220)], event("%a", 120, 100)),
        plane(
            "/host:CPU",
            line(
                ENQUEUING,
                "tfrt-non-blocking-queue",
                queued(1, 10, device=1),
                queued(1, 20),
                queued(2, 30),
                # What is told when a run is done has its id, too.
                event("CompleteCallbacks", 210, 5, run_id=1, device_ordinal=0),
            ),
        ),
    )
    assert calls_of_ops(found) == [
        (0, 100, 20),
        (0, 150, 20),
        (0, 250, None),
        (0, 300, 30),
        (1, 120, 10),
    ]
    launches = found.table("vm", "launches")
    names = found.table("vm", "event_types")["name"]
    assert [names[row] for row in launches["type"]] == [QUEUES] * 3
    assert launches["start_ps"].to_list() == [10, 20, 30]


def test_a_run_without_its_call_has_none(profile: Any) -> None:
    host = plane("/host:CPU", line(ENQUEUING, "queue", queued(2, 30)))
    found = profile(
        tpu(
            0,
            [(1, 100, 200), (None, 200, 300), (2, 300, 400)],
            event("%a", 100, 50),
            event("%b", 200, 50),
            event("%c", 300, 50),
        ),
        host,
    )
    assert calls_of_ops(found) == [(0, 100, None), (0, 200, None), (0, 300, 30)]


@pytest.mark.parametrize("run", [None, 1])
def test_where_no_call_has_an_id_calls_are_unknown(profile: Any, run: Any) -> None:
    found = profile(
        tpu(0, [(run, 100, 200)], event("%a", 100, 50)),
        plane("/host:CPU", line(MAIN, "main", event("train", 0, 50))),
    )
    absent = found.table("vm", "launches")
    assert isinstance(absent, Unavailable)
    assert absent.code == "NOT_RECORDED"


def test_the_host_says_why_a_core_waits_for_its_next_run(profile: Any) -> None:
    """Three runs of 2 ms, each queued after 5 ms of `load`, and begun 0.2 ms later."""
    begins = [0, 8 * MS, 16 * MS]
    runs = [(k, at + 5 * MS, at + 7 * MS) for k, at in enumerate(begins)]
    found = profile(
        tpu(0, runs, *(event("%a", begin, end - begin) for _, begin, end in runs)),
        plane(
            "/host:CPU",
            line(
                MAIN,
                "main",
                *(event("$train.py:12 load", at, 48 * MS // 10) for at in begins),
            ),
            line(ENQUEUING, "queue", *(queued(k, b - MS // 5) for k, b, _ in runs)),
        ),
    )
    charged = found.derived("vm", account)
    (one,) = charged.devices
    # Windows begin with the first run: after two of them nothing runs for 1 ms, and
    # `load` for 4.8, and then the call is on its way for 0.2.
    assert {owner: spans.length_ps for owner, spans in one.idle.items() if spans} == {
        "between": 2 * MS,
        "host_compute": 2 * 48 * MS // 10,
        "launch": 2 * MS // 5,
    }
    loads = one.idle["host_compute"]
    names = found.derived("vm", naming).named_parts(one, "host_compute", loads)
    assert {name.name for name, _ in names} == {"load"}
    assert charged.missing.keys().isdisjoint({"host_compute", "launch", "queued"})


def test_a_run_that_ends_in_the_next_step_of_another_core_keeps_its_step(
    profile: Any,
) -> None:
    """Two cores run 12 times 6 ms of waiting and 4 of computing, one 2 ms behind."""

    def core(device: int, late: int) -> Any:
        begins = [run * 10 * MS + late for run in range(12)]
        ops = [
            op
            for at in begins
            for op in (
                event("%copy-done = f32[8] copy-done", at, 6 * MS),
                *(event("%a = f32[8] add", at + k * MS, MS) for k in range(6, 10)),
            )
        ]
        runs = [(k, at, at + 10 * MS) for k, at in enumerate(begins)]
        return tpu(device, runs, *ops)

    calls = [
        queued(k, (2 * k + device) * MS // 5, device=device)
        for k in range(12)
        for device in (0, 1)
    ]
    found = profile(
        core(0, 4 * MS),
        core(1, 6 * MS),
        plane("/host:CPU", line(ENQUEUING, "queue", *calls)),
    )
    steps = [step for step in found.tool("pod_viewer").steps if step.counted]
    assert len(steps) >= 10
    assert {step.start_skew_ms for step in steps} == {2.0}


def test_a_run_that_begins_early_and_ends_late_keeps_its_step(profile: Any) -> None:
    """One run of core 1 begins 0.1 ms before core 0's, and ends 0.2 ms after it."""

    def core(device: int, begins: list[int]) -> Any:
        runs = list(pairwise(begins))
        ops = [
            op
            for at, end in runs
            for op in (
                event("%copy-done = f32[8] copy-done", at, 6 * MS),
                event("%a = f32[8] add", at + 6 * MS, end - at - 6 * MS),
            )
        ]
        return tpu(device, [(k, *run) for k, run in enumerate(runs)], *ops)

    begins = [k * 10 * MS + 4 * MS for k in range(13)]
    moved = list(begins)
    moved[5] -= MS // 10
    moved[6] += MS // 5
    calls = [
        queued(k, (2 * k + device) * MS // 5, device=device)
        for k in range(12)
        for device in (0, 1)
    ]
    found = profile(
        core(0, begins),
        core(1, moved),
        plane("/host:CPU", line(ENQUEUING, "queue", *calls)),
    )
    told = found.derived("vm", activity_steps)
    call = found.derived("vm", correlation).launch_of_activity
    by_call = {
        (one, step) for one, step in zip(call.tolist(), told.tolist(), strict=True)
    }
    assert len(by_call) == len({one for one, _ in by_call}) == 24
