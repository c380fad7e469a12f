"""Devices that a trace lists: whether the program is known to have used none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.traces.kineto import PID, call, check_all, complete, frame

from stepscope.advice.signals.device import device_signals
from stepscope.derive.profile_data import ProfileData
from stepscope.thresholds import THRESHOLDS
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
    [
        # Recorded calls say by what they ask for whether a device was used.
        ([call("cudaGetDeviceProperties", 10, 5), call("cudaFree", 20, 5)], False),
        ([call("cudaLaunchKernel", 10, 5, correlation=3)], True),
        ([call("hipMemcpyAsync", 10, 5, correlation=3)], True),
        ([call("cudaMalloc", 10, 5)], True),
        ([call("cudaMallocHost", 10, 5)], False),
        # Without any, where tensors lie says it, if there are enough of them.
        (HOSTS, False),
        (HOSTS[1:], True),
        ([*HOSTS, memory(200, 1)], True),
        # Calls outweigh memory: a step may ask for none on its device.
        ([call("cuLaunchKernel", 10, 5, correlation=3), *HOSTS], True),
        ([], True),
    ],
)
def test_a_listed_device_was_used_unless_something_proves_that_it_was_not(
    trace_of: Build, events: list[Any], *, used: bool
) -> None:
    """PyTorch lists every device of the machine, whatever the program ran on."""
    trace = trace_of([complete("aten::mm", 0, 900), *events], **LISTED)
    check_all(trace)
    assert frame(trace, "devices").height == 1
    missing = trace.table("device_activity")
    assert isinstance(missing, Unavailable)
    assert missing.code == ("NO_DEVICE_EVENTS" if used else "NO_DEVICE_PLANE")
    assert ("ran on the CPU" in missing.reason) is not used
    profile = ProfileData("run", {"vm": trace})
    found = device_signals.compute(profile, THRESHOLDS)
    assert found.recorded == ("silent" if used else "host_only")


def test_calls_that_give_no_work_are_no_launches(trace_of: Build) -> None:
    trace = trace_of([call("cudaFree", 20, 5, correlation=3)], **LISTED)
    assert isinstance(trace.table("launches"), Unavailable)
    trace = trace_of([call("cudaLaunchKernel", 20, 5, correlation=3)], **LISTED)
    assert frame(trace, "launches").height == 1
