"""Whatever the bytes: tables as declared, or one clear line."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from tests.support.kept_promises import check_frame
from tests.support.xspace.literal import Ref, Unsigned, event, line, plane, space

from stepscope.errors import BadInput
from stepscope.formats.opening import read
from stepscope.trace.tables import TABLES
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from pathlib import Path

DETAILS = (
    "regs:32 static_shared:0 dynamic_shared:64 grid:10,1,1 block:128,1,1 occ_pct:50"
)
#: A little of everything that the reader looks at.
WHOLE = space(
    plane(
        "/host:metadata",
        types={
            "jit_f(9)": {"Hlo Proto": b"\x0a\x0b\x0a\x03mod\x1a\x04\x12\x02\x0a\x00"}
        },
    ),
    plane(
        "/host:CPU",
        line(
            -7,
            "main",
            event("train", 0, 900, step_num=7, _r=1),
            event("cuLaunchKernel", 100, 5, correlation_id=Unsigned(1)),
            event("Iterator::Batch", 200, 50, id=3, parent_id=Unsigned(2**63 + 1)),
            event("MemoryAllocation", 300, 0, addr=1, bytes_allocated=9, shape="[2]"),
            event("counted", 0, 5, occurrences=3),
            timestamp_ns=36_840,
        ),
        stats={"process_id": 77},
    ),
    plane(
        "/device:GPU:0",
        line(
            7,
            "Stream #7(Compute)",
            event("sgemm", 9, 50, correlation_id=1, kernel_details=Ref(DETAILS)),
            event("MemcpyH2D", 70, 5, memcpy_details="size:8 dest:0", tf_op="a:B"),
        ),
        line(-559038737, "Steps", event("0", 9, 66, group_id=0)),
        stats={"clock_rate": 1, "compute_cap_major": 7},
    ),
    plane(
        "/device:TPU:0",
        line(3, "XLA Ops", event("while", 0, 50), event("add", 0, 20, program_id=9)),
        types={"add": {"hlo_category": "all-reduce"}},
    ),
    plane("Task Environment", stats={"profile_options": b"\x10\x02"}),
    errors=("an error",),
)


def outcome(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    refusal = ""
    try:
        trace = read(path)
    except BadInput as error:
        refusal = str(error)
    if refusal:
        assert "\n" not in refusal
        return "refused"
    for name, schema in TABLES.items():
        table = trace.table(name)
        if isinstance(table, Unavailable):
            assert table.reason
            assert table.remedy
        else:
            assert check_frame(schema, table) == []
    events = trace.table("events")
    assert events.height == 0 or events["dur_ps"].min() >= 0
    return "read"


@pytest.mark.slow
def test_every_cut_is_read_or_refused(tmp_path: Path) -> None:
    outcomes = [
        outcome(tmp_path / "vm.xplane.pb", WHOLE[:length])
        for length in range(0, len(WHOLE) + 1, 10)
    ]
    assert set(outcomes[20:]) == {"read"}
    assert outcomes[0] == "refused"


@pytest.mark.slow(seconds=0.4)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.sweep(every=4)
def test_changed_bytes_are_read_or_refused(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311 - bytes to try, not secrets
    outcomes = set()
    for _ in range(40):
        changed = bytearray(WHOLE)
        for _ in range(dice.choice((1, 1, 2, 8))):
            at = dice.randrange(len(changed))
            changed[at] = dice.choice((dice.randrange(256), 0, 0x7F, 0xFF))
        outcomes.add(outcome(tmp_path / "vm.xplane.pb", bytes(changed)))
    assert "read" in outcomes


@pytest.mark.slow(seconds=0.4)
@pytest.mark.parametrize("seed", range(2))
def test_pieces_left_out_or_repeated_are_read_or_refused(
    tmp_path: Path, seed: int
) -> None:
    dice = random.Random(seed)  # noqa: S311 - bytes to try, not secrets
    outcomes = set()
    for _ in range(40):
        begin, end = sorted(dice.randrange(len(WHOLE)) for _ in range(2))
        changed = WHOLE[:begin] + WHOLE[end:]
        if dice.random() < 0.5:
            changed = WHOLE[:end] + WHOLE[begin:]
        outcomes.add(outcome(tmp_path / "vm.xplane.pb", changed))
    assert "read" in outcomes
