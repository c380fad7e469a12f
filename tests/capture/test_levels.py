"""Levels are read back from the file, and a difference names both."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest

import stepscope as ss
from stepscope.capture.base.options import ProfilerOptions
from stepscope.capture.collectors.levels import (
    TracerLevels,
    level_warnings,
    levels_in_force,
)
from stepscope.xspace.writing.write import XSpaceBuilder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def space_with(options: bytes | None) -> bytes:
    space = XSpaceBuilder("host", start_ns=1, stop_ns=2)
    space.plane("/host:CPU").line(1).event("op", dur_ps=5)
    if options is not None:
        space.environment().stat("profile_options", options)
    return space.to_bytes()


def test_levels_come_back_as_they_were_written() -> None:
    levels = TracerLevels(host=3, device=0, python=1)
    assert levels_in_force(space_with(levels.message())) == levels


def test_a_level_that_is_not_written_is_level_0() -> None:
    # ProfileOptions with host_tracer_level (field 2) = 2 alone.
    assert levels_in_force(space_with(b"\x10\x02")) == TracerLevels(2, 0, 0)


def test_no_options_mean_that_nobody_knows() -> None:
    assert levels_in_force(space_with(None)) is None
    assert levels_in_force(b"") is None


def test_a_cut_recording_says_nothing_and_raises_nothing() -> None:
    whole = space_with(TracerLevels(2, 1, 0).message())
    for end in range(len(whole)):
        levels_in_force(whole[:end])
    assert levels_in_force(whole) == TracerLevels(2, 1, 0)


@pytest.mark.parametrize("profile", ["tf_cpu/healthy", "jax_cpu/steps"])
def test_real_recordings_tell_the_levels_that_the_reader_finds(
    profile: str, shared_profile: Callable[[str], Path]
) -> None:
    (path,) = sorted(shared_profile(profile).rglob("*.xplane.pb*"))
    found = ss.open(path)
    row = found.table(found.hosts[0], "environment").row(0, named=True)
    levels = levels_in_force(gzip.decompress(path.read_bytes()))
    assert levels is not None
    assert tuple(levels) == (
        row["host_tracer_level"],
        row["device_tracer_level"],
        row["python_tracer_level"],
    )


def test_a_difference_names_what_was_asked_and_what_is_in_force() -> None:
    asked = TracerLevels.asked(ProfilerOptions(host_tracer_level=1))
    (warning,) = level_warnings("JAX", asked, TracerLevels(2, 1, 0))
    assert warning == (
        "JAX recorded with tracer levels host 2, device 1, python 0; requested were "
        "host 1, device 1, python 0"
    )
    assert level_warnings("JAX", asked, asked) == ()
    assert level_warnings("JAX", asked, None) == ()
