"""Directories with PyTorch's own file names are runs, wherever they lie."""

from __future__ import annotations

import gzip
import os
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.support.sites.serve import OLD, put, running
from tests.support.traces import blueprint

import stepscope
from stepscope.cli.main import main
from stepscope.errors import BadInput
from stepscope.formats.opening import find_runs
from stepscope.formats.workers import named_after_files, with_worker_runs
from stepscope.rundir import Run, runs_of_listing, scan_directory

RECORDED = next((Path(__file__).parents[1] / "data" / "torch_train").glob("*.json.gz"))
STEPS = 6
#: 2026-11-20 09:22:30 UTC, as the handler for TensorBoard writes it into the name.
WRITTEN_S = 1_795_166_550
NEXT_DAY_S = WRITTEN_S + 86_400


def record(
    directory: Path, worker: str, *, unix_s: int | None = WRITTEN_S, packed: bool = True
) -> Path:
    """The recorded trace under the name that the handler gives it."""
    time = "" if unix_s is None else f".{unix_s * 10**9}"
    path = directory / f"{worker}{time}.pt.trace.json{'.gz' if packed else ''}"
    directory.mkdir(parents=True, exist_ok=True)
    content = RECORDED.read_bytes()
    path.write_bytes(content if packed else gzip.decompress(content))
    os.utime(path, (OLD, OLD))
    return path


def runs_in(logdir: Path) -> list[tuple[str, float, list[str]]]:
    return [
        (run.name, run.unix_s, [path.name for it in run.hosts for path in it.paths])
        for run in find_runs(logdir).runs
    ]


def test_every_directory_with_traces_of_workers_is_a_run(tmp_path: Path) -> None:
    record(tmp_path / "resnet", "vm_1")
    record(tmp_path / "exp" / "bert", "worker0", unix_s=NEXT_DAY_S, packed=False)
    record(tmp_path / "exp" / "bert", "worker1", unix_s=NEXT_DAY_S + 1)
    (tmp_path / "exp" / "notes.json").write_text("{}")
    assert runs_in(tmp_path) == [
        (
            "exp/bert",
            NEXT_DAY_S + 1,
            [
                f"worker0.{NEXT_DAY_S}000000000.pt.trace.json",
                f"worker1.{NEXT_DAY_S + 1}000000000.pt.trace.json.gz",
            ],
        ),
        ("resnet", WRITTEN_S, [f"vm_1.{WRITTEN_S}000000000.pt.trace.json.gz"]),
    ]


def test_recordings_of_one_process_are_runs_and_no_hosts(tmp_path: Path) -> None:
    # PyTorch's schedule without `repeat` writes a file every few steps; two ranks.
    name = "{}.{}000000000.pt.trace.json.gz".format
    for at in (WRITTEN_S, WRITTEN_S + 60, WRITTEN_S + 120):
        record(tmp_path / "mnist", "vm_31", unix_s=at)
    for at in (WRITTEN_S + 61, WRITTEN_S + 121):
        record(tmp_path / "mnist", "vm_32", unix_s=at)
    assert runs_in(tmp_path) == [
        (
            "mnist",
            WRITTEN_S + 121,
            [name("vm_31", WRITTEN_S + 120), name("vm_32", WRITTEN_S + 121)],
        ),
        (
            "mnist@2026_11_20_09_23_31_000",
            WRITTEN_S + 61,
            [name("vm_31", WRITTEN_S + 60), name("vm_32", WRITTEN_S + 61)],
        ),
        ("mnist@2026_11_20_09_22_30_000", WRITTEN_S, [name("vm_31", WRITTEN_S)]),
    ]
    assert len(stepscope.open(tmp_path / "mnist").hosts) == 2


def test_so_are_those_of_a_worker_that_the_program_named(tmp_path: Path) -> None:
    """Two windows of one process were taken for ranks, 1.66 s apart."""
    for at in (WRITTEN_S, WRITTEN_S + 2):
        for worker in ("worker0", "worker1"):
            record(tmp_path / "mnist", worker, unix_s=at)
    assert [(name, len(files)) for name, _, files in runs_in(tmp_path)] == [
        ("mnist", 2),
        ("mnist@2026_11_20_09_22_30_000", 2),
    ]
    assert stepscope.open(tmp_path / "mnist").hosts == ("worker0", "worker1")


def test_they_stand_beside_runs_of_the_other_layout(tmp_path: Path) -> None:
    put(tmp_path, "2026_11_20_23_00_00", "vm", bytes(blueprint.a1().data))
    record(tmp_path / "resnet", "vm_1", unix_s=NEXT_DAY_S)
    assert [name for name, _, _ in runs_in(tmp_path)] == [
        "resnet",
        "2026_11_20_23_00_00",
    ]
    # What lies beside a run's own traces is no run of its own.
    record(tmp_path / "plugins" / "profile" / "2026_11_20_23_00_00", "vm_1")
    assert len(runs_in(tmp_path)) == 2


def test_the_log_directory_itself_may_be_a_run_and_hold_others(tmp_path: Path) -> None:
    logdir = tmp_path / "log"
    record(logdir, "vm_1")
    record(logdir / "later", "vm_2", unix_s=NEXT_DAY_S)
    assert [name for name, _, _ in runs_in(logdir)] == ["later", "log"]
    assert find_runs(logdir).results_only == ()
    assert stepscope.open(logdir).run == "later"
    assert stepscope.open(logdir / "later").run == "later"


def test_no_two_runs_share_a_name(tmp_path: Path) -> None:
    logdir = tmp_path / "log"
    put(logdir, "r1", "vm", bytes(blueprint.a1().data))
    record(logdir / "r1", "vm_1")
    record(logdir, "vm_1")
    record(logdir / "log", "vm_1")
    names = sorted(name for name, _, _ in runs_in(logdir))
    assert names == ["./", "./log", "./r1", "r1"]


