"""Real traces: which kernels have an op, and why the others have none."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from typing import TYPE_CHECKING

import polars as pl
import pytest
from tests.support.traces import blueprint
from tests.support.traces.kineto import by_json, frame, read_file

import stepscope as ss
from stepscope.derive.consistency import consistency
from stepscope.derive.device.attribution import NoOp, activity_ops
from stepscope.derive.host.op_events import host_op_events
from stepscope.derive.names.op_names import UNANNOTATED
from stepscope.derive.phases import PHASES, phases

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Shared = Callable[[str], Path]

ITEMS = (
    "kineto/resnet50_num_workers_0/",
    "kineto/resnet50_num_workers_4/",
    "kineto/hta_df_index_resolver/",
    "kineto/tracelens_qwen1.5_0.5b_h100/",
    "kineto/tracelens_qwen1.5_0.5b_mi300/",
    *(f"kineto/dlrm_8rank_v100/worker{rank}" for rank in range(8)),
)
#: Files whose producers have a category for operators alone.
CALLED_OPS = (
    "kineto/hta_df_index_resolver",
    "kineto/tracelens_qwen1.5_0.5b_h100",
    "kineto/tracelens_qwen1.5_0.5b_mi300",
    "kineto/dlrm_8rank_v100",
    "torch_cpu/no_schedule",
    "torch_cpu/schedule_dataloader",
)


def united(spans: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The time within any of some spans, as spans that ascend and do not meet."""
    found: list[tuple[float, float]] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((begin, end))
    return found


def near(spans: list[tuple[float, float]], time: float) -> list[tuple[float, float]]:
    """The last of ascending spans that begins at a time or before it, if any does."""
    after = bisect_right(spans, (time, float("inf")))
    return spans[max(0, after - 1) : after]


def without_op(path: Path) -> dict[str, list[float]]:
    """By the standard library: why kernels have no op → how many, and their µs.

    An op is that of the kernel's or its call's id, or any around the call.
    """
    given = by_json(path)
    operators = [it for it in given if it.get("cat") in ("cpu_op", "Operator")]
    ids = {it.get("args", {}).get("External id") for it in operators} - {None}
    spans: dict[str, list[tuple[float, float]]] = {}
    for it in operators:
        name = it["name"]
        if not name.startswith(("ProfilerStep#", "Optimizer.", "enumerate(")):
            spans.setdefault(str(it["tid"]), []).append(
                (it["ts"], it["ts"] + it["dur"])
            )
    busy = {thread: united(found) for thread, found in spans.items()}
    calls = {
        it["args"]["correlation"]: it
        for it in given
        if it.get("cat", "").lower() in ("runtime", "cuda_runtime", "cuda_driver")
        and "correlation" in it.get("args", {})
    }
    found: dict[str, list[float]] = {"all": [0, 0.0]}
    for it in given:
        if it.get("cat", "").lower() != "kernel":
            continue
        args = it["args"]
        call = calls.get(args["correlation"])
        reason = "named"
        if args.get("External id") not in ids - {args["correlation"]}:
            around = call is not None and any(
                begin <= call["ts"] < end
                for begin, end in near(busy[str(call["tid"])], call["ts"])
            )
            reason = "named" if around else "no call" if call is None else "outside"
        for key in ("all", reason):
            count, spent = found.setdefault(key, [0, 0.0])
            found[key] = [count + 1, spent + it["dur"]]
    return found


