"""What a database tells of the machine, and of others, stands in no answer.

A secret is planted in every table that holds such things, and in names of other
programs. `doctor` says that it is in there, and nothing else does.
"""

from __future__ import annotations

import csv
import io
import json
import os
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from tests.support.sites.serve import running
from tests.support.traces.nsight import (
    KERNEL,
    NVTX,
    RUNTIME,
    call,
    global_id,
    kernel,
    span,
    write,
)

import stepscope as ss
from stepscope.analysis.tools import TOOLS
from stepscope.cli.main import main
from stepscope.reporting.exports import render_csv, render_parquet
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.sites.serve import Site

PRIVATE = "hunter2"
OTHER = global_id(process=77, thread=77)
#: Said by the database of itself, its machine, its user and its neighbours.
PLANTED: dict[str, list[dict[str, Any]]] = {
    "TARGET_INFO_SYSTEM_ENV": [{"name": "Hostname", "value": PRIVATE}],
    "META_DATA_CAPTURE": [{"name": "ENVIRONMENT", "value": f"TOKEN={PRIVATE}"}],
    "META_DATA_EXPORT": [{"name": "EXPORT_USER", "value": PRIVATE}],
    "EXPORT_META_DATA": [{"name": "EXPORT_PATH_ABS", "value": f"/home/{PRIVATE}"}],
    "ProcessStreams": [{"globalPid": global_id(), "content": PRIVATE}],
    "PROCESSES": [{"globalPid": OTHER, "pid": 77, "name": PRIVATE}],
    "ANALYSIS_FILE": [{"id": 1, "filename": PRIVATE, "content": PRIVATE}],
    "TARGET_INFO_PROCESS": [{"processId": 77, "name": PRIVATE}],
    "ThreadNames": [
        {"nameId": "main", "globalTid": global_id(thread=1)},
        {"nameId": PRIVATE, "globalTid": OTHER},
    ],
}
NAMED = set(PLANTED) & {
    *("TARGET_INFO_SYSTEM_ENV", "META_DATA_CAPTURE", "ProcessStreams", "PROCESSES")
}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three steps of two kernels; another program takes the core in between."""
    ranges, calls, kernels, turns = [], [], [], []
    for step in range(3):
        at = 1_000_000 * step
        ranges.append(span(f"step {step}", at, at + 900_000))
        for place in range(2):
            number, start = 2 * step + place + 1, at + 200_000 * place
            calls.append(call("cudaLaunchKernel_v7000", start, start + 5_000, number))
            kernels.append(kernel("gemm", start + 9_000, start + 150_000, number))
        main_thread = {"cpu": 1, "globalTid": global_id(thread=1)}
        turns += [
            {"start": at + 500_000, "isSchedIn": 0, **main_thread},
            {"start": at + 510_000, "isSchedIn": 1, "cpu": 1, "globalTid": OTHER},
            {"start": at + 600_000, "isSchedIn": 1, **main_thread},
        ]
    tables = {
        NVTX: ranges,
        RUNTIME: calls,
        KERNEL: kernels,
        "SCHED_EVENTS": turns,
        **PLANTED,
    }
    # The text of the environment also lies among all others.
    written = write(
        tmp_path_factory.mktemp("private") / "a.sqlite",
        tables,
        f"INSERT INTO StringIds VALUES (999, 'TOKEN={PRIVATE}')",  # noqa: S608 - of a test
    )
    # The server waits a while for files that have just been written.
    os.utime(written, (1, 1))
    return written


@pytest.fixture(scope="module")
def site(path: Path) -> Iterator[Site]:
    with running(path) as found:
        yield found


def printed(*arguments: str) -> str:
    done = CliRunner().invoke(main, [*arguments])
    assert done.exit_code == 0, done.output
    return done.output


def test_the_secret_is_in_the_file(path: Path) -> None:
    assert path.read_bytes().count(PRIVATE.encode()) > len(PLANTED)


@pytest.mark.parametrize("form", ["text", "json", "markdown"])
def test_no_report_tells_it(path: Path, form: str) -> None:
    said = printed("report", "--full", str(path), "--format", form)
    assert "gemm" in said
    assert PRIVATE not in said


@pytest.mark.parametrize("tool", [tool.name for tool in TOOLS])
def test_no_table_tells_it(path: Path, tool: str) -> None:
    assert PRIVATE not in printed("show", tool, str(path), "--format", "json")


@pytest.mark.parametrize(
    "place", ["status", "runs", "profile", "findings", "report", "tool/trace_viewer"]
)
def test_nothing_that_the_page_asks_for_tells_it(site: Site, place: str) -> None:
    answer = site.get(f"data/{place}")
    assert answer.status == 200
    assert PRIVATE.encode() not in answer.body


def test_no_export_tells_it(path: Path) -> None:
    result = ss.open(path).tool("kernel_stats")
    assert not isinstance(result, Unavailable)
    for name, frame in ss.tables(result).items():
        assert PRIVATE not in str(list(csv.reader(io.StringIO(render_csv(frame)))))
        assert PRIVATE.encode() not in render_parquet(frame), name


def test_no_table_of_the_trace_tells_it(path: Path) -> None:
    profile = ss.open(path)
    (host,) = profile.hosts
    for name in ("tracks", "event_types", "environment", "devices", "quality"):
        found = profile.table(host, name)
        assert PRIVATE not in (
            found.reason if isinstance(found, Unavailable) else str(found.rows())
        )
    names = profile.table(host, "event_types")["name"].to_list()
    assert "off the core: the core runs another program" in names


def test_doctor_says_that_it_is_in_there(path: Path) -> None:
    said = printed("doctor", str(path), "--format", "json")
    assert PRIVATE not in said
    for table in NAMED:
        assert table in json.dumps(json.loads(said)), table
