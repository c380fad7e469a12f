"""`pod_viewer`: steps of all workers side by side, and who waits for whom."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import msgspec
import polars as pl
import pytest
from click.testing import CliRunner
from tests.support.traces import blueprint

import stepscope as ss
from stepscope.analysis import overview_page, pod_viewer
from stepscope.analysis.pod_viewer import Options, PodViewerResult
from stepscope.analysis.pod_viewer.comparison import WorkerName
from stepscope.analysis.results.tables import null_paths
from stepscope.cli.main import main
from stepscope.errors import BadUsage
from stepscope.reporting.tables import choose_table, flatten_table, tables
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stepscope.analysis.pod_viewer.result import Worker
    from stepscope.derive.profile_data import ProfileData
    from stepscope.trace.model import TraceData

WHY = Unavailable(code="NOT_RECORDED", reason="Taken away.", remedy="Put it back.")


def analysed(profile: ProfileData, *hosts: str) -> PodViewerResult:
    result = pod_viewer.analyse(profile, Options(hosts=hosts))
    assert isinstance(result, PodViewerResult), result
    check(result)
    return result


def check(result: PodViewerResult) -> None:
    """What holds of every answer: parts add up, and every null has its reason."""
    for step in result.steps:
        assert len({(one.host, one.device) for one in step.workers}) == len(
            step.workers
        )
        for one in step.workers:
            for parts in (one.breakdown_ms, one.breakdown_detail_ms):
                assert sum(parts.values()) == pytest.approx(one.total_ms)
            charged = one.breakdown_detail_ms.get("collective")
            # Collectives of threads belong to no category of a device.
            if one.device is not None and one.collective_untold_ms is not None:
                split = (
                    one.collective_wait_ms or 0.0,
                    one.collective_transfer_ms or 0.0,
                    one.collective_untold_ms,
                )
                assert sum(split) == pytest.approx(charged)
            assert one.bottleneck in one.breakdown_ms
    for summary in result.workers:
        assert sum(summary.breakdown_ms.values()) == pytest.approx(summary.total_ms)
    explained = {one.field for one in result.missing}
    for name in result.__struct_fields__:
        if name in ("missing", "quality", "inputs"):
            continue
        for path in null_paths(getattr(result, name), name):
            parts = path.split(".")
            prefixes = {".".join(parts[: n + 1]) for n in range(len(parts))}
            assert prefixes & explained, path


def named(worker: Worker) -> tuple[str, int | None]:
    return worker.host, worker.device


def rank(
    host: str,
    *,
    comes: int,
    ahead: int = 0,
    steps: int = 6,
    device: int = 0,
) -> TraceData:
    """Steps of 1,000 µs: 200 µs of compute, then a collective that all leave at 700.

    Args:
        host: Its name.
        comes: When it comes to the collective, in µs of the step; the compute before
            it begins 200 µs earlier.
        ahead: µs by which its clock is ahead of others.
        steps: How many.
        device: Its GPU.
    """
    lines: list[blueprint.Line] = []
    work: list[blueprint.Line] = []
    for i in range(steps):
        b = 1000 * i + 100 + ahead
        lines.append(("main", "train", b, 900, {"_r": 1, "step_num": 10 + i}))
        for number, (name, begin, end) in enumerate(
            (
                ("sgemm", comes - 200, comes),
                ("ncclDevKernel_AllReduce_Sum_f32", comes, 700),
            )
        ):
            ids = {"correlation_id": 2 * i + number + 1}
            lines.append(("main", "cuLaunchKernel", b + number, 1, ids))
            where = f"gpu:{device}/{7 + number}(Compute)"
            work.append((where, name, b + begin, end - begin, ids))
    devices = {device: blueprint.A100}
    return with_clock(blueprint.trace(lines + work, host=host, devices=devices))


def with_clock(trace: TraceData) -> TraceData:
    """The same trace with an absolute time of its begin, equal for all."""
    environment = trace.table("environment")
    assert isinstance(environment, pl.DataFrame)
    clock = pl.lit(1_000, pl.Int64).alias("start_unix_ns")
    return blueprint.substitute(trace, environment=environment.with_columns(clock))


def test_two_hosts_side_by_side_as_in_a5() -> None:
    result = analysed(blueprint.profile(blueprint.a1(), blueprint.a5_host_b()))
    assert [step.step for step in result.steps] == list(range(100, 108))
    first = result.steps[0]
    assert [named(one) for one in first.workers] == [("vm", 0), ("b", 0)]
    assert [one.total_ms for one in first.workers] == [1.0, 1.0]
    compute = [
        one.breakdown_ms["device_compute_16"] + one.breakdown_ms["device_compute_32"]
        for one in first.workers
    ]
    assert compute == pytest.approx([0.200, 0.210])
    # The host's calls are less than a millisecond apart, so that it is on its way to
    # one (405 µs) unless work was queued (135 µs), the device switched (two gaps of
    # 10 µs), or the first call had yet to come (100 µs). The longer kernel of b leaves
    # a gap of 10 µs where there were 20, which is switching.
    assert [one.breakdown_ms["kernel_launch"] for one in first.workers] == [0.405] * 2
    assert [one.breakdown_ms["other"] for one in first.workers] == pytest.approx(
        [0.135 + 0.020 + 0.100, 0.115 + 0.030 + 0.100]
    )
    assert {one.bottleneck for one in first.workers} == {"kernel_launch"}
    assert result.hosts_matched_by == "step_num"
    # Both spend 60 µs in the collective, so nobody waits; host b works longer.
    assert [one.collective_wait_ms for one in first.workers] == [0.0, 0.0]
    assert [one.collective_transfer_ms for one in first.workers] == [0.06, 0.06]
    assert first.slowest == WorkerName(host="b", device=0)
    assert (first.slowest_by, first.fastest) == (
        "device_work",
        WorkerName(host="vm", device=0),
    )
    assert result.slowest is not None
    assert result.slowest.cause == "device_compute_32"
    assert result.slowest.excess_ms["device_compute_32"] == pytest.approx(0.010)


def test_two_devices_side_by_side_as_in_a7() -> None:
    result = analysed(blueprint.profile(blueprint.a7()))
    (step,) = result.steps
    assert [one.device_work_ms for one in step.workers] == [0.6, 0.2]
    assert step.imbalance == pytest.approx(0.5)
    # 600 + 200 µs of work in 600 µs in which any of them works.
    assert step.concurrency == {"vm": pytest.approx(800 / 600)}
    assert (step.start_skew_ms, step.start_skew_doubt_ms) == (0.0, 0.0)
    assert step.slowest == WorkerName(host="vm", device=0)


def test_whom_the_others_wait_for_is_the_slowest_although_its_step_is_no_longer() -> (
    None
):
    """b comes 300 µs after a and 200 µs after c; all leave together at 700."""
    profile = blueprint.profile(
        rank("a", comes=300), rank("b", comes=600), rank("c", comes=400)
    )
    result = analysed(profile)
    step = result.steps[0]
    assert [one.total_ms for one in step.workers] == [1.0, 1.0, 1.0]
    assert [one.collective_wait_ms for one in step.workers] == pytest.approx(
        [0.3, 0.0, 0.2]
    )
    assert [one.collective_transfer_ms for one in step.workers] == pytest.approx(
        [0.1, 0.1, 0.1]
    )
    assert [one.waited_for_ms for one in step.workers] == [0.0, 0.5, 0.0]
    assert (step.slowest, step.slowest_by) == (
        WorkerName(host="b", device=0),
        "collectives",
    )
    assert step.fastest == WorkerName(host="a", device=0)
    slowest = result.slowest
    assert slowest is not None
    assert (slowest.host, slowest.steps, slowest.of_steps) == ("b", 5, 5)
    assert slowest.waited_for_ms == pytest.approx(5 * 0.5)
    # Its compute is as long as the others'; it begins late, for no cause on a device.
    assert slowest.excess_ms["device_compute_32"] == pytest.approx(0.0)
    assert slowest.excess_ms["device_collectives"] == pytest.approx(0.0)
    assert (result.collectives_matched, result.collectives_unmatched) == (18, 0)


def test_hosts_whose_clocks_differ_give_the_same_answer_and_the_difference() -> None:
    """b's clock is 250 µs ahead: neither waits nor skew may show it."""
    even = analysed(blueprint.profile(rank("a", comes=300), rank("b", comes=600)))
    ahead = blueprint.profile(rank("a", comes=300), rank("b", comes=600, ahead=250))
    result = analysed(ahead)
    clock = result.clocks[1]
    assert (clock.source, clock.samples) == ("collectives", 6)
    assert (clock.offset_us, clock.doubt_us) == (250.0, 1.0)
    for mine, theirs in zip(result.steps, even.steps, strict=True):
        assert mine.start_skew_ms == theirs.start_skew_ms == pytest.approx(0.3)
        assert mine.start_skew_doubt_ms == pytest.approx(0.001)
        assert mine.slowest == theirs.slowest
        assert [one.collective_wait_ms for one in mine.workers] == [
            one.collective_wait_ms for one in theirs.workers
        ]
    begins = [one.aligned_start_ms for one in result.steps[0].workers]
    assert begins[0] == begins[1]


