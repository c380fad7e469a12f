"""A recording that Nsight Systems made of a program of this repository."""

from __future__ import annotations

import gzip
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from tests.support.traces.kineto import check_all, frame

import stepscope as ss
from stepscope.analysis.overview_page import OverviewPageResult
from stepscope.cli.output import Progress
from stepscope.derive.steps.chosen import Steps, steps
from stepscope.formats.opening import read
from stepscope.reporting.compose import compose_report
from stepscope.reporting.words.findings import finding_headline

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

RECORDED = "nsight_cpu/train.sqlite.gz"
STEPS = 12


def asked(path: Path, folder: Path, sql: str) -> list[tuple[Any, ...]]:
    """What SQLite itself answers."""
    plain = folder / "plain.sqlite"
    plain.write_bytes(gzip.decompress(path.read_bytes()))
    with closing(sqlite3.connect(plain)) as base:
        return base.execute(sql).fetchall()


def test_events_are_those_that_sql_counts(
    shared_profile: Callable[[str], Path], tmp_path: Path
) -> None:
    path = shared_profile(RECORDED)
    counted = asked(
        path,
        tmp_path,
        'SELECT name, count(*), sum("end" - start) * 1000 FROM ('
        '  SELECT value AS name, start, "end" FROM OSRT_API'
        "  JOIN StringIds ON id = nameId WHERE globalTid IN"
        "  (SELECT globalTid FROM NVTX_EVENTS) UNION ALL"
        '  SELECT text, start, "end" FROM NVTX_EVENTS WHERE eventType = 59'
        ") GROUP BY 1 ORDER BY 1",
    )
    trace = read(path)
    check_all(trace)
    events, tracks = frame(trace, "events"), frame(trace, "tracks")
    names = frame(trace, "event_types")["name"].gather(events["type"])
    threads = tracks.with_row_index("track").filter(pl.col("kind") == "thread")
    found = (
        events.with_columns(name=names)
        .filter(pl.col("track").is_in(threads["track"].cast(pl.Int32).to_list()))
        .group_by("name")
        .agg(pl.len(), pl.col("dur_ps").sum())
        .sort("name")
    )
    assert found.rows() == counted


def test_its_steps_wait_for_their_batches(
    shared_profile: Callable[[str], Path], tmp_path: Path
) -> None:
    """The loader takes longer for a batch than the step that uses it."""
    path = shared_profile(RECORDED)
    profile = ss.open(path)
    (host,) = profile.hosts
    found = profile.derived(host, steps)
    assert isinstance(found, Steps)
    assert found.rows["name"].to_list() == [f"step {at}" for at in range(STEPS)]
    ((waited, lasted),) = asked(
        path,
        tmp_path,
        "SELECT sum(\"end\" - start) FILTER (WHERE text = 'load_batch'),"
        " max(\"end\") FILTER (WHERE text LIKE 'step %')"
        " - min(start) FILTER (WHERE text LIKE 'step %') FROM NVTX_EVENTS",
    )
    overview = profile.tool("overview_page")
    assert isinstance(overview, OverviewPageResult)
    assert overview.input_percent == pytest.approx(100 * waited / lasted, abs=0.1)


def test_its_own_work_is_that_of_its_range(
    shared_profile: Callable[[str], Path], tmp_path: Path
) -> None:
    """The database lists no GPU and no call of CUDA: the host runs the program."""
    path = shared_profile(RECORDED)
    ((worked,),) = asked(
        path,
        tmp_path,
        "SELECT sum(\"end\" - start) / 1e6 FROM NVTX_EVENTS WHERE text = 'train'",
    )
    overview = ss.open(path).tool("overview_page")
    assert isinstance(overview, OverviewPageResult)
    (own,) = (it for it in overview.account if it.owner == "host_compute")
    assert [part.name for part in own.parts or ()] == ["train"]
    assert own.ms * STEPS == pytest.approx(worked, abs=0.05)


def test_what_nothing_explains_is_told_by_what_the_steps_range_holds(
    shared_profile: Callable[[str], Path], tmp_path: Path
) -> None:
    """In step 8 the thread of the steps does nothing that was recorded after `train`.

    It was said to lie from one step's range to the next.
    """
    path = shared_profile(RECORDED)
    ((ranges, calls),) = asked(
        path,
        tmp_path,
        "WITH of_step AS (SELECT * FROM NVTX_EVENTS WHERE text = 'step 8'),"
        " trained AS (SELECT NVTX_EVENTS.* FROM NVTX_EVENTS, of_step WHERE"
        " NVTX_EVENTS.text = 'train' AND NVTX_EVENTS.start"
        ' BETWEEN of_step.start AND of_step."end")'
        ' SELECT (of_step."end" - trained."end") / 1e6,'
        " (SELECT count(*) FROM OSRT_API WHERE globalTid = of_step.globalTid AND start"
        ' BETWEEN trained."end" AND of_step."end") FROM of_step, trained',
    )
    assert calls == 0
    document = compose_report(ss.open(path), Progress(stages=9))
    assert isinstance(document.overview, OverviewPageResult)
    (unknown,) = (it for it in document.overview.account if it.owner == "unexplained")
    (first, *_) = unknown.parts or ()
    assert first.name == "after train, to the end of the step's range"
    assert first.ms * STEPS == pytest.approx(ranges, abs=0.01)
    (found,) = (one for one in document.findings if one.id == "capture.quality")
    assert "thread of the steps does not wait in any" in finding_headline(found)
    # These were recorded already, and say what they can.
    assert "--cpuctxsw=process-tree" in (found.actions[0].code or "")
