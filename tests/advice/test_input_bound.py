"""`input.bound` over literal accounts: fires, stays silent, near miss, cannot tell."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.traces import blueprint
from tests.support.traces.training import cores, on_host

from stepscope.advice.engine import signals_of as signals_of_profile
from stepscope.advice.rules.input_pipeline.input_waits import (
    judge_input_wait as evaluate,
)
from stepscope.derive.facts.evidence import CauseShare, Saving
from stepscope.derive.facts.hosts.batch_fetches import InputSignals, input_signals
from stepscope.derive.facts.hosts.batch_production import LoaderCalls, loader_calls
from stepscope.derive.facts.hosts.worker_processes import LoaderWorkers, loader_workers
from stepscope.derive.facts.step_shares import NamedTime
from stepscope.derive.verdicts.recorded_devices import DeviceSignals
from stepscope.reporting.words.findings import finding_headline, lead_sentence
from stepscope.unavailable import Unavailable

MS = 1_000_000_000
US = 1_000_000


def test_a_device_idle_while_the_host_fetches_is_input_bound(
    signals_of: Any, shares: Any
) -> None:
    finding = evaluate(signals_of(shares(input=3.0, step_ms=13.0)))
    assert (finding.status, finding.severity) == ("fail", "critical")
    assert finding.share_percent == pytest.approx(300 / 13)
    assert finding.ms_per_step == 3.0
    assert finding.saving_ms == Saving(low=1.5, high=3.0, basis="bound")
    assert (finding.steps_hit, finding.steps_clean) == (12, 12)
    assert finding.causes == (CauseShare(cause="fetch", share_percent=300 / 13),)
    assert {action.cause for action in finding.actions} == {"fetch"}
    assert (finding.owners, finding.place) == (("input", "copy_in"), "any")


@pytest.mark.parametrize(
    ("names", "causes"),
    [
        # 12 steps wait for 1 ms each: in calls that copy, and in a loader's.
        ({"cudaMemcpyAsync": 12}, {"transfer"}),
        ({"cudaMemcpyAsync": 11, "hipMemcpyWithStream": 1}, {"transfer"}),
        ({"cudaMemcpyAsync": 10, "DataLoader.__next__": 2}, {"fetch", "transfer"}),
        ({"DataLoader.__next__": 12}, {"fetch", "transfer"}),
    ],
)
def test_a_call_that_waits_for_its_own_copy_fetches_nothing(
    signals_of: Any, shares: Any, names: dict[str, int], causes: set[str]
) -> None:
    times = [
        NamedTime("input", "inside", name, time_ps=ms * MS)
        for name, ms in names.items()
    ]
    account = shares(input=1.0, copy_in=1.0, names=times)
    finding = evaluate(signals_of(account))
    assert finding.status == "fail"
    assert {one.cause for one in finding.causes} == causes
    assert {one.cause for one in finding.actions} == causes
    assert sum(one.share_percent for one in finding.causes) == pytest.approx(20.0)


def test_waits_that_come_in_bursts_are_found_although_most_steps_do_not_wait(
    signals_of: Any, shares: Any
) -> None:
    waits = [0, 0, 500, 0, 93, 0, 644, 0, 0, 300, 0, 120, 400, 0, 0, 350] * 2
    finding = evaluate(signals_of(shares(input=waits, step_ms=700.0, steps=len(waits))))
    assert (finding.status, finding.severity) == ("fail", "critical")
    assert finding.share_percent == pytest.approx(100 * sum(waits) / 700 / len(waits))
    assert finding.pattern is not None
    assert finding.pattern.kind == "bursts"
    # Half of the mean wait of 150.4 ms is 75.2 ms.
    assert (finding.pattern.steps_hit, finding.pattern.steps) == (14, 32)
    assert (finding.pattern.shortest_ms, finding.pattern.longest_ms) == (93.0, 644.0)


def test_fetches_on_a_prefetch_thread_are_no_waiting(
    signals_of: Any, shares: Any, fetching_of: Any
) -> None:
    fetching = fetching_of(hidden_fetch_ps={"vm:0": (40.0 * US,) * 12})
    finding = evaluate(signals_of(shares(), fetching=fetching))
    assert (finding.status, finding.note, finding.value) == ("pass", None, 0.0)
    assert finding.actions == ()


@pytest.mark.parametrize(("slow", "note"), [(12, "hidden"), (9, None)])
def test_slow_fetches_under_a_busy_device_are_a_hint_where_they_are_a_habit(
    signals_of: Any, shares: Any, fetching_of: Any, slow: int, note: str | None
) -> None:
    hidden = (6.0 * MS,) * slow + (10.0 * US,) * (12 - slow)
    fetching = fetching_of(hidden_fetch_ps={"vm:0": hidden})
    finding = evaluate(signals_of(shares(), fetching=fetching))
    assert (finding.status, finding.severity, finding.note) == ("pass", "info", note)


def test_exposed_copies_of_the_batch_count_and_get_their_own_remedy(
    signals_of: Any, shares: Any
) -> None:
    finding = evaluate(signals_of(shares(copy_in=2.0)))
    assert finding.status == "fail"
    assert finding.causes == (CauseShare(cause="transfer", share_percent=20.0),)
    assert {action.cause for action in finding.actions} == {"transfer"}


def test_a_pipeline_that_is_parallel_and_ahead_is_not_told_to_be(
    signals_of: Any, shares: Any, fetching_of: Any
) -> None:
    def advised(**has: bool) -> str:
        signals = signals_of(shares(input=3.0), fetching=fetching_of(**has))
        return " ".join(f"{one.text} {one.code}" for one in evaluate(signals).actions)

    assert "num_parallel_calls" in advised()
    assert "num_workers" in advised()
    both = advised(parallel=True, ahead=True)
    assert "num_parallel_calls" not in both
    assert "num_workers" not in both
    assert "cheaper" in both


@pytest.mark.parametrize(
    ("workers", "first"), [(1, "more worker processes"), (4, "produced in parallel")]
)
def test_a_loader_with_fewer_workers_than_cores_is_told_to_get_more(
    signals_of: Any, shares: Any, fetching_of: Any, workers: int, first: str
) -> None:
    one = shares(input=3.0)
    counted = {one.host: LoaderWorkers(workers, 4)}
    finding = evaluate(
        signals_of(
            one,
            {loader_workers: counted},
            fetching=fetching_of(parallel=True, ahead=True),
        )
    )
    assert first in finding.actions[0].text
    assert finding_headline(finding).endswith(
        f"Worker processes that produce batches: {workers}, on 4 cores."
    )


def test_workers_are_counted_while_the_steps_run() -> None:
    lines = [*on_host(), *cores(2, **{"worker processes": 3.0})]
    profile = blueprint.profile(blueprint.trace(lines))
    assert profile.of_run(loader_workers) == {
        "vm": LoaderWorkers(workers=3, cores=2, full=False)
    }


def test_one_step_never_exceeds_a_warning(signals_of: Any, shares: Any) -> None:
    one = shares(input=62.0, step_ms=100.0, steps=1)
    finding = evaluate(signals_of(one))
    assert (finding.status, finding.severity) == ("fail", "warn")
    assert (finding.note, finding.confidence) == ("few_steps", 0.5)


def test_a_wait_in_one_step_alone_is_a_note(signals_of: Any, shares: Any) -> None:
    waits = [0.0] * 11 + [9.0]
    finding = evaluate(signals_of(shares(input=waits)))
    assert (finding.status, finding.severity, finding.note) == ("fail", "info", "once")


@pytest.mark.parametrize(
    ("groups", "said"),
    [
        (
            1.0,
            (
                "Copies of the batch delay the step: 50.0 %",
                "Copy the batch from pinned",
            ),
        ),
        (
            2.0,
            (
                "Copies of the batch delay the step: 50.0 %",
                "Copy the batch from pinned",
            ),
        ),
        (5.0, ("Copies to the device delay the step: 50.0 %", "Keep data that is")),
    ],
)
def test_copies_between_kernels_are_not_called_a_batch(
    signals_of: Any,
    shares: Any,
    fetching_of: Any,
    groups: float,
    said: tuple[str, str],
) -> None:
    told, advised = said
    one = shares(copy_in=5.0)
    fetching = fetching_of(pieces={one.label: groups})
    finding = evaluate(signals_of(one, fetching=fetching))
    assert lead_sentence(finding).startswith(told)
    (text,) = [
        action.text for action in finding.actions if action.text.startswith(advised)
    ]
    assert text


@pytest.mark.parametrize("pinned", [True, False])
def test_what_is_pinned_is_not_to_be_pinned(
    signals_of: Any, shares: Any, fetching_of: Any, *, pinned: bool
) -> None:
    one = shares(copy_in=5.0)
    fetching = fetching_of(pinned=frozenset({one.label} if pinned else ()))
    finding = evaluate(signals_of(one, fetching=fetching))
    (told,) = [each for each in finding.actions if each.framework == "PyTorch"]
    assert ("pin_memory" in (told.code or "")) is not pinned
    assert ("a separate stream" in told.text) is pinned


@pytest.mark.parametrize(
    ("names", "pinned"),
    [
        (["Memcpy HtoD (Pinned -> Device)"], {"vm:0"}),
        (["Memcpy HtoD (Pageable -> Device)"], set()),
        (["Memcpy HtoD (Pinned -> Device)", "MemcpyH2D"], set()),
    ],
)
def test_copies_say_whether_they_read_pinned_memory(
    names: list[str], pinned: set[str]
) -> None:
    """Of copies of 4 MiB; a small one from anywhere counts for nothing."""
    lines: list[Any] = []
    sizes = [*((name, 2**22) for name in names), ("Memcpy HtoD (Pageable)", 2**10)]
    for at, (name, size) in enumerate(sizes):
        details = {"memcpy_details": f"kind:H2D size:{size} dest:0 async:1"}
        lines.append(("gpu:0/8(MemcpyH2D)", name, 100 * at, 50, details))
    lines.append(("main", "train", 0, 990, {"_r": 1, "step_num": 0}))
    profile = blueprint.profile(blueprint.trace(lines, devices={0: blueprint.A100}))
    found = signals_of_profile(profile).of(input_signals)
    assert isinstance(found, InputSignals)
    assert found.pinned == pinned


def test_groups_of_large_copies_are_counted_by_step() -> None:
    """Three copies of 4 MiB, a kernel after each; small copies count for nothing."""
    lines: list[Any] = []
    for step in range(4):
        begin = 1_000 * step
        lines.append(("main", "train", begin, 990, {"_r": 1, "step_num": step}))
        for at, size in enumerate((2**22, 2**22, 2**10, 2**22)):
            details = {"memcpy_details": f"kind:H2D size:{size} dest:0 async:1"}
            start = begin + 100 + 200 * at
            lines += [
                ("gpu:0/8(MemcpyH2D)", "MemcpyH2D", start, 50, details),
                ("gpu:0/7(Compute)", "gemm", start + 60, 50, {"group_id": step}),
            ]
    profile = blueprint.profile(blueprint.trace(lines, devices={0: blueprint.A100}))
    found = signals_of_profile(profile).of(input_signals)
    assert isinstance(found, InputSignals)
    assert found.pieces == {"vm:0": 3.0}


def test_tiny_times_are_no_finding_whatever_their_share(
    signals_of: Any, shares: Any
) -> None:
    finding = evaluate(signals_of(shares(input=0.09, step_ms=0.5)))
    assert (finding.status, finding.note) == ("pass", "short")


def test_unrecorded_fetches_beside_unknown_time_cannot_tell(
    signals_of: Any, shares: Any, fetching_of: Any
) -> None:
    unseen = fetching_of(consumer_recorded=False)
    one = shares(device=None, unexplained=6.0)
    finding = evaluate(signals_of(one, fetching=unseen))
    assert finding.status == "cannot_tell"
    assert finding.unavailable is not None
    assert finding.unavailable.code == "NO_TFDATA_EVENTS"
    assert "60 %" in finding.unavailable.reason


def test_what_is_unknown_elsewhere_does_not_make_it_undecidable(
    signals_of: Any, shares: Any
) -> None:
    finding = evaluate(signals_of(shares(unexplained=1.0)))
    assert finding.status == "pass"


@pytest.mark.parametrize("absent", ["account", "fetching"])
def test_absent_signals_cannot_tell_for_their_own_reason(
    signals_of: Any, shares: Any, absent: str
) -> None:
    why = Unavailable(code="CORRUPT", reason="Torn.", remedy="Copy it again.")
    finding = evaluate(signals_of(shares(input=3.0), **{absent: why}))
    assert (finding.status, finding.unavailable) == ("cannot_tell", why)


def test_without_steps_there_is_a_share_of_the_recording(
    signals_of: Any, shares: Any
) -> None:
    one = shares(input=9.0, fields={"step_source": None, "step_confidence": 0.0})
    finding = evaluate(signals_of(one))
    assert finding.status == "fail"
    assert finding.share_percent == pytest.approx(90.0)
    assert (finding.ms_per_step, finding.saving_ms) == (None, None)
    inferred = {"step_source": "period", "step_confidence": 0.59}
    unsure = evaluate(signals_of(shares(input=9.0, fields=inferred)))
    assert unsure.unavailable is not None
    assert unsure.unavailable.code == "NO_STEPS"


@pytest.mark.parametrize(("waited", "status"), [(0.1, "pass"), (5.0, "cannot_tell")])
def test_a_silent_device_may_pass_but_never_fail(
    signals_of: Any, shares: Any, waited: float, status: str
) -> None:
    silent = DeviceSignals(recorded="silent", sign="/device:GPU:0 is listed")
    one = shares(input=waited, device=None)
    assert evaluate(signals_of(one, device=silent)).status == status


def test_the_busiest_device_is_judged_and_the_others_are_listed(
    signals_of: Any, shares: Any
) -> None:
    idle = shares(input=9.0, device=1, working_ms=1.0)
    busy = shares(input=0.1, device=0, working_ms=9.0)
    finding = evaluate(signals_of(idle, busy))
    assert (finding.status, finding.devices) == ("pass", ("vm:0", "vm:1"))


def test_without_devices_the_host_that_waits_most_is_judged(
    signals_of: Any, shares: Any
) -> None:
    first = shares(input=0.8, device=None, host="a")
    second = shares(input=2.9, device=None, host="b")
    finding = evaluate(signals_of(first, second))
    assert finding.devices == ("b", "a")
    assert finding.share_percent == pytest.approx(29.0)


def test_lost_copies_that_could_undo_the_verdict_cannot_tell(
    signals_of: Any, shares: Any
) -> None:
    one = shares(input=0.6, fields={"lost_ps": 12 * MS // 5})
    finding = evaluate(signals_of(one))
    assert finding.unavailable is not None
    assert finding.unavailable.code == "LOST_EVENTS"


def test_the_order_of_devices_changes_nothing(signals_of: Any, shares: Any) -> None:
    one = shares(input=3.0, device=0)
    two = shares(input=1.0, device=1, working_ms=1.0)
    forward = evaluate(signals_of(one, two))
    assert forward == evaluate(signals_of(two, one))


def test_the_function_that_makes_batches_is_named_first(
    signals_of: Any, shares: Any
) -> None:
    waiting = NamedTime(
        owner="input", place="inside", name="IteratorGetNext", time_ps=36 * MS
    )
    making = NamedTime(
        owner="input",
        place="inside",
        name="decode",
        function="decode",
        file="/app/data.py",
        line=31,
        time_ps=19 * MS,
    )
    one = shares(input=3.0, names=[waiting], fields={"callers": (making,)})
    finding = evaluate(signals_of(one))
    assert [part.name for part in finding.parts] == ["decode", "IteratorGetNext"]
    assert lead_sentence(finding).endswith("most of it in `decode` (data.py:31).")


def test_a_function_that_makes_less_than_half_of_the_batches_is_not_named(
    signals_of: Any, shares: Any
) -> None:
    making = NamedTime(
        owner="input", place="inside", name="f", function="f", time_ps=17 * MS
    )
    one = shares(input=3.0, fields={"callers": (making,)})
    assert evaluate(signals_of(one)).parts == ()


def test_what_is_given_the_batch_is_not_named_as_what_makes_it(
    signals_of: Any, shares: Any
) -> None:
    """Looks that come late find the function that goes on with the batch."""
    fetching = NamedTime(owner="input", place="inside", name="next", time_ps=36 * MS)
    late = NamedTime(
        owner="input", place="inside", name="f", function="micro_step", time_ps=19 * MS
    )
    one = shares(device=None, input=3.0, names=[fetching], fields={"callers": (late,)})

    named = [
        evaluate(signals_of(one, {loader_calls: seen})).parts[0]
        for seen in (
            {},
            {"vm": LoaderCalls({("micro_step", None, None): 40.0})},
            {"vm": LoaderCalls({("micro_step", None, None): 60.0})},
        )
    ]
    assert [part.function for part in named] == ["micro_step", None, "micro_step"]


def test_what_a_loader_calls_is_told_by_who_called_it() -> None:
    """Looks find one function mostly below the loader, and another mostly beside it."""
    loader = "/opt/lib/python3.12/site-packages/torch/dataloader.py"
    lines = []
    for begin in range(0, 100_000, 10_000):
        lines += [
            ("main", "train", begin, 9_990.0, {"step_num": begin // 10_000, "_r": 1}),
            (
                "main",
                f"{loader}(700): _BaseDataLoaderIter.__next__",
                begin + 5.0,
                4_000.0,
            ),
            ("main", "/app/data.py(6): collate", begin + 10.0, 3_000.0),
            ("main", "/app/data.py(9): shift", begin + 3_100.0, 800.0),
            ("main", "/app/data.py(9): shift", begin + 5_000.0, 2_400.0),
        ]
    profile = blueprint.profile(blueprint.trace(lines))
    (found,) = profile.of_run(loader_calls).values()
    assert found.percent["collate", "/app/data.py", 6] == pytest.approx(100)
    assert found.percent["shift", "/app/data.py", 9] == pytest.approx(25)


@pytest.mark.parametrize(
    ("waits", "degree"), [(0.6, "In part input-bound:"), (2.0, "Input-bound:")]
)
def test_a_step_is_input_bound_from_a_fifth_on_and_in_part_below(
    signals_of: Any, shares: Any, waits: float, degree: str
) -> None:
    """Of ten ms a step: 6 % are a finding, but most of the step is something else."""
    finding = evaluate(signals_of(shares(input=waits)))
    assert finding.status == "fail"
    assert lead_sentence(finding).startswith(f"{degree} waiting for data takes")