def test_a_worker_that_begins_late_for_no_recorded_cause_is_said_to() -> None:
    """b does what a does, 200 µs later, and both leave the collective together."""
    ids = [{"correlation_id": number} for number in (1, 2)]
    reduce = "ncclDevKernel_AllReduce_Sum_f32"
    other = blueprint.trace(
        [
            ("main", "train", 300, 700, {"_r": 1, "step_num": 10}),
            ("main", "cuLaunchKernel", 300, 1, ids[0]),
            ("main", "cuLaunchKernel", 301, 1, ids[1]),
            ("gpu:0/7(Compute)", "sgemm", 400, 200, ids[0]),
            ("gpu:0/8(Compute)", reduce, 600, 200, ids[1]),
        ],
        host="b",
        devices={0: blueprint.A100},
    )
    first = rank("a", comes=300, steps=1)
    slowest = analysed(blueprint.profile(first, with_clock(other))).slowest
    assert slowest is not None
    assert (slowest.host, slowest.cause) == ("b", "late_start")
    assert slowest.excess_ms["late_start"] == pytest.approx(0.2)


def test_a_host_picked_shows_its_own_numbers_and_whom_it_waited_for() -> None:
    both = blueprint.profile(rank("a", comes=300), rank("b", comes=600))
    whole, picked = analysed(both), analysed(both, "a")
    assert [one.host for one in picked.workers] == ["a"]
    assert picked.workers[0] == whole.workers[0]
    for mine, all_of_it in zip(picked.steps, whole.steps, strict=True):
        assert mine.workers == all_of_it.workers[:1]
        assert mine.slowest == all_of_it.slowest
    # The file of one host alone knows nothing of the others.
    alone = analysed(both.select(["a"]))
    assert alone.workers[0].breakdown_ms == whole.workers[0].breakdown_ms
    assert alone.workers[0].collective_wait_ms is None
    assert alone.workers[0].collective_untold_ms == pytest.approx(0.4)


