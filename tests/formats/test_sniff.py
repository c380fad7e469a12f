from __future__ import annotations

import gzip
import pickle
import sqlite3
from typing import TYPE_CHECKING

import pytest
from tests.support.xspace.literal import event, line, plane, space

from stepscope.errors import BadInput, UnknownFormat
from stepscope.formats.sniff import FOREIGN, detect_format, foreign_error

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SPACE = space(plane("/host:CPU", line(1, "main", event("train", 0, 5))))
PPROF_SAMPLE_TYPE = b"\x0a\x04\x08\x01\x10\x02"


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (SPACE, "xspace"),
        (SPACE[:9], "xspace"),
        (gzip.compress(SPACE, mtime=0), "xspace"),
        (gzip.compress(SPACE * 100, mtime=0)[:-20], "xspace"),
        (space(hostnames=("vm",)), "xspace"),
        (space(plane("", plane_id=7)), "xspace"),
        (b"", "empty"),
        (
            b"SQLite format 3\0" + b"\0" * 90 + b"CREATE TABLE StringIds",
            "nsight_systems",
        ),
        (b"SQLite format 3\0" + b"\0" * 90, "sqlite"),
        (b'{"schemaVersion": 1, "traceEvents": []}', "kineto"),
        (b'[{"ph": "X", "cat": "Operator", "name": "aten::add"}]', "kineto"),
        (b'{"schemaVersion": 1, "traceEvents": [{"cat": "cpu_op"}]}', "kineto"),
        (b'{"schemaVersion": 1, "traceEvents": [{"cat": "Trace"}]}', "kineto"),
        # Another program's categories under the version of PyTorch's schema.
        (b'{"schemaVersion": 1, "traceEvents": [{"cat": "Line 21"}]}', "chrome_trace"),
        (b'{"displayTimeUnit": "ns", "traceEvents": [{"ph": "M"}]}', "chrome_trace"),
        (gzip.compress(b'{"traceEvents": [{"ph": "M"}]}', mtime=0), "chrome_trace"),
        (
            (
                b'{"traceEvents": [{"ph": "M", "pid": 1, "name": "process_name", '
                b'"args": {"name": "/host:CPU"}}]}'
            ),
            "xla_trace",
        ),
        (
            b'{"traceEvents":[{"args":{"name":"/device:TPU:0"},"name":"process_name"}]}',
            "xla_trace",
        ),
        # Its message form: an entry of a map, 1 → a device with a name.
        (b"\x0a\x0f\x08\x01\x12\x0b\x0a\x09/host:CPU", "xla_trace"),
        (
            (
                b'{"traceEvents": [{"ph": "M", "name": "process_name", '
                b'"args": {"name": "Chrome"}}]}'
            ),
            "chrome_trace",
        ),
        (b'{"schema": "1.0", "start_ts": 3, "nodes": []}', "execution_trace"),
        (b"[[0, 12, 3, 4], [1, 2, 3, 4]]", "memory_timeline"),
        (
            b'[{"name": "aten::add", "ph": "X", "ts": 1, "pid": "CPU functions"}]',
            "autograd_trace",
        ),
        (
            b'{"$schema": "https://www.speedscope.app/file-format-schema.json"}',
            "speedscope",
        ),
        (
            b'\xef\xbb\xbf==PROF== x\n"ID","Process ID","Process Name"',
            "nsight_compute_csv",
        ),
        (b"Time (%),Total Time (ns),Instances\n1,2,3", "nsys_stats_csv"),
        (pickle.dumps({"segments": [], "device_traces": []}, 4), "memory_snapshot"),
        (pickle.dumps({"weights": [1]}, 4), "pickle"),
        (PPROF_SAMPLE_TYPE * 2 + b"\x12\x04\x0a\x02\x01\x02", "device_memory_profile"),
        (gzip.compress(PPROF_SAMPLE_TYPE * 2, mtime=0), "device_memory_profile"),
        (b"NVIDIA Tegra Profiler 1.0", "nsys_rep"),
        (b"NVR\0\x01\x02", "ncu_rep"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:1", "lfs_pointer"),
        (b"\n<!DOCTYPE html><html>", "html"),
        (b'{"answer": 42}', "json"),
    ],
)
def test_content_tells_the_format(tmp_path: Path, content: bytes, found: str) -> None:
    path = tmp_path / "file.bin"
    path.write_bytes(content)
    assert detect_format(path) == found


