"""`mem.oom` over traces of PyTorch with and without failed allocations."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.traces.training import findings, together

from stepscope.advice.engine import evaluate, signals_of
from stepscope.session import open_profile

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.advice.finding import Finding

GIB = 2**30


def memory(name: str, us: float, *, asked: int, used: int, held: int) -> dict[str, Any]:
    """An event of PyTorch's allocator."""
    return {
        "ph": "i",
        "s": "t",
        "cat": "cpu_instant_event",
        "name": name,
        "pid": 10,
        "tid": 10,
        "ts": us,
        "args": {
            "Bytes": asked,
            "Total Allocated": used,
            "Total Reserved": held,
            "Addr": 4096,
            "Device Id": 0,
            "Device Type": 1,
        },
    }


def judged(folder: Path, *events: dict[str, Any]) -> Finding:
    ops = [
        {
            "ph": "X",
            "cat": "cpu_op",
            "name": "aten::mm",
            "pid": 10,
            "tid": 10,
            "ts": 100.0 * at,
            "dur": 50.0,
        }
        for at in range(5)
    ]
    document = {
        "schemaVersion": 1,
        "baseTimeNanoseconds": 1_700_000_000_000_000_000,
        "traceEvents": [*ops, *events],
    }
    path = folder / "host.1795.pt.trace.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    found = evaluate(signals_of(open_profile(folder)))
    return next(one for one in found if one.id == "mem.oom")


TAKEN = memory("[memory]", 110.0, asked=GIB, used=20 * GIB, held=26 * GIB)


@pytest.mark.parametrize(
    ("asked", "because"), [(2 * GIB, "pieces"), (7 * GIB, "capacity")]
)
def test_what_was_kept_decides_what_lacked(
    tmp_path: Path, asked: int, because: str
) -> None:
    failed = memory("[OutOfMemory]", 220.0, asked=asked, used=20 * GIB, held=26 * GIB)
    finding = judged(tmp_path, TAKEN, failed)
    assert (finding.status, finding.severity) == ("fail", "critical")
    assert finding.because == (because,)
    assert {one.cause for one in finding.actions} == {because}
    facts = {fact.name: fact.value for fact in finding.facts}
    assert facts == {"asked_gib": asked / GIB, "allocated_gib": 20, "kept_gib": 6}


def test_a_try_after_which_the_program_goes_on_is_a_note(tmp_path: Path) -> None:
    failed = memory("[OutOfMemory]", 90.0, asked=GIB, used=GIB, held=GIB)
    finding = judged(tmp_path, failed, TAKEN)
    assert (finding.status, finding.severity) == ("fail", "info")
    assert finding.note == "recovered"


def test_no_failure_passes(tmp_path: Path) -> None:
    assert judged(tmp_path, TAKEN).status == "pass"


def test_a_recorder_that_notes_none_cannot_tell(tmp_path: Path) -> None:
    assert judged(tmp_path).status == "cannot_tell"
    assert findings(together())["mem.oom"].status == "cannot_tell"
