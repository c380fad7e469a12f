"""Several paths are the workers of one run, each under a name of its own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.support.traces import kineto as kb
from tests.support.xspace.literal import event, line, plane, space

from stepscope.formats.opening import open_hosts

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def recorded(path: Path, name: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = line(1, "main", event(name, 0, 5))
    path.write_bytes(space(plane("/host:CPU", lines), hostnames=("vm",)))
    return path


def ranked(path: Path, rank: int, *, dur: int = 5) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {
        "schemaVersion": 1,
        "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": 4},
        "traceEvents": [kb.complete("aten::mul", 0, dur)],
    }
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def names(*paths: Path) -> list[str]:
    return list(open_hosts(*paths)[1])


def test_a_file_alone_is_called_as_it_is_among_others(tmp_path: Path) -> None:
    first = ranked(tmp_path / "worker7_step_12.pt.trace.json", 7)
    second = ranked(tmp_path / "worker1_step_12.pt.trace.json", 1)
    assert names(tmp_path) == ["rank1", "rank7"]
    assert names(first) == ["rank7"]
    assert names(first, second) == ["rank7", "rank1"]


def test_equal_names_in_different_folders_are_called_after_the_folders(
    tmp_path: Path,
) -> None:
    a = recorded(tmp_path / "machine_a" / "logs" / "vm.xplane.pb", "one")
    b = recorded(tmp_path / "machine_b" / "logs" / "vm.xplane.pb", "another")
    run, traces = open_hosts(a, b)
    assert list(traces) == ["machine_a/vm", "machine_b/vm"]
    assert run == "vm.xplane.pb"
    kinds = {note.kind for note in traces["machine_a/vm"].quality_notes()}
    assert "host_name_collides" in kinds


def test_equal_ranks_in_one_folder_are_called_after_their_files(tmp_path: Path) -> None:
    a = ranked(tmp_path / "before.pt.trace.json", 0)
    b = ranked(tmp_path / "after.pt.trace.json", 0, dur=6)
    assert names(a, b) == [
        "rank0 (before.pt.trace.json)",
        "rank0 (after.pt.trace.json)",
    ]


def test_only_names_that_collide_change(tmp_path: Path) -> None:
    one = recorded(tmp_path / "x" / "vm.xplane.pb", "one")
    two = recorded(tmp_path / "y" / "vm.xplane.pb", "two")
    three = recorded(tmp_path / "y" / "other.xplane.pb", "three")
    assert names(one, two, three) == ["x/vm", "y/vm", "other"]


def test_no_two_workers_share_a_name_whatever_they_are_called(tmp_path: Path) -> None:
    """One folder is called as the other one's run, which would make equal names."""
    runs = tmp_path / "plugins" / "profile"
    recorded(runs / "r" / "vm.xplane.pb", "one")
    a = recorded(tmp_path / "r" / "vm.xplane.pb", "two")
    b = recorded(tmp_path / "z" / "r" / "vm.xplane.pb", "three")
    found = names(runs / "r", a, b)
    assert len(set(found)) == 3


def test_a_link_to_a_file_is_the_file(tmp_path: Path) -> None:
    path = recorded(tmp_path / "vm.xplane.pb", "one")
    link = tmp_path / "linked.xplane.pb"
    link.symlink_to(path)
    assert names(path, link) == ["vm"]


def test_a_folder_and_a_file_of_it_are_the_folder(tmp_path: Path) -> None:
    run = tmp_path / "plugins" / "profile" / "r"
    a = recorded(run / "a.xplane.pb", "one")
    recorded(run / "b.xplane.pb", "another")
    assert names(run, a) == ["a", "b"]


def test_many_runs_have_a_short_name(tmp_path: Path) -> None:
    paths = [ranked(tmp_path / f"w{n}.pt.trace.json", n) for n in range(4)]
    assert open_hosts(*paths)[0] == "w0.pt.trace.json + 3 more"
    assert open_hosts(*paths[:2])[0] == "w0.pt.trace.json + w1.pt.trace.json"


@pytest.mark.profiles
def test_eight_real_ranks_given_one_by_one_are_the_run_of_their_folder(
    shared_profile: Callable[[str], Path],
) -> None:
    folder = shared_profile("kineto/dlrm_8rank_v100")
    _, together = open_hosts(folder)
    _, one_by_one = open_hosts(*sorted(folder.iterdir()))
    assert list(together) == list(one_by_one) == [f"rank{n}" for n in range(8)]
