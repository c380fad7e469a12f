"""Devices that a trace lists: whether the program is known to have used none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.results.pages import document_of, page
from tests.support.traces.kineto import PID, call, check_all, complete, frame

from stepscope.derive.profile_data import ProfileData
from stepscope.derive.verdicts.recorded_devices import device_signals
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.trace.model import TraceData

    Build = Callable[..., TraceData]

LISTED = {"deviceProperties": [{"id": 0, "name": "NVIDIA A100"}]}


def memory(ts: float, kind: int = 0) -> dict[str, Any]:
    """64 bytes of the memory of the host, or of a device."""
    return {
        "ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]",
        "pid": PID, "tid": PID, "ts": ts,
        "args": {"Device Type": kind, "Device Id": kind - 1, "Bytes": 64},
    }  # fmt: skip


HOSTS = [memory(at) for at in range(100, 110)]


@pytest.mark.parametrize(
    ("events", "used"),
    # None: nothing shows it.
    [
        # Recorded calls say by what they ask for whether a device was used.
        ([call("cudaGetDeviceProperties", 10, 5), call("cudaFree", 20, 5)], False),
        ([call("cudaLaunchKernel", 10, 5, correlation=3)], True),
        ([call("hipMemcpyAsync", 10, 5, correlation=3)], True),
        ([call("cudaMalloc", 10, 5)], True),
        ([call("cudaMallocHost", 10, 5)], False),
        # Without any, where tensors lie says it, if there are enough of them.
        (HOSTS, False),
        (HOSTS[1:], None),
        ([*HOSTS, memory(200, 1)], True),
        ([memory(200, 1)], True),
        # Calls outweigh memory: a step may ask for none on its device.
        ([call("cuLaunchKernel", 10, 5, correlation=3), *HOSTS], True),
        # So do ops that only a device, or only a CPU has.
        ([complete("aten::cudnn_convolution", 0, 9)], True),
        ([complete("aten::mkldnn_convolution", 0, 9)], False),
        (
            [
                complete("aten::mkldnn_convolution", 0, 9),
                complete("aten::_pin_memory", 9, 9),
            ],
            True,
        ),
        ([], None),
    ],
)
def test_a_listed_device_was_used_or_not_or_it_stays_in_doubt(
    trace_of: Build, events: list[Any], *, used: bool | None
) -> None:
    """PyTorch lists every device of the machine, whatever the program ran on."""
    trace = trace_of([complete("aten::mm", 0, 900), *events], **LISTED)
    check_all(trace)
    assert frame(trace, "devices").height == 1
    missing = trace.table("device_activity")
    assert isinstance(missing, Unavailable)
    assert missing.code == ("NO_DEVICE_EVENTS" if used else "NO_DEVICE_PLANE")
    assert ("ran on the CPU" in missing.reason) is not used
    notes = [note.kind for note in trace.quality_notes()]
    assert ("device_in_doubt" in notes) is (used is None)
    profile = ProfileData("run", {"vm": trace})
    found = profile.of_run(device_signals)
    assert found.recorded == ("host_only" if used is False else "silent")
    assert found.in_doubt is (used is None)
    assert (found.sign is None) is (used is False)


def test_in_doubt_nobody_says_that_the_device_was_used(trace_of: Build) -> None:
    """A program on the CPU of a machine with a GPU, recorded without calls: 0.9 ms."""
    marks = [
        complete(f"ProfilerStep#{step}", 1000 * step, 1000, cat="user_annotation")
        for step in range(4)
    ]
    ops = [complete("aten::mm", 1000 * step + 50, 900) for step in range(4)]
    trace = trace_of([*marks, *ops], **LISTED)
    document = document_of(trace)
    assert document.headline.text == (
        "A device is listed, but none of its work was recorded: if the program used "
        "the device, the results cover the host only."
    )
    (line, *_) = document.overview.account
    assert (line.owner, line.percent) == ("host_compute", pytest.approx(90.0))
    text = " ".join(page(trace).split())
    assert "The program used a device" not in text
    assert "A device was used" not in text
    assert (
        "no recorded call launched work on the device: it may have been unused" in text
    )
    assert "If the program used the device" in text


def test_calls_that_give_no_work_are_no_launches(trace_of: Build) -> None:
    trace = trace_of([call("cudaFree", 20, 5, correlation=3)], **LISTED)
    assert isinstance(trace.table("launches"), Unavailable)
    trace = trace_of([call("cudaLaunchKernel", 20, 5, correlation=3)], **LISTED)
    assert frame(trace, "launches").height == 1


def reads(wait_us: int, *events: dict[str, Any]) -> list[dict[str, Any]]:
    """Twelve steps of 1 ms: an op of 90 µs, and a read of one value that waits."""
    ops = [
        complete(name, 1000 * step + begin, dur)
        for step in range(12)
        for name, begin, dur in (
            ("aten::addcdiv_", 50, 90),
            ("aten::item", 200, wait_us + 4),
            ("aten::_local_scalar_dense", 202, wait_us),
        )
    ]
    return [*ops, *events]


def test_reading_values_waits_for_a_device_that_no_tracer_sees(trace_of: Build) -> None:
    """As on Apple's GPUs: 12 reads of 600 µs, and one op of 5 ms that is else 90 µs.

    The recording ends with that op, at 17 ms: waits are 12 x 0.6 + 5 = 12.2 of 16.95.
    """
    trace = trace_of(reads(600, complete("aten::addcdiv_", 12_000, 5000)))
    missing = trace.table("device_activity")
    assert isinstance(missing, Unavailable)
    assert missing.code == "NO_DEVICE_EVENTS"
    profile = ProfileData("run", {"vm": trace})
    assert profile.of_run(device_signals).recorded == "silent"
    document = document_of(trace)
    (owner, percent), *_ = (
        (part.owner, part.percent) for part in document.overview.account if part.percent
    )
    assert (owner, percent) == ("sync", pytest.approx(100 * 12.2 / 16.95, abs=0.5))
    assert "The host waits for it for 72.0 % of the time" in document.headline.text
    text = " ".join(page(trace).split())
    assert "torch.mps.profiler" in text
    assert "sudo" not in text
    assert "CUPTI" not in text


@pytest.mark.parametrize(
    "events",
    [
        # A read that does not wait; one that a busy machine held up; no device called.
        reads(3),
        reads(3, complete("aten::_local_scalar_dense", 12_000, 5000)),
        reads(600, call("cudaGetDeviceCount", 10, 5)),
    ],
)
def test_reads_on_a_host_without_devices_are_its_own_work(
    trace_of: Build, events: list[dict[str, Any]]
) -> None:
    trace = trace_of(events)
    profile = ProfileData("run", {"vm": trace})
    assert profile.of_run(device_signals).recorded == "host_only"


def test_lost_records_leave_what_the_host_did(trace_of: Build) -> None:
    """Three steps of 10 ms: 7 ms of random numbers on the host, a copy of 2 ms."""
    events = [
        event
        for step in range(3)
        for begin in (10_000 * step,)
        for event in (
            complete(f"ProfilerStep#{step}", begin, 10_000, cat="user_annotation"),
            complete("aten::normal_", begin + 100, 7000),
            complete("aten::copy_", begin + 7200, 2100),
            call("cudaMemcpyAsync", begin + 7250, 2000, correlation=2 * step + 1),
            complete("aten::pow", begin + 9400, 50),
            call("cudaLaunchKernel", begin + 9410, 10, correlation=2 * step + 2),
        )
    ]
    document = document_of(trace_of(events, **LISTED))
    shares = {part.owner: part.percent for part in document.overview.account}
    assert shares["host_compute"] == pytest.approx(70.0)
    assert shares["sync"] == pytest.approx(20.0)
    assert document.headline.text == (
        "A device was used, but none of its work was recorded. On the host, "
        "aten::normal_ takes 70.0 % of the time, and waits for the device, mostly in "
        "cudaMemcpyAsync, take 20.0 %."
    )