@pytest.mark.parametrize("unix_s", [None, 12])
def test_without_a_time_in_its_name_a_file_is_as_old_as_its_last_change(
    tmp_path: Path, unix_s: int | None
) -> None:
    record(tmp_path / "r1", "vm", unix_s=unix_s)
    assert [time for _, time, _ in runs_in(tmp_path)] == [OLD]


def test_older_names_tell_milliseconds(tmp_path: Path) -> None:
    record(tmp_path / "r1", "vm.1623212756351", unix_s=None)
    assert [time for _, time, _ in runs_in(tmp_path)] == [1_623_212_756.351]


def test_of_a_file_and_its_packed_copy_the_file_counts(tmp_path: Path) -> None:
    record(tmp_path, "vm")
    plain = record(tmp_path, "vm", packed=False)
    assert [files for _, _, files in runs_in(tmp_path)] == [[plain.name]]


def test_what_a_mac_leaves_beside_a_copy_is_no_worker(tmp_path: Path) -> None:
    path = record(tmp_path, "vm")
    path.with_name(f"._{path.name}").write_bytes(b"Mac OS X")
    assert [files for _, _, files in runs_in(tmp_path)] == [[path.name]]


@pytest.mark.slow(seconds=0.7)
def test_the_recorded_steps_are_there_from_any_level(tmp_path: Path) -> None:
    file = record(tmp_path / "exp" / "r1", "vm_1")
    for place in (tmp_path, tmp_path / "exp", tmp_path / "exp" / "r1", file):
        profile = stepscope.open(place)
        assert len(profile.hosts) == 1
        steps = profile.tool("overview_page").steps
        assert len(steps) == STEPS
    done = CliRunner().invoke(main, ["report", str(tmp_path / "exp")])
    assert "stepscope · r1" in done.output


def test_a_worker_that_cannot_be_read_is_named_and_the_others_are_shown(
    tmp_path: Path,
) -> None:
    record(tmp_path, "good")
    (tmp_path / "bad.pt.trace.json").write_bytes(b"")
    profile = stepscope.open(tmp_path)
    assert [host.split(".")[0] for host in profile.hosts] == ["good"]
    kinds = {
        note.kind: note for note in profile.trace(profile.hosts[0]).quality_notes()
    }
    assert "bad.pt.trace.json" in kinds["host_unreadable"].message
    (tmp_path / f"good.{WRITTEN_S}000000000.pt.trace.json.gz").unlink()
    with pytest.raises(BadInput, match=r"bad\.pt\.trace\.json"):
        stepscope.open(tmp_path)


def test_a_file_that_is_gone_or_a_pipe_does_not_stop_the_search(tmp_path: Path) -> None:
    record(tmp_path / "good", "vm")
    (tmp_path / "gone").mkdir()
    (tmp_path / "gone" / "vm.pt.trace.json").symlink_to(tmp_path / "nowhere")
    (tmp_path / "pipe").mkdir()
    os.mkfifo(tmp_path / "pipe" / "vm.pt.trace.json")
    assert {name for name, _, _ in runs_in(tmp_path)} == {"good", "gone", "pipe"}
    with running(tmp_path) as site:
        told = site.get("data/runs").json
        assert [run["name"] for run in told["runs"]] == ["good"]
        assert [one["name"] for one in told["refused"]] == ["pipe"]


@pytest.mark.slow(seconds=0.4)
def test_the_server_lists_and_opens_each_and_sees_a_new_one(tmp_path: Path) -> None:
    record(tmp_path / "r1", "vm_1")
    with running(tmp_path) as site:
        (first,) = site.get("data/runs").json["runs"]
        assert (first["name"], first["state"]) == ("r1", "ready")
        record(tmp_path / "r2", "vm_1", unix_s=NEXT_DAY_S)
        site.ask("POST", "data/reload", {"X-Stepscope": "1"})
        runs = site.get("data/runs").json["runs"]
        assert [run["name"] for run in runs] == ["r2", "r1"]
        assert runs[1]["id"] == first["id"]
        for run in runs:
            answer = site.get(f"data/tool/overview?run={run['id']}").json
            assert len(answer["data"]["steps"]) == STEPS


def test_a_worker_whose_file_changed_is_named_anew(tmp_path: Path) -> None:
    path = tmp_path / "a.pt.trace.json"
    text = '{"schemaVersion": 1, "distributedInfo": {"rank": %d}, "traceEvents": []}'
    for rank in (3, 14):
        path.write_text(text % rank)
        assert [host.host for host in find_runs(tmp_path).runs[0].hosts] == [
            f"rank{rank}"
        ]


def test_a_listing_tells_the_directories_that_a_walk_finds(tmp_path: Path) -> None:
    top = tmp_path / "logs"
    put(top, "r1", "vm", b"x")
    for folder in (top, top / "a", top / "a" / "b", top / "r1"):
        record(folder, "vm_1")
        record(folder, "vm_1", packed=False)
        record(folder, "vm_2", unix_s=None)
    times = {
        path.relative_to(top): path.stat().st_mtime
        for path in top.rglob("*")
        if path.is_file()
    }
    listed = with_worker_runs(
        runs_of_listing(times, top),
        times,
        Path(),
        top_name="logs",
        changed=times.__getitem__,
        hosts_of=named_after_files,
    )

    def told(runs: tuple[Run, ...]) -> list[tuple[str, float, list[str]]]:
        return [
            (run.name, run.unix_s, [it.paths[0].name for it in run.hosts])
            for run in runs
        ]

    assert told(listed) == told(find_runs(top).runs)
    assert len(listed) == 5
    shutil.rmtree(top / "plugins")
    assert scan_directory(top).runs == ()
