"""Operations and bytes per second by shape of the operands, worked out by hand."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.traces.kineto import call, complete, kernel

import stepscope
from stepscope.units import GIB

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Shapes = Callable[..., list[tuple[Any, ...]]]


def op(name: str, start: float, dur: float, dims: list[Any]) -> list[dict[str, Any]]:
    """An operator with recorded operands: floats, and nothing where a size is []."""
    types = ["float" if one else "" for one in dims]
    about = {"Input Dims": dims, "Input type": types}
    return [complete(name, start, dur, cat="cpu_op", args=about)]


def launched(number: int, at: float, begin: float, dur: float) -> list[dict[str, Any]]:
    return [
        call("cudaLaunchKernel", at, 1, correlation=number),
        kernel("k", begin, dur, correlation=number),
    ]


@pytest.fixture
def shapes_of(tmp_path: Path) -> Shapes:
    def found(*events: list[dict[str, Any]], op: str) -> list[tuple[Any, ...]]:
        path = tmp_path / "vm.pt.trace.json"
        rows = [one for some in events for one in some]
        path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": rows}))
        shapes = stepscope.open(path).tool("framework_op_stats", op=op).shapes
        columns = ("shape", "calls", "measured_flop_rate", "measured_memory_bw")
        return [(shape[:13], *rest) for shape, *rest in shapes.select(columns).rows()]

    return found


SMALL, LARGE = [[2, 3], [3, 4]], [[20, 30], [30, 40]]


def test_each_shape_has_the_rate_of_its_own_calls(shapes_of: Shapes) -> None:
    found = shapes_of(
        op("aten::mm", 0, 5, SMALL),
        launched(1, 1, 100, 2),
        op("aten::mm", 10, 5, LARGE),
        launched(2, 11, 110, 10),
        op("aten::mm", 20, 5, LARGE),
        launched(3, 21, 120, 30),
        op="aten::mm",
    )
    # 2 m n k operations a call and 4 bytes an element; 48,000 in 20 us each.
    assert found == [
        (
            "float[20,30],",
            2,
            pytest.approx(2 * 48_000 / 40e-6 / 1e9),
            _bw(2 * 2_600, 40),
        ),
        ("float[2,3], f", 1, pytest.approx(48 / 2e-6 / 1e9), _bw(26, 2)),
    ]


def _bw(elements: int, us: float) -> Any:
    return pytest.approx(4 * elements / (us * 1e-6) / GIB)


def test_what_an_op_calls_others_for_is_its_work_too(shapes_of: Shapes) -> None:
    """The outer op has no kernel of its own; its product is that of the inner one."""
    found = shapes_of(
        op("aten::linear", 0, 20, [[2, 3], [4, 3], []]),
        op("aten::mm", 2, 10, SMALL),
        launched(1, 3, 100, 2),
        op="aten::linear",
    )
    assert found == [("float[2,3], f", 1, pytest.approx(48 / 2e-6 / 1e9), _bw(26, 2))]


def test_a_call_with_unknown_work_inside_has_no_rate(shapes_of: Shapes) -> None:
    found = shapes_of(
        op("MyLayerBackward", 0, 30, [[2, 3]]),
        op("aten::mm", 2, 8, SMALL),
        launched(1, 3, 100, 2),
        op("custom::unknown", 12, 8, [[2, 3]]),
        launched(2, 13, 110, 2),
        op="MyLayerBackward",
    )
    assert found == [("float[2,3], f", 1, None, None)]


def test_without_a_device_the_host_s_time_counts(shapes_of: Shapes) -> None:
    found = shapes_of(op("aten::mm", 0, 5, SMALL), op="aten::mm")
    assert found == [("[[2, 3], [3, ", 1, pytest.approx(48 / 5e-6 / 1e9), _bw(26, 5))]


def test_calls_without_duration_have_no_rate(shapes_of: Shapes) -> None:
    found = shapes_of(op("aten::mm", 0, 0, SMALL), op="aten::mm")
    assert found == [("[[2, 3], [3, ", 1, None, None)]