def test_an_unknown_host_is_refused() -> None:
    with pytest.raises(BadUsage, match="nowhere"):
        analysed(blueprint.profile(blueprint.a1()), "nowhere")


def test_the_order_of_the_hosts_does_not_change_the_numbers() -> None:
    traces = [rank("a", comes=300), rank("b", comes=600), rank("c", comes=400)]
    one = analysed(blueprint.profile(*traces))
    other = analysed(blueprint.profile(*reversed(traces)))
    by_host = {worker.host: worker for worker in one.workers}
    assert {worker.host: worker for worker in other.workers} == by_host
    assert one.slowest == other.slowest


def test_collectives_of_hosts_without_shared_steps_are_not_told_apart() -> None:
    """Two runs that have nothing to do with each other: numbers do not join them."""
    other = rank("b", comes=600, steps=3)
    apart = blueprint.profile(rank("a", comes=300), _renumbered(other, by=400))
    result = analysed(apart)
    assert not result.in_lock_step
    assert [step.hosts for step in result.steps] == [("a",)] * 6 + [("b",)] * 3
    assert all(step.complete and step.slowest is None for step in result.steps)
    assert result.slowest is None
    assert all(one.collective_wait_ms is None for one in result.workers)
    assert {one.code for one in result.missing if one.field == "slowest"} == {
        "NO_SAMPLES"
    }


