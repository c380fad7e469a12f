"""What devices can do at best: recorded, or from their data sheets."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.traces import blueprint

from stepscope.derive.consistency import consistency
from stepscope.derive.device.peaks import device_peaks

H100 = {
    "gpu_device_name": "NVIDIA H100 80GB HBM3",
    "device_vendor": "Nvidia",
    "core_count": 132,
    "compute_cap_major": 9,
    "compute_cap_minor": 0,
}
MI300X = {
    "device_vendor": "AMD",
    "core_count": 304,
    "clock_rate": 2_100_000,
    "compute_cap_major": 9,
    "compute_cap_minor": 4,
    "memory_size": 206_141_652_992,
}


def found_in(about: dict[str, Any]) -> tuple[tuple[Any, ...], set[str]]:
    trace = blueprint.trace([("gpu:0/7", "k", 0, 5)], devices={0: about})
    profile = blueprint.profile(trace)
    rows = profile.derived("vm", device_peaks).rows
    columns = ("clock_hz", "clock_source", "memory_bandwidth", "memory_source")
    notes = {one.kind for one in profile.derived("vm", consistency)}
    return rows.select(columns).row(0), {
        one for one in notes if "peaks" in one or "bandwidth" in one
    }


def test_what_the_recording_lacks_comes_from_the_data_sheet_and_is_marked() -> None:
    assert found_in(H100) == (
        (1_980_000_000, "data_sheet", 3.35e12, "data_sheet"),
        {"peaks_from_data_sheet"},
    )


def test_what_was_recorded_counts() -> None:
    recorded = {"clock_rate": 1_755_000, "memory_bandwidth": 3_352_320_000_000}
    assert found_in(H100 | recorded) == (
        (1_755_000_000, "recorded", 3_352_320_000_000.0, "recorded"),
        set(),
    )


def test_half_of_the_published_bandwidth_is_a_doubt() -> None:
    """AMD's tracer writes the memory's clock without its double data rate."""
    assert found_in(MI300X | {"memory_bandwidth": 2_662_400_000_000}) == (
        (2_100_000_000, "recorded", 5.3e12, "data_sheet"),
        {"memory_bandwidth_doubtful"},
    )


@pytest.mark.parametrize("name", [None, "An unknown card"])
def test_a_device_that_nobody_lists_has_no_peaks(name: str | None) -> None:
    about = {key: value for key, value in H100.items() if key != "gpu_device_name"}
    if name:
        about["gpu_device_name"] = name
    assert found_in(about) == ((None, None, None, None), set())


@pytest.mark.parametrize(("below", "source"), [(0, "recorded"), (1, "data_sheet")])
def test_three_quarters_of_the_published_bandwidth_are_no_doubt(
    below: int, source: str
) -> None:
    """The data sheet of an MI300X says 5,300 GB/s."""
    recorded = 3_975_000_000_000 - below
    found, notes = found_in(MI300X | {"memory_bandwidth": recorded})
    assert found[2:] == (float(5.3e12 if below else recorded), source)
    assert notes == ({"memory_bandwidth_doubtful"} if below else set())


def test_notes_have_the_numbers_of_the_recording_and_of_the_data_sheet() -> None:
    half = MI300X | {"memory_bandwidth": 2_650_000_000_000}
    for about, numbers in (
        (half, ("2,650 GB/s", "50 %", "5,300 GB/s")),
        (H100, ("1,980 MHz", "3,350 GB/s")),
        (H100 | {"clock_rate": 1_755_000}, ("3,350 GB/s",)),
        (H100 | {"memory_bandwidth": 3_352_320_000_000}, ("1,980 MHz",)),
    ):
        trace = blueprint.trace(
            [("gpu:0/7", "k", 0, 5), ("gpu:1/7", "k", 0, 5)],
            devices={0: about, 1: about},
        )
        # Devices alike have one note.
        (note,) = blueprint.profile(trace).derived("vm", device_peaks).notes
        listed = [text for text in ("MHz", "GB/s") if text in note.message]
        assert listed == [text for text in ("MHz", "GB/s") if text in " ".join(numbers)]
        assert all(number in note.message for number in numbers)
