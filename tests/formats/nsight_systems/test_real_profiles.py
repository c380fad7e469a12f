"""Real databases of 2020 to 2026 against what SQL counts in them."""

from __future__ import annotations

import gzip
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from tests.support.traces.kineto import check_all, frame
from tests.support.traces.nsight import KERNEL

from stepscope.formats.opening import read
from stepscope.trace.tables import DOUBLE
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stepscope.trace.model import TraceData

pytestmark = pytest.mark.profiles

JACOBI = "nsys_sqlite/openhackathons_jacobi_gh200/jacobi_report.sqlite"
MFU = "nsys_sqlite/nsys_ai_mfu_2gpu_before/mfu_2gpu_before.sqlite"
OF_2020 = "nsys_sqlite/extrap_schema_2020/ex-gpu.s1000.sqlite"
LADDER = [
    f"nsys_ladder/{name}.sqlite.gz"
    for name in (
        *("baseline", "8workers", "dali", "dali_amp", "dali_amp_apex_jit"),
        *("4gpu_baseline", "4gpu_nobroadcast", "4gpu_bucketcap100mb"),
    )
]
#: File → kernels, their µs, as counted for the collection of profiles.
KERNELS = {
    MFU: (4_010, 535_200.650),
    JACOBI: (1_001, 2_071_933.547),
    OF_2020: (6, 177.665),
}


def rows_of(path: Path, folder: Path, sql: str) -> list[Any]:
    """What SQLite itself answers; an absent table has no rows."""
    if path.suffix == ".gz":
        plain = folder / "plain.sqlite"
        plain.write_bytes(gzip.decompress(path.read_bytes()))
        path = plain
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as base:
        table = sql.partition(" FROM ")[2].split()[0]
        known = base.execute("SELECT name FROM sqlite_master").fetchall()
        return base.execute(sql).fetchall() if (table,) in known else []


def work_of(trace: TraceData, *kinds: str) -> pl.DataFrame:
    return frame(trace, "device_activity").filter(pl.col("kind").is_in(kinds))


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_are_as_many_and_as_long_as_counted(
    shared_profile: Callable[[str], Path], name: str
) -> None:
    trace = read(shared_profile(name))
    check_all(trace)
    kernels = work_of(trace, "kernel", "collective")
    count, time_us = KERNELS[name]
    assert len(kernels) == count
    assert kernels["dur_ps"].sum() == round(time_us * 1e6)


@pytest.mark.parametrize("name", [*KERNELS, *LADDER])
def test_sums_are_those_of_sql(
    shared_profile: Callable[[str], Path], tmp_path: Path, name: str
) -> None:
    path = shared_profile(name)
    trace = read(path)
    check_all(trace)
    for table, kinds in (
        ("KERNEL", ("kernel", "collective")),
        ("MEMCPY", ("h2d", "d2h", "local_copy", "p2p_copy")),
        ("MEMSET", ("memset",)),
    ):
        sql = (
            'SELECT deviceId, count(*), sum("end" - start) * 1000'  # noqa: S608
            f" FROM CUPTI_ACTIVITY_KIND_{table} GROUP BY 1 ORDER BY 1"
        )
        found = (
            work_of(trace, *kinds)
            .group_by("device")
            .agg(n=pl.len(), dur=pl.col("dur_ps").sum())
        )
        assert found.sort("device").rows() == rows_of(path, tmp_path, sql)
    calls = rows_of(
        path,
        tmp_path,
        'SELECT count(*), sum("end" - start) * 1000 FROM CUPTI_ACTIVITY_KIND_RUNTIME'
        " WHERE eventClass != 67",
    )
    launches = frame(trace, "launches")
    assert [(len(launches), launches["dur_ps"].sum())] == calls
    ranges = rows_of(
        path,
        tmp_path,
        'SELECT count(*), sum("end" - start) * 1000 FROM NVTX_EVENTS'
        ' WHERE eventType = 59 AND "end" IS NOT NULL',
    )
    quick = frame(trace, "event_types").with_row_index("type")
    others = quick.filter(~pl.col("op") & ~pl.col("annotation"))["type"]
    events = frame(trace, "events").filter(
        ~pl.col("type").is_in(others.cast(pl.Int32).to_list())
    )
    assert [(len(events), events["dur_ps"].sum() or None)] == (ranges or [(0, None)])


def test_samples_name_the_call_that_sets_the_device_up(
    shared_profile: Callable[[str], Path], tmp_path: Path
) -> None:
    path = shared_profile(JACOBI)
    trace = read(path)
    found = rows_of(
        path,
        tmp_path,
        "SELECT DISTINCT start FROM COMPOSITE_EVENTS AS e"
        " JOIN SAMPLING_CALLCHAINS AS c ON c.id = e.id"
        " JOIN StringIds AS s ON s.id = c.symbol WHERE s.value = 'cudaSetDevice'"
        " ORDER BY start",
    )
    times = [start for (start,) in found]
    ((kernel,),) = rows_of(path, tmp_path, f"SELECT min(start) FROM {KERNEL}")  # noqa: S608
    types = frame(trace, "event_types").with_row_index("type")
    named = types.filter(pl.col("name").str.ends_with("!cudaSetDevice"))["type"]
    wanted = named.cast(pl.Int32).to_list()
    runs = frame(trace, "events").filter(pl.col("type").is_in(wanted))
    began = frame(trace, "device_activity").filter(kind="kernel")["start_ps"].min()
    before_ms = ((runs["start_ps"] - began) / 10**9).to_list()
    ended_ms = ((runs["start_ps"] + runs["dur_ps"] - began) / 10**9).to_list()
    # Half of the 5 ms between two looks at a stack, on either side.
    assert min(before_ms) == pytest.approx((times[0] - kernel) / 10**6, abs=3)
    assert max(ended_ms) == pytest.approx((times[-1] - kernel) / 10**6, abs=3)


