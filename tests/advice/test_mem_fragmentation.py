"""`mem.fragmentation` over literal memories and on whole traces."""

from __future__ import annotations

from typing import Any

import pytest
from tests.advice.memories import memory, told
from tests.support.traces.training import allocating, findings, together

from stepscope.advice.rules.memory.device_memory import judge_fragmentation as evaluate


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        # 8 GiB are free, and the largest piece has 1 GiB.
        ({"peak_gib": 32.0, "fragmentation": 0.875}, "fail"),
        ({"peak_gib": 32.0, "fragmentation": 0.0625}, "pass"),
        # Pieces of what is hardly there.
        ({"peak_gib": 39.8, "fragmentation": 0.6}, "pass"),
        # Half of nearly everything is a large piece.
        ({"peak_gib": 1.0, "fragmentation": 0.5}, "pass"),
    ],
    ids=["pieces", "one piece", "nothing free", "much free"],
)
def test_the_largest_piece_decides(
    signals_of: Any, fields: dict[str, Any], status: str
) -> None:
    finding = evaluate(signals_of(told(memory(**fields))))
    assert finding.status == status
    assert finding.value == fields["fragmentation"]


@pytest.mark.parametrize("field", ["fragmentation", "free_bytes", "capacity_bytes"])
def test_what_is_not_known_cannot_tell(signals_of: Any, field: str) -> None:
    finding = evaluate(signals_of(told(memory(**{field: None}))))
    assert finding.status == "cannot_tell"
    assert evaluate(signals_of(told())).status == "cannot_tell"


def test_a_memory_in_pieces_is_found() -> None:
    finding = findings(allocating(peak_gib=32.0, fragmentation=0.875))
    one = finding["mem.fragmentation"]
    assert (one.status, one.severity) == ("fail", "warn")
    assert one.devices == ("vm:GPU_0_bfc",)
    assert finding["mem.peak"].status == "pass"


def test_the_base_passes() -> None:
    assert findings(allocating())["mem.fragmentation"].status == "pass"


def test_without_allocations_it_cannot_tell() -> None:
    assert findings(together())["mem.fragmentation"].status == "cannot_tell"
