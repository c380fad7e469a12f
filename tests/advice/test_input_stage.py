"""`input.stage` over literal pipelines, on whole traces, and on real recordings."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.traces import blueprint
from tests.support.traces.pipelines import made_ahead
from tests.support.traces.training import findings, together

from stepscope.advice.engine import evaluate as all_rules
from stepscope.advice.engine import signals_of as of_profile
from stepscope.advice.rules.input_pipeline.input_waits import (
    judge_slow_stage as evaluate,
)
from stepscope.derive.facts.hosts.pipeline_stages import (
    PipelineSignals,
    Stage,
    pipeline_signals,
)
from stepscope.session import open_profile
from stepscope.unavailable import Unavailable

NO_STAGES = Unavailable(code="NO_TFDATA_EVENTS", reason="None.", remedy="Record.")


def pipeline(
    *stages: tuple[str, float],
    runs: float = 1.0,
    own_ps: float = 1e9,
    ready: float = 0.0,
) -> Any:
    """Stages from the consumer on, each with its share of a batch's time."""
    made = tuple(
        Stage(
            type=kind,
            name="::".join(name for name, _ in stages[: depth + 1]),
            depth=depth,
            percent=percent,
            runs_per_call=runs,
            mean_self_ps=own_ps,
            transparent=False,
            ready_percent=ready,
        )
        for depth, (kind, percent) in enumerate(stages)
    )
    return {
        pipeline_signals: PipelineSignals("vm", made, own_process=False, absent=None)
    }


@pytest.mark.parametrize(
    ("stages", "missing"),
    [
        (
            [("Batch", 2.0), ("Map", 90.0), ("TFRecord", 8.0)],
            ("prefetch", "parallel_map", "cache"),
        ),
        (
            [("Prefetch", 3.0), ("Batch", 2.0), ("ParallelMap", 5), ("TFRecord", 90)],
            ("parallel_read", "cache"),
        ),
        (
            [("Prefetch", 1), ("ParallelMap", 50), ("ParallelInterleave", 9)],
            ("cheaper", "cache"),
        ),
        (
            [("Prefetch", 1), ("ParallelMap", 95), ("Cache", 4)],
            ("cheaper",),
        ),
        ([("Map", 0.1), ("Prefetch", 99.9)], ("unseen",)),
        ([("Map", 0.1), ("Prefetch", 99.9), ("Filter", 0.0)], ("upstream",)),
        ([("Prefetch", 5), ("Generator", 95)], ("native_code",)),
    ],
)
def test_what_is_there_is_not_advised(
    signals_of: Any, shares: Any, stages: Any, missing: tuple[str, ...]
) -> None:
    finding = evaluate(signals_of(shares(input=3.0), pipeline(*stages)))
    assert (finding.status, finding.severity) == ("fail", "critical")
    assert finding.because == missing
    assert {one.cause for one in finding.actions} == set(missing)
    assert finding.explained_by == ("input.bound",)
    assert finding.parts[0].share_percent == max(share for _, share in stages)


def test_a_brief_function_per_element_is_to_be_vectorised(
    signals_of: Any, shares: Any
) -> None:
    stages = [("Prefetch", 1.0), ("ParallelMap", 60.0), ("Cache", 1.0)]
    for own_ps, expected in ((40e6, True), (60e6, False)):
        signals = signals_of(
            shares(input=3.0), pipeline(*stages, runs=16, own_ps=own_ps)
        )
        because = evaluate(signals).because
        assert ("vectorise" in because) == expected


def test_a_loader_in_the_process_of_the_steps_lacks_workers(
    signals_of: Any, shares: Any
) -> None:
    loader = PipelineSignals(None, (), own_process=True, absent=NO_STAGES)
    signals = signals_of(shares(input=3.0), {pipeline_signals: loader})
    assert evaluate(signals).because == ("workers",)


def test_steps_that_do_not_wait_have_no_slow_stage(
    signals_of: Any, shares: Any
) -> None:
    signals = signals_of(shares(input=0.1), pipeline(("Map", 99.0)))
    assert evaluate(signals).status == "not_applicable"


