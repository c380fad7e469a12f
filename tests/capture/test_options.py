"""Options of a recording: the defaults, and what is refused in one line."""

from __future__ import annotations

from typing import Any

import pytest

import stepscope as ss
from stepscope.errors import BadUsage


def test_the_defaults_are_those_of_tensorflow() -> None:
    options = ss.ProfilerOptions()
    levels = (
        options.host_tracer_level,
        options.python_tracer_level,
        options.device_tracer_level,
    )
    assert (levels, options.delay_ms) == ((2, 0, 1), None)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("host_tracer_level", 4),
        ("host_tracer_level", -1),
        ("host_tracer_level", True),
        ("python_tracer_level", 2),
        ("device_tracer_level", "1"),
        ("delay_ms", -1),
        ("delay_ms", "soon"),
        ("counters_hz", -0.5),
        ("counters_hz", 1e6),
        ("counters_hz", None),
        ("collectors", "host"),
        ("collectors", ["host"]),
        ("collectors", (1,)),
        ("max_bytes", 10),
    ],
)
def test_what_no_recording_can_have_is_refused_in_one_line(
    name: str, value: Any
) -> None:
    with pytest.raises(BadUsage, match=name) as refused:
        ss.ProfilerOptions(**{name: value})
    assert "\n" not in str(refused.value)
