"""Rules on whole traces: a fault, its clean twin, a near miss, and what is irrelevant.

Two traces are the bases of all others: in `together` a step is issued when the previous
one has ended on the device, in `ahead` launches run one step ahead. Definition:
docs/definitions/judging.md#how-the-rules-are-tested.
"""

from __future__ import annotations

import random

import msgspec
import pytest
from tests.support.traces import blueprint
from tests.support.traces.training import (
    BF16,
    KERNELS,
    MATMUL,
    SGEMM,
    STEPS,
    ahead,
    apart,
    findings,
    paced,
    together,
)

from stepscope.advice.engine import evaluate, signals_of
from stepscope.advice.registry import RULES
from stepscope.derive.verdicts.recorded_devices import device_signals
from stepscope.trace.tables import TABLES

#: What the clean bases hold nothing of.
ABSENT_ON_ONE_DEVICE = {"comm.exposed": "not_applicable"}


def test_no_rule_fails_on_the_clean_bases() -> None:
    for lines in (together(), ahead()):
        found = findings(lines)
        assert [one.id for one in found.values() if one.status == "fail"] == []
        passed = {one.id for one in found.values() if one.status == "pass"}
        assert passed >= {
            "capture.quality",
            "input.bound",
            "gaps.between",
            "host.work",
            "launch.delay",
            "amp.share",
        }


def test_fetching_while_the_device_idles_is_found() -> None:
    found = findings(together(fetch_us=3_000.0))["input.bound"]
    assert (found.status, found.severity) == ("fail", "critical")
    assert found.share_percent == pytest.approx(3_000 / 12_960.5 * 100, abs=0.1)
    assert found.evidence[0].ops == ("IteratorGetNext",)
    assert found.evidence[0].end_ps - found.evidence[0].start_ps == 3_000_000_000


def first_use(*, set_up_us: float, begin: float = 0) -> list[blueprint.Line]:
    """A call that sets the device up, then 40 launches."""
    lines: list[blueprint.Line] = [("main", "cudaMalloc", begin + 10, set_up_us)]
    for number in range(40):
        at = begin + 50 + set_up_us + 40 * number
        stats = {"correlation_id": round(at)}
        lines += [
            ("main", "cudaLaunchKernel", at, 5, stats),
            ("gpu:0/7(Compute)", "gemm", at + 8, 4, stats),
        ]
    return lines


def test_the_first_use_of_a_device_is_no_want_of_launches() -> None:
    """By hand: 15 ms of 16.612 ms is one call; 160 µs are kernels."""
    lines = first_use(set_up_us=15_000)
    found = findings(lines)["launch.delay"]
    assert (found.status, found.note) == ("fail", "set_up")
    (part,) = found.parts
    assert part.name == "cudaMalloc"
    (share,) = [one.value for one in found.facts if one.name == "set_up"]
    assert share == part.share_percent == pytest.approx(100 * 15 / 16.612, abs=0.1)
    assert {one.cause for one in found.actions} == {"set_up"}
    assert msgspec.json.decode(msgspec.json.encode(found))["note"] == "set_up"
    # Short allocations are what any program makes.
    assert findings(first_use(set_up_us=900))["launch.delay"].note != "set_up"
    # Of 91.612 ms, 90 ms create a context: the program starts until the first kernel.
    start = findings(first_use(set_up_us=90_000))
    assert start["launch.delay"].status == "pass"
    assert start["capture.window"].note == "start_up"
    assert start["capture.window"].share_percent == pytest.approx(98.3, abs=0.1)


def test_long_calls_in_every_step_are_no_first_use() -> None:
    lines = [
        line
        for step in range(5)
        for line in (
            ("main", "train", 4_000 * step, 3_900, {"_r": 1, "step_num": step}),
            *first_use(set_up_us=2_000, begin=4_000 * step),
        )
    ]
    found = findings(lines)["launch.delay"]
    assert found.status == "fail"
    assert found.note != "set_up"


