"""The page of one op: what a person reads of its cause, kernels, copies and calls."""

from __future__ import annotations

import pytest
from tests.support.traces import blueprint
from tests.support.traces.ops import LOW, call, copy, detail, kernel, of

from stepscope.reporting.outline import as_text
from stepscope.reporting.text import op as text_op


def page(*lines: blueprint.Line, width: int = 120) -> list[str]:
    result = of(*lines)
    drawn = text_op.op_outline(result, title="Ops", others=["rows", "calls"])
    return as_text.render_page(drawn, width=width).splitlines()


def test_the_cause_its_parts_and_the_tables_stand_below_each_other() -> None:
    lines = page(
        *call(10, 30, 1), copy(30, 100, 1), *call(140, 9, 2), kernel(150, 20, 2)
    )
    assert lines[:3] == ["Ops", "op a", "  2 calls"]
    at = lines.index("Cause")
    assert lines[at + 1].startswith("  Transfer dominates")
    parts = [line.split("  ")[1] for line in lines[at + 2 : at + 5]]
    assert parts == [
        "copies, memsets and collectives",
        "device idle, waiting for the op",
        "kernels that fill the device",
    ]
    assert "66.7 %" in lines[at + 2]
    headings = [line for line in lines if line and not line.startswith(" ")]
    assert headings[2:] == [
        "Cause",
        "In the tables of ops",
        "Kernels",
        "Copies and memsets",
        "Launches",
        "Calls",
        *headings[8:],
    ]
    (drawn,) = [line for line in lines if line.startswith("  MemcpyH2D")]
    assert drawn.split()[1:4] == ["h2d", "1", "100"]


def test_a_kernel_says_what_limits_it() -> None:
    lines = page(*call(0, 5, 1), kernel(1, 50, 1, details=LOW))
    (drawn,) = [line for line in lines if line.startswith("  k ")]
    assert "low occupancy" in drawn
    assert drawn.endswith("3 %  shared memory")


def test_what_is_not_known_has_its_reason_and_no_column() -> None:
    lines = page(*call(0, 5, 1), kernel(1, 50, 1, details=None))
    assert "regs" not in "".join(lines)
    assert any("The dominating cause is unknown" in line for line in lines)
    assert any("kernels.registers" in line for line in lines)


@pytest.mark.parametrize("width", [80, 100, 160])
def test_no_line_is_wider_than_the_page(width: int) -> None:
    name = "void " + "very::long::" * 20 + "kernel()"
    lines = page(*call(0, 5, 1), kernel(1, 50, 1, name=name), width=width)
    (drawn,) = [line for line in lines if line.startswith("  void very")]
    assert "registers" in drawn
    assert max(map(len, lines)) <= width


def test_several_hosts_and_ops_are_named() -> None:
    both = blueprint.profile(blueprint.a1(), blueprint.a5_host_b())
    result = detail(both, scope="model")
    outline = text_op.op_outline(result, title="Ops", others=[])
    drawn = as_text.render_page(outline, width=160)
    assert "32 calls of 2 ops" in drawn
    assert "model/dense/MatMul " in drawn
    calls = drawn[drawn.index("longest first") :].splitlines()
    assert "host" in calls[0].split()
    assert " b " in calls[1]
