from __future__ import annotations

import gzip
import os
import pickle
import sqlite3
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from tests.conftest import ROOT
from tests.support.traces import nsight
from tests.support.xspace.literal import event, line, plane, space

from stepscope.errors import BadInput, UnknownFormat
from stepscope.formats.opening import find_runs, open_hosts, open_run, read
from stepscope.xspace.writing.write import XSpaceBuilder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def recorded(name: str, *, host: str = "vm") -> bytes:
    lines = line(1, "main", event(name, 0, 5))
    return space(plane("/host:CPU", lines), hostnames=(host,))


def put(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def kinds(traces: dict[str, object], host: str) -> list[str]:
    return [note.kind for note in traces[host].quality_notes()]  # type: ignore[attr-defined]


def names(trace: object) -> list[str]:
    return trace.table("event_types")["name"].to_list()  # type: ignore[attr-defined]


def test_a_log_directory_opens_its_newest_run(tmp_path: Path) -> None:
    runs = tmp_path / "fit" / "plugins" / "profile"
    put(runs / "2025_01_01_00_00_00" / "vm.xplane.pb", recorded("old"))
    put(runs / "2026_01_01_00_00_00" / "vm.xplane.pb", recorded("new"))
    run, traces = open_hosts(tmp_path)
    assert run == "fit/2026_01_01_00_00_00"
    assert list(traces) == ["vm"]
    assert names(traces["vm"]) == ["new"]


def test_a_run_directory_opens_all_its_hosts(tmp_path: Path) -> None:
    directory = tmp_path / "plugins" / "profile" / "r1"
    put(directory / "b.xplane.pb", recorded("on b", host="b"))
    put(directory / "a.xplane.pb.gz", gzip.compress(recorded("on a", host="a")))
    run, traces = open_hosts(directory)
    assert run == "r1"
    assert {host: names(trace) for host, trace in traces.items()} == {
        "a": ["on a"],
        "b": ["on b"],
    }
    assert all(
        "host_name" not in kind for host in traces for kind in kinds(traces, host)
    )


def test_several_paths_are_workers_of_one_run(tmp_path: Path) -> None:
    first = put(tmp_path / "x" / "a.xplane.pb", recorded("one", host="a"))
    second = put(tmp_path / "y" / "b.xplane.pb", recorded("two", host="b"))
    run, traces = open_hosts(first, second)
    assert run == "a.xplane.pb + b.xplane.pb"
    assert list(traces) == ["a", "b"]


def test_equal_host_names_are_told_apart_by_their_runs(tmp_path: Path) -> None:
    runs = tmp_path / "plugins" / "profile"
    put(runs / "before" / "vm.xplane.pb", recorded("one"))
    put(runs / "after" / "vm.xplane.pb", recorded("another"))
    _, traces = open_hosts(runs / "before", runs / "after")
    assert list(traces) == ["before/vm", "after/vm"]


def test_the_same_path_twice_is_one_host(tmp_path: Path) -> None:
    path = put(tmp_path / "vm.xplane.pb", recorded("one"))
    _, traces = open_hosts(path, path)
    assert list(traces) == ["vm"]


def test_files_with_equal_bytes_are_named_on_every_host(tmp_path: Path) -> None:
    put(tmp_path / "a.xplane.pb", recorded("work"))
    put(tmp_path / "b.xplane.pb", recorded("work"))
    put(tmp_path / "c.xplane.pb", recorded("wirk"))  # as long, not equal
    _, traces = open_hosts(tmp_path)
    notes = [
        note for note in traces["c"].quality_notes() if note.kind == "duplicate_hosts"
    ]
    assert [(note.severity, note.count) for note in notes] == [("warning", 2)]
    assert "files of a and b are identical" in notes[0].message
    assert "duplicate_hosts" in kinds(traces, "a")


def test_names_inside_that_collide_are_noted(tmp_path: Path) -> None:
    put(tmp_path / "localhost_6009.xplane.pb", recorded("one"))
    put(tmp_path / "localhost_6010.xplane.pb", recorded("another"))
    _, traces = open_hosts(tmp_path)
    assert list(traces) == ["localhost_6009", "localhost_6010"]
    assert kinds(traces, "localhost_6009").count("host_name_collides") == 1


@pytest.mark.parametrize(
    ("inside", "noted"),
    [
        ("vm", []),
        ("10.0.0.1:6003", []),
        ("elsewhere", ["host_name_differs"]),
        ("", []),
    ],
)
def test_a_name_inside_that_differs_is_noted(
    tmp_path: Path, inside: str, noted: list[str]
) -> None:
    file = "10.0.0.1_6003" if ":" in inside else "vm"
    hostnames = (inside,) if inside else ()
    data = space(plane("/host:CPU", line(1, "main")), hostnames=hostnames)
    put(tmp_path / f"{file}.xplane.pb", data)
    _, traces = open_hosts(tmp_path)
    assert [it for it in kinds(traces, file) if "host_name" in it] == noted


def test_one_broken_host_does_not_hide_the_others(tmp_path: Path) -> None:
    put(tmp_path / "good.xplane.pb", recorded("work", host="good"))
    put(tmp_path / "bad.xplane.pb", b"")
    _, traces = open_hosts(tmp_path)
    assert list(traces) == ["good"]
    (note,) = [
        note
        for note in traces["good"].quality_notes()
        if note.kind == "host_unreadable"
    ]
    assert note.severity == "error"
    assert "bad.xplane.pb" in note.message


def test_when_no_host_can_be_read_the_first_error_is_raised(tmp_path: Path) -> None:
    put(tmp_path / "bad.xplane.pb", b"")
    with pytest.raises(BadInput, match=r"bad\.xplane\.pb: the file is empty"):
        open_hosts(tmp_path)


def test_parts_of_one_file_are_one_trace(tmp_path: Path) -> None:
    builder = XSpaceBuilder("vm", start_ns=10, stop_ns=900)
    plane_of_threads = builder.plane("/host:CPU")
    for thread in range(4):
        added = plane_of_threads.line(thread + 1, name=f"thread {thread}")
        for number in range(50):
            added.event("work", offset_ps=number * 10, dur_ps=5)
    parts = builder.write(tmp_path / "vm.xplane.pb", budget_bytes=1100)
    assert len(parts) > 1
    _, traces = open_hosts(tmp_path)
    assert list(traces) == ["vm"]
    assert traces["vm"].table("events").height == 200
    assert traces["vm"].table("tracks")["name"].to_list() == [
        "thread 0",
        "thread 1",
        "thread 2",
        "thread 3",
    ]


def test_a_missing_path_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="does not exist"):
        open_hosts(tmp_path / "gone")


