"""The CUDA of a program is noted: that of the libraries it has loaded."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import stepscope as ss

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="what a process has loaded shows on Linux only"
)
#: As the functions of CUDA are declared.
SOURCE = """
int {function}(int *version) {{
    *version = {version};
    return {status};
}}
"""
PROGRAM = """
import ctypes, sys
import stepscope as ss

logdir, *libraries = sys.argv[1:]
with ss.Profile(logdir, ss.ProfilerOptions(collectors=("host",))):
    for library in libraries:
        ctypes.CDLL(library)
"""


def library(
    folder: Path, name: str, function: str, version: int, status: int = 0
) -> Path:
    """A library that tells its version as CUDA's does."""
    source, path = folder / f"{name}.c", folder / name
    text = SOURCE.format(function=function, version=version, status=status)
    source.write_text(text, encoding="utf-8")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", path, source], check=True)
    return path


def noted(folder: Path, *libraries: Path) -> tuple[int | None, int | None]:
    """What a recording says of a program that loads these while it is recorded."""
    logdir = folder / "logs"
    subprocess.run(
        [sys.executable, "-c", PROGRAM, logdir, *libraries], check=True, timeout=60
    )
    profile = ss.open(logdir)
    (host,) = profile.hosts
    (row,) = profile.table(host, "environment").rows(named=True)
    return row["cuda_runtime"], row["cuda_driver"]


@pytest.mark.slow(seconds=0.3)
def test_both_versions_are_noted(tmp_path: Path) -> None:
    runtime = library(tmp_path, "libcudart.so.13", "cudaRuntimeGetVersion", 13_000)
    driver = library(tmp_path, "libcuda.so.580.1", "cuDriverGetVersion", 13_010)
    assert noted(tmp_path, runtime, driver) == (13_000, 13_010)


def test_what_is_not_loaded_or_tells_nothing_is_unknown(tmp_path: Path) -> None:
    failing = library(tmp_path, "libcudart.so", "cudaRuntimeGetVersion", 13_000, 3)
    other = library(tmp_path, "libcuda.so.1", "otherFunction", 12_080)
    assert noted(tmp_path, failing, other) == (None, None)


#: cuDNN returns its version, and takes no argument.
CUDNN = "unsigned long cudnnGetVersion(void) {{ return {version}; }}"
LIBRARIES = """
import ctypes, sys, types
import stepscope as ss

logdir, *libraries = sys.argv[1:]
sys.modules["jax"] = types.ModuleType("jax")
sys.modules["jax"].__version__ = "0.8.0"
sys.modules["tensorflow"] = types.ModuleType("tensorflow")
with ss.Profile(logdir, ss.ProfilerOptions(collectors=("host",))):
    for library in libraries:
        ctypes.CDLL(library)
"""


@pytest.mark.slow(seconds=0.5)
@pytest.mark.parametrize(
    ("cudnn", "nccl", "expected"),
    [
        (91002, 22703, "jax 0.8.0, cudnn 9.10.2, nccl 2.27.3"),
        (8902, 2708, "jax 0.8.0, cudnn 8.9.2, nccl 2.7.8"),
        (None, None, "jax 0.8.0"),
    ],
)
def test_loaded_libraries_and_imported_frameworks_are_noted(
    tmp_path: Path, cudnn: int | None, nccl: int | None, expected: str
) -> None:
    loaded = []
    if cudnn is not None and nccl is not None:
        source, path = tmp_path / "cudnn.c", tmp_path / "libcudnn.so.9"
        source.write_text(CUDNN.format(version=cudnn), encoding="utf-8")
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", path, source], check=True)
        # A part of cuDNN has no function that tells a version.
        part = library(tmp_path, "libcudnn_ops.so.9", "otherFunction", 1)
        loaded = [part, path, library(tmp_path, "libnccl.so.2", "ncclGetVersion", nccl)]
    logdir = tmp_path / "logs"
    subprocess.run(
        [sys.executable, "-c", LIBRARIES, logdir, *loaded], check=True, timeout=60
    )
    profile = ss.open(logdir)
    (host,) = profile.hosts
    (row,) = profile.table(host, "environment").rows(named=True)
    assert row["libraries"] == expected


def test_a_program_without_cuda_has_neither(tmp_path: Path) -> None:
    assert noted(tmp_path) == (None, None)