def captured(*, until: float) -> list[blueprint.Line]:
    """One kernel, then launches of which those up to a time go into a graph."""
    calls = [("main", "cudaLaunchKernel", 200 + 50 * it, 5) for it in range(180)]
    return [
        ("main", "cudaLaunchKernel", 0, 5, {"correlation_id": 1}),
        ("gpu:0/7(Compute)", "gemm", 10, 90, {"correlation_id": 1}),
        ("main", "cudaStreamBeginCapture_v10000", 150, 5),
        *calls,
        ("main", "cudaStreamEndCapture_v10000", until, 5),
        ("main", "cudaLaunchKernel", 9_800, 5, {"correlation_id": 2}),
        ("gpu:0/7(Compute)", "gemm", 9_900, 100, {"correlation_id": 2}),
    ]


def test_launches_into_a_graph_that_is_captured_are_no_want_of_launches() -> None:
    """By hand: of 10 ms the capture lasts from 0.15 to 9.35 ms, and none of it runs."""
    found = findings(captured(until=9_350))["launch.delay"]
    assert (found.status, found.note) == ("fail", "captured")
    (share,) = [one.value for one in found.facts if one.name == "captured"]
    assert share == pytest.approx(92.0, abs=0.1)
    assert {one.cause for one in found.actions} == {"captured"}
    assert found.saving_ms is None
    # A capture of a tenth of the time does not explain the rest of it.
    assert findings(captured(until=1_150))["launch.delay"].note != "captured"


def ending(*, unloads: int) -> list[blueprint.Line]:
    """1 ms of kernels, each right after its launch, then calls that free modules."""
    lines: list[blueprint.Line] = []
    for number in range(20):
        stats = {"correlation_id": number + 1}
        lines += [
            ("main", "cudaLaunchKernel", 50 * number, 5, stats),
            ("gpu:0/7(Compute)", "gemm", 50 * number + 10, 40, stats),
        ]
    for number in range(unloads):
        lines.append(("main", "cuModuleUnload", 1_000 + 100 * number, 100))
    return lines


def test_what_a_program_frees_at_its_end_is_no_want_of_launches() -> None:
    """By hand: kernels until 1 ms, then 90 calls of 0.1 ms: 90 of 100 parts."""
    found = findings(ending(unloads=90))["launch.delay"]
    assert (found.status, found.note) == ("fail", "over")
    (share,) = [one.value for one in found.facts if one.name == "over"]
    assert share == pytest.approx(90.0, abs=0.1)
    assert {one.cause for one in found.actions} == {"over"}
    # Each of them is short: those of one name count together.
    assert found.parts[0].name == "cuModuleUnload"
    assert found.parts[0].share_percent == pytest.approx(90.0, abs=0.1)
    # Gaps before each kernel are what the finding is about, not the one call after.
    assert findings(ending(unloads=1))["launch.delay"].note != "over"


def silent_around(*, before: float) -> list[blueprint.Line]:
    """A note of the host, silence, then 1 ms of kernels."""
    return [
        ("other", "note", 0, 1),
        *(
            (track, name, before + at, *rest)
            for track, name, at, *rest in ending(unloads=0)
        ),
    ]


def test_silence_before_the_devices_first_work_is_said_to_be_that() -> None:
    """By hand: 9 ms in which nothing is recorded, then 1 ms of kernels."""
    found = findings(silent_around(before=9_000))["capture.quality"]
    assert (found.status, found.note) == ("fail", "unexplained")
    (outside,) = [one.value for one in found.facts if one.name == "outside"]
    assert outside == found.share_percent == pytest.approx(90.0, abs=0.2)
    assert found.actions[0].cause == "outside"


def test_silence_between_kernels_is_not() -> None:
    lines = silent_around(before=0)
    late = [
        (track, name, 9_000 + at, *rest) for track, name, at, *rest in ending(unloads=0)
    ]
    again = [
        (*line[:4], {"correlation_id": line[4]["correlation_id"] + 100})
        for line in late
    ]
    found = findings([*lines, *again])["capture.quality"]
    assert [one.value for one in found.facts if one.name == "outside"] == [None]
    assert "outside" not in {one.cause for one in found.actions}


