"""Calls of a loader whose batches worker processes make: they wait, they do no work."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.results.input import analysed, missing_of
from tests.support.traces.kineto import complete

import stepscope as ss

if TYPE_CHECKING:
    from pathlib import Path

WORKERS, OWN = "_MultiProcessingDataLoaderIter", "_SingleProcessDataLoaderIter"


def trained(folder: Path, iterator: str, *, copies_us: float = 0.0) -> Any:
    """Four steps of 1 ms that fetch for 0.6 ms of it, copy elsewhere, then compute."""
    events = [
        event
        for start in range(0, 4000, 1000)
        for event in (
            complete(f"ProfilerStep#{start}", start, 1000, cat="user_annotation"),
            complete(
                f"enumerate(DataLoader)#{iterator}.__next__",
                *(start, 600),
                cat="user_annotation",
            ),
            complete("aten::mm", start + 600, 390),
            *(
                (complete("cudaMemcpyHtoDAsync", start + 10, copies_us, tid=2),)
                if copies_us
                else ()
            ),
        )
    ]
    path = folder / "worker0.pt.trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return analysed(ss.open(path))


def test_waiting_for_workers_is_no_preprocessing(tmp_path: Path) -> None:
    result = trained(tmp_path, WORKERS)
    assert result.verdict == "highly_input_bound"
    assert result.host_breakdown_us["preprocessing"] is None
    assert missing_of(result)["host_breakdown_us.preprocessing"] == "NOT_RECORDED"
    (row,) = result.input_ops.iter_rows(named=True)
    assert row["category"] == "waiting_for_workers"
    assert row["self_time_us"] == pytest.approx(2400.0)


def test_a_loader_that_has_workers_is_not_told_to_use_some(tmp_path: Path) -> None:
    (step,) = trained(tmp_path, WORKERS).next_steps
    assert step.category == "waiting_for_workers"
    assert "already produced in parallel and ahead" in step.advice
    assert "num_workers" not in step.advice


def test_what_workers_do_may_be_the_largest_part(tmp_path: Path) -> None:
    """Copies of two seconds were said to be most of the input beside waits of eight."""
    result = trained(tmp_path, WORKERS, copies_us=100.0)
    assert result.host_breakdown_us["enqueue"] == pytest.approx(400.0)
    assert result.largest_category is None
    assert missing_of(result)["largest_category"] == "NOT_RECORDED"
    assert trained(tmp_path, OWN, copies_us=700.0).largest_category == "enqueue"


def test_a_loader_without_workers_does_the_work_itself(tmp_path: Path) -> None:
    result = trained(tmp_path, OWN)
    assert result.host_breakdown_us["preprocessing"] == pytest.approx(2400.0)
    (step,) = result.next_steps
    assert step.category == "preprocessing"
    assert "num_workers" in step.advice
