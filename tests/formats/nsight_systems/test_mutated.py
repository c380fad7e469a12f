"""Databases with damaged pages and odd values: a readable part, or one clear line."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.traces.kineto import check_all
from tests.support.traces.nsight import (
    KERNEL,
    MEMCPY,
    NVTX,
    RUNTIME,
    SYNC,
    call,
    copy,
    global_id,
    kernel,
    read_file,
    span,
    write,
)

from stepscope.errors import BadInput
from stepscope.formats.nsight_systems.database import rows
from stepscope.formats.nsight_systems.database.rows import read_export

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow(seconds=0.1)

PAGE_BYTES = 4096
#: Mutations of one test; each takes some milliseconds.
AT_ONCE = 4


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A database with a table of every sort, some of many pages."""
    wait = {"syncType": 3, "deviceId": 0, "contextId": 1, "streamId": 7}
    wait["globalPid"] = global_id()
    at = range(0, 40_000, 100)
    thread = {"globalTid": global_id(thread=1)}
    given: dict[str, Any] = {
        KERNEL: [kernel(f"gemm {t % 700}", t, t + 50, t + 1) for t in at],
        MEMCPY: [copy(1, t + 50, t + 60, t + 2) for t in at],
        RUNTIME: [call("cudaLaunchKernel_v7000", t, t + 9, t + 1) for t in at],
        SYNC: [{"start": t, "end": t + 9, "correlationId": t, **wait} for t in at],
        NVTX: [span(f"step {t}", t, t + 90) for t in at],
        "SCHED_EVENTS": [
            {"start": t, "cpu": 1, "isSchedIn": t // 100 % 2, **thread} for t in at
        ],
        "CUDA_GPU_MEMORY_USAGE_EVENTS": [
            {"start": t, "bytes": t + 1, "memoryOperationType": t // 100 % 2}
            | {"address": t, "deviceId": 0, "memKind": 2, "globalPid": global_id()}
            for t in at
        ],
        "TARGET_INFO_GPU": [{"name": "H100", "id": 0, "cuDevice": 0}],
    }
    path = write(tmp_path_factory.mktemp("whole") / "a.sqlite", given)
    return path.read_bytes()


def mutated(content: bytes, seed: int) -> bytes:
    """The content with bytes, fields of headers, or whole pages changed."""
    dice = random.Random(seed)  # noqa: S311 - of a test
    made = bytearray(content)
    pages = len(made) // PAGE_BYTES
    for _ in range(dice.randint(1, 6)):
        page = dice.randrange(pages) * PAGE_BYTES
        other = dice.randrange(pages) * PAGE_BYTES
        match dice.randrange(6):
            case 0:  # any byte
                made[dice.randrange(len(made))] = dice.randrange(256)
            case 1:  # the header of a page: its kind, its cells, its last child
                made[page + dice.randrange(12)] = dice.randrange(256)
            case 2:  # places of cells
                made[page + 8 + dice.randrange(200)] = dice.randrange(256)
            case 3:  # a page in place of another one
                made[page : page + PAGE_BYTES] = made[other : other + PAGE_BYTES]
            case 4:  # a page that was never written
                made[page : page + PAGE_BYTES] = bytes(PAGE_BYTES)
            case _:  # lengths and types of values
                at = page + dice.randrange(PAGE_BYTES)
                made[at : at + 2] = dice.randbytes(2)
    if dice.random() < 0.2:
        del made[dice.randrange(len(made)) :]
    return bytes(made)


def judge(folder: Path, content: bytes, seeds: range) -> None:
    for seed in seeds:
        path = folder / "a.sqlite"
        path.write_bytes(mutated(content, seed))
        said = ""
        try:
            check_all(read_file(path))
        except BadInput as error:
            said = str(error)
        assert "\n" not in said, seed
        assert [it.name for it in folder.iterdir()] == [path.name], seed


@pytest.mark.sweep(every=4)
@pytest.mark.parametrize("first", range(0, 240, AT_ONCE))
def test_mutated_pages_raise_nothing_but_bad_input(
    tmp_path: Path, whole: bytes, first: int
) -> None:
    judge(tmp_path, whole, range(first, first + AT_ONCE))


# Hundreds of files, each written and read.
@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(
            range(10_000, 10_250),
            marks=[pytest.mark.slow(seconds=12), pytest.mark.integration],
        ),
        pytest.param(range(10_250, 11_000), marks=pytest.mark.thorough),
    ],
)
def test_a_thousand_mutated_databases_raise_nothing_but_bad_input(
    tmp_path: Path, whole: bytes, seeds: range
) -> None:
    judge(tmp_path, whole, seeds)


# ----------------------------------------------------- pages and SQL read the same

NUMBERS = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-300, 300),
    st.none(),
    st.floats(allow_nan=False),
    st.text(max_size=4),
    st.binary(max_size=4),
)
COLUMNS = ("start", "cpu", "isSchedIn", "globalTid")
TYPES = st.sampled_from(["", "INTEGER", "REAL", "TEXT", "BLOB", "NUMERIC", "BIGINT"])
#: What else a column may be; "{}" is its name and type.
SORTS = st.sampled_from(
    ["{}", "{}", "{}", "{} DEFAULT 7", "{} AS (1)", "{} AS (2) STORED"]
)


@settings(max_examples=25)
@given(
    values=st.lists(st.tuples(*[NUMBERS] * 4), max_size=12),
    types=st.tuples(*[TYPES] * 4),
    sort=SORTS,
    key=st.sampled_from(
        ["", ", extra INTEGER PRIMARY KEY", ", k, PRIMARY KEY (start)"]
    ),
)
def test_pages_and_sql_read_the_same(
    tmp_path_factory: pytest.TempPathFactory,
    values: list[tuple[Any, ...]],
    types: tuple[str, ...],
    sort: str,
    key: str,
) -> None:
    listed = [f"{name} {kind}" for name, kind in zip(COLUMNS, types, strict=True)]
    listed[1] = sort.format(listed[1])
    stored = [name for name in COLUMNS if name != "cpu" or " AS " not in listed[1]]
    path = tmp_path_factory.getbasetemp() / "same.sqlite"
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as base:
        base.execute(f"CREATE TABLE SCHED_EVENTS ({', '.join(listed)}{key})")
        marks = ", ".join("?" * len(stored))
        fill = f"INSERT INTO SCHED_EVENTS ({', '.join(stored)}) VALUES ({marks})"  # noqa: S608
        for row in values:
            # Keys are distinct, and some are integers.
            with suppress(sqlite3.IntegrityError):
                base.execute(fill, row[: len(stored)])
        base.execute("CREATE TABLE NVTX_EVENTS (start, eventType)")
        base.commit()
    by_pages = read_export(path, 2**30).frames.get("SCHED_EVENTS")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "regular_columns", lambda *_: None)
        by_sql = read_export(path, 2**30).frames.get("SCHED_EVENTS")
    if by_sql is None:
        assert by_pages is None
    else:
        assert by_pages is not None
        assert by_pages.rows() == by_sql.rows()
