"""The build of the kernels: in sight, once, and not needed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CORE = Path("src", "stepscope", "_core")
#: One kernel stands for all of them, beside the module that they share, and a module
#: that becomes a part of it.
KERNEL = "coarse"
PART = "_clipping"
BUILD = "import sys; import stepscope_build as it; it.build_editable(sys.argv[1])"

pytestmark = pytest.mark.slow


def project(folder: Path) -> Path:
    """A package that is all of stepscope's build, with one kernel in it."""
    (folder / CORE).mkdir(parents=True)
    (folder / "build_tools").mkdir()
    (folder / CORE.parent / "__init__.py").touch()
    files = [CORE / name for name in ("__init__.py", "_shim.py", f"{PART}.py")]
    files += [CORE / f"{KERNEL}.py"]
    files += [Path(name) for name in ("pyproject.toml", "setup.py", "README.md")]
    files += [it.relative_to(ROOT) for it in (ROOT / "build_tools").glob("*.py")]
    # A wheel holds the texts of rules as they are compiled.
    advice = CORE.parent / "advice"
    shutil.copytree(ROOT / advice / "texts", folder / advice / "texts")
    files += [advice / "texts_compiler.py"]
    table = CORE.parent / "derive" / "verdicts" / "input_actions.json"
    (folder / table).parent.mkdir(parents=True)
    files += [table]
    for name in (*files, Path("LICENSE"), Path("THIRD_PARTY.txt")):
        shutil.copy2(ROOT / name, folder / name)
    return folder


def build(
    folder: Path, *command: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, *(command or ("setup.py", "-q", "build_ext", "--inplace"))],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": "build_tools", **environment},
    )
    assert done.returncode == 0, done.stderr
    return done


def compiled(folder: Path) -> dict[str, int]:
    """Kernel → when its compiled form was written."""
    places = (folder / CORE).glob("*.so")
    return {it.name.partition(".")[0]: it.stat().st_mtime_ns for it in places}


@pytest.fixture(scope="module")
def first(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """A project whose kernels are compiled, and what that printed."""
    if shutil.which(os.environ.get("CC", "cc")) is None:
        pytest.skip("no C compiler on this machine")
    folder = project(tmp_path_factory.mktemp("compiled"))
    return folder, build(folder)


@pytest.fixture
def again(first: tuple[Path, subprocess.CompletedProcess[str]], tmp_path: Path) -> Path:
    """A copy of that project, with the times of its files."""
    return Path(shutil.copytree(first[0], tmp_path / "again"))


def test_compiling_says_how_far_it_is_and_nothing_else(
    first: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    folder, done = first
    assert done.stdout.splitlines() == [
        "compiling 2 kernels",
        "compiling kernels 1/2: shared",
        f"compiling kernels 2/2: {KERNEL}",
        "compiled 2 kernels",
    ]
    assert done.stderr == ""
    assert set(compiled(folder)) == {"_shared", KERNEL}


def test_a_compiled_kernel_is_not_compiled_again(again: Path) -> None:
    before = compiled(again)
    assert build(again).stdout == ""
    editable = build(again, "-c", BUILD, str(again))
    assert "compiling" not in editable.stdout
    assert compiled(again) == before
    build(again, "setup.py", "-q", "bdist_wheel", "-d", str(again / "out"))
    (wheel,) = (again / "out").glob("*.whl")
    with zipfile.ZipFile(wheel) as held:
        for place in (again / CORE).glob("*.so"):
            assert held.read(f"stepscope/_core/{place.name}") == place.read_bytes()


@pytest.mark.sweep(every=2)
@pytest.mark.parametrize("changed", [KERNEL, PART])
def test_a_kernel_that_changed_is_compiled_alone(again: Path, changed: str) -> None:
    before = compiled(again)
    (again / CORE / f"{changed}.py").touch()
    assert f"compiling kernels 1/1: {KERNEL}" in build(again).stdout.splitlines()
    after = compiled(again)
    assert after["_shared"] == before["_shared"]
    assert after[KERNEL] > before[KERNEL]


def test_without_a_compiler_one_line_says_so_and_the_build_goes_on(
    tmp_path: Path,
) -> None:
    folder = project(tmp_path / "uncompiled")
    done = build(folder, CC=str(tmp_path / "no-such-compiler"))
    (line,) = done.stderr.splitlines()
    assert line.startswith("the kernels run uncompiled, slowly: ")
    assert compiled(folder) == {}
