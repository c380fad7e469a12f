"""What ops of devices computed and moved, where nothing but the device tells."""

from __future__ import annotations

import pytest
from tests.support.traces import blueprint

from stepscope.derive.ops.costs import op_costs

DETAILS = "kind_src:{} kind_dst:{} size:{} dest:0 async:1"


def test_copies_move_their_bytes_through_the_memory_of_the_device() -> None:
    def copy(name: str, at: int, source: str, target: str, size: int) -> blueprint.Line:
        details = DETAILS.format(source, target, size)
        return ("gpu:0/7", name, at, 10, {"memcpy_details": details})

    trace = blueprint.trace(
        [
            copy("MemcpyD2D", 0, "device", "device", 1000),
            copy("MemcpyD2D", 20, "device", "device", 24),
            copy("MemcpyH2D", 40, "pinned", "device", 300),
            ("gpu:0/7", "MemcpyD2H", 60, 10),
            ("gpu:0/7", "k", 80, 10),
        ],
        devices={0: blueprint.A100},
    )
    costs = blueprint.profile(trace).derived("vm", op_costs)
    columns = ("name", "flops", "accessed_bytes", "peak_bytes")
    found = {row[0]: row[1:] for row in costs.select(columns).iter_rows()}
    assert found == {
        # Every byte is read and written.
        "MemcpyD2D": (0, 2048, pytest.approx(20e-6 * 1_555_200_000_000)),
        # What limits it is the link, not the memory.
        "MemcpyH2D": (0, 300, None),
        # Of its bytes nothing was recorded.
        "MemcpyD2H": (None, None, None),
        "(no annotation)": (None, None, pytest.approx(10e-6 * 1_555_200_000_000)),
    }
