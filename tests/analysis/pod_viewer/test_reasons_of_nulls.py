"""Why fields of a pod are null, from results in which every field is null."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import polars as pl
import pytest
from tests.support.traces.literal import ABSENT, OTHER

from stepscope.analysis.pod_viewer import PodViewerResult
from stepscope.analysis.pod_viewer.comparison import SlowestWorker
from stepscope.analysis.pod_viewer.gaps import pod_gaps
from stepscope.analysis.pod_viewer.result import Clock, PodStep, Worker, WorkerSummary
from stepscope.analysis.results.tables import package_reasons
from stepscope.derive.step_time.owners import OWNERS
from stepscope.unavailable import Unavailable

WHY = package_reasons("pod_viewer")
LOST = Unavailable(code="LOST_EVENTS", reason="Some are lost.", remedy="Record less.")
#: A host whose devices could be analysed.
ROWS = pl.DataFrame({f"{owner.name}_ps": [1] for owner in OWNERS})
BUSY = SimpleNamespace(has_device=True, missing={}, rows=ROWS)


def nulls(kind: Any, **known: Any) -> Any:
    """A result of this kind in which nothing else is known."""
    return kind(**dict.fromkeys(kind.__struct_fields__) | known)


def pod(
    *sources: str, workers: int = 2, in_lock_step: bool = True, **known: Any
) -> PodViewerResult:
    of_step = tuple(nulls(Worker) for _ in range(workers))
    result: PodViewerResult = nulls(
        PodViewerResult,
        workers=tuple(nulls(WorkerSummary) for _ in range(workers)),
        steps=(nulls(PodStep, workers=of_step),),
        clocks=tuple(nulls(Clock, source=source) for source in sources),
        in_lock_step=in_lock_step,
        missing=(),
    )
    return msgspec.structs.replace(result, **known)


def reasons(
    result: PodViewerResult,
    slowest: Any = OTHER,
    *,
    hosts: Any = (BUSY,),
    calls: int = 1,
    no_calls: Any = None,
    absent: Any = None,
) -> dict[str, Unavailable]:
    """The reason by field; no field has two."""
    why: Any = SimpleNamespace(calls=range(calls), absent=no_calls or {})
    found = pod_gaps(result, hosts=hosts, absent=absent or {}, slowest=slowest, why=why)
    by_field = {
        one.field: Unavailable(code=one.code, reason=one.reason, remedy=one.remedy)
        for one in found
    }
    assert len(by_field) == len(found)
    return by_field


TIED = ("reference", "collectives")
KNOWN = nulls(SlowestWorker)


@pytest.mark.parametrize(
    ("result", "slowest", "of_step", "of_skew", "of_names"),
    [
        (pod(*TIED), OTHER, WHY["not_compared"], WHY["not_compared"], WHY["alike"]),
        (pod(*TIED), KNOWN, WHY["not_compared"], WHY["not_compared"], WHY["alike"]),
        (pod(*TIED), LOST, LOST, LOST, LOST),
        (pod(*TIED, workers=1), OTHER, OTHER, OTHER, OTHER),
        (pod(*TIED, in_lock_step=False), OTHER, OTHER, OTHER, OTHER),
        (pod(*TIED, in_lock_step=False), KNOWN, *[WHY["not_compared"]] * 3),
        (pod("none", "steps", in_lock_step=False), OTHER, OTHER, OTHER, OTHER),
        (
            pod("reference", "none", "steps"),
            *(OTHER, WHY["not_compared"], WHY["not_tied"], WHY["alike"]),
        ),
        (
            pod("reference", "steps"),
            *(OTHER, WHY["not_compared"], WHY["tied_by_steps"], WHY["alike"]),
        ),
    ],
)
def test_why_steps_are_not_compared(
    result: PodViewerResult,
    slowest: Any,
    of_step: Unavailable,
    of_skew: Unavailable,
    of_names: Unavailable,
) -> None:
    found = reasons(result, slowest)
    assert {found["imbalance"], found["steps.imbalance"]} == {of_step}
    for name in ("start_skew_ms", "steps.start_skew_ms", "steps.start_skew_doubt_ms"):
        assert found[name] == of_skew
    for name in ("slowest", "slowest_by", "fastest"):
        assert found[f"steps.{name}"] == of_names
    assert found.get("slowest") == (slowest if slowest is not KNOWN else None)


def test_one_step_that_names_nobody_is_enough_to_be_alike() -> None:
    two = (nulls(Worker), nulls(Worker))
    named = nulls(PodStep, workers=two, slowest="b", start_skew_ms=1.0)
    steps = (named, nulls(PodStep, workers=two), nulls(PodStep, workers=two[:1]))
    found = reasons(pod("recorded", steps=steps))
    assert found["steps.slowest"] == WHY["alike"]
    # The error of a start is unknown where clocks were not checked.
    assert found["steps.start_skew_doubt_ms"] == WHY["not_checked"]
    assert found["steps.start_skew_ms"] == WHY["not_compared"]
    alone = reasons(pod("recorded", steps=(named, steps[2])))
    assert alone["steps.slowest"] == WHY["not_compared"]


@pytest.mark.parametrize(
    ("sources", "doubt"),
    [
        (("reference", "recorded"), "not_checked"),
        (("reference", "recorded", "none"), "not_tied"),
        (("reference", "steps"), "tied_by_steps"),
    ],
)
def test_why_the_error_of_a_clock_is_unknown(
    sources: tuple[str, ...], doubt: str
) -> None:
    found = reasons(pod(*sources))
    assert {found[f"clocks.{name}"] for name in ("doubt_us", "bound_us")} == {
        WHY[doubt]
    }
    assert found["clocks.shift_us"] == WHY["not_tied"]
    assert found["clocks.offset_us"] == WHY["no_offset"]
    assert found["processes"] == WHY["not_said"]
    for name in ("steps.step", "steps.workers.step"):
        assert found[name] == WHY["no_step_number"]
    assert found["steps.workers.aligned_start_ms"] == WHY["not_tied"]


IDLE = SimpleNamespace(has_device=False, missing={}, rows=ROWS)
UNREAD = SimpleNamespace(has_device=False, missing={"collective": ABSENT}, rows=ROWS)
WAITS = (
    *("collective_wait_ms", "collective_transfer_ms", "collective_untold_ms"),
    "waited_for_ms",
)


@pytest.mark.parametrize(
    ("hosts", "calls", "no_calls", "of_waits", "of_device"),
    [
        ((IDLE, BUSY), 2, {"a": ABSENT}, WHY["no_partner"], WHY["no_activity"]),
        ((BUSY,), 0, {"a": ABSENT, "b": OTHER}, ABSENT, WHY["no_activity"]),
        ((BUSY,), 0, {}, WHY["no_partner"], WHY["no_activity"]),
        ((IDLE,), 0, {"a": ABSENT}, WHY["no_device"], WHY["no_device"]),
        ((IDLE, UNREAD), 2, {}, ABSENT, ABSENT),
    ],
)
def test_why_work_and_waits_of_devices_are_unknown(
    hosts: Any, calls: int, no_calls: Any, of_waits: Any, of_device: Any
) -> None:
    found = reasons(
        pod(*TIED, slowest=KNOWN), KNOWN, hosts=hosts, calls=calls, no_calls=no_calls
    )
    for place in ("workers", "steps.workers"):
        assert {found[f"{place}.{name}"] for name in WAITS} == {of_waits}
        for name in ("device", "device_work_ms", "device_step_time_ms"):
            assert found[f"{place}.{name}"] == of_device
    assert found["slowest.waited_for_ms"] == of_waits
    assert found["slowest.cause"] == WHY["nowhere_more"]
    no_device = of_device if BUSY not in hosts else WHY["no_device"]
    assert found["slowest.device"] == found["steps.workers.chip_id"] == no_device
    # Workers are compared by the work of their devices.
    if BUSY not in hosts:
        assert found["imbalance"] == no_device
    else:
        assert found["imbalance"] == WHY["not_compared"]


def test_hosts_and_categories_that_are_left_out() -> None:
    other = SimpleNamespace(
        has_device=True,
        missing={"input": OTHER, "copy_in": ABSENT, "compile": ABSENT},
        rows=ROWS.with_columns(input_ps=0, copy_in_ps=0, compile_ps=2),
    )
    found = reasons(pod(*TIED), hosts=(BUSY, other), absent={"c": ABSENT, "d": OTHER})
    assert found["workers[c]"] == ABSENT
    assert found["workers[d]"] == OTHER
    left_out = {name: why for name, why in found.items() if "breakdown_ms." in name}
    assert left_out == {
        f"{place}.breakdown_ms.input": ABSENT for place in ("workers", "steps.workers")
    }
    # Of what is known no reason is given.
    assert "hosts_matched_by" not in found
    full = reasons(pod(*TIED, processes=3, imbalance=0.5, start_skew_ms=0.0))
    assert not {"processes", "imbalance", "start_skew_ms"} & full.keys()
