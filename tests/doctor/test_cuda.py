"""Which CUDA the frameworks bring, and its libraries."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import msgspec
import pytest
from tests.support.programs.machines import (
    looked,
    with_fields,
    with_file,
    with_packages,
)

from stepscope.doctor.python_checks import cuda_major
from stepscope.remedies import Remedy

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.doctor.machine import Machine


@pytest.mark.parametrize(
    ("packages", "cuda"),
    [
        # As pip lists them beside PyTorch for CUDA 13, which has no "+cu130".
        ({"torch": "2.11.0", "nvidia-cuda-runtime": "13.0.96"}, 13),
        ({"torch": "2.11.0", "nvidia-cuda-cupti": "13.0.85"}, 13),
        # What an upgrade left behind.
        (
            {
                "nvidia-cuda-runtime": "13.0.96",
                "nvidia-cuda-cupti-cu11": "11.8.87",
                "nvidia-cuda-runtime-cu12": "12.9.79",
            },
            13,
        ),
        ({"torch": "2.9.0+cu126", "nvidia-cuda-runtime": "13.0.96"}, 12),
        ({"jax-cuda12-plugin": "0.7.0", "nvidia-cuda-runtime": "13.0.96"}, 12),
        ({"nvidia-cuda-runtime-cu12": "12.9.79"}, 12),
        # Placeholders, which hold nothing.
        ({"nvidia-cuda-runtime": "0.0.1", "nvidia-cuda-runtime-cu110": "0.0.1"}, None),
        ({"torch": "2.9.0+cu²"}, None),
    ],
)
def test_the_cuda_of_the_frameworks_is_found_in_their_packages(
    healthy: Machine, packages: dict[str, str], cuda: int | None
) -> None:
    assert cuda_major(msgspec.structs.replace(healthy, packages=packages)) == cuda


def test_the_library_of_cuda_13_is_taken_where_its_packages_are(
    healthy: Machine, tmp_path: Path
) -> None:
    """A toolkit of CUDA 11.8 was recommended beside them."""
    with_file("usr/local/cuda-11.8/extras/CUPTI/lib64/libcupti.so.11.8", "")(healthy)
    with_file("site/nvidia/cuda_cupti/lib/libcupti.so.12", None)(healthy)
    machine = with_packages(**{"torch": "2.11.0", "nvidia-cuda-cupti": "13.0.85"})(
        healthy
    )
    lacking = looked(machine, tmp_path)["CUPTI", "library"]
    assert lacking.state == "fail"
    assert "built for CUDA 13" in lacking.fact
    assert "11.8" not in "".join(lacking.commands)
    with_file("site/nvidia/cu13/lib/libcupti.so.13", "")(healthy)
    found = looked(machine, tmp_path)["CUPTI", "library"]
    assert found.state == "ok"
    assert "nvidia/cu13/lib/libcupti.so.13" in found.fact


def test_a_library_without_the_symbol_is_said_to_be_another_one(
    healthy: Machine, tmp_path: Path
) -> None:
    machine = with_fields(load=lambda _: object())(healthy)
    found = looked(machine, tmp_path)
    assert (
        found["NVIDIA", "CUDA driver"].fact == "The driver does not report its version."
    )
    library = found["CUPTI", "library"]
    assert library.state == "fail"
    assert "damaged, or not libcupti" in library.fact
    assert library.commands


@pytest.mark.slow(seconds=1)
def test_one_right_more_leaves_the_loaders_path_as_it_is(tmp_path: Path) -> None:
    """sudo drops LD_LIBRARY_PATH, with -E too: the framework then found no CUPTI."""
    programs = {
        "sudo": 'shift; exec env -u LD_LIBRARY_PATH "$@"',
        "setpriv": 'while [ "${1#--}" != "$1" ]; do shift; done; exec "$@"',
        "stepscope": 'echo "$LD_LIBRARY_PATH"',
    }
    for name, body in programs.items():
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
    environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "LD_LIBRARY_PATH": "/a:/b c"}
    done = subprocess.run(
        ["sh", "-c", Remedy.ALLOW_PROFILING.commands[0]],
        capture_output=True,
        text=True,
        check=True,
        env=environ,
    )
    assert done.stdout == "/a:/b c\n"
