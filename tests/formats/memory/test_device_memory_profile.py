"""JAX's device memory profile: one JAX wrote, and broken ones."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

import stepscope
from stepscope.analysis.memory_profile import MemoryProfileResult
from stepscope.errors import BadInput
from stepscope.reporting.words.first_sentence import peak_sentence
from stepscope.unavailable import Unavailable

RECORDED = Path(__file__).parents[2] / "data" / "jax_memory" / "memory.prof"


def test_what_jax_kept_is_what_its_profile_shows() -> None:
    truth = json.loads(RECORDED.with_name("truth.json").read_text("utf-8"))
    result = stepscope.open(RECORDED).tool("memory_profile")
    assert isinstance(result, MemoryProfileResult)
    (row,) = result.rows.iter_rows(named=True)
    assert row["memory_id"] == truth["device"]
    assert row["peak_bytes"] == truth["bytes"]
    assert (row["allocations"], row["deallocations"]) == (0, 0)
    memory = result.memories[truth["device"]]
    assert memory.level == "one_instant"
    assert memory.breakdown["occurrences"].sum() == truth["arrays"]
    by_function = {
        line.rpartition(" ")[2]: size
        for line, size in memory.lines.select("source", "allocation_bytes").iter_rows()
    }
    assert by_function == truth["function_bytes"]
    assert memory.breakdown["allocation_bytes"].sum() == truth["bytes"]


def test_other_tools_say_why_they_have_nothing() -> None:
    result = stepscope.open(RECORDED).tool("trace_viewer")
    assert isinstance(result, Unavailable)
    assert "jax.profiler" in result.remedy


def sized(field: int, content: bytes) -> bytes:
    assert len(content) < 128
    return bytes([field << 3 | 2, len(content)]) + content


def pprof(*samples: bytes, strings: tuple[str, ...] = ()) -> bytes:
    names = ("", "allocations", "count", "space", "bytes", "device", "cuda:1", *strings)
    return (
        sized(1, b"\x08\x01\x10\x02")
        + sized(1, b"\x08\x03\x10\x04")
        + b"".join(sized(2, sample) for sample in samples)
        + b"".join(sized(6, name.encode()) for name in names)
    )


def test_blocks_that_were_added_up_stay_so(tmp_path: Path) -> None:
    path = tmp_path / "memory.prof"
    # 3 buffers of 100 bytes together on cuda:1, and 2 of 28 without a device.
    on_device = b"\x12\x02\x03\x64" + sized(3, b"\x08\x05\x10\x06")
    path.write_bytes(pprof(on_device, b"\x12\x02\x02\x1c"))
    result = stepscope.open(path).tool("memory_profile")
    assert isinstance(result, MemoryProfileResult)
    found = {
        name: memory.breakdown.select("occurrences", "allocation_bytes").rows()
        for name, memory in result.memories.items()
    }
    assert found == {"cuda:1": [(3, 100)], "of no named device": [(2, 28)]}


def test_a_name_ends_where_a_name_of_c_does(tmp_path: Path) -> None:
    path = tmp_path / "memory.prof"
    on_device = b"\x12\x02\x03\x64" + sized(3, b"\x08\x05\x10\x07")
    path.write_bytes(pprof(on_device, strings=("cuda:0\0rest",)))
    result = stepscope.open(path).tool("memory_profile")
    assert isinstance(result, MemoryProfileResult)
    assert list(result.memories) == ["cuda:0"]


def test_programs_whose_size_the_backend_does_not_say_are_left_out(
    tmp_path: Path,
) -> None:
    """A TPU lists two programs together as -2 bytes; the file was called damaged."""
    path = tmp_path / "memory.prof"
    executables = b"\x12\x0b\x02\xfe" + b"\xff" * 8 + b"\x01"
    on_device = b"\x12\x02\x03\x64" + sized(3, b"\x08\x05\x10\x06")
    path.write_bytes(pprof(executables, on_device))
    result = stepscope.open(path).tool("memory_profile")
    assert isinstance(result, MemoryProfileResult)
    assert result.rows["memory_id"].to_list() == ["cuda:1"]
    assert result.rows["peak_bytes"].to_list() == [100]


def test_the_code_of_programs_is_a_memory_of_its_own_and_is_said_last(
    tmp_path: Path,
) -> None:
    """A report began with the tensors of a memory without a name: its programs."""
    path = tmp_path / "memory.prof"
    code = b"\x12\x02\x01\x7f" + sized(3, b"\x08\x07\x10\x08")
    on_device = b"\x12\x02\x03\x64" + sized(3, b"\x08\x05\x10\x06")
    path.write_bytes(pprof(code, on_device, strings=("kind", "executable")))
    result = stepscope.open(path).tool("memory_profile")
    assert isinstance(result, MemoryProfileResult)
    assert set(result.memories) == {"compiled programs", "cuda:1"}
    said = peak_sentence(result)
    assert said is not None
    assert said.startswith("The memory cuda:1 held 100 B")


def test_a_profile_of_another_program_is_named(tmp_path: Path) -> None:
    path = tmp_path / "cpu.pprof"
    other = sized(1, b"\x08\x01\x10\x02") + sized(6, b"") + sized(6, b"samples")
    path.write_bytes(gzip.compress(other + sized(6, b"count"), mtime=0))
    with pytest.raises(BadInput, match="samples/count"):
        stepscope.open(path)


def test_an_error_holds_no_control_character_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "cpu.pprof"
    other = sized(1, b"\x08\x01\x10\x02") + sized(6, b"") + sized(6, b"a\n\x1b[2J")
    path.write_bytes(other + sized(6, b"count"))
    with pytest.raises(BadInput) as caught:
        stepscope.open(path)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    "sample",
    [
        b"\x12\x01\x03",
        # Three blocks of -1 byte together, and -1 block.
        b"\x12\x0b\x03" + b"\xff" * 9 + b"\x01",
        b"\x12\x0b" + b"\xff" * 9 + b"\x01\x03",
        b"\x12\x09\x01",
    ],
)
def test_a_sample_that_cannot_be_is_one_clear_line(
    tmp_path: Path, sample: bytes
) -> None:
    path = tmp_path / "memory.prof"
    path.write_bytes(pprof(sample))
    with pytest.raises(BadInput, match="damaged"):
        stepscope.open(path)


def test_a_packed_file_cut_anywhere_is_one_clear_line(tmp_path: Path) -> None:
    content = RECORDED.read_bytes()
    path = tmp_path / "memory.prof"
    for end in range(40, len(content), 40):
        path.write_bytes(content[:end])
        with pytest.raises(BadInput) as caught:
            stepscope.open(path)
        assert "\n" not in str(caught.value)