def _renumbered(trace: TraceData, *, by: int) -> TraceData:
    """The same trace with other step numbers."""
    stats = trace.table("stats")
    assert isinstance(stats, pl.DataFrame)
    key = trace.strings.index("step_num")
    moved = stats.with_columns(
        pl.when(pl.col("key") == key)
        .then(pl.col("value") + by)
        .otherwise("value")
        .alias("value")
    )
    return blueprint.substitute(trace, stats=moved)


def test_a_step_that_one_host_lacks_stands_with_the_others() -> None:
    profile = blueprint.profile(
        rank("a", comes=300, steps=6), rank("b", comes=600, steps=5)
    )
    result = analysed(profile)
    assert [(step.step, step.complete) for step in result.steps] == [
        *((number, True) for number in range(10, 15)),
        (15, False),
    ]
    assert [len(step.workers) for step in result.steps] == [2] * 5 + [1]


def test_a_number_that_a_host_has_twice_is_two_steps() -> None:
    """Two epochs that count from 0: no worker stands twice in one step."""
    traces = [
        blueprint.trace(
            [
                ("main", "train", 100 * i, 90, {"_r": 1, "step_num": i % 3})
                for i in range(6)
            ],
            host=host,
        )
        for host in "ab"
    ]
    result = analysed(blueprint.profile(*traces))
    assert [step.step for step in result.steps] == [0, 1, 2, 0, 1, 2]
    starts = [[one.start_ms for one in step.workers] for step in result.steps]
    assert starts == [[pytest.approx(0.1 * i)] * 2 for i in range(6)]


def test_a_cpu_program_has_one_worker_per_host_and_no_device_columns() -> None:
    result = analysed(blueprint.profile(blueprint.a2()))
    assert {named(one) for step in result.steps for one in step.workers} == {
        ("vm", None)
    }
    worker = result.steps[0].workers[0]
    assert set(worker.breakdown_ms) == {"compilation", "input", "host_compute", "other"}
    assert worker.device_work_ms is None
    assert result.slowest is None
    (why,) = [one for one in result.missing if one.field == "slowest"]
    assert "only one worker" in why.reason
    codes = {one.field: one.code for one in result.missing}
    assert codes["workers.breakdown_ms.device_collectives"] == "NO_DEVICE_PLANE"
    assert codes["workers.collective_wait_ms"] == "NO_DEVICE_PLANE"


def test_without_steps_the_recording_is_the_one_entry() -> None:
    trace = blueprint.trace(
        [
            ("main", "work", 0, 100),
            ("gpu:0/7(Compute)", "sgemm", 10, 50),
            ("gpu:1/7(Compute)", "sgemm", 20, 20),
        ],
        devices={0: blueprint.A100, 1: blueprint.A100},
    )
    result = analysed(blueprint.profile(trace))
    (step,) = result.steps
    assert (step.step, len(step.workers)) == (None, 2)
    assert [one.steps for one in result.workers] == [0, 0]
    assert step.start_skew_ms == pytest.approx(0.010)
    assert {one.code for one in result.missing if one.field == "steps.step"} == {
        "NO_STEPS"
    }


def test_a_device_without_activity_is_no_idle_worker() -> None:
    trace = blueprint.trace(
        [
            ("main", "train", 0, 100, {"_r": 1, "step_num": 0}),
            ("gpu:0/7(Compute)", "sgemm", 10, 50),
        ],
        devices={0: blueprint.A100, 3: blueprint.A100},
    )
    result = analysed(blueprint.profile(trace))
    assert [named(one) for one in result.steps[0].workers] == [("vm", 0)]
    assert result.unused_devices == {"vm": (3,)}


@pytest.mark.parametrize(
    "table", ["device_activity", "launches", "stats", "devices", "environment"]
)
@pytest.mark.sweep(every=3)
def test_without_a_table_nothing_turns_into_a_zero(table: str) -> None:
    profile = blueprint.profile(rank("a", comes=300), rank("b", comes=600))
    lost = profile.without(table, WHY)
    result = pod_viewer.analyse(lost, Options())
    if isinstance(result, Unavailable):
        assert table in ("stats", "environment")
        return
    check(result)
    if table == "device_activity":
        for one in result.steps[0].workers:
            assert one.device_work_ms is None
            assert one.collective_wait_ms is None
            assert "device_collectives" not in one.breakdown_ms