@pytest.mark.parametrize("item", ITEMS)
def test_kernel_time_has_an_op_or_a_reason(item: str, shared_profile: Shared) -> None:
    folder, _, worker = item.rpartition("/")
    (path,) = shared_profile(folder).glob(f"{worker}*.json*")
    trace = read_file(path)
    truth = without_op(path)
    profile = blueprint.profile(trace)
    activity = frame(trace, "device_activity")
    ops = profile.derived(trace.host, activity_ops)
    rows = activity.select("kind", "dur_ps").with_columns(
        reason=pl.Series(ops.no_op.astype(int)),
        named=ops.ops["name"].gather(ops.op) != UNANNOTATED,
    )
    kernels = rows.filter(pl.col("kind").is_in(["kernel", "collective"]))
    assert ((kernels["reason"] == NoOp.NAMED) == kernels["named"]).all()
    found = {
        NoOp(reason): (count, spent / 10**6)
        for reason, count, spent in kernels.group_by("reason")
        .agg(pl.len(), pl.col("dur_ps").sum())
        .iter_rows()
    }
    assert set(found) <= {NoOp.NAMED, NoOp.NO_CALL, NoOp.OUTSIDE}
    for reason, key in ((NoOp.NO_CALL, "no call"), (NoOp.OUTSIDE, "outside")):
        expected = truth.get(key, [0, 0.0])
        assert found.get(reason, (0, 0.0)) == pytest.approx(expected)
    total = truth["all"][1]
    assert found[NoOp.NAMED][1] >= 0.95 * (total - found.get(NoOp.NO_CALL, (0, 0))[1])
    notes = [
        note
        for note in profile.derived(trace.host, consistency)
        if note.kind == "kernels_without_op"
    ]
    count = truth["all"][0] - truth["named"][0]
    assert [note.count for note in notes] == ([count] if count else [])


@pytest.mark.slow(seconds=0.3)
@pytest.mark.parametrize("item", CALLED_OPS)
def test_every_operator_of_a_file_is_an_op(item: str, shared_profile: Shared) -> None:
    path = next(shared_profile(item).glob("*.json*"))
    trace = read_file(path)
    given = by_json(path)
    operators = Counter(it["name"] for it in given if it.get("cat") == "cpu_op")
    # It says what an op around it was asked to do.
    operators.pop("record_param_comms", None)
    found = blueprint.profile(trace).derived(trace.host, host_op_events)
    names = found.ops["name"].gather(found.op)
    assert dict(names.value_counts().iter_rows()) == dict(operators)


def times_ms(folder: Path) -> dict[str, float]:
    """Phase → its time in all windows of the only trace of a folder."""
    profile = ss.open(folder)
    (host,) = profile.hosts
    rows = profile.derived(host, phases).rows
    return {name: float(rows[f"{name}_ps"].sum()) / 1e9 for name in PHASES}


def test_the_phases_of_a_run_on_the_cpu(shared_profile: Shared) -> None:
    times = times_ms(shared_profile("torch_cpu/no_schedule"))
    # Convolutions alone take so long in either direction.
    assert times["backward"] > 3522
    assert times["forward"] > 1337
    assert 0 < times["unknown"] < 0.01 * sum(times.values())


@pytest.mark.profiles
def test_kernels_of_a_phase_were_launched_in_it(shared_profile: Shared) -> None:
    """Compute and collectives do not overlap in this file, nor kernels each other."""
    folder = shared_profile("kineto/hta_df_index_resolver")
    (path,) = folder.glob("*.json.gz")
    given = by_json(path)
    ranges: dict[str, list[tuple[int, float, float]]] = {
        "backward": [],
        "optimizer": [],
    }
    for it in given:
        for phase, begin in (
            ("backward", "autograd::engine::evaluate_function: "),
            ("optimizer", "Optimizer."),
        ):
            on_host = it.get("cat") in ("cpu_op", "user_annotation")
            if on_host and it["name"].startswith(begin):
                ranges[phase].append((it["tid"], it["ts"], it["ts"] + it["dur"]))
    calls = {
        it["args"]["correlation"]: it
        for it in given
        if it.get("cat") in ("cuda_runtime", "cuda_driver")
    }
    expected = dict.fromkeys(ranges, 0.0)
    for it in given:
        if it.get("cat") != "kernel" or "nccl" in it["name"].lower():
            continue
        call = calls[it["args"]["correlation"]]
        for phase, spans in ranges.items():
            expected[phase] += (
                it["dur"]
                / 1e3
                * any(
                    thread == call["tid"] and begin <= call["ts"] < end
                    for thread, begin, end in spans
                )
            )
    times = times_ms(folder)
    for phase, spent in expected.items():
        assert times[phase] == pytest.approx(spent, rel=1e-3)
