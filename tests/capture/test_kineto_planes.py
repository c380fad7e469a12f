"""PyTorch's activities as planes give the tables that its own exported trace gives."""

from __future__ import annotations

import gzip
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.support.traces.torch_tables import assert_same_tables
from tests.support.xspace.proto import values_of_message

import stepscope as ss
from stepscope.capture.collectors.torch.activities import exported_activities
from stepscope.capture.collectors.torch.planes import build_planes
from stepscope.xspace.vocabulary import forwarded_name

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

#: Folder of a real trace → its process. They name ops by ids of their own.
REAL = {
    "kineto/tracelens_qwen1.5_0.5b_h100": 25286,
    "kineto/tracelens_qwen1.5_0.5b_mi300": 23232,
}
START_NS = 1_000


def exported(folder: Path) -> tuple[Path, bytes]:
    path = min(folder.glob("*.json*"))
    document = path.read_bytes()
    return path, gzip.decompress(document) if path.suffix == ".gz" else document


def written(document: bytes, process: int, target: Path) -> Path:
    planes = build_planes(
        exported_activities(document),
        hostname="host",
        process=process,
        start_ns=2**62,
        stop_ns=2**62,
    )
    path = target / "host.xplane.pb"
    path.write_bytes(planes.to_bytes())
    return path


@pytest.mark.parametrize("folder", sorted(REAL))
def test_a_real_gpu_run_fills_the_same_tables(
    folder: str, shared_profile: Callable[[str], Path], tmp_path: Path
) -> None:
    path, document = exported(shared_profile(folder))
    planes = written(document, REAL[folder], tmp_path)
    assert_same_tables(ss.open(path), ss.open(planes))


def test_a_recorded_training_run_fills_the_same_tables(
    repository: Path, tmp_path: Path
) -> None:
    path, document = exported(repository / "tests/data/torch_train")
    (process,) = {
        place
        for place, kind in zip(
            exported_activities(document).place.tolist(),
            exported_activities(document).category,
            strict=True,
        )
        if kind == "cpu_op"
    }
    planes = written(document, process, tmp_path)
    assert_same_tables(ss.open(path), ss.open(planes))


def test_annotations_come_back_from_names_that_pytorch_leaves_alone(
    repository: Path, tmp_path: Path
) -> None:
    """What is no plain letter becomes "unknown" in its exports, or breaks them."""
    name, stats = 'Schritt "1"\n\\ü', {"step_num": 3, "what": 'a "b"'}
    handed_on = forwarded_name(name, stats)
    assert re.fullmatch(r"[A-Za-z0-9_.=-]+", handed_on)
    _, document = exported(repository / "tests/data/torch_train")
    activities = exported_activities(document)
    row = activities.category.index("cpu_op")
    # One that only begins like ours stays what it is.
    names = list(activities.name)
    names[row], names[row + 1] = handed_on, "stepscope.mine"
    planes = build_planes(
        replace(activities, name=names),
        hostname="host",
        process=int(activities.place[row]),
        start_ns=2**62,
        stop_ns=2**62,
    )
    path = tmp_path / "host.xplane.pb"
    path.write_bytes(planes.to_bytes())
    profile = ss.open(path)
    (host,) = profile.hosts
    types = profile.table(host, "event_types")
    (type_,) = [at for at, it in enumerate(types["name"]) if it == name]
    (event,) = [
        at for at, it in enumerate(profile.table(host, "events")["type"]) if it == type_
    ]
    trace = profile.trace(host)
    own = trace.table("stats")
    own = own.filter(own["event"] == event)
    keys = [trace.strings[key] for key in own["key"]]
    assert sorted(keys) == sorted(stats)
    assert "stepscope.mine" in types["name"].to_list()


def test_lines_of_threads_count_from_the_beginning_of_the_recording(
    repository: Path,
) -> None:
    """Also where a device still ran what had begun before it, as a GPU may."""
    _, document = exported(repository / "tests/data/torch_train")
    activities = exported_activities(document)
    first = int(activities.start_ns.min())
    early = activities.category.index("cpu_op")
    starts = activities.start_ns.copy()
    starts[early] = first - 7_000
    categories = list(activities.category)
    categories[early] = "kernel"
    space = build_planes(
        replace(activities, category=categories, start_ns=starts),
        hostname="host",
        process=int(activities.place[early]),
        start_ns=first - 2_000,
        stop_ns=2**62,
    )
    planes = values_of_message(space.to_bytes())["planes"]
    found = {plane["name"]: plane["lines"] for plane in planes}
    assert {line["timestamp_ns"] for line in found["/host:CPU"]} == {5_000}
    (device,) = (name for name in found if name.startswith("/device"))
    assert [line["timestamp_ns"] for line in found[device]] == [0]
    begins = {
        line["timestamp_ns"] * 1000 + event[1]
        for lines in found.values()
        for line in lines
        for event in line["events"]
    }
    expected = {(int(it) - (first - 7_000)) * 1000 for it in starts}
    assert begins == expected