@pytest.mark.parametrize(("processes", "said"), [(2, []), (3, ["processes_absent"])])
def test_processes_whose_files_are_not_given_are_counted(
    processes: int, said: list[str]
) -> None:
    traces = []
    for trace in (rank("a", comes=300), rank("b", comes=600)):
        environment = trace.table("environment")
        assert isinstance(environment, pl.DataFrame)
        known = pl.lit(processes, pl.Int64).alias("processes")
        table = environment.with_columns(known)
        traces.append(blueprint.substitute(trace, environment=table))
    result = analysed(blueprint.profile(*traces))
    assert result.processes == processes
    assert [note.kind for note in result.quality] == said


def test_ten_categories_have_the_interchange_ids() -> None:
    result = analysed(blueprint.profile(blueprint.a7()))
    ids = {one.category: one.id for one in result.categories}
    assert len(ids) == 10
    assert sorted(set(ids.values())) == list(range(1, 10))
    assert ids["device_collectives"] == 3


def test_tables_can_be_exported_down_to_each_worker_in_each_step() -> None:
    profile = blueprint.profile(rank("a", comes=300), rank("b", comes=600))
    found = tables(analysed(profile))
    assert choose_table(found, None)["host"].to_list() == ["a", "b"]
    inside = flatten_table(found["steps.workers"])
    assert inside["steps"].to_list() == [row for row in range(6) for _ in "ab"]
    assert inside["step"].to_list() == [10 + row for row in range(6) for _ in "ab"]
    assert "breakdown_ms.device_collectives" in inside.columns
    assert "workers" not in found["steps"].columns


@pytest.mark.profiles
def test_the_rank_that_others_wait_for_in_eight_real_ranks(
    shared_profile: Callable[[str], Path],
) -> None:
    """Times in µs were counted from the files themselves."""
    path = shared_profile("kineto/dlrm_8rank_v100")
    profile = ss.open(path)
    result = analysed(profile)
    assert [one.host for one in result.workers] == [f"rank{n}" for n in range(8)]
    (step,) = result.steps
    assert (step.step, step.complete) == (10, True)
    steps_us = [14_455, 19_901, 13_017, 19_313, 17_979, 17_797, 13_091, 12_509]
    assert [round(one.total_ms * 1000) for one in step.workers] == steps_us
    in_nccl = [5_798, 11_336, 3_492, 9_774, 6_587, 6_251, 3_558, 1_746]
    waited = [one.waited_for_ms for one in step.workers]
    assert (result.collectives_matched, result.collectives_unmatched) == (64, 0)
    # Shortest stays of the eight collectives, added up: no rank transfers longer.
    shortest = 10 + 8 + 7 + 7 + 86 + 10 + 20 + 69
    assert sum(value or 0 for value in waited) * 1000 == pytest.approx(
        sum(in_nccl) - 8 * shortest
    )
    assert result.slowest is not None
    assert (result.slowest.host, result.slowest.by) == ("rank7", "collectives")
    assert step.slowest == WorkerName(host="rank7", device=7)
    for one, in_collectives in zip(step.workers, in_nccl, strict=True):
        # Little of it is hidden behind compute, and most of it is waiting.
        charged = one.breakdown_ms["device_collectives"] * 1000
        assert 0.9 * in_collectives < charged <= in_collectives
        assert one.collective_transfer_ms is not None
        assert one.collective_transfer_ms * 1000 <= shortest
        # Compute is alike on all ranks.
        assert one.device_work_ms is not None
        assert 0.95 < one.device_work_ms < 1.3
    # Eight processes of one machine: their recorded clocks are one clock.
    for clock in result.clocks[1:]:
        assert clock.offset_us is not None
        assert clock.doubt_us is not None
        assert abs(clock.offset_us) <= clock.doubt_us <= 10