def test_a_database_that_sqlite_wrote_is_recognised(tmp_path: Path) -> None:
    path = tmp_path / "report.sqlite"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER)")
    database.close()
    assert detect_format(path) == "nsight_systems"


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("vm.overview_page.pb", "capture_results"),
        ("ALL_HOSTS.op_stats_v2.pb", "capture_results"),
        ("vm.memory_profile.json.gz", "capture_results"),
        ("vm.xplane.riegeli", "riegeli"),
    ],
)
def test_a_name_decides_what_bytes_cannot(
    tmp_path: Path, name: str, found: str
) -> None:
    path = tmp_path / name
    path.write_bytes(SPACE)
    assert detect_format(path) == found


def test_binary_saved_as_text_is_recognised_though_some_bytes_stayed(
    tmp_path: Path,
) -> None:
    binary = bytes(range(256)) * 50 + "ʗ".encode()
    path = tmp_path / "vm.xplane.pb"
    path.write_bytes(SPACE[:1] + binary.decode("utf-8", "replace").encode())
    assert detect_format(path) == "text_damaged"


@pytest.mark.profiles
def test_the_real_file_that_was_saved_as_text_is_recognised(
    shared_profile: Callable[[str], Path],
) -> None:
    (path,) = shared_profile("corrupt/utf8_mangled").rglob("*.xplane.pb*")
    assert detect_format(path) == "text_damaged"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"\x00\x01\x02\x03" * 9, "the bytes 00 01 02 03"),
        (b"plain words\nmore", "the text 'plain words'"),
        (b"\x0a", "the bytes 0a"),
    ],
)
def test_unknown_content_names_how_it_begins(
    tmp_path: Path, content: bytes, told: str
) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(UnknownFormat) as caught:
        detect_format(path)
    assert f"it begins with {told}" in str(caught.value)


@pytest.mark.parametrize("found", sorted(FOREIGN))
def test_a_format_without_a_reader_is_one_line_with_a_way_out(
    tmp_path: Path, found: str
) -> None:
    text = str(foreign_error(tmp_path / "file", found))
    assert text.startswith(f"{tmp_path / 'file'}: ")
    assert FOREIGN[found].way_out in text
    assert text.endswith(".")
    assert "\n" not in text


def test_a_file_that_cannot_be_opened_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="No such file"):
        detect_format(tmp_path / "gone")


REAL = {
    "kineto/dlrm_8rank_v100": "kineto",
    "kineto/resnet50_num_workers_0": "kineto",
    "kineto/tracelens_qwen1.5_0.5b_mi300": "kineto",
    "torch_cpu/no_schedule": "kineto",
    "nsys_sqlite/extrap_schema_2020": "nsight_systems",
    "nsys_sqlite/nsys_ai_mfu_2gpu_before": "nsight_systems",
    "ncu/roofline_rtx5070/ncu": "nsight_compute_csv",
    "memory_snapshot/drisspg_mini": "memory_snapshot",
}


@pytest.mark.parametrize(("folder", "found"), sorted(REAL.items()))
def test_real_files_of_other_formats_are_recognised(
    shared_profile: Callable[[str], Path], folder: str, found: str
) -> None:
    files = [path for path in shared_profile(folder).rglob("*") if path.is_file()]
    assert {path.name: detect_format(path) for path in files} == {
        path.name: found for path in files
    }


def test_every_real_xspace_is_recognised(
    shared_profile: Callable[[str], Path],
) -> None:
    files = [
        path
        for path in shared_profile("").rglob("*.xplane.pb*")
        if "utf8_mangled" not in path.parts
    ]
    assert len(files) >= 25
    assert {detect_format(path) for path in files} == {"xspace"}
