"""Databases that are damaged or made to harm: one clear line, and nothing is run."""

from __future__ import annotations

import gzip
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import msgspec
import pytest
from tests.support.traces.kineto import check_all, frame
from tests.support.traces.nsight import (
    KERNEL,
    NVTX,
    RUNTIME,
    call,
    kernel,
    read_file,
    span,
    write,
)

from stepscope.errors import BadInput
from stepscope.formats import nsight_systems
from stepscope.formats.nsight_systems.database import rows
from stepscope.formats.opening import read
from stepscope.rundir import run_of_file

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.trace.model import TraceData

SMALL = {KERNEL: [kernel("gemm", 0, 5, 1)], NVTX: [span("step 1", 0, 9)]}


def one_line(path: Path) -> str:
    with pytest.raises(BadInput) as caught:
        read_file(path)
    said = str(caught.value)
    assert said.startswith(str(path))
    assert "\n" not in said
    return said


def outcome(path: Path) -> TraceData | str:
    """The trace, or what the error says; any other error fails the test."""
    try:
        return read_file(path)
    except BadInput as error:
        return str(error)


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_work_of_no_known_process_is_read_without_a_warning(tmp_path: Path) -> None:
    """Polars warned of a comparison with None on standard error."""
    rows = [kernel("gemm", 0, 5, 1, globalPid=None)]
    trace = read_file(write(tmp_path / "a.sqlite", {KERNEL: rows}))
    check_all(trace)
    assert frame(trace, "device_activity").height == 1


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_reading_leaves_the_file_alone_and_none_beside_it(
    tmp_path: Path, mode: str
) -> None:
    path = write(tmp_path / "a b?#.sqlite", SMALL)
    with closing(sqlite3.connect(path)) as base:
        base.execute(f"PRAGMA journal_mode = {mode}")
    before = files_of(tmp_path)
    assert list(before) == [path.name]
    check_all(read(path))
    assert files_of(tmp_path) == before


@pytest.mark.slow(seconds=0.4)
@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_a_packed_database_reads_like_the_plain_one(tmp_path: Path, mode: str) -> None:
    path = write(tmp_path / "a.sqlite", SMALL)
    with closing(sqlite3.connect(path)) as base:
        base.execute(f"PRAGMA journal_mode = {mode}")
    packed = tmp_path / "a.sqlite.gz"
    packed.write_bytes(gzip.compress(path.read_bytes(), mtime=0))
    for table in ("events", "device_activity", "tracks", "event_types"):
        assert frame(read(packed), table).equals(frame(read(path), table))


def test_a_packed_database_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.sqlite", SMALL)
    packed = tmp_path / "b.sqlite.gz"
    packed.write_bytes(gzip.compress(path.read_bytes(), mtime=0))
    source = msgspec.structs.replace(run_of_file(packed).hosts[0], limit_bytes=5_000)
    with pytest.raises(BadInput, match="decompresses to more than 5,000 bytes"):
        nsight_systems.read(source)


@pytest.mark.parametrize("ending", ["-wal", "-journal"])
def test_an_unfinished_database_is_refused(tmp_path: Path, ending: str) -> None:
    path = write(tmp_path / "a.sqlite", SMALL)
    (tmp_path / f"a.sqlite{ending}").write_bytes(b"half a page")
    assert f"a.sqlite{ending} holds a part" in one_line(path)


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    path.write_bytes(b"SQLite format 3\0" + b"StringIds" * 999)
    assert "not an SQLite database, or is damaged" in one_line(path)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    assert "cannot be opened" in one_line(tmp_path / "none.sqlite")


def test_a_database_without_a_timeline_says_so(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.sqlite", {"ThreadNames": [{"nameId": 1, "globalTid": 2}]}
    )
    assert "without a timeline" in one_line(path)


def test_a_table_without_a_column_it_needs_is_absent(tmp_path: Path) -> None:
    given = {**SMALL, RUNTIME: [{"start": 1, "end": 2, "correlationId": 1}]}
    trace = read_file(write(tmp_path / "a.sqlite", given))
    assert not isinstance(trace.table("launches"), type(frame(trace, "events")))
    assert len(frame(trace, "events")) == 2


