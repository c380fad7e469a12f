"""Instructions that a compiler made of one op of the program are one row."""

from __future__ import annotations

import polars as pl
from tests.support.traces import blueprint

from stepscope.derive.ops.database import host_ops
from stepscope.trace.tables import HLO_OPS

US = 1_000_000


def test_instructions_of_one_op_are_one_row_that_lists_them() -> None:
    def run(name: str, start: float, dur: float) -> blueprint.Line:
        stats = {"hlo_op": name, "hlo_module": "jit_f", "program_id": 3}
        return ("pool", name, start, dur, stats)

    trace = blueprint.trace(
        [
            run("fusion.1", 0, 20),
            # It runs inside the other one of the same op: its time is in that already.
            run("dot.7", 5, 10),
            run("dot.7", 30, 4),
            run("add.2", 40, 3),
        ]
    )
    known = [
        {
            "program": 3,
            "module": "jit_f",
            "name": name,
            "opcode": name.partition(".")[0],
            "op_name": op,
            "matmul": False,
        }
        for name, op in (
            ("fusion.1", "jit(f)/dot_general"),
            ("dot.7", "jit(f)/dot_general"),
            ("add.2", ""),
        )
    ]
    trace = blueprint.substitute(
        trace, hlo_ops=pl.DataFrame(known, schema=HLO_OPS.dtypes())
    )
    rows = blueprint.profile(trace).derived("vm", host_ops).rows
    columns = ("name", "instructions", "occurrences", "total_ps", "self_ps")
    assert rows.select(columns).rows() == [
        ("jit(f)/dot_general", ["dot.7", "fusion.1"], 3, 24 * US, 24 * US),
        ("add.2", ["add.2"], 1, 3 * US, 3 * US),
    ]
