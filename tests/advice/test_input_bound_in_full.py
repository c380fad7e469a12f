"""Every number of `input.bound` over literal accounts, worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest
from tests.advice.conftest import (
    MS,
    NOT_RECORDED,
    US,
    fetching_of,
    shares,
    signals_of,
)

from stepscope.advice.catalogue import rule_item
from stepscope.advice.judging.worker_processes import (
    WorkerProcesses,
    fit_worker_numbers,
    worker_processes,
)
from stepscope.advice.registry import RULES
from stepscope.derive.facts.evidence import Part
from stepscope.derive.facts.hosts.batch_fetches import input_decision
from stepscope.derive.facts.hosts.batch_production import (
    LoaderCalls,
    ProductionWaits,
    PythonElements,
    loader_calls,
    made_elsewhere,
    made_in_own_threads,
    python_elements,
)
from stepscope.derive.facts.hosts.pipeline_stages import (
    PipelineSignals,
    Stage,
    pipeline_signals,
)
from stepscope.derive.facts.hosts.worker_processes import (
    LoaderWorkers,
    WorkerTime,
    loader_workers,
    machine_cores,
    worker_time,
)
from stepscope.derive.facts.step_shares import AccountSignals, NamedTime
from stepscope.derive.verdicts.recorded_devices import DeviceSignals

ITEM = rule_item("input.bound")
RULE = {rule.item.id: rule for rule in RULES}
MAKE = Part(name="make", function="make", file="d.py", line=4, share_percent=60.0)
READ = Part(name="read", function="read", file="d.py", line=9, share_percent=20.0)


def judged(
    account: Any = None, known: Any = None, rule: str = "input.bound", **given: Any
) -> Any:
    """Steps of 10 ms that wait for 3 ms, unless told."""
    one = account or shares(input=3.0)
    fetching = fetching_of(**given)
    return RULE[rule].evaluate(signals_of(one, known or {}, fetching=fetching))


def facts_of(finding: Any) -> dict[str, float]:
    return {fact.name: fact.value for fact in finding.facts if fact.value is not None}


def actions_of(*facts: str, cause: str = "fetch") -> Any:
    return ITEM.actions_for(cause, *facts)


ALONE = actions_of("one_by_one", "cacheable")


# --- the decision ---


@pytest.mark.parametrize(
    ("device", "missing", "unexplained", "recorded", "unknown_ms"),
    [
        # Of 10 ms 2 unexplained may be waits; less may be, if waits are unknown.
        (0, (), 2.0, True, 20.0),
        (0, (), 1.9, True, 0.0),
        (0, ("input",), 1.9, True, 19.0),
        (0, ("copy_in",), 1.9, True, 19.0),
        (0, ("output",), 1.9, True, 0.0),
        (None, ("input",), 1.9, True, 19.0),
        (None, ("copy_in",), 1.9, True, 0.0),
        # Without a fetch, so may time between steps, but for that of known silence.
        (0, (), 0.5, False, 12.0),
    ],
)
def test_every_field_of_the_decision(
    device: int | None,
    missing: Any,
    unexplained: float,
    unknown_ms: float,
    *,
    recorded: bool,
) -> None:
    one = shares(
        steps=10,
        device=device,
        missing=missing,
        between={"between": 1.0},
        input=0.6,
        copy_in=0.2,
        unexplained=unexplained,
        fields={"lost_ps": 7, "step_confidence": 0.9},
    )
    one.inside_ps["unfed"] = (3 * MS // 10,) * 10
    other = shares(steps=10, device=device, host="b", working_ms=1.0)
    found = input_decision(
        AccountSignals((other, one)),
        fetching_of(consumer_recorded=recorded),
        DeviceSignals(recorded="recorded"),
    )
    assert (found.host, found.device) == ("vm", device)
    assert found.unknown_ps == round(unknown_ms * MS)
    assert found.series.unknown_ps == round(unknown_ms * MS)
    assert found.series.parts_ps == {
        "fetch": (6 * MS // 10,) * 10,
        "transfer": (2 * MS // 10,) * 10,
        "starved": (3 * MS // 10,) * 10,
    }
    assert found.series.window_ps == (10 * MS,) * 10
    assert (found.series.excess_ps, found.series.step_confidence) == (7, 0.9)
    assert (found.series.step_source, found.series.closed) == ("marker", True)
    assert found.why is None


def test_without_threads_there_is_no_decision() -> None:
    account = AccountSignals((shares(input=3.0),))
    device = DeviceSignals(recorded="recorded")
    found = input_decision(account, NOT_RECORDED, device)
    assert found.why == NOT_RECORDED
    assert input_decision(account, fetching_of(), device).why is None


# --- hidden waits ---


@pytest.mark.parametrize(
    ("times", "note"),
    [
        # Eight of ten fetches above 50 µs.
        ([50.1] * 8 + [50.0] * 2, "hidden"),
        ([50.1] * 7 + [50.0] * 3, None),
        ([50.1] * 99 + [50.0] * 25, None),
        ([50.1], "hidden"),
        ([], None),
    ],
)
def test_slow_fetches_under_a_busy_device_are_hidden(
    times: list[float], note: str | None
) -> None:
    hidden = {"vm:0": tuple(us * US for us in times)}
    found = judged(shares(), hidden_fetch_ps=hidden)
    assert (found.status, found.note) == ("pass", note)
    assert found.actions == (ALONE if note else ())
    on_host = judged(shares(device=None), hidden_fetch_ps={"vm": hidden["vm:0"]})
    assert on_host.note is None
    assert judged(hidden_fetch_ps=hidden).note is None


def test_waits_that_no_fetch_was_recorded_of_are_noted() -> None:
    found = judged(shares(), consumer_recorded=False)
    assert (found.status, found.note) == ("pass", "no_fetch")
    assert judged(consumer_recorded=False).note is None
    short = judged(shares(input=0.09, step_ms=1.0), consumer_recorded=False)
    assert (short.status, short.note) == ("pass", "short")


@pytest.mark.parametrize("means", [(3.0, 5.0), ()])
def test_facts_of_fetches_and_copies(means: tuple[float, ...]) -> None:
    mean_ps = tuple(us * US for us in means)
    found = judged(mean_fetch_ps={"vm": mean_ps, "other": (9.0 * US,)})
    (fact,) = (fact for fact in found.facts if fact.name == "mean_fetch")
    assert (fact.value, fact.unit) == ((4.0 if means else None), "us")
    assert fact.note == (None if means else ITEM.note("no_fetch"))
    copies = shares(input=1.0, copy_in=0.5)
    found = judged(copies, pieces={"vm:0": 3.0})
    assert (facts_of(found)["pieces"], facts_of(found)["exposed_copies"]) == (3.0, 5.0)
    few = judged(shares(input=1.0, copy_in=0.49), pieces={"vm:0": 2.9, "vm:1": 9.0})
    assert not {"pieces", "exposed_copies"} & facts_of(few).keys()


# --- which cause is advised against ---


@pytest.mark.parametrize(
    ("waits", "copies", "causes"),
    [
        (3.0, 0.0, ("fetch",)),
        (0.0, 3.0, ("transfer",)),
        # A quarter of the largest, or the threshold of 5 %.
        (1.6, 0.4, ("fetch", "transfer")),
        (1.6, 0.39, ("fetch",)),
        (4.0, 0.5, ("fetch", "transfer")),
        (4.0, 0.49, ("fetch",)),
        (0.5, 4.0, ("transfer", "fetch")),
    ],
)
def test_causes_that_matter_are_advised_against(
    waits: float, copies: float, causes: tuple[str, ...]
) -> None:
    found = judged(shares(input=waits, copy_in=copies))
    of_cause = {
        "fetch": ALONE,
        "transfer": actions_of("batch", "pageable", "computes", cause="transfer"),
    }
    expected = tuple(action for cause in causes for action in of_cause[cause])
    assert found.actions == expected


@pytest.mark.parametrize(
    ("given", "copies", "facts"),
    [
        ({}, 3.0, ("batch", "pageable", "computes")),
        ({"pinned": frozenset({"vm:0"})}, 3.0, ("batch", "pinned", "computes")),
        ({"pinned": frozenset({"vm:1"})}, 3.0, ("batch", "pageable", "computes")),
        ({"pieces": {"vm:0": 3.0}, "pinned": frozenset({"vm:0"})}, 3.0, ("pieces",)),
        ({"pieces": {"vm:0": 2.9}}, 3.0, ("batch", "pageable", "computes")),
        ({"pinned": frozenset({"vm:0"})}, 9.95, ("batch", "pinned")),
    ],
)
def test_copies_are_advised_against_by_what_they_copy(
    given: Any, copies: float, facts: tuple[str, ...]
) -> None:
    found = judged(shares(copy_in=copies), **given)
    assert found.actions == actions_of(*facts, cause="transfer")


def test_parts_of_a_batch_that_a_loader_copies_on_the_device_are_no_weights() -> None:
    known = {made_in_own_threads: frozenset({"vm"})}
    found = judged(shares(copy_in=3.0), known, pieces={"vm:0": 9.0})
    assert "pieces" not in facts_of(found)
    assert found.actions == actions_of(
        "batch", "pageable", "computes", cause="transfer"
    )


@pytest.mark.parametrize(
    ("known", "facts"),
    [
        ({}, ("unseen", "one_by_one", "cacheable")),
        (
            {made_in_own_threads: frozenset({"vm"})},
            # The loader has its own threads: worker processes do not help.
            ("own_threads",),
        ),
        (
            {made_elsewhere: {"vm:0": {"unfed": ProductionWaits(25.0, 25.0)}}},
            ("made_elsewhere", "other_process"),
        ),
        (
            {made_elsewhere: {"vm:0": {"unfed": ProductionWaits(25.0, 24.9)}}},
            ("unseen", "one_by_one", "cacheable"),
        ),
        (
            {made_elsewhere: {"vm:0": {"fetch": ProductionWaits(90.0, 0.0)}}},
            ("unseen", "one_by_one", "cacheable"),
        ),
    ],
)
def test_silence_before_a_batch_is_its_production(
    known: Any, facts: tuple[str, ...]
) -> None:
    account = shares(unexplained=3.0)
    account.inside_ps["unfed"] = account.inside_ps["unexplained"]
    found = judged(account, known, consumer_recorded=False)
    assert found.status == "fail"
    assert found.confidence == 0.6
    assert found.actions == ITEM.actions_for("unfed", "fetch", *facts)
    waits = known.get(made_elsewhere, {}).get("vm:0", {})
    told = waits.get("fetch") or waits.get("unfed")
    assert facts_of(found).get("waits_for_sent") == (told and told.sent_percent)
    assert facts_of(found).get("waits_for_threads") == (told and told.threads_percent)


def test_only_a_silence_longer_than_fetches_is_in_doubt() -> None:
    account = shares(input=3.0, unexplained=1.0)
    account.inside_ps["unfed"] = account.inside_ps["unexplained"]
    assert judged(account).confidence == 1.0


# --- who makes the batches ---


def stage(type_: str, percent: float = 50.0, **fields: Any) -> Stage:
    usual = {"name": type_, "depth": 1, "runs_per_call": 1.0, "mean_self_ps": 1e12}
    return Stage(
        **{"type": type_, "percent": percent, "transparent": False, **usual, **fields}
    )


def pipeline(*stages: Stage, own_process: bool = False) -> dict[Any, Any]:
    return {pipeline_signals: PipelineSignals("vm", stages, own_process, None)}


def waits_for(sent: float, threads: float) -> dict[Any, Any]:
    return {made_elsewhere: {"vm:0": {"fetch": ProductionWaits(sent, threads)}}}


BOTH = {"parallel": True, "ahead": True}
AHEAD = ("ahead", "late_although_ahead", "cacheable")
PYTHON = PythonElements(90.0, MAKE)


@pytest.mark.parametrize(
    ("known", "given", "facts"),
    [
        ({}, {}, ("one_by_one", "cacheable")),
        ({}, {"parallel": True}, ("one_by_one", "cacheable")),
        ({}, {"ahead": True}, ("one_by_one", "cacheable")),
        ({}, BOTH, AHEAD),
        ({made_in_own_threads: frozenset({"vm"})}, BOTH, ("own_threads",)),
        ({made_in_own_threads: frozenset({"b"})}, BOTH, AHEAD),
        (waits_for(30.0, 20.0), {}, ("made_elsewhere", "other_process")),
        (waits_for(20.0, 30.0), {}, ("made_elsewhere", "other_thread")),
        (waits_for(25.0, 25.0), {}, ("made_elsewhere", "other_process")),
        (waits_for(25.0, 24.9), {}, ("one_by_one", "cacheable")),
        (waits_for(90.0, 0.0), BOTH, AHEAD),
        # Stages that only read are not to be transformed in parallel.
        (pipeline(stage("TFRecord")), {"ahead": True}, ("untransformed",)),
        (pipeline(stage("TFRecord")), BOTH, ("untransformed",)),
        (
            pipeline(stage("Shuffle", depth=2), stage("Prefetch", 1.0)),
            {"ahead": True},
            ("one_by_one", "cacheable"),
        ),
        (pipeline(stage("Map", depth=2)), BOTH, ("one_by_one", "cacheable")),
        (
            {python_elements: {"vm": PYTHON}},
            {},
            ("native_code", "cacheable"),
        ),
        (
            {python_elements: {"vm": PythonElements(90.0, MAKE, of_keras=True)}},
            {},
            ("asks_keras_dataset", "native_code", "cacheable"),
        ),
        ({python_elements: {"b": PYTHON}}, {}, ("one_by_one", "cacheable")),
    ],
)
def test_what_makes_batches_is_advised_by_what_it_lacks(
    known: Any, given: Any, facts: tuple[str, ...]
) -> None:
    assert judged(known=known, **given).actions == actions_of(*facts)


def of_input(name: str, ms: float, **fields: Any) -> NamedTime:
    return NamedTime("input", "inside", name, time_ps=round(ms * MS), **fields)


CALLER = of_input("function", 30.0, function="make", file="d.py", line=4)
LIBRARY = of_input("get", 6.0, function="get")


@pytest.mark.parametrize(
    ("calls", "called", "first"),
    [
        # 30 of 120 ms are in the caller; a loader calls it in half of its time.
        (None, None, 25.0),
        (50.0, None, 25.0),
        (49.9, None, None),
        (49.9, (50.0, MAKE), 15.0),
        (49.9, (49.9, MAKE), None),
        (49.9, (50.0, None), None),
        (50.0, (80.0, READ), 25.0),
    ],
)
def test_the_producer_of_batches_is_named_first(
    calls: float | None, called: Any, first: float | None
) -> None:
    """36 of 120 ms are waits: of which a half, in Python, are 15 % of the steps."""
    own = of_input("make", 9.0, function="make", file="d.py", line=4)
    account = shares(input=3.0, names=[own, LIBRARY], fields={"callers": (CALLER,)})
    known: dict[Any, Any] = {}
    if calls is not None:
        key = ("make", "d.py", 4)
        known[loader_calls] = {"vm": LoaderCalls({key: calls})}
    if called is not None:
        known[python_elements] = {"vm": PythonElements(*called)}
    found = judged(account, known)
    parts = [(part.name, part.share_percent) for part in found.parts]
    if first is None:
        assert parts == [("make", 7.5), ("get", 5.0)]
    else:
        assert parts == [("make", first), ("get", 5.0)]
    none = judged(shares(input=3.0, names=[own, LIBRARY]))
    assert [part.name for part in none.parts] == ["make", "get"]


@pytest.mark.parametrize(("ms", "cause"), [(32.4, "transfer"), (32.3, "fetch")])
def test_nine_tenths_of_a_wait_in_copy_calls_are_copies(ms: float, cause: str) -> None:
    names = [of_input("cudaMemcpyAsync", ms), of_input("get", 36 - ms)]
    found = judged(shares(input=3.0, names=names))
    assert found.causes[0].cause == cause


# --- worker processes ---


def counted(**fields: Any) -> LoaderWorkers:
    return LoaderWorkers(**{"workers": 2, "cores": 4, **fields})


def time_of(**fields: Any) -> WorkerTime:
    return WorkerTime(
        **{
            "workers": 2,
            "waits_percent": 10.0,
            "functions": (READ, MAKE),
            "most": MAKE,
            "idle_percent": None,
            **fields,
        }
    )


def processes(
    of_loader: LoaderWorkers | None = None, time: WorkerTime | None = None
) -> WorkerProcesses:
    return WorkerProcesses(of_loader, time)


def facts(workers: WorkerProcesses) -> dict[str, float]:
    return {fact.name: fact.value for fact in workers.facts() if fact.value is not None}


def test_every_field_of_worker_processes() -> None:
    nothing = processes()
    assert (nothing.functions, nothing.are_working, facts(nothing)) == ((), False, {})
    both = processes(counted(), time_of())
    assert both.functions == (MAKE, READ)
    assert both.are_working
    assert facts(both) == {
        "workers": 2,
        "cores": 4,
        "worker_share": 60.0,
        "worker_waits": 10.0,
    }
    idle = processes(None, time_of(idle_percent=50.0))
    assert idle.functions == ()
    assert facts(idle) == {"worker_waits": 10.0, "workers_idle": 50.0}
    busy = processes(None, time_of(idle_percent=49.9, most=None))
    assert busy.functions == (READ, MAKE)
    assert facts(busy) == {"worker_waits": 10.0}
    for percent, works in ((49.9, True), (50.0, False)):
        assert processes(None, time_of(waits_percent=percent)).are_working is works


@pytest.mark.parametrize(
    ("workers", "keys", "number"),
    [
        (processes(None, time_of(idle_percent=50.0)), ["send_smaller_batches"], None),
        (
            processes(counted(), time_of(idle_percent=50.0)),
            ["send_smaller_batches"],
            None,
        ),
        (processes(), ["make_cheaper"], None),
        (processes(counted(full=True)), ["make_cheaper"], None),
        (
            processes(counted(used=1.9, full=False)),
            ["add_workers", "make_batch_cheaper"],
            4,
        ),
        (
            processes(counted(used=1.9, full=False), time_of(most=None)),
            *(["add_workers", "make_batch_cheaper"], 4),
        ),
        (processes(counted(used=1.9, full=False), time_of()), ["IN", "add_workers"], 4),
        (processes(counted(used=1.9, full=True), time_of()), ["IN", "add_cores"], None),
        (processes(None, time_of()), ["IN"], None),
        # They wait for a disk: more of them come first.
        (processes(counted(used=0.1, full=False), time_of()), ["add_workers", "IN"], 4),
    ],
)
def test_what_is_advised_of_worker_processes(
    workers: WorkerProcesses, keys: list[str], number: int | None
) -> None:
    actions = workers.actions()
    cheaper = ITEM.action("make_workers_cheaper_in", place=time_of().place or "")
    expected = [cheaper if key == "IN" else ITEM.action(key) for key in keys]
    texts = [action.text for action in actions]
    assert texts == [action.text for action in expected]
    codes = [action.code or "" for action in actions]
    assert all("{workers}" not in code for code in codes)
    if number is not None:
        assert f"num_workers={number}" in codes[keys.index("add_workers")]
    given = () if workers.time is None or workers.time.most is None else (cheaper,)
    assert workers.cheaper_actions() == given


def test_workers_are_those_of_the_host() -> None:
    known = {loader_workers: {"a": counted()}, worker_time: {"b": time_of()}}
    signals = signals_of(shares(), known)
    for host, of_loader, time in (("a", True, False), ("b", False, True)):
        found = worker_processes(signals, host)
        assert found is not None
        assert (found.counted is not None, found.time is not None) == (of_loader, time)
    assert worker_processes(signals, "c") is None


@pytest.mark.parametrize(
    ("cores", "number"), [({"a": 6, "b": 3}, 3), ({"a": 99}, 8), ({}, 8)]
)
def test_at_most_as_many_workers_as_cores_are_advised(
    cores: dict[str, int], number: int
) -> None:
    signals = signals_of(shares(), {machine_cores: cores})
    loads, other = ITEM.action("load_in_workers"), ITEM.action("make_cheaper")
    found = fit_worker_numbers((other, loads), signals)
    assert found[0] == other
    assert f"num_workers={number}" in (found[1].code or "")
    assert found[1].text == loads.text
    assert fit_worker_numbers((other,), signals) == (other,)


@pytest.mark.parametrize(
    ("known", "given", "workers"),
    [
        ({worker_time: {"vm": time_of()}}, {}, (MAKE, READ)),
        ({worker_time: {"vm": time_of(most=None)}}, {}, ()),
        ({worker_time: {"vm": time_of(idle_percent=50.0)}}, {}, ()),
        ({worker_time: {"vm": time_of(most=None)}}, BOTH, (READ, MAKE)),
        ({worker_time: {"vm": time_of(most=None)}}, {"parallel": True}, ()),
        ({worker_time: {"vm": time_of(most=None)}}, {"ahead": True}, ()),
        ({worker_time: {"vm": time_of()}} | pipeline(stage("Map")), BOTH, ()),
        ({worker_time: {"b": time_of()}}, BOTH, ()),
        ({loader_workers: {"vm": counted()}}, {}, ()),
    ],
)
def test_workers_make_batches_if_they_are_a_loaders_or_work(
    known: Any, given: Any, workers: Any
) -> None:
    found = judged(known=known, **given)
    assert found.workers == workers
    assert ("worker_waits" in facts_of(found)) is bool(workers)
    passed = judged(shares(input=0.1), known, **given)
    assert (passed.status, passed.workers) == ("pass", ())


def test_actions_for_workers_come_first() -> None:
    timed = {worker_time: {"vm": time_of()}, loader_workers: {"vm": counted(full=True)}}
    found = judged(known=timed, **BOTH)
    own = processes(counted(full=True), time_of()).actions()
    assert found.actions == (*own, *actions_of("worker_processes", "cacheable"))
    told = facts_of(found)
    assert (told["workers"], told["cores"], told["worker_share"]) == (2, 4, 60.0)
    assert judged(known=timed).actions == found.actions
    keras = {python_elements: {"vm": PythonElements(90.0, MAKE, of_keras=True)}}
    own_option = actions_of("asks_keras_dataset", "native_code", "cacheable")
    assert judged(known=timed | keras).actions == own_option
    only_counted = {loader_workers: {"vm": counted(full=True)}}
    found = judged(known=only_counted, **BOTH)
    own = processes(counted(full=True)).actions()
    rest = actions_of("ahead", "worker_processes", "cacheable")
    assert found.actions == (*own, *rest)


# --- the slow stage ---


def test_every_number_of_a_slow_stage() -> None:
    stages = (
        stage("Prefetch", 5.0, depth=1, transparent=True, name="p"),
        stage("Batch", 20.0, depth=2, name="b", runs_per_call=2.0),
        stage("Map", 40.0, depth=3, name="m", runs_per_call=3.0),
        stage("Zip", 10.0, depth=4, name="z"),
        stage("Range", 9.0, depth=5, name="r"),
    )
    found = judged(known=pipeline(*stages), rule="input.stage")
    assert (found.status, found.severity, found.value) == ("fail", "critical", 40.0)
    names = [(part.name, part.share_percent) for part in found.parts]
    assert names == [("m", 40.0), ("b", 20.0), ("z", 10.0)]
    assert facts_of(found) == {"runs_per_batch": 3.0}
    assert found.explained_by == ("input.bound",)
    assert found.devices == ("vm:0",)
    waits = judged(known=pipeline(*stages))
    assert found.confidence == waits.confidence
    assert "parallel_map" in found.because
    hidden = {"hidden_fetch_ps": {"vm:0": (60.0 * US,)}}
    noted = judged(shares(), pipeline(*stages), "input.stage", **hidden)
    assert (noted.status, noted.severity) == ("fail", "info")
    assert noted.explained_by == ()
    passed = judged(shares(), pipeline(*stages), "input.stage")
    assert passed.status == "not_applicable"
    own = judged(known=pipeline(own_process=True), rule="input.stage")
    assert (own.status, own.value, own.parts) == ("fail", None, ())
    assert facts_of(own) == {}
    assert own.because == ("workers",)
    assert judged(rule="input.stage").status == "cannot_tell"
