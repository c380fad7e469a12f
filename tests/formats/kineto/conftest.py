"""A trace from literal events or literal bytes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.traces.kineto import read_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stepscope.trace.model import TraceData


@pytest.fixture
def trace_of(tmp_path: Path) -> Callable[..., TraceData]:
    """`trace_of([event, …], baseTimeNanoseconds=…)`: the trace of a literal file."""

    def build(events: list[dict[str, Any]], **top: Any) -> TraceData:
        path = tmp_path / "worker0.pt.trace.json"
        path.write_text(json.dumps({"schemaVersion": 1, **top, "traceEvents": events}))
        return read_file(path)

    return build


@pytest.fixture
def trace_of_bytes(tmp_path: Path) -> Callable[[bytes], TraceData]:
    """The trace of a file with these bytes."""

    def build(data: bytes) -> TraceData:
        path = tmp_path / "trace.json"
        path.write_bytes(data)
        return read_file(path)

    return build
