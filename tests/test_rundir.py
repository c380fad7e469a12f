from __future__ import annotations

import os
from pathlib import Path

import pytest

from stepscope.errors import BadInput
from stepscope.rundir import (
    find_runs,
    host_file_name,
    host_name,
    is_spool,
    is_trace,
    new_run_name,
    run_of_file,
    runs_of_listing,
    scan_directory,
)


def run(logdir: Path, name: str, *files: str, sub_run: str = "") -> Path:
    directory = logdir / sub_run / "plugins" / "profile" / name
    directory.mkdir(parents=True)
    for file in files or ("vm.xplane.pb",):
        (directory / file).write_bytes(b"x")
    return directory


def test_runs_come_newest_first_by_the_time_in_their_names(tmp_path: Path) -> None:
    run(tmp_path, "2024_05_01_10_00_00")
    run(tmp_path, "2026_11_20_09_22_30")
    run(tmp_path, "2025_01_01_00_00_00")
    assert [found.name for found in find_runs(tmp_path)] == [
        "2026_11_20_09_22_30",
        "2025_01_01_00_00_00",
        "2024_05_01_10_00_00",
    ]


def test_milliseconds_in_a_name_order_two_captures_of_one_second(
    tmp_path: Path,
) -> None:
    run(tmp_path, "2026_11_20_09_22_30_007_zz")
    run(tmp_path, "2026_11_20_09_22_30_950_aa")
    run(tmp_path, "2026_11_20_09_22_30")
    assert [found.name for found in find_runs(tmp_path)] == [
        "2026_11_20_09_22_30_950_aa",
        "2026_11_20_09_22_30_007_zz",
        "2026_11_20_09_22_30",
    ]


def test_a_run_without_a_time_in_its_name_is_as_old_as_its_newest_file(
    tmp_path: Path,
) -> None:
    named = run(tmp_path, "baseline", "a.xplane.pb", "b.xplane.pb")
    os.utime(named / "a.xplane.pb", (10, 10))
    os.utime(named / "b.xplane.pb", (2_000_000_000, 2_000_000_000))
    run(tmp_path, "2026_11_20_09_22_30")
    run(tmp_path, "2099_13_45_99_99_99")  # no such moment
    os.utime(tmp_path / "plugins/profile/2099_13_45_99_99_99/vm.xplane.pb", (5, 5))
    found = find_runs(tmp_path)
    assert [each.name for each in found] == [
        "baseline",
        "2026_11_20_09_22_30",
        "2099_13_45_99_99_99",
    ]
    assert found[0].unix_s == 2_000_000_000


def test_the_path_to_plugins_is_part_of_the_shown_name(tmp_path: Path) -> None:
    run(tmp_path, "r1", sub_run="fit/train")
    run(tmp_path, "r2")
    assert {found.name for found in find_runs(tmp_path)} == {"fit/train/r1", "r2"}


@pytest.mark.parametrize("inside", ["plugins", "plugins/profile"])
def test_a_folder_on_the_way_to_the_runs_will_do(tmp_path: Path, inside: str) -> None:
    run(tmp_path, "r1")
    assert [found.name for found in find_runs(tmp_path / inside)] == ["r1"]


def test_a_directory_with_traces_is_itself_the_run(tmp_path: Path) -> None:
    directory = run(tmp_path, "r1", "b.xplane.pb", "a.xplane.pb.gz")
    (found,) = find_runs(directory)
    assert found.name == "r1"
    assert [host.host for host in found.hosts] == ["a", "b"]


def test_results_and_caches_beside_the_traces_are_no_hosts(tmp_path: Path) -> None:
    others = ["vm.overview_page.pb", "vm.trace.json.gz", "ALL_HOSTS.op_stats_v2.pb"]
    others += ["jit_f.hlo_proto.pb", ".cached_tools.json", "vm.xplane.pb.tmp"]
    run(tmp_path, "r1", "vm.xplane.pb", *others)
    (found,) = find_runs(tmp_path)
    assert [host.host for host in found.hosts] == ["vm"]


def test_parts_of_a_file_are_one_host_in_the_order_of_their_numbers(
    tmp_path: Path,
) -> None:
    names = [f"vm.part{k}.xplane.pb" for k in range(12)]
    run(tmp_path, "r1", "other.xplane.pb", *names)
    (found,) = find_runs(tmp_path)
    other, host = found.hosts
    assert other.host == "other"
    assert host.host == "vm"
    assert [path.name for path in host.paths] == names


def test_of_a_file_and_its_compressed_copy_the_file_counts(tmp_path: Path) -> None:
    run(tmp_path, "r1", "vm.xplane.pb.gz", "vm.xplane.pb")
    (found,) = find_runs(tmp_path)
    assert [path.name for host in found.hosts for path in host.paths] == [
        "vm.xplane.pb"
    ]