def test_an_object_store_without_its_package_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(BadInput, match=r"gs://bucket/logs: needs the package fsspec"):
        open_hosts("gs://bucket/logs")


def test_a_directory_of_another_profiler_says_whose_files_these_are(
    tmp_path: Path,
) -> None:
    for rank in range(3):
        put(tmp_path / f"rank{rank}.csv", b"Time (%),Total Time (ns),Instances")
    put(tmp_path / "notes.txt", b"words")
    with pytest.raises(BadInput) as caught:
        open_hosts(tmp_path)
    assert "3 x a table of `nsys stats`" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_traces_under_names_of_their_own_are_the_hosts_of_their_directory(
    tmp_path: Path,
) -> None:
    put(tmp_path / "first.pb", recorded("one", host="first"))
    put(tmp_path / "second.bin", recorded("two", host="second"))
    put(tmp_path / "notes.txt", b"words")
    put(tmp_path / "snapshot.sqlite", b"SQLite format 3\0StringIds")
    run, traces = open_hosts(tmp_path)
    assert run == tmp_path.name
    assert list(traces) == ["first", "second"]


def test_results_without_a_trace_are_named_as_such(tmp_path: Path) -> None:
    run = tmp_path / "plugins" / "profile" / "GPU-input-bound"
    put(run / "localhost.overview_page.pb", b"\x0a\x02\x08\x01")
    with pytest.raises(BadInput, match=r"GPU-input-bound: holds results .* no trace"):
        open_hosts(tmp_path)