#: Threads of the program: those that call CUDA, as SQL lists them.
_OWN = "(SELECT DISTINCT globalTid FROM CUPTI_ACTIVITY_KIND_RUNTIME)"
_TURNS = (
    "SELECT globalTid, start, isSchedIn,"
    " lead(start) OVER w AS until, lead(isSchedIn) OVER w AS next_in"
    " FROM SCHED_EVENTS WINDOW w AS (PARTITION BY globalTid ORDER BY start, rowid)"
)


@pytest.mark.parametrize("name", [JACOBI, OF_2020])
def test_turns_on_cores_are_those_of_sql(
    shared_profile: Callable[[str], Path], name: str
) -> None:
    path = shared_profile(name)
    trace = read(path)
    tracks = frame(trace, "tracks").with_row_index("track")
    events = frame(trace, "events")
    without = tracks.filter(pl.col("name").str.ends_with(": without a core"))
    found = events.filter(pl.col("track").is_in(without["track"].cast(pl.Int32)))
    sql = (
        f"SELECT count(*), sum(until - start) * 1000 FROM ({_TURNS})"  # noqa: S608
        f" WHERE NOT isSchedIn AND next_in AND globalTid IN {_OWN}"
    )
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as base:
        counted = base.execute(sql).fetchall()
        ran = base.execute(
            f"SELECT sum(until - start) FROM ({_TURNS}) WHERE isSchedIn"  # noqa: S608
            " AND (globalTid >> 24) IN (SELECT globalTid >> 24"
            " FROM CUPTI_ACTIVITY_KIND_RUNTIME)"
        ).fetchall()
    assert [(len(found), found["dur_ps"].sum())] == counted
    (counters,) = tracks.filter(pl.col("kind") == "counters")["track"]
    times = events.filter(pl.col("track") == counters)["start_ps"].to_numpy()
    values = frame(trace, "stats").filter(pl.col("kind") == DOUBLE)["value"].to_numpy()
    period_ps = int(times[1] - times[0])
    assert len(values) == len(times)
    assert values.view(float).sum() * period_ps / 100_000 == pytest.approx(
        ran[0][0], rel=1e-9
    )


def test_kernels_meet_the_launches_of_their_own_process(
    shared_profile: Callable[[str], Path],
) -> None:
    """Two processes use 264 of the ids: 4,280 pairs without the process."""
    trace = read(shared_profile(MFU))
    kernels = work_of(trace, "kernel", "collective")
    launches = frame(trace, "launches").select("process", "correlation")
    by_both = kernels.join(launches, on=["process", "correlation"])
    assert len(kernels.join(launches, on="correlation")) == 4_280
    assert len(by_both) == 3_986
    names = frame(trace, "event_types")["name"].gather(kernels["type"])
    assert names.str.contains("flash_fwd_kernel").sum() == 68
    assert len(work_of(trace, "collective")) == 66
    devices = kernels.group_by("device").agg(pl.len(), pl.col("dur_ps").sum())
    assert devices.sort("device").rows() == [
        (0, 1_993, 270_875_926_000),
        (1, 2_017, 264_324_724_000),
    ]
    assert "cut_by_a_script" in {note.kind for note in trace.quality_notes()}


def test_copies_have_the_bytes_that_were_counted(
    shared_profile: Callable[[str], Path],
) -> None:
    for name, expected in (
        (MFU, {"local_copy": (986, 8_046_134_272), "h2d": (34, 272)}),
        (JACOBI, {"d2h": (1_001, 1_073_745_824), "local_copy": (2_000, 131_072_000)}),
    ):
        trace = read(shared_profile(name))
        for kind, (count, size) in expected.items():
            copies = work_of(trace, kind)
            assert (len(copies), copies["bytes"].sum()) == (count, size)


def test_the_device_is_what_the_file_says(
    shared_profile: Callable[[str], Path],
) -> None:
    device = frame(read(shared_profile(JACOBI)), "devices").row(0, named=True)
    assert device["name"] == "NVIDIA GH200 120GB"
    assert device["clock_hz"] == 1_980_000_000
    assert (device["cc_major"], device["cc_minor"], device["cores"]) == (9, 0, 132)
    of_2020 = frame(read(shared_profile(OF_2020)), "devices")
    assert of_2020["name"].to_list() == ["A100-PCIE-40GB"] * 4
    assert of_2020["activities"].to_list() == [6, 0, 0, 0]


def test_no_copy_was_recorded_in_2020_and_calls_count_once(
    shared_profile: Callable[[str], Path],
) -> None:
    trace = read(shared_profile(OF_2020))
    assert len(frame(trace, "launches")) == 18
    assert work_of(trace, "h2d", "d2h", "local_copy", "memset").is_empty()
    assert isinstance(trace.table("iterators"), Unavailable)


@pytest.mark.parametrize(
    ("name", "off"),
    [
        ("4gpu_baseline", "325 ms late"),
        ("4gpu_nobroadcast", "156 ms early"),
        ("4gpu_bucketcap100mb", "823 ms late"),
        ("8workers", None),
        ("dali_amp", None),
    ],
)
def test_clocks_are_put_right_as_launches_and_waits_say(
    shared_profile: Callable[[str], Path], name: str, off: str | None
) -> None:
    """The offsets are those between calls and their work in the raw tables."""
    trace = read(shared_profile(f"nsys_ladder/{name}.sqlite.gz"))
    notes = {note.kind: note.message for note in trace.quality_notes()}
    assert "late_device_clock" not in notes
    assert ("device_clock_moved" in notes) == (off is not None)
    assert ("work_missing" in notes) == (off is not None)
    assert off is None or off in notes["device_clock_moved"]