@pytest.mark.profiles
def test_a_rank_of_eight_real_ones_opened_alone_has_the_same_numbers(
    shared_profile: Callable[[str], Path],
) -> None:
    folder = shared_profile("kineto/dlrm_8rank_v100")
    whole = analysed(ss.open(folder))
    files = sorted(folder.iterdir())
    few = analysed(ss.open(files[7], files[1]))
    assert [one.host for one in few.workers] == ["rank7", "rank1"]
    by_host = {one.host: one for one in whole.workers}
    for one in few.workers:
        assert one.breakdown_ms == by_host[one.host].breakdown_ms
        assert one.device_work_ms == by_host[one.host].device_work_ms
    assert few.slowest is not None
    assert few.slowest.host == "rank7"
    # Two of eight: what is waited for the others cannot be told.
    assert (whole.processes, few.processes) == (8, 8)
    assert [note.kind for note in few.quality] == ["processes_absent"]
    assert "2 of the 8 processes" in few.quality[0].message
    assert whole.quality == ()


@pytest.mark.profiles
def test_two_real_processes_that_are_no_run_are_not_joined(
    shared_profile: Callable[[str], Path],
) -> None:
    profile = ss.open(shared_profile("tf_cpu/two_workers"))
    result = analysed(profile)
    assert not result.in_lock_step
    assert len(result.steps) == 193 + 191
    assert all(len(step.workers) == 1 for step in result.steps)
    assert result.slowest is None
    page = overview_page.analyse(profile, overview_page.Options())
    assert not isinstance(page, Unavailable)
    for worker, host in zip(result.workers, page.by_host, strict=True):
        assert worker.host == host.host
        assert worker.total_ms == pytest.approx(host.summary.step_time_ms.mean)
        assert worker.breakdown_ms == pytest.approx(host.summary.breakdown_ms)


@pytest.mark.parametrize(
    "name",
    [
        "tf_cpu/mirrored",
        "tf_cpu/no_step_markers",
        "gpu_tf/xprof_gpu_multi_worker",
        "gpu_tf/t4_starved",
        "gpu_jax_amd/jax08_conv",
        "tpu/tpu_inference_2",
        "kineto/hta_df_index_resolver",
    ],
)
def test_what_holds_of_every_answer_holds_of_real_profiles(
    shared_profile: Callable[[str], Path], name: str
) -> None:
    profile = ss.open(shared_profile(name))
    result = analysed(profile)
    page = overview_page.analyse(profile, overview_page.Options())
    assert not isinstance(page, Unavailable)
    for host in page.by_host:
        mine = [one for one in result.workers if one.host == host.host]
        # The mean over the devices is the host's value.
        for category, value in host.summary.breakdown_ms.items():
            mean = sum(one.breakdown_ms[category] for one in mine) / len(mine)
            assert mean == pytest.approx(value, abs=1e-6)


@pytest.mark.profiles
def test_the_real_copies_are_said_to_be_copies(
    shared_profile: Callable[[str], Path],
) -> None:
    path = str(shared_profile("gpu_tf/xprof_gpu_multi_worker"))
    shown = CliRunner().invoke(main, ["show", "pod", path])
    assert shown.exit_code == 0
    assert "are identical" in shown.output
    result = analysed(ss.open(path))
    devices = [one.device for one in result.workers]
    # Devices 1 and 4 ran their part of the step 628 ms apart.
    assert devices == [6, 6]
    assert set(result.unused_devices.values()) == {(0, 2, 3, 5, 7)}


@pytest.mark.profiles
def test_the_page_names_the_slowest_and_keeps_to_the_hosts_asked_for(
    shared_profile: Callable[[str], Path],
) -> None:
    path = str(shared_profile("kineto/dlrm_8rank_v100"))
    shown = CliRunner().invoke(main, ["show", "pod_viewer", path])
    assert "The other workers wait for rank7, device 7." in shown.output
    asked = ["show", "pod_viewer", path, "--host", "rank1"]
    one = CliRunner().invoke(main, [*asked, "--format", "json"])
    data = json.loads(one.output)["data"]
    assert [worker["host"] for worker in data["workers"]] == ["rank1"]
    # It waited for rank7, whose file is read although it is not shown.
    assert data["workers"][0]["collective_wait_ms"] > 10
    assert data["slowest"]["host"] == "rank7"
    contract = {"host", "device", "total_ms", "breakdown_ms"}
    assert contract <= set(data["steps"][0]["workers"][0])


def test_a_result_is_json() -> None:
    result = analysed(blueprint.profile(rank("a", comes=300), rank("b", comes=600)))
    assert msgspec.json.decode(msgspec.json.encode(result.steps))