def test_the_same_fetches_on_another_thread_are_not() -> None:
    lines = together()
    begins = [line[2] for line in lines if line[1] == "train"]
    lines += [("prefetch", "Iterator::Prefetch", begin, 3_000.0) for begin in begins]
    assert findings(lines)["input.bound"].status == "pass"


def test_long_fetches_under_a_busy_device_are_a_hint_only() -> None:
    found = findings(ahead(fetch_us=6_000.0))["input.bound"]
    assert (found.status, found.note) == ("pass", "hidden")


@pytest.mark.slow(seconds=0.3)
def test_kernels_that_each_wait_for_their_launch_are_found() -> None:
    found = findings(paced(early_us=10.0))["launch.delay"]
    assert (found.status, found.severity) == ("fail", "critical")
    assert found.causes[0].cause == "launch"
    assert found.parts[0].name == "launch latency"
    assert found.share_percent == pytest.approx(20.0, abs=1.0)
    assert "small_work" in found.because
    facts = {fact.name: fact for fact in found.facts}
    assert facts["kernels_per_step"].value == 400.0
    assert facts["launch_latency"].note.startswith("assumed")


def test_launches_onto_an_idle_device_measure_the_latency() -> None:
    found = findings(paced(early_us=4.0))["launch.delay"]
    latency = next(fact for fact in found.facts if fact.name == "launch_latency")
    assert latency.value == pytest.approx(4.0)
    assert "5,600 launches" in (latency.note or "")


def test_the_same_gaps_with_launches_long_queued_blame_no_launch() -> None:
    found = findings(paced(early_us=5_000.0))["launch.delay"]
    assert (found.status, found.share_percent) == ("pass", 0.0)


def test_idle_time_between_steps_is_found() -> None:
    found = findings(apart())
    assert (found["gaps.between"].status, found["gaps.between"].severity) == (
        "fail",
        "critical",
    )
    # Of a step of 13,100 µs the device works 9,775.
    assert found["gaps.between"].share_percent == pytest.approx(
        100 * 3_050 / 13_100, abs=3
    )
    assert found["input.bound"].status != "fail"


def test_products_in_float32_are_found() -> None:
    kernels = [(SGEMM, 300.0, MATMUL)] * 20 + KERNELS[20:]
    found = findings(together(kernels=kernels))["amp.share"]
    assert (found.status, found.severity, found.value) == ("fail", "warn", 0.0)
    assert found.ms_per_step == pytest.approx(6.0)
    assert found.evidence[0].ops == (SGEMM,)


def test_bfloat16_is_16_bit_although_no_name_says_half() -> None:
    kernels = [(BF16, 300.0, MATMUL)] * 20 + [
        (name.replace("half", "x"), dur, op) for name, dur, op in KERNELS[20:]
    ]
    found = findings(together(kernels=kernels))["amp.share"]
    assert (found.status, found.value) == ("pass", 100.0)


FAULTS = {
    "input.bound": lambda **more: together(fetch_us=3_000.0, **more),
    "amp.share": lambda **more: together(
        kernels=[(SGEMM, 300.0, MATMUL)] * 20 + KERNELS[20:], **more
    ),
}


@pytest.mark.parametrize("rule", FAULTS)
def test_times_three_times_as_long_change_no_verdict(rule: str) -> None:
    once, thrice = findings(FAULTS[rule]())[rule], findings(FAULTS[rule](scale=3))[rule]
    assert (thrice.status, thrice.severity) == (once.status, once.severity)
    assert thrice.share_percent == pytest.approx(once.share_percent, abs=0.01)


@pytest.mark.parametrize("rule", FAULTS)
def test_neither_order_nor_clock_nor_strangers_change_a_verdict(rule: str) -> None:
    lines = FAULTS[rule]()
    before = findings(lines)[rule]
    changed = [
        (track, name, start + 123_456.0, *rest) for track, name, start, *rest in lines
    ]
    changed += [
        ("stranger", "something_else", 123_456.0 + at * 50.0, 45.0)
        for at in range(2000)
    ]
    random.Random(1).shuffle(changed)  # noqa: S311 - a fixed stream for a test
    after = findings(changed)[rule]
    assert (after.status, after.severity) == (before.status, before.severity)
    assert after.share_percent == pytest.approx(before.share_percent, abs=0.01)