@pytest.mark.parametrize("tenth", range(10))
def test_a_cut_database_gives_its_readable_part_or_one_line(
    tmp_path: Path, tenth: int
) -> None:
    calls = [call("cudaLaunchKernel_v7000", at, at + 1, at) for at in range(2_000)]
    kernels = [kernel("gemm", at, at + 1, at) for at in range(2_000)]
    path = write(tmp_path / "a.sqlite", {KERNEL: kernels, RUNTIME: calls})
    content = path.read_bytes()
    path.write_bytes(content[: len(content) * tenth // 10])
    found = outcome(path)
    if isinstance(found, str):
        assert "\n" not in found
        return
    check_all(found)
    assert "damaged_file" in {note.kind for note in found.quality_notes()}


def test_a_cut_packing_gives_its_readable_part_or_one_line(tmp_path: Path) -> None:
    kernels = [kernel("gemm", at, at + 1, at) for at in range(2_000)]
    path = write(tmp_path / "a.sqlite", {KERNEL: kernels})
    packed = gzip.compress(path.read_bytes(), mtime=0)
    path.write_bytes(packed[: len(packed) * 2 // 3])
    found = outcome(path)
    if isinstance(found, str):
        assert "\n" not in found
        return
    assert 0 < len(frame(found, "device_activity")) < 2_000
    assert "damaged_file" in {note.kind for note in found.quality_notes()}


def test_pages_that_repeat_for_ever_end_with_the_room_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "LEAST_ROW_BYTES", 2**40)
    trace = read_file(write(tmp_path / "a.sqlite", SMALL))
    (note, *_) = trace.quality_notes()
    assert note.kind == "damaged_file"
    assert "more rows than fit into the file" in note.message


@pytest.mark.parametrize("at", range(100, 20_000, 997))
@pytest.mark.sweep(every=4)
def test_flipped_bytes_raise_nothing_but_bad_input(tmp_path: Path, at: int) -> None:
    kernels = [kernel("gemm", at, at + 1, at) for at in range(200)]
    path = write(tmp_path / "a.sqlite", {KERNEL: kernels, NVTX: SMALL[NVTX]})
    content = bytearray(path.read_bytes())
    for place in range(at % len(content), len(content), 4_001):
        content[place] ^= 0xFF
    path.write_bytes(content)
    found = outcome(path)
    if isinstance(found, str):
        assert "\n" not in found
    else:
        check_all(found)


#: Counts for ever; a reader that ran it would never end.
FOREVER = (
    "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n"
)


def test_a_view_in_place_of_a_table_is_never_run(tmp_path: Path) -> None:
    given = {NVTX: SMALL[NVTX]}
    columns = ", ".join(f"x AS {it}" for it in SMALL[KERNEL][0])
    path = write(
        tmp_path / "a.sqlite",
        given,
        f'CREATE VIEW "{KERNEL}" AS SELECT {columns} FROM ({FOREVER})',  # noqa: S608
        f"CREATE TRIGGER t INSTEAD OF INSERT ON {KERNEL} BEGIN {FOREVER}; END",
    )
    trace = read_file(path)
    assert len(frame(trace, "events")) == 1


def test_a_computed_column_is_never_computed(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.sqlite",
        {NVTX: SMALL[NVTX]},
        f'CREATE TABLE "{RUNTIME}" (start, "end", globalTid, nameId AS (start + 1))',
        f'INSERT INTO "{RUNTIME}" VALUES (1, 2, 3)',  # noqa: S608 - of a test
    )
    assert len(frame(read_file(path), "events")) == 1


def test_text_that_is_not_utf_8_is_replaced(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.sqlite",
        SMALL,
        "UPDATE NVTX_EVENTS SET text = CAST(x'737465ff' AS TEXT)",
    )
    assert "ste\ufffd" in frame(read_file(path), "event_types")["name"].to_list()


def test_what_others_would_not_pass_on_is_named_and_not_read(tmp_path: Path) -> None:
    given = {
        **SMALL,
        "TARGET_INFO_SYSTEM_ENV": [{"name": "Hostname", "value": "s3cret"}],
        "META_DATA_CAPTURE": [{"name": "ENV", "value": "KEY=s3cret"}],
    }
    trace = read_file(write(tmp_path / "a.sqlite", given))
    (note,) = [it for it in trace.quality_notes() if it.kind == "private_contents"]
    assert "TARGET_INFO_SYSTEM_ENV" in note.message
    tables = [trace.table(name) for name in ("environment", "event_types", "quality")]
    assert "s3cret" not in str([getattr(it, "rows", list)() for it in tables])
