"""What is said, and advised, where worker processes make what steps wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.traces import blueprint
from tests.support.traces.training import cores, on_host
from tests.support.traces.waiting import GET, uneven_tasks, waiting

from stepscope.advice.engine import signals_of as signals_of_profile
from stepscope.advice.rules.idle_gaps.gaps import judge_waits
from stepscope.advice.rules.input_pipeline import input_waits
from stepscope.derive.facts.evidence import Part
from stepscope.derive.facts.hosts.pipeline_stages import (
    PipelineSignals,
    pipeline_signals,
)
from stepscope.derive.facts.hosts.worker_processes import (
    LoaderWorkers,
    WorkerTime,
    loader_workers,
    machine_cores,
    worker_time,
)
from stepscope.reporting.words.findings import finding_headline, lead_sentence
from stepscope.unavailable import require_available

if TYPE_CHECKING:
    from stepscope.advice.finding import Finding

AUGMENT = Part(
    name="augment",
    function="augment",
    file="/app/data.py",
    line=41,
    share_percent=82.0,
    inclusive=True,
)


def time_of(**fields: Any) -> WorkerTime:
    return WorkerTime(
        **{
            "workers": 2,
            "waits_percent": 3.0,
            "functions": (AUGMENT,),
            "most": AUGMENT,
            "idle_percent": 0.0,
            **fields,
        }
    )


@pytest.fixture
def judged(signals_of: Any, shares: Any, fetching_of: Any) -> Any:
    """The finding about steps that wait 3 of 10 ms for a loader with workers."""

    def judge(
        counted: LoaderWorkers | None,
        time: WorkerTime | None,
        *,
        loader: bool = True,
        usable: int | None = None,
    ) -> Finding:
        one = shares(input=3.0)
        given = {
            loader_workers: {} if counted is None else {one.host: counted},
            worker_time: {} if time is None else {one.host: time},
            machine_cores: {} if usable is None else {one.host: usable},
        }
        fetching = fetching_of(parallel=loader, ahead=loader)
        return input_waits.judge_input_wait(signals_of(one, given, fetching=fetching))

    return judge


def advised(finding: Finding) -> str:
    return " ".join(f"{one.text} {one.code}" for one in finding.actions)


def test_the_workers_function_is_named_and_to_be_made_cheaper(judged: Any) -> None:
    finding = judged(LoaderWorkers(2, 2, used=1.9, full=True), time_of())
    assert finding.workers == (AUGMENT,)
    # The account of the step knows nothing of it.
    assert finding.share_percent == 30.0
    assert AUGMENT not in finding.parts
    assert lead_sentence(finding) == (
        "Input-bound: waiting for data takes 30.0 % of the time, 3.00 ms a step; "
        "worker processes spend 82.0 % of their time in `augment` (data.py:41)."
    )
    assert finding_headline(finding).endswith(
        "Worker processes that produce batches: 2, on 2 cores. They spend 82.0 % of "
        "their time in `augment` (data.py:41), and 3.0 % waiting for work."
    )
    assert finding.actions[0].text == (
        "Make the work of the worker processes cheaper, most of which is in `augment` "
        "(data.py:41): do this work once before training, on whole batches, or on the "
        "device."
    )
    assert "no core is free" in finding.actions[1].text
    assert "num_workers" not in advised(finding)


@pytest.mark.parametrize(
    ("workers", "used", "full", "wanted"),
    [
        # Two of eight cores compute: a worker for each core.
        (2, 1.9, False, 8),
        # All cores are in use, whoever uses them.
        (2, 1.9, True, None),
        (8, 7.5, False, None),
        # They wait for a disk: twice as many, and at least one for each core.
        (2, 0.1, False, 8),
        (8, 0.5, False, 16),
        # Where nobody read their processor time, one for each core.
        (2, None, None, 8),
        (9, None, None, None),
    ],
)
def test_so_many_workers_are_advised_as_there_is_room_for(
    judged: Any, workers: int, used: float | None, *, full: bool | None, wanted: Any
) -> None:
    counted = LoaderWorkers(workers, 8, used, full)
    for time in (None, time_of()):
        text = advised(judged(counted, time))
        if wanted is None:
            assert "num_workers" not in text
        else:
            assert f"num_workers={wanted}," in text


def test_workers_that_wait_for_a_disk_are_to_be_more_first(judged: Any) -> None:
    finding = judged(LoaderWorkers(2, 2, used=0.1, full=False), time_of())
    assert "num_workers=4" in (finding.actions[0].code or "")
    assert "`augment`" in finding.actions[1].text


def test_batches_that_were_ready_need_no_more_workers(judged: Any) -> None:
    """No worker was at work in three quarters of the wait, and there are cores."""
    counted = LoaderWorkers(2, 8, used=0.4, full=False)
    finding = judged(counted, time_of(idle_percent=75.0))
    assert "num_workers" not in advised(finding)
    assert "transfer of batches from the workers" in finding.actions[0].text
    assert "the batches were ready" in finding_headline(finding)
    assert "75.0 %" in finding_headline(finding)
    # What they do in other time is not what the step waits for.
    assert finding.workers == ()
    assert "augment" not in lead_sentence(finding)
    near = judged(counted, time_of(idle_percent=49.0))
    assert "num_workers=8" in advised(near)


def test_workers_without_a_function_that_stands_out_are_counted(judged: Any) -> None:
    time = time_of(most=None, functions=())
    finding = judged(LoaderWorkers(2, 2, used=1.9, full=True), time)
    assert finding_headline(finding).endswith(
        "Worker processes that produce batches: 2, on 2 cores."
    )
    assert "produced in parallel" in finding.actions[0].text


def test_a_pool_that_no_loader_tells_of_makes_the_batches_where_it_works(
    judged: Any,
) -> None:
    counted = LoaderWorkers(2, 2, used=1.9, full=True)
    assert "`augment`" in advised(judged(counted, time_of(), loader=False))
    # An idle pool says nothing of how batches are made.
    idle = time_of(most=None, functions=(), waits_percent=100.0, idle_percent=100.0)
    finding = judged(counted, idle, loader=False)
    assert "num_workers" in advised(finding)
    assert "worker processes are idle" not in advised(finding)


@pytest.mark.parametrize(("usable", "wanted"), [(2, 2), (8, 8), (64, 8), (None, 8)])
def test_no_more_workers_are_advised_than_cores(
    judged: Any, signals_of: Any, shares: Any, usable: int | None, wanted: int
) -> None:
    text = advised(judged(None, None, loader=False, usable=usable))
    assert f"num_workers={wanted}," in text
    assert f"worker_count={wanted}," in text
    one = shares(input=3.0)
    given = {
        machine_cores: {} if usable is None else {one.host: usable},
        pipeline_signals: PipelineSignals(None, (), own_process=True, absent=None),
    }
    stage = input_waits.judge_slow_stage(signals_of(one, given))
    assert f"num_workers={wanted}," in advised(stage)


def test_a_step_that_waits_for_a_pool_names_what_the_pool_does() -> None:
    """Of the 200 ms that are judged they simulate for 180."""
    line = "samples beside the steps of worker process Process-1, 50 a second"
    looks = [(line, "$/app/sim.py:7 simulate", 0.0, 180_000.0)]
    looks += [(line, GET.replace("queue.py", "multiprocessing/queues.py"), 180e3, 20e3)]
    counted: Any = {
        "worker processes": 1.0,
        "worker processes CPU (percent)": 5.0,
        "CPU pressure (percent)": 10.0,
    }
    lines = [*waiting(inner=GET), *looks, *cores(2, busy=20.0, **counted)]
    finding = judge_waits.evaluate(
        signals_of_profile(blueprint.profile(blueprint.trace(lines)))
    )
    assert lead_sentence(finding) == (
        "Waiting takes 38.0 % of the step: `take_batch` (train.py:41) waits in "
        "`Queue.get` while worker processes of the program spend 90.0 % of their time "
        "in `simulate` (sim.py:7)."
    )
    assert "in `simulate` (sim.py:7)" in finding.actions[0].text


def test_one_task_that_takes_longer_than_the_others_is_an_imbalance() -> None:
    """2.85 of 3.8 ms are 75 %."""
    trace = blueprint.trace(uneven_tasks())
    finding = judge_waits.evaluate(signals_of_profile(blueprint.profile(trace)))
    assert lead_sentence(finding) == (
        "Waiting takes 38.0 % of the step: `take_batch` (train.py:41) waits in "
        "`Queue.get` while one of 4 worker processes works (`simulate` (sim.py:7)) and "
        "the others have finished their tasks."
    )
    facts = {fact.name: fact.value for fact in finding.facts}
    assert facts["one_works"] == pytest.approx(75.0, abs=0.1)
    assert "Divide the longest task" in finding.actions[0].text


def test_usable_cores_are_those_that_the_recording_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trace = blueprint.trace([*on_host(), *cores(4)])
    assert blueprint.profile(trace).of_run(machine_cores) == {"vm": 4}
    environment = require_available(trace.table("environment")).with_columns(cores=2)
    known = trace.table
    monkeypatch.setattr(
        trace,
        "table",
        lambda name: environment if name == "environment" else known(name),
    )
    assert blueprint.profile(trace).of_run(machine_cores) == {"vm": 2}