@pytest.mark.parametrize("rule", FAULTS)
def test_other_kernel_names_of_the_same_width_change_no_verdict(rule: str) -> None:
    renamed = [
        (track, name.replace("ampere", "turing"), *rest)
        for track, name, *rest in FAULTS[rule]()
    ]
    after, before = findings(renamed)[rule], findings(FAULTS[rule]())[rule]
    assert (after.status, after.severity) == (before.status, before.severity)


@pytest.mark.parametrize("rule", FAULTS)
def test_without_markers_the_verdict_stays_and_confidence_falls(rule: str) -> None:
    lines = [line for line in FAULTS[rule]() if line[1] != "train"]
    after, before = findings(lines)[rule], findings(FAULTS[rule]())[rule]
    assert after.status in (before.status, "cannot_tell")
    assert after.confidence <= before.confidence


NEEDED = {
    "input.bound": ("events", "device_activity"),
    "launch.delay": ("device_activity", "launches"),
    "amp.share": ("device_activity",),
    "gaps.between": ("device_activity", "launches", "events"),
    "host.work": ("device_activity", "events"),
}


@pytest.mark.parametrize(
    ("rule", "table"), [(rule, one) for rule, all_ in NEEDED.items() for one in all_]
)
@pytest.mark.sweep(every=3)
def test_a_table_that_is_needed_and_absent_never_becomes_a_pass(
    rule: str, table: str
) -> None:
    lines = {
        "input.bound": lambda: together(fetch_us=3_000.0),
        "launch.delay": lambda: paced(early_us=10.0),
        "amp.share": FAULTS["amp.share"],
        "gaps.between": apart,
        "host.work": lambda: together(fetch_us=3_000.0),
    }[rule]()
    found = findings(lines, without=table)[rule]
    assert found.status == "cannot_tell"
    assert found.unavailable is not None


@pytest.mark.parametrize("table", sorted(TABLES))
@pytest.mark.sweep(every=4)
def test_no_absent_table_is_an_error(table: str) -> None:
    found = findings(together(), without=table)
    assert set(found) == {rule.item.id for rule in RULES}


def test_a_listed_device_without_activity_is_a_silent_one() -> None:
    lines = [
        line for line in together(fetch_us=3_000.0) if not line[0].startswith("gpu")
    ]
    found = dict(findings(lines, devices={0: blueprint.A100}))
    quality = found.pop("capture.quality")
    assert (quality.status, quality.note) == ("fail", "silent")
    # What is known of the recording itself can be told.
    judged = {one.status for one in found.values() if one.stage > 0}
    assert judged == {"cannot_tell"}
    profile = blueprint.profile(blueprint.trace(lines, devices={0: blueprint.A100}))
    signals = signals_of(profile)
    assert signals.of(device_signals).recorded == "silent"
    assert "launch calls" in (signals.of(device_signals).sign or "")


def test_ops_on_the_host_and_no_sign_of_a_device_is_a_run_on_the_host() -> None:
    lines = [
        line
        for number in range(STEPS)
        for line in (
            ("main", "train", 1000 * number, 990, {"_r": 1, "step_num": number}),
            ("main", "IteratorGetNext", 1000 * number + 10, 300),
            ("main", "a/MatMul:MatMul", 1000 * number + 320, 600),
        )
    ]
    profile = blueprint.profile(blueprint.trace(lines))
    found = {one.id: one for one in evaluate(signals_of(profile))}
    assert [one.id for one in found.values() if one.status == "fail"] == ["input.bound"]
    about_devices = {"gaps.between", "launch.delay", "amp.share", "comm.exposed"}
    assert {found[name].status for name in about_devices} == {"not_applicable"}
    assert {found[name].status for name in ("capture.quality", "host.work")} == {"pass"}
    # The last of the 14 steps ends with its marker, after 990 of 1000 µs.
    assert found["input.bound"].share_percent == pytest.approx(100 * 4200 / 13_990)
