"""`mem.oom` over traces of PyTorch with and without failed allocations."""

from __future__ import annotations

import json
import pickle
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.traces.snapshots import FORWARD, MIB, snapshot
from tests.support.traces.training import findings, together

from stepscope.advice.engine import evaluate, signals_of
from stepscope.reporting.compose import compose_report
from stepscope.reporting.words.findings import finding_headline
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


def recorded(*events: dict[str, Any], device_gib: int | None = None) -> bytes:
    """A recording of PyTorch; the size of the device is not recorded by default."""
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
        "deviceProperties": []
        if device_gib is None
        else [{"id": 0, "name": "GPU", "totalGlobalMem": device_gib * GIB}],
        "traceEvents": [*ops, *events],
    }
    return json.dumps(document).encode()


def judged(folder: Path, *events: dict[str, Any], **fields: int) -> Finding:
    path = folder / "host.1795.pt.trace.json"
    path.write_bytes(recorded(*events, **fields))
    return finding_of(folder)


def finding_of(folder: Path) -> Finding:
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
    assert known_facts(finding) == {
        "asked_gib": asked / GIB,
        "allocated_gib": 20,
        "kept_gib": 6,
    }


def known_facts(finding: Finding) -> dict[str, float]:
    return {fact.name: fact.value for fact in finding.facts if fact.value is not None}


@pytest.mark.parametrize(
    ("device_gib", "asked_gib", "others_gib"),
    [
        # 80 GiB without the reserve of 26 and the request of 7: 47 are not available.
        (80, 7, 47),
        (37, 7, 4),
        # 3 of 36 GiB are less than a tenth: contexts and libraries need as much.
        (36, 7, None),
        # The allocator's own reserve was fragmented.
        (80, 5, None),
    ],
)
def test_memory_that_the_allocator_could_not_get_belongs_to_others(
    tmp_path: Path, device_gib: int, asked_gib: int, others_gib: int | None
) -> None:
    asked = asked_gib * GIB
    failed = memory("[OutOfMemory]", 220.0, asked=asked, used=20 * GIB, held=26 * GIB)
    finding = judged(tmp_path, TAKEN, failed, device_gib=device_gib)
    others = None if others_gib is None else others_gib * GIB
    assert known_facts(finding).get("others") == others
    assert ("others" in finding.because) is (others is not None)
    advised = [action.id for action in finding.actions]
    assert ("free_memory_of_others" in advised[:1]) is (others is not None)
    said = f"At least {others_gib}." if others_gib else "outside"
    assert (said in finding_headline(finding)) is (others is not None)


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


def test_a_failure_in_a_snapshot_leads_with_the_largest_holders(tmp_path: Path) -> None:
    # At 35 us 112 MiB are in use: 64 + 8 of the forward pass, 10 of weights, and 30
    # of which no line is known. 160 MiB are reserved; 32 are requested, and 5 are free.
    content = snapshot()
    content["device_traces"][0].insert(
        3,
        {
            "action": "oom",
            "size": 32 * MIB,
            "device_free": 5 * MIB,
            "stream": 0,
            "time_us": 1_700_000_000_035,
            "frames": FORWARD,
        },
    )
    # Nothing is allocated afterwards.
    content["device_traces"][0] = [
        one
        for place, one in enumerate(content["device_traces"][0])
        if place < 3 or one["action"] != "alloc"
    ]
    content["segments"][1]["blocks"][1]["state"] = "inactive"
    path = tmp_path / "made.pickle"
    path.write_bytes(pickle.dumps(content))
    report = compose_report(open_profile(path))
    finding = next(one for one in report.findings if one.id == "mem.oom")
    assert (finding.status, finding.severity) == ("fail", "critical")
    assert known_facts(finding) == {
        "asked_gib": 0.0312,
        "allocated_gib": 0.109,
        "kept_gib": 0.0469,
        "free": 5 * MIB,
    }
    assert [(part.name, round(part.share_percent)) for part in finding.parts] == [
        ("/home/me/train.py:21 step", 64),
        ("/home/me/train.py:9 new", 9),
    ]
    assert report.headline.text == (
        "Out of memory on cuda:0: 0.0312 GiB were requested, 5.00 MiB were free, and "
        "0.109 GiB were in use, the largest part for /home/me/train.py:21 step."
    )


def test_a_failure_outranks_lost_time(tmp_path: Path) -> None:
    failed = memory("[OutOfMemory]", 620.0, asked=GIB, used=GIB, held=GIB)
    judged(tmp_path, TAKEN, failed)
    report = compose_report(open_profile(tmp_path))
    assert report.headline.finding == "mem.oom"