def test_one_file_of_another_format_is_refused_by_name(tmp_path: Path) -> None:
    path = put(tmp_path / "report.sqlite", b"SQLite format 3\0" + b"\0" * 90)
    with pytest.raises(UnknownFormat, match="an SQLite database of another program"):
        read(path)


@pytest.mark.profiles
def test_the_real_old_results_are_refused_by_name(
    shared_profile: Callable[[str], Path],
) -> None:
    with pytest.raises(BadInput, match="no trace"):
        open_hosts(shared_profile("gpu_tf_legacy/xprof_gpu_compute_bound"))


@pytest.mark.profiles
def test_the_real_copies_are_named_as_duplicates(
    shared_profile: Callable[[str], Path],
) -> None:
    run, traces = open_hosts(shared_profile("gpu_tf/xprof_gpu_multi_worker"))
    assert run == "GPU-multi-worker"
    assert list(traces) == ["34.83.195.179_6003", "34.83.195.180_6003"]
    assert all("duplicate_hosts" in kinds(traces, host) for host in traces)


@pytest.mark.profiles
def test_the_two_real_workers_keep_the_names_of_their_files(
    shared_profile: Callable[[str], Path],
) -> None:
    _, traces = open_hosts(shared_profile("tf_cpu/two_workers"))
    assert {host: trace.table("events").height for host, trace in traces.items()} == {
        "localhost_6009": 202_846,
        "localhost_6010": 92_410,
    }
    assert all("host_name_collides" in kinds(traces, host) for host in traces)


KINETO = b'{"schemaVersion": 1, "traceEvents": []}'
CHROME = b'{"traceEvents": [{"ph": "X", "ts": 1, "dur": 1, "name": "a"}]}'


def test_loose_traces_of_a_log_directory_are_runs_of_their_own(tmp_path: Path) -> None:
    run = tmp_path / "plugins" / "profile" / "2025_01_01_00_00_00"
    put(run / "vm.xplane.pb", recorded("old"))
    # Beside a trace lie results of the same run, and no run of their own.
    put(run / "vm.trace.json.gz", gzip.compress(KINETO))
    put(tmp_path / "mine" / "first.json.gz", gzip.compress(KINETO))
    put(tmp_path / "mine" / "second.json", KINETO)
    put(tmp_path / "mine" / ".hidden.json", KINETO)
    put(tmp_path / "mine" / "config.json", b'{"learning_rate": 1}')
    put(tmp_path / "other.json", CHROME)
    found = find_runs(tmp_path)
    assert {run.name for run in found.runs} == {
        "2025_01_01_00_00_00",
        "mine/first.json.gz",
        "mine/second.json",
    }
    ((refused, why),) = found.refused
    assert refused.name == "other.json"
    assert "a Chrome trace" in why


def test_a_loose_trace_is_found_where_there_is_no_other_run(tmp_path: Path) -> None:
    put(tmp_path / "below" / "only.json", KINETO)
    assert [run.name for run in find_runs(tmp_path).runs] == ["below/only.json"]


def test_a_loose_file_that_changes_is_looked_at_again(tmp_path: Path) -> None:
    put(tmp_path / "below" / "only.json", b"{}")
    assert find_runs(tmp_path).runs == ()
    put(tmp_path / "below" / "only.json", KINETO)
    assert len(find_runs(tmp_path).runs) == 1


KERNELS = {nsight.KERNEL: [nsight.kernel("gemm", 1000, 2000, 1)]}