@pytest.mark.parametrize(
    ("file", "host"),
    [
        ("vm.xplane.pb", "vm"),
        ("34.83.195.179_6003.xplane.pb.gz", "34.83.195.179_6003"),
        (".xplane.pb", "localhost"),
        ("vm.part3.xplane.pb", "vm"),
        ("strange_name.bin", "strange_name"),
    ],
)
def test_a_host_is_named_after_its_file(file: str, host: str) -> None:
    assert host_name(file) == host


def test_what_ends_otherwise_is_no_trace_of_a_run_directory() -> None:
    names = ["a.xplane.pb", "a.xplane.pb.gz", "a.pb", "a.xplane.pb.bak", "xplane.pb"]
    assert [is_trace(name) for name in names] == [True, True, False, False, False]


def test_links_that_lead_back_do_not_stop_the_search(tmp_path: Path) -> None:
    run(tmp_path, "r1", sub_run="a")
    (tmp_path / "a" / "back").symlink_to(tmp_path)
    (tmp_path / "itself").symlink_to(tmp_path / "itself")
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    assert [found.name for found in scan_directory(tmp_path).runs] == ["a/r1"]


def test_a_run_that_is_also_linked_is_found_once_under_its_own_name(
    tmp_path: Path,
) -> None:
    real = run(tmp_path, "r1")
    (real.parent / "latest").symlink_to(real)
    (tmp_path / "aaa").symlink_to(tmp_path / "plugins")
    assert [found.name for found in find_runs(tmp_path)] == ["r1"]


def test_a_linked_directory_elsewhere_is_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    run(elsewhere, "r1")
    logdir = tmp_path / "logs"
    logdir.mkdir()
    (logdir / "experiment").symlink_to(elsewhere)
    assert [found.name for found in find_runs(logdir)] == ["experiment/r1"]


def test_an_entry_that_cannot_be_listed_is_passed_over_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(tmp_path, "r1", sub_run="good")
    (tmp_path / "locked").mkdir()
    listed = os.scandir

    def refusing(path: os.PathLike[str]) -> object:
        if Path(path).name == "locked":
            raise PermissionError(13, "Permission denied")
        return listed(path)

    monkeypatch.setattr(os, "scandir", refusing)
    found = scan_directory(tmp_path)
    assert [each.name for each in found.runs] == ["good/r1"]
    assert found.refused == ((tmp_path / "locked", "Permission denied"),)


def test_timelines_are_read_where_nothing_else_is_left(tmp_path: Path) -> None:
    names = ("b.trace.json.gz", "a.trace.json", "a.overview_page.pb")
    left = run(tmp_path, "r1", *names, "perfetto_trace.json.gz")
    for found in (scan_directory(tmp_path).runs, scan_directory(left).runs):
        hosts = [(it.host, it.paths[0].name) for one in found for it in one.hosts]
        assert hosts == [("a", "a.trace.json"), ("b", "b.trace.json.gz")]
    # The profile holds all of it, and more.
    (left / "a.xplane.pb").touch()
    (whole,) = scan_directory(tmp_path).runs
    assert [it.paths[0].name for it in whole.hosts] == ["a.xplane.pb"]


def test_a_run_with_results_but_no_trace_is_told_apart(tmp_path: Path) -> None:
    old = run(tmp_path, "r1", "vm.overview_page.pb", "vm.input_pipeline.pb")
    run(tmp_path, "r2", "notes.txt")
    found = scan_directory(tmp_path)
    assert found.runs == ()
    assert found.results_only == (old,)
    assert scan_directory(old).results_only == (old,)


@pytest.mark.slow(seconds=0.4)
def test_many_runs_are_all_found(tmp_path: Path) -> None:
    profile = tmp_path / "plugins" / "profile"
    profile.mkdir(parents=True)
    for number in range(1500):
        directory = profile / f"2026_01_01_{number // 3600:02}_{number // 60 % 60:02}_"
        directory = directory.with_name(f"{directory.name}{number % 60:02}")
        directory.mkdir()
        (directory / "vm.xplane.pb").touch()
    found = find_runs(tmp_path)
    assert len(found) == 1500
    assert found[0].name == "2026_01_01_00_24_59"
    assert found[-1].name == "2026_01_01_00_00_00"


def test_a_path_that_is_no_directory_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(BadInput) as caught:
        scan_directory(tmp_path / "missing")
    assert "missing" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_single_file_is_a_run_named_after_its_directory(tmp_path: Path) -> None:
    directory = run(tmp_path, "r1", "vm.xplane.pb", "other.xplane.pb")
    found = run_of_file(directory / "vm.xplane.pb")
    assert found.name == "r1"
    assert [host.host for host in found.hosts] == ["vm"]
    loose = tmp_path / "copied.xplane.pb"
    loose.touch()
    assert run_of_file(loose).name == "copied.xplane.pb"


