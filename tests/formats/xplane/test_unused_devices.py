"""GPUs that a profile lists, and that have no work: used, unused, or in doubt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.results.pages import page
from tests.support.xspace.literal import event, line, plane, space

from stepscope.derive.profile_data import ProfileData
from stepscope.derive.verdicts.recorded_devices import device_signals
from stepscope.formats.opening import read
from stepscope.remedies import Remedy
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stepscope.trace.model import TraceData

LISTED = plane("/device:GPU:0", stats={"compute_cap_major": 9})


@pytest.fixture
def trace(tmp_path: Path) -> Callable[..., TraceData]:
    def of(*planes: Any, **about: Any) -> TraceData:
        path = tmp_path / "vm.xplane.pb"
        path.write_bytes(space(*planes, **about))
        return read(path)

    return of


def calling(*events: Any) -> list[Any]:
    """A host thread with an op and some calls, beside a GPU without any work."""
    return [plane("/host:CPU", line(1, "main", event("op", 0, 900), *events)), LISTED]


@pytest.mark.parametrize(
    ("events", "code", "words"),
    [
        ([event("cuLaunchKernel", 9, 5)], "NO_DEVICE_EVENTS", "none of its activity"),
        (
            [event("launch", 9, 5, {"correlation_id": 1})],
            "NO_DEVICE_EVENTS",
            "none of its activity",
        ),
        (
            [event("cudaDeviceSynchronize", 9, 5, {"correlation_id": 1})],
            "NO_DEVICE_PLANE",
            "no recorded call launched work on it: the recorded part of the program",
        ),
        (
            [event("MemoryAllocation", 9, 5, {"allocator_name": "GPU_0_bfc"})],
            "NO_DEVICE_EVENTS",
            "none of its activity",
        ),
        (
            [event("[memory]", 9, 5, {"Device Type": 1, "Bytes": 8})],
            "NO_DEVICE_EVENTS",
            "none of its activity",
        ),
        (
            [event("[memory]", 9, 5, {"Device Type": 0, "Bytes": 8})],
            "NO_DEVICE_PLANE",
            "neither work on the device nor calls to the device were recorded",
        ),
        (
            [],
            "NO_DEVICE_PLANE",
            "neither work on the device nor calls to the device were recorded",
        ),
    ],
)
def test_a_listed_gpu_was_used_or_not_or_it_stays_in_doubt(
    trace: Any, events: list[Any], code: str, words: str
) -> None:
    """As in traces of PyTorch: tracers list every GPU of the machine."""
    found = trace(*calling(*events))
    absent = found.table("device_activity")
    assert isinstance(absent, Unavailable)
    assert absent.code == code
    assert words in absent.reason
    in_doubt = "neither" in words
    kinds = {note.kind for note in found.quality_notes()}
    assert ("device_in_doubt" in kinds) is in_doubt
    signals = ProfileData("run", {"vm": found}).of_run(device_signals)
    assert signals.in_doubt is in_doubt
    used = code == "NO_DEVICE_EVENTS"
    assert (signals.recorded == "silent") is (used or in_doubt)
    assert isinstance(found.table("launches"), Unavailable) is (
        not used or events[0].name != "launch"
    )


def test_a_tracer_that_failed_leaves_in_doubt_whether_the_listed_gpu_was_used(
    trace: Any,
) -> None:
    said = "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"
    absent = trace(*calling(), errors=(said,)).table("device_activity")
    assert isinstance(absent, Unavailable)
    assert (absent.code, said in absent.reason) == ("NO_DEVICE_PLANE", True)
    assert absent.remedy == Remedy.ALLOW_PROFILING


@pytest.mark.parametrize(
    ("events", "recorded"),
    [
        # Ops take device memory and get data, or the device took no part.
        ([], "host_only"),
        ([event("MemoryAllocation", 9, 5, {"allocator_name": "cpu"})], "host_only"),
        ([event("MemoryAllocation", 9, 5, {"allocator_name": "GPU_0_bfc"})], "silent"),
        ([event("IteratorGetNext/_3:_Send", 9, 5)], "silent"),
    ],
)
def test_without_the_tracers_library_ops_show_where_they_ran(
    trace: Any, events: list[Any], recorded: str
) -> None:
    """A GPU is listed, libcupti is missing, and a MatMul runs for 300 of 900 µs."""
    said = "Failed to load libcupti (is it installed and accessible?)"
    op = event("lstm/cell/MatMul:MatMul", 100_000_000, 300_000_000)
    found = trace(*calling(op, *events), errors=(said,))
    signals = ProfileData("run", {"vm": found}).of_run(device_signals)
    assert signals.recorded == recorded
    assert signals.in_doubt is False
    (note,) = (one for one in found.quality_notes() if one.kind == "producer_error")
    # What is wrong with the tracer of a device that took no part does not matter.
    assert note.severity == ("info" if recorded == "host_only" else "error")
    text = " ".join(page(found).split())
    assert ("device's work is not in this profile" in text) is (recorded == "silent")
    assert "sudo" not in text
    if recorded == "silent":
        assert "Put the libcupti of the framework's CUDA version" in text
