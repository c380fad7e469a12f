"""A step that PyTorch replays as one CUDA graph, under Nsight Systems on an H100.

Recorded twice (`gpu_tiers.py`): graphs as a whole, and their nodes one by one; both
with what the driver gives of the device's memory. The truth is read by SQL.
"""

from __future__ import annotations

import gzip
import sqlite3
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import stepscope as ss
from stepscope.advice.engine import evaluate, signals_of
from stepscope.derive.facts.recording import capture_signals
from stepscope.derive.facts.step_shares import account_signals
from stepscope.unavailable import require_available

if TYPE_CHECKING:
    from stepscope.analysis.tools import ProfileWithTools

FOLDER = Path(__file__).resolve().parents[1] / "data" / "gpu" / "graph_replayed"
WHOLE, NODES = "whole", "nodes"
#: Steps that were recorded, each one replay, and the kernels that a replay runs.
REPLAYS, KERNELS = 12, 45


@cache
def opened(name: str) -> ProfileWithTools:
    return ss.open(FOLDER / f"{name}.sqlite.gz")


def by_sql(name: str, query: str) -> list[tuple[Any, ...]]:
    content = gzip.decompress((FOLDER / f"{name}.sqlite.gz").read_bytes())
    with closing(sqlite3.connect(":memory:")) as database:
        database.deserialize(content)
        return database.execute(query).fetchall()


def busy_ns(name: str) -> float:
    """What kernels, or graphs, take in our table of the device's activities."""
    profile = opened(name)
    (host,) = profile.hosts
    rows = require_available(profile.table(host, "device_activity"))
    kinds = rows["kind"].cast(str)
    return float(rows.filter(kinds == "kernel")["dur_ps"].sum()) / 1000


@pytest.mark.parametrize(
    ("name", "table", "count"),
    [
        (WHOLE, "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", REPLAYS),
        (NODES, "CUPTI_ACTIVITY_KIND_KERNEL", REPLAYS * KERNELS),
    ],
)
def test_graphs_and_nodes_are_those_of_sql(name: str, table: str, count: int) -> None:
    query = f"SELECT count(*), sum(end - start) FROM {table}"  # noqa: S608
    ((there, total_ns),) = by_sql(name, query)
    assert there == count
    assert busy_ns(name) == total_ns


def test_both_recordings_are_of_one_step() -> None:
    """A graph as a whole lasts from its first node to its last."""
    spans = by_sql(
        NODES,
        "SELECT max(end) - min(start) FROM CUPTI_ACTIVITY_KIND_KERNEL"
        " GROUP BY correlationId",
    )
    assert len(spans) == REPLAYS
    nodes_ns = sum(span for (span,) in spans)
    assert nodes_ns == pytest.approx(busy_ns(WHOLE), rel=0.03)
    shares = [
        signals_of(opened(name)).of(account_signals).judged() for name in (WHOLE, NODES)
    ]
    assert [len(one.window_ps) for one in shares] == [REPLAYS] * 2
    one, other = (it.total_ps / len(it.window_ps) for it in shares)
    assert one == pytest.approx(other, rel=0.03)


@pytest.mark.parametrize("name", [WHOLE, NODES])
def test_nothing_of_a_graph_is_missed_where_its_work_is_there(name: str) -> None:
    signals = signals_of(opened(name))
    assert not signals.of(capture_signals).replays
    found = {one.id: one for one in evaluate(signals)}
    assert found["capture.quality"].status == "pass"


def test_what_the_driver_gave_is_added_up() -> None:
    """Nsight Systems writes what came before its range at the range's begin.

    Blocks that are only given back there were given before.
    """
    rows = by_sql(
        WHOLE,
        # Device memory is of kind 2, and 5 where a module needs it.
        "SELECT memoryOperationType, address, bytes FROM CUDA_GPU_MEMORY_USAGE_EVENTS"
        " WHERE memKind IN (2, 5) ORDER BY start, rowid",
    )
    given: dict[int, int] = {}
    used = most = earlier = unknown = 0
    for operation, address, size in rows:
        if operation == 0:
            given[address] = size
            used += size
        elif address in given:
            used -= given.pop(address)
        else:
            unknown += 1
            earlier += size
            used -= size
        most = max(most, used)
    result = opened(WHOLE).tool("memory_profile")
    memory = result.memories["GPU_0_driver"]
    assert memory.peak.memory_in_use_bytes == most + earlier
    (row,) = result.rows.filter(result.rows["memory_id"] == "GPU_0_driver").rows(
        named=True
    )
    assert row["unmatched_deallocations"] == unknown == 4
    assert row["allocations"] + row["deallocations"] == len(rows)