def database(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return nsight.write(path, KERNELS)


def test_databases_of_nsight_systems_are_runs_of_a_log_directory(
    tmp_path: Path,
) -> None:
    run = tmp_path / "plugins" / "profile" / "2025_01_01_00_00_00"
    put(run / "vm.xplane.pb", recorded("old"))
    # Beside a trace it belongs to that run.
    database(run / "vm.sqlite")
    plain = database(tmp_path / "nsys" / "first.sqlite")
    put(tmp_path / "nsys" / "second.sqlite.gz", gzip.compress(plain.read_bytes()))
    put(tmp_path / "nsys" / ".hidden.sqlite", plain.read_bytes())
    put(tmp_path / "nsys" / "cut.sqlite", plain.read_bytes()[:100])
    put(tmp_path / "nsys" / "empty.sqlite", b"")
    # A folder made for a run, with a database alone: nothing else would name it.
    database(run.parent / "alone" / "vm.sqlite")
    found = find_runs(tmp_path)
    assert {each.name for each in found.runs} == {
        "2025_01_01_00_00_00",
        "plugins/profile/alone/vm.sqlite",
        "nsys/first.sqlite",
        "nsys/second.sqlite.gz",
    }
    assert found.refused == ()
    (first,) = [each for each in found.runs if each.name == "nsys/first.sqlite"]
    name, traces = open_run(first)
    assert (name, list(traces)) == ("nsys/first.sqlite", ["first"])
    assert names(traces["first"]) == ["gemm"]


def test_memory_files_are_runs_of_a_log_directory_after_all_others(
    tmp_path: Path,
) -> None:
    """They were neither listed nor refused; the newest run stays the directory's."""
    run = tmp_path / "plugins" / "profile" / "2020_01_01_00_00_00"
    put(run / "vm.xplane.pb", recorded("old"))
    snapshot = ROOT / "tests/data/gpu/ways/torch_memory/snapshot.pickle"
    put(tmp_path / "memory" / "oom.pickle", snapshot.read_bytes())
    profile = ROOT / "tests/data/jax_memory/memory.prof"
    put(tmp_path / "memory" / "jax.prof", profile.read_bytes())
    put(tmp_path / "memory" / "weights.pkl", pickle.dumps({"layer": [1.0]}))
    names_of_runs = [each.name for each in find_runs(tmp_path).runs]
    assert names_of_runs[0] == "2020_01_01_00_00_00"
    assert set(names_of_runs[1:]) == {"memory/oom.pickle", "memory/jax.prof"}
    assert open_hosts(tmp_path)[0] == "2020_01_01_00_00_00"


def session(path: Path, *, start_s: int, duration_s: int) -> Path:
    """A database that was recorded from a time on, in seconds since 2023-11-14."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return nsight.write(
        path,
        {
            **KERNELS,
            "TARGET_INFO_SESSION_START_TIME": [
                {"utcEpochNs": (1_700_000_000 + start_s) * 10**9}
            ],
            "ANALYSIS_DETAILS": [{"duration": duration_s * 10**9}],
        },
    )


def test_databases_of_a_directory_are_one_run_where_they_were_recorded_together(
    tmp_path: Path,
) -> None:
    """Two that overlap are one run; one an hour later, and a packed one, are not."""
    session(tmp_path / "a.sqlite", start_s=0, duration_s=20)
    session(tmp_path / "b.sqlite", start_s=10, duration_s=20)
    later = session(tmp_path / "c.sqlite", start_s=3_600, duration_s=20)
    put(tmp_path / "d.sqlite.gz", gzip.compress(later.read_bytes()))
    assert {run.name: len(run.hosts) for run in find_runs(tmp_path).runs} == {
        "a.sqlite + b.sqlite": 2,
        "c.sqlite": 1,
        "d.sqlite.gz": 1,
    }


def test_databases_that_say_no_time_are_one_run_where_their_names_say_the_rank(
    tmp_path: Path,
) -> None:
    for name in ("train.rank0", "train.rank1", "try", "other"):
        database(tmp_path / f"{name}.sqlite")
    assert {run.name: len(run.hosts) for run in find_runs(tmp_path).runs} == {
        "train.rank0.sqlite + train.rank1.sqlite": 2,
        "try.sqlite": 1,
        "other.sqlite": 1,
    }


def test_traces_of_a_directory_are_one_run_where_they_say_their_rank(
    tmp_path: Path,
) -> None:
    for rank in (0, 1):
        info = b'"distributedInfo": {"rank": %d}, "traceEvents"' % rank
        put(tmp_path / f"{rank}.json", KINETO.replace(b'"traceEvents"', info))
    put(tmp_path / "alone.json", KINETO)
    assert {run.name: len(run.hosts) for run in find_runs(tmp_path).runs} == {
        "0.json + 1.json": 2,
        "alone.json": 1,
    }


@pytest.mark.slow(seconds=0.3)
def test_several_paths_say_what_speaks_against_one_run(tmp_path: Path) -> None:
    paths = [
        session(tmp_path / "a.sqlite", start_s=0, duration_s=20),
        session(tmp_path / "b.sqlite", start_s=10, duration_s=20),
        session(tmp_path / "c.sqlite", start_s=3_600, duration_s=20),
    ]
    _, traces = open_hosts(*paths)
    (note,) = (it for it in traces["a"].quality_notes() if it.kind == "not_one_run")
    assert note.severity == "warning"
    assert (
        "recorded at 2 times: a from 2023-11-14 22:13:20 UTC and c from "
        "2023-11-14 23:13:20 UTC on" in note.message
    )
    # Nothing speaks against hosts that say nothing of time or rank.
    _, traces = open_hosts(*(database(tmp_path / "x" / it) for it in ("1.s", "2.s")))
    assert "not_one_run" not in kinds(traces, "1")


def test_two_files_of_one_rank_are_not_one_run(tmp_path: Path) -> None:
    for name, size in (("a", 2), ("b", 4)):
        info = b'"distributedInfo": {"rank": 0, "world_size": %d}, "traceEvents"' % size
        put(tmp_path / f"{name}.json", KINETO.replace(b'"traceEvents"', info))
    _, traces = open_hosts(tmp_path / "a.json", tmp_path / "b.json")
    notes = next(iter(traces.values())).quality_notes()
    (note,) = (it for it in notes if it.kind == "not_one_run")
    assert "2 of the hosts are rank 0" in note.message
    assert "runs of 2 and of 4 processes" in note.message


def test_many_equal_files_are_counted_in_one_sentence(tmp_path: Path) -> None:
    """Sixty-four of them have 2,016 pairs."""
    for rank in range(64):
        put(tmp_path / f"{rank:02}.xplane.pb", recorded("work"))
    _, traces = open_hosts(tmp_path)
    (note,) = (
        it for it in traces["00"].quality_notes() if it.kind == "duplicate_hosts"
    )
    assert note.count == 64
    assert note.message == (
        "The files of 00, 01, 02 and 61 more are identical: sums over hosts count "
        "the same work 64 times."
    )


def test_databases_of_other_programs_are_passed_over(tmp_path: Path) -> None:
    # What it holds speaks of Nsight's tables, and it has none of them.
    with closing(sqlite3.connect(tmp_path / "studies.sqlite")) as base:
        base.execute("CREATE TABLE notes (text)")
        base.execute("INSERT INTO notes VALUES ('StringIds CUPTI_ACTIVITY_KIND_X')")
        base.execute("CREATE VIEW StringIds AS SELECT text FROM notes")
        base.commit()
    put(tmp_path / "a.json", KINETO)
    found = find_runs(tmp_path)
    assert [file.name for run in found.runs for file in run.hosts[0].paths] == [
        "a.json"
    ]
    assert found.refused == ()


@pytest.mark.parametrize("ending", ["-wal", "-journal"])
def test_a_database_that_is_still_written_is_listed_when_it_is_whole(
    ending: str, tmp_path: Path
) -> None:
    path = database(tmp_path / "below" / "train.sqlite")
    beside = put(path.with_name(path.name + ending), b"rows")
    found = find_runs(tmp_path)
    assert found.runs == ()
    ((refused, why),) = found.refused
    assert refused == path
    assert why.endswith(f"train.sqlite{ending} holds a part of the database")
    # SQLite leaves an empty log behind where it cannot remove it.
    beside.write_bytes(b"")
    assert [run.name for run in find_runs(tmp_path).runs] == ["below/train.sqlite"]


def test_a_database_lies_beside_the_traces_of_its_folder(tmp_path: Path) -> None:
    for name in ("rank0.json", "rank1.json"):
        os.utime(put(tmp_path / name, KINETO), (2e9, 2e9))
    os.utime(database(tmp_path / "train.sqlite"), (1e9, 1e9))
    runs = find_runs(tmp_path).runs
    assert [(run.name, len(run.hosts)) for run in runs] == [
        (tmp_path.name, 2),
        ("train.sqlite", 1),
    ]
