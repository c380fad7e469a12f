"""What a path leads to is a file or a directory, or one line: never a wait."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import stepscope
from stepscope.errors import BadInput
from stepscope.formats.opening import read
from stepscope.serve.runs.source import open_source
from stepscope.xspace.reading.input_file import open_input

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DATA = Path(__file__).parents[1] / "data"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory with one of each kind that is no file."""
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    Path("loop").symlink_to("loop")
    Path("broken").symlink_to("nowhere")
    Path("file").write_bytes(b"")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        yield tmp_path


def said_of(call: Callable[[], object]) -> str:
    with pytest.raises(BadInput) as caught:
        call()
    said = str(caught.value)
    assert said.isprintable()
    return said


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("pipe", "pipe: is a pipe, not a file. Write its output to a file"),
        ("socket", "socket: is a socket, not a file. Give a log directory"),
        ("/dev/zero", "/dev/zero: is a device, not a file. Give a log directory"),
        ("loop", "loop: cannot be read (Too many levels of symbolic links). Give"),
        ("broken", "broken: is a broken link. Give a log directory"),
        ("n" * 300, "n: cannot be read (File name too long). Give a log directory"),
        ("file/x", "file/x: does not exist. Give a log directory"),
        ("nul\0", r"nul\x00: does not exist. Give a log directory"),
        ("", "'': the path is empty. Give a log directory"),
    ],
)
def test_a_path_to_nothing_that_can_be_read_is_refused_at_once(
    path: str, expected: str, folder: Path
) -> None:
    """A pipe was waited for without end; an empty path was the working directory."""
    assert folder.is_dir()
    assert expected in said_of(lambda: stepscope.open(path))
    assert expected in said_of(lambda: read(path))
    # A server is told of a directory, which may be empty still.
    assert expected.partition(" Give ")[0] in said_of(lambda: open_source(path))


@pytest.mark.parametrize(
    "name", ["vm.xplane.pb", "worker0.1.pt.trace.json", "a.json", "b.sqlite"]
)
def test_a_pipe_within_a_directory_is_passed_over_or_named(
    name: str, folder: Path
) -> None:
    Path("run").mkdir()
    os.mkfifo(Path("run", name))
    said = said_of(lambda: stepscope.open("run"))
    assert "is a pipe" in said or "holds no profile" in said
    content = (DATA / "jax_memory" / "memory.prof").read_bytes()
    Path("run", "memory.prof").write_bytes(content)
    # Traces under their own names are chosen before those that lie beside them.
    if name.startswith(("a.", "b.")):
        assert stepscope.open("run").hosts
    assert folder.is_dir()


def test_a_pipe_that_takes_the_place_of_a_file_is_not_waited_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = Path("file")
    as_file = file.stat()
    file.unlink()
    Path("pipe").rename(file)
    monkeypatch.setattr(Path, "stat", lambda *_, **__: as_file)
    assert "is a pipe" in said_of(lambda: open_input(folder / "file"))


def test_metrics_of_kernels_are_no_pipe(folder: Path) -> None:
    recorded = DATA / "jax_memory" / "memory.prof"
    said = said_of(lambda: stepscope.open(recorded, kernels=folder / "pipe"))
    assert "is a pipe" in said
