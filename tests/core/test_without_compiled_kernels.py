"""A checkout without compiled kernels reads profiles too, only slower.

The kernels take the package's own stand-in for Cython whether Cython is installed or
not: `cast` of the module that Cython ships does not wrap, and a recording failed on it.
"""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.xspace.proto import values_of_space

import stepscope as ss
from stepscope.reporting.plain import plain
from stepscope.xspace.reading.decode import decode_file

TESTS = Path(__file__).resolve().parents[1]
RECORDING = "data/jax_marked"
#: With `blocked`, Cython cannot be imported, as where it is not installed.
PROGRAM = """
import pickle, sys
if sys.argv[1] == "blocked":
    sys.modules["cython"] = None
else:
    import cython
from importlib import import_module
from pathlib import Path
import stepscope as ss
from stepscope import _core
from stepscope._core import _shim
from stepscope.reporting.plain import plain
from stepscope.xspace.reading.decode import decode_file
from tests.support.xspace.proto import values_of_space
logdir = Path(sys.argv[2])
(path,) = logdir.rglob("*.xplane.pb.gz")
folder = Path(_core.__file__).parent
stems = [one.stem for one in folder.glob("[!_]*.py")]
stands_in = {
    stem: import_module(f"stepscope._core.{stem}").cython is _shim for stem in stems
}
overview = plain(ss.open(logdir).tool("overview_page"))
answer = str(folder), stands_in, values_of_space(decode_file(path)), overview
sys.stdout.buffer.write(pickle.dumps(answer))
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as it is in a checkout: without compiled modules."""
    copied = tmp_path_factory.mktemp("uncompiled")
    ignored = shutil.ignore_patterns("*.so", "*.pyd", "__pycache__")
    shutil.copytree(TESTS.parent / "src", copied / "src", ignore=ignored)
    return copied / "src"


@pytest.mark.slow(seconds=1.2)
@pytest.mark.parametrize("cython", ["installed", "blocked"])
@pytest.mark.sweep(every=2)
def test_uncompiled_kernels_read_a_recording_like_the_compiled_ones(
    source: Path, cython: str
) -> None:
    if cython == "installed":
        pytest.importorskip("cython", reason="Cython is not installed")
    folder, stands_in, values, overview = answer_of(source, cython)
    assert folder == str(source / "stepscope" / "_core")
    assert {name for name, shim in stands_in.items() if not shim} == set()
    assert "wire" in stands_in
    (path,) = (TESTS / RECORDING).rglob("*.xplane.pb.gz")
    expected = values_of_space(decode_file(path))
    assert sum(len(line["events"]) for line in lines(expected)) == 2287
    assert values == expected
    assert overview == plain(ss.open(TESTS / RECORDING).tool("overview_page"))


def lines(values: dict[str, Any]) -> list[dict[str, Any]]:
    return [line for plane in values["planes"] for line in plane["lines"]]


def answer_of(source: Path, cython: str) -> tuple[str, dict[str, bool], Any, Any]:
    """From where each kernel ran, on what, and what they read: in another process."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, cython, str(TESTS / RECORDING)],
        env={**os.environ, "PYTHONPATH": f"{source}{os.pathsep}{TESTS.parent}"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    answer: tuple[str, dict[str, bool], Any, Any] = pickle.loads(  # noqa: S301 - ours
        done.stdout
    )
    return answer