@pytest.mark.parametrize(
    ("waits", "copies", "status"),
    [(3.0, 0.0, "fail"), (0.4, 3.0, "not_applicable"), (0.5, 3.0, "fail")],
)
def test_a_stage_is_slow_only_where_its_batch_is_waited_for(
    signals_of: Any, shares: Any, waits: float, copies: float, status: str
) -> None:
    known = pipeline(("Map", 90.0))
    found = evaluate(signals_of(shares(input=waits, copy_in=copies), known))
    assert found.status == status


def test_without_stages_it_cannot_tell(signals_of: Any, shares: Any) -> None:
    nothing = PipelineSignals(None, (), own_process=False, absent=NO_STAGES)
    signals = signals_of(shares(input=3.0), {pipeline_signals: nothing})
    assert evaluate(signals).unavailable == NO_STAGES
    assert evaluate(signals_of()).status == "cannot_tell"


def mapped(stage: str, *, track: str, fetch_us: float, map_us: float) -> list[Any]:
    """B1s whose batches come from one map, on the consumer's thread or on another."""
    lines = together(fetch_us=fetch_us)
    for line in list(lines):
        if line[1] != "IteratorGetNext":
            continue
        begin = line[2]
        lines += [
            ("main", "Iterator::Root", begin + 1.0, fetch_us - 2.0),
            ("main", "Iterator::Root::Batch", begin + 2.0, fetch_us - 4.0),
            (track, f"Iterator::Root::Batch::{stage}", begin + 3.0, map_us),
        ]
    return lines


def test_a_sequential_map_is_named() -> None:
    lines = mapped("Map", track="main", fetch_us=3_000.0, map_us=2_600.0)
    finding = findings(lines)["input.stage"]
    assert (finding.status, finding.severity) == ("fail", "critical")
    assert finding.parts[0].name == "Iterator::Root::Batch::Map"
    assert finding.value == pytest.approx(100 * 2_600 / 2_998, abs=0.5)
    assert {"prefetch", "parallel_map"} <= set(finding.because)


def test_threads_that_work_ahead_are_not_blamed() -> None:
    lines = mapped("ParallelMapV2", track="pool", fetch_us=40.0, map_us=2_600.0)
    assert findings(lines)["input.stage"].status == "not_applicable"


def test_without_iterators_it_cannot_tell() -> None:
    lines = mapped("Map", track="main", fetch_us=3_000.0, map_us=2_600.0)
    found = findings(lines, without="iterators")["input.stage"]
    assert found.status == "cannot_tell"


@pytest.mark.parametrize(
    ("name", "stage", "missing"),
    [
        ("input_bound", "ParallelMapV2", ("cheaper", "cache")),
        ("sequential_map", "Map", ("prefetch", "parallel_map", "cache")),
    ],
)
def test_real_pipelines_are_told_what_they_lack(
    name: str, stage: str, missing: tuple[str, ...], shared_profile: Any
) -> None:
    profile = open_profile(shared_profile(f"tf_cpu/{name}"))
    (finding,) = (
        one for one in all_rules(of_profile(profile)) if one.id == "input.stage"
    )
    assert finding.parts[0].name.endswith(f"::{stage}")
    assert finding.because == missing


@pytest.mark.parametrize(("earlier", "ready"), [(0, 0.0), (400, 100.0)])
def test_whether_what_is_fetched_ahead_lay_ready_is_seen(
    earlier: float, ready: float
) -> None:
    """A call of 300 µs takes what was made meanwhile, or 100 µs before it began."""
    signals = of_profile(blueprint.profile(blueprint.trace(made_ahead(earlier))))
    share = {it.type: it.ready_percent for it in signals.of(pipeline_signals).stages}
    assert share == {"Prefetch": ready, "Map": 0.0}


@pytest.mark.parametrize(("ready", "practice"), [(49.0, "upstream"), (51.0, "ready")])
def test_a_batch_that_lay_ready_is_not_said_to_come_too_slowly(
    signals_of: Any, shares: Any, ready: float, practice: str
) -> None:
    """The page of the pipeline said that nothing upstream held the batch up."""
    given = pipeline(("Map", 0.1), ("Prefetch", 99.9), ("Filter", 0.0), ready=ready)
    finding = evaluate(signals_of(shares(input=3.0), given))
    assert finding.because == (practice,)
    late = [it for it in finding.actions if "too slow" in it.text]
    assert bool(late) == (practice == "upstream")
