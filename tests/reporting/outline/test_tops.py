"""The ops with most time, as a report writes them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import polars as pl

from stepscope.reporting.outline import as_text
from stepscope.reporting.outline.tools import top_ops
from stepscope.reporting.page import plain_text


def shown(*named: tuple[str, str | None]) -> list[str]:
    """Write ops of these names and types."""
    rows = pl.DataFrame(
        {
            "name": [name for name, _ in named],
            "type": pl.Series([of for _, of in named], dtype=pl.String),
            "host_or_device": "Device",
            "occurrences": 2,
            "total_self_time_us": [100.0 - at for at in range(len(named))],
            "device_self_percent": 10.0,
        }
    )
    document: Any = SimpleNamespace(ops=SimpleNamespace(rows=rows), is_plain=False)
    lines = as_text.render(tuple(top_ops(document)), width=80)
    return plain_text(lines).splitlines()[:-1]


def test_types_that_repeat_the_names_leave_the_room_to_the_names() -> None:
    """One kernel without an op brought a column that cut every name to 12 letters."""
    long = "torch::autograd::CppNode<SplitLookupFunction>"
    lines = shown((long, long), ("(no annotation)", "Unknown"), ("all2all", None))
    assert "type" not in lines[0]
    assert lines[1].split()[0] == long


def test_a_type_beyond_the_name_is_shown() -> None:
    lines = shown(("a/dense/MatMul", "MatMul"), ("all2all", None))
    assert lines[0].split()[:5] == ["op", "on", "the", "device", "type"]
    assert lines[1].split()[:2] == ["a/dense/MatMul", "MatMul"]
    assert lines[2].split()[:2] == ["all2all", "–"]