@pytest.mark.parametrize("top", [".", "a", "a/plugins/profile", "a/plugins/profile/r1"])
def test_a_listing_tells_the_runs_that_a_walk_finds(tmp_path: Path, top: str) -> None:
    run(tmp_path, "2026_01_02_03_04_05", "vm.xplane.pb", sub_run="a")
    run(tmp_path, "r1", "b.part1.xplane.pb", "b.part0.xplane.pb", sub_run="a")
    run(tmp_path, "r1", "c.xplane.pb", "c.xplane.pb.gz", "c.trace.json.gz")
    (tmp_path / "a" / "stray.xplane.pb.txt").touch()
    (tmp_path / "a" / "deep" / "er").mkdir(parents=True)
    (tmp_path / "a" / "deep" / "er" / "vm.xplane.pb").touch()
    looked_at = tmp_path / top
    files = {
        path.relative_to(looked_at): path.stat().st_mtime
        for path in looked_at.rglob("*")
        if path.is_file()
    }
    walked = find_runs(looked_at)
    listed = runs_of_listing(files, looked_at)
    assert [(one.name, one.unix_s) for one in listed] == [
        (one.name, one.unix_s) for one in walked
    ]
    assert [
        [(host.host, [looked_at / path for path in host.paths]) for host in one.hosts]
        for one in listed
    ] == [[(host.host, list(host.paths)) for host in one.hosts] for one in walked]


def test_bytes_that_are_no_text_are_shown_as_escapes() -> None:
    name = os.fsdecode(b"vm\xff.xplane.pb")
    assert host_name(name) == r"vm\xff"


def test_an_unfinished_recording_counts_where_its_host_has_no_other_file(
    tmp_path: Path,
) -> None:
    run(tmp_path, "left", "a.xplane.pb.part", "b.xplane.pb.part", "b.xplane.pb")
    (found,) = find_runs(tmp_path)
    assert [
        (host.host, [path.name for path in host.paths]) for host in found.hosts
    ] == [
        ("a", ["a.xplane.pb.part"]),
        ("b", ["b.xplane.pb"]),
    ]
    assert is_spool("a.xplane.pb.part")
    assert not is_spool("a.part0.xplane.pb")


def test_names_of_new_runs_are_found_again_in_the_order_of_their_time(
    tmp_path: Path,
) -> None:
    moments = [1_800_000_000.007, 1_800_000_000.95, 1_800_000_001.0]
    names = [new_run_name(moment) for moment in moments]
    for name in names:
        run(tmp_path, name)
    found = find_runs(tmp_path)
    assert [it.name for it in found] == names[::-1]
    assert [it.unix_s for it in found] == pytest.approx(moments[::-1], abs=0.001)
    assert len({new_run_name(1.0) for _ in range(50)}) > 40


@pytest.mark.parametrize(
    ("hostname", "environ", "taken", "expected"),
    [
        ("vm", {}, (), "vm"),
        ("a b/c:1", {}, (), "a_b_c_1"),
        ("", {}, (), "localhost"),
        ("..", {}, (), "localhost"),
        ("box.part3", {}, (), "box_part3"),
        ("vm", {"RANK": "3", "WORLD_SIZE": "8"}, (), "vm.3"),
        ("vm", {"RANK": "0", "WORLD_SIZE": "1"}, (), "vm"),
        ("vm", {"RANK": "none", "WORLD_SIZE": "8"}, (), "vm"),
        ("vm", {"JAX_PROCESS_ID": "1", "JAX_NUM_PROCESSES": "2"}, (), "vm.1"),
        ("vm", {"SLURM_PROCID": "5", "SLURM_NTASKS": "6"}, (), "vm.5"),
        (
            "vm",
            {"TF_CONFIG": '{"task": {"type": "worker", "index": 2}}'},
            (),
            "vm.worker2",
        ),
        ("vm", {"TF_CONFIG": "broken"}, (), "vm"),
        ("vm", {"TF_CONFIG": '{"cluster": {}}'}, (), "vm"),
        ("vm", {}, ("vm",), "vm.PID"),
        ("vm", {}, ("vm", "vm.PID"), "vm.PID.2"),
    ],
)
def test_a_file_is_named_after_host_and_rank_and_no_two_alike(
    hostname: str, environ: dict[str, str], taken: tuple[str, ...], expected: str
) -> None:
    # Workers that share the tests out must name them alike.
    mine = str(os.getpid())
    name = host_file_name(
        hostname, environ, [one.replace("PID", mine) for one in taken]
    )
    assert name == expected.replace("PID", mine)
    assert host_name(f"{name}.xplane.pb") == name
