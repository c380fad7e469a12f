"""Files that are opened together become hosts with names of their own."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import pytest

from stepscope.errors import BadInput
from stepscope.formats import kineto
from stepscope.rundir import HostFiles

if TYPE_CHECKING:
    from pathlib import Path

EVENT = {
    "ph": "X",
    "cat": "cpu_op",
    "name": "op",
    "pid": 1,
    "tid": 1,
    "ts": 1,
    "dur": 2,
}


def write(path: Path, **top: Any) -> None:
    text = json.dumps({"schemaVersion": 1, "traceEvents": [EVENT], **top})
    packed = path.suffix == ".gz"
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())


def names(directory: Path) -> list[tuple[str, str]]:
    hosts = kineto.name_hosts(list(directory.iterdir()))
    return [(it.host, it.paths[0].name) for it in hosts]


def test_ranks_stand_in_the_file_and_are_ordered_as_numbers(tmp_path: Path) -> None:
    for rank in (0, 2, 10):
        write(tmp_path / f"node_{20 - rank}.json", distributedInfo={"rank": rank})
    assert names(tmp_path) == [
        ("rank0", "node_20.json"),
        ("rank2", "node_18.json"),
        ("rank10", "node_10.json"),
    ]


def test_the_rank_may_stand_before_or_behind_the_events(tmp_path: Path) -> None:
    info = '"distributedInfo": {"backend": "nccl", "rank": 5, "world_size": 8}'
    events = json.dumps([EVENT] * 9000)
    (tmp_path / "a.json").write_text(
        f'{{"schemaVersion": 1, "traceEvents": {events}, {info}}}'
    )
    assert names(tmp_path) == [("rank5", "a.json")]


@pytest.mark.parametrize(
    ("file", "host"),
    [
        ("worker3_step_12.169.pt.trace.json", "worker3"),
        ("trace_rank-07.json.gz", "rank7"),
        ("node.1234.pt.trace.json.gz", "node.1234"),
    ],
)
def test_without_a_rank_the_name_of_the_file_tells(
    file: str, host: str, tmp_path: Path
) -> None:
    write(tmp_path / file)
    assert names(tmp_path) == [(host, file)]


def test_two_windows_of_one_worker_are_told_apart(tmp_path: Path) -> None:
    for time in (11, 22):
        write(tmp_path / f"worker0.{time}.pt.trace.json")
    assert [host for host, _ in names(tmp_path)] == [
        "worker0 (worker0.11)",
        "worker0 (worker0.22)",
    ]


def test_parts_of_one_trace_do_not_exist_in_this_format(tmp_path: Path) -> None:
    paths = (tmp_path / "a.json", tmp_path / "b.json")
    for path in paths:
        write(path)
    with pytest.raises(BadInput, match="separate worker"):
        kineto.read(HostFiles(host="a", paths=paths))
