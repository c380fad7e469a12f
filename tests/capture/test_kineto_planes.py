"""PyTorch's activities as planes: the same tables as its own exported trace gives."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest

import stepscope as ss
from stepscope.capture.collectors.kineto_activities import exported_activities
from stepscope.capture.collectors.kineto_planes import planes_of
from torch_tables import assert_same_tables

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
    planes = planes_of(
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
