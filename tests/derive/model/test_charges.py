"""Costs charged to ops and nodes, against plain sums over executions."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from typing import Any

import polars as pl
import pytest
from tests.support.traces import blueprint

from stepscope.derive.model.charges import CHARGES, merged_charges, parameter_charges
from stepscope.derive.model.view_names import VIEWS
from stepscope.derive.model.work import PlacedCharges, model_charges
from stepscope.trace.tables import PARAMETERS

US = 1_000_000
Row = dict[str, Any]


def frame(rows: list[Row], *left_out: str) -> pl.DataFrame:
    """Charges of one side; what a row leaves out is null."""
    schema = {name: dtype for name, dtype in CHARGES.items() if name not in left_out}
    return pl.DataFrame(rows, schema=schema)


def host(name: str, place: int, runs: int, **more: Any) -> Row:
    base = {"name": name, "place": place, "occurrences": runs, "known": 0}
    return {**base, "host_ps": 10 * runs, **more}


def device(name: str, place: int, runs: int, **more: Any) -> Row:
    base = {"name": name, "place": place, "occurrences": runs, "known": 0}
    return {**base, "device_ps": 100 * runs, **more}


def merged(
    on_host: list[Row] | None,
    on_device: list[Row] | None,
    allocated: list[tuple[str, int, int]] | None = None,
) -> dict[tuple[str, int], Row]:
    found = merged_charges(
        None if on_host is None else frame(on_host, "device_ps", "allocated_bytes"),
        None if on_device is None else frame(on_device, "host_ps", "allocated_bytes"),
        None
        if allocated is None
        else pl.DataFrame(
            allocated,
            schema={
                "name": pl.String,
                "place": pl.Int32,
                "allocated_bytes": pl.Int64,
            },
            orient="row",
        ),
    )
    assert dict(found.schema) == CHARGES
    rows = {(row["name"], row["place"]): row for row in found.to_dicts()}
    assert len(rows) == found.height
    return rows


def test_executions_of_both_sides_count_once_as_often_as_the_side_with_more() -> None:
    rows = merged(
        [host("a", 1, 3), host("b", 1, 2), host("c", 2, 4)],
        [device("a", 1, 5), device("b", 1, 1), device("d", -1, 6)],
    )
    counts = {key: row["occurrences"] for key, row in rows.items()}
    assert counts == {("a", 1): 5, ("b", 1): 2, ("c", 2): 4, ("d", -1): 6}
    times = {key: (row["host_ps"], row["device_ps"]) for key, row in rows.items()}
    assert times == {
        ("a", 1): (30, 500),
        ("b", 1): (20, 100),
        ("c", 2): (40, None),
        ("d", -1): (None, 600),
    }


def test_work_on_the_device_at_no_node_of_its_op_is_an_execution_of_the_host() -> None:
    rows = merged([host("a", 1, 3)], [device("a", -1, 5), device("a", 1, 1)])
    assert rows["a", -1]["occurrences"] == 0
    assert rows["a", -1]["device_ps"] == 500
    assert rows["a", 1]["occurrences"] == 3


def test_operations_of_the_device_replace_those_of_the_host() -> None:
    rows = merged(
        [
            host("a", 1, 2, flops=7, known=2),
            host("b", 1, 2, flops=9, known=1),
            host("a", 3, 1, flops=5, known=1),
        ],
        [device("a", 1, 2, flops=40, known=2), device("b", 1, 2)],
    )
    # What the device knows of `a` holds at every node of `a`.
    assert [rows[key]["flops"] for key in (("a", 1), ("b", 1), ("a", 3))] == [
        *(40, 9, None)
    ]
    assert [rows[key]["known"] for key in (("a", 1), ("b", 1), ("a", 3))] == [2, 1, 0]


def test_types_and_sources_of_one_side_are_those_of_both() -> None:
    rows = merged(
        [host("a", 1, 1, type="MatMul")], [device("a", 1, 1, source="train.py:3")]
    )
    (row,) = rows.values()
    assert (row["type"], row["source"]) == ("MatMul", "train.py:3")


def test_allocations_are_added_once_to_their_op() -> None:
    rows = merged(
        [host("a", 1, 1), host("a", 2, 1), host("b", 5, 1), host("c", 1, 1)],
        None,
        [("a", 2, 64), ("a", 9, 8), ("b", 7, 3), ("nobody", 1, 100)],
    )
    # Bytes at a node without the op are at the first of the op's nodes.
    assert {key: row["allocated_bytes"] for key, row in rows.items()} == {
        ("a", 1): 8,
        ("a", 2): 64,
        ("b", 5): 3,
        ("c", 1): None,
    }


def test_without_executions_nothing_is_charged() -> None:
    assert merged(None, None) == {}


@pytest.mark.parametrize(
    ("trainable_only", "names"),
    [
        (False, ["a/kernel", "b/bias", "c.d", "model/e", "f/g/h"]),
        (True, ["a/kernel", "c.d", "model/e", "f/g/h"]),
    ],
)
def test_variables_are_in_their_scopes(
    *, trainable_only: bool, names: list[str]
) -> None:
    described = pl.DataFrame(
        [
            {"name": "a/kernel", "scope": "a", "shape": [3, 4], "trainable": True},
            {"name": "b.bias", "scope": "b", "shape": [5], "trainable": False},
            # Without a scope, and in one that it does not begin with.
            {"name": "c.d", "scope": "", "shape": [], "trainable": None},
            {"name": "model/e", "scope": "other", "shape": None, "trainable": True},
            {"name": "f.g.h", "scope": "f.g", "shape": [0, 9], "trainable": True},
        ],
        schema=PARAMETERS.dtypes(),
    )
    found = parameter_charges(described, trainable_only=trainable_only)
    sizes = {"a/kernel": 12, "b/bias": 5, "c.d": 1, "model/e": None, "f/g/h": 0}
    assert found.select("name", "parameters").rows() == [
        (name, sizes[name]) for name in names
    ]
    assert found.select("type", "place", "occurrences", "known").unique().rows() == [
        ("Variable", -1, 0, 0)
    ]
    assert dict(found.schema) == CHARGES


@pytest.mark.parametrize("seed", range(3))
def test_an_op_costs_its_time_and_runs_as_often_as_its_launches_say(seed: int) -> None:
    """Ops with kernels launched inside them, beside kernels that nobody launched."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    lines: list[blueprint.Line] = []
    host_us: Counter[str] = Counter()
    device_us: Counter[str] = Counter()
    launched: defaultdict[str, set[int]] = defaultdict(set)
    loose: Counter[tuple[str, int, str]] = Counter()
    calls: Counter[str] = Counter()
    for number in range(24):
        op, at = chance.choice(["a/A", "b/B"]), 60 * number
        kind = f"{op}:{op[-1]}"
        if chance.random() < 0.7:
            dur = chance.randint(15, 40)
            lines.append(("main", kind, at, dur))
            host_us[op] += dur
            calls[op] += 1
            for part in range(chance.randint(0, 2)):
                ids = {"correlation_id": len(lines)}
                lines.append(("main", "cuLaunchKernel", at + 2 + 4 * part, 1, ids))
                spent = chance.randint(1, 9)
                stats = {**ids, "tf_op": kind}
                name = f"k{part}"
                track = f"gpu:{chance.choice([0, 1])}/7"
                lines.append((track, name, at + 20 + 10 * part, spent, stats))
                device_us[op] += spent
                launched[op].add(number)
        else:
            device, name = chance.choice([0, 1]), chance.choice(["k0", "k1"])
            lines.append((f"gpu:{device}/7", name, at, 5, {"tf_op": kind}))
            device_us[op] += 5
            loose[op, device, name] += 1
    charges = blueprint.profile(blueprint.trace(lines)).derived("vm", model_charges)
    for view in VIEWS:
        placed = charges[view]
        assert isinstance(placed, PlacedCharges)
        rows = placed.rows.group_by("name").agg(
            pl.col("occurrences", "host_ps", "device_ps").sum()
        )
        found = {row["name"]: row for row in rows.to_dicts()}
        for op in ("a/A", "b/B"):
            assert found[op]["host_ps"] == host_us[op] * US
            assert found[op]["device_ps"] == device_us[op] * US
    whole = charges["op"].rows
    for op in ("a/A", "b/B"):
        runs = sum(
            max(loose[op, device, name] for name in ("k0", "k1")) for device in (0, 1)
        )
        # An execution with kernels on both devices counts on each of them.
        least = len(launched[op]) + runs
        (count,) = whole.filter(name=op)["occurrences"].to_list()
        assert count >= max(calls[op], least)
        assert count <= max(calls[op], 2 * len(launched[op]) + runs)
