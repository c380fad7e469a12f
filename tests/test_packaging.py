"""What `python -m build` makes: a source archive, and from it a wheel.

The wheel is built where no compiler works, which is quick, and is how stepscope is
installed on a machine without one: what it says then is read here, too.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from typing import TYPE_CHECKING

import pytest
from tests.support.programs.clones import ROOT, clone

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow(seconds=20)

BUILD_ARCHIVE = """
import sys
sys.path.insert(0, "build_tools")
import stepscope_build
stepscope_build.build_sdist(sys.argv[1])
"""
PROFILE = ROOT / "tests/data/torch_cpu"
NOT_COMPILED = "Kernels of this installation: not compiled"


def sources_of_package() -> set[str]:
    """Every file of the package that git knows, as the wheel names it."""
    listed = subprocess.run(
        ["git", "ls-files", "src/stepscope"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return {name.removeprefix("src/") for name in listed.stdout.splitlines()}


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("archive")
    # The page as it is built here: building it has tests of its own.
    checkout = clone(folder / "checkout", package=True, left_out="*.so")
    done = subprocess.run(
        [sys.executable, "-c", BUILD_ARCHIVE, str(folder)],
        cwd=checkout,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (made,) = folder.glob("*.tar.gz")
    return made


@pytest.fixture(scope="module")
def wheel(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pip", "wheel", "--no-deps", "-q"),
            *("--no-build-isolation", "-w", str(folder), str(archive)),
        ],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "CC": "/bin/false"},
    )
    assert done.returncode == 0, done.stderr
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("installed")
    shutil.unpack_archive(wheel, folder, "zip")
    return folder


def stepscope(installed: Path, *arguments: str) -> list[str]:
    """The lines that a command of the installed wheel prints."""
    done = subprocess.run(
        [sys.executable, "-m", "stepscope", *arguments],
        cwd=installed,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(installed)},
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_an_archive_holds_what_builds_it_and_both_kinds_of_pages(archive: Path) -> None:
    with tarfile.open(archive) as packed:
        inside = {name.partition("/")[2] for name in packed.getnames()}
    tools = {path.name for path in (ROOT / "build_tools").glob("*.py")}
    rules = {path.name for path in (ROOT / "docs/advice").glob("*.md")}
    assert {f"build_tools/{name}" for name in tools} <= inside
    assert {f"src/stepscope/advice/pages/{name}" for name in rules} <= inside
    assert {f"src/{name}" for name in sources_of_package()} <= inside
    assert "src/stepscope/serve/static/build.json" in inside
    assert not [name for name in inside if name.endswith((".so", ".pyc"))]


def test_a_wheel_from_an_archive_lacks_no_file_of_the_package(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    declared = {name for name in sources_of_package() if name.endswith(".toml")}
    assert sources_of_package() - declared - names == set()
    # The texts of rules are in it as they were compiled.
    assert "stepscope/advice/compiled_texts.json" in names
    page = ROOT / "src/stepscope/serve/static/index.html"
    assert ("stepscope/serve/static/index.html" in names) == page.is_file()
    assert "stepscope/advice/pages/input_bound.md" in names
    # Texts of rules are compiled; knobs are read as they are.
    kept = [name for name in names if name.endswith(".toml")]
    assert kept == ["stepscope/trials/knobs.toml"]


def test_without_a_compiler_the_version_the_doctor_and_the_report_say_so(
    installed: Path,
) -> None:
    assert not list(installed.rglob("*.so"))
    _, parts, notice, *_ = stepscope(installed, "--version")
    assert parts.startswith("Kernels: not compiled.")
    assert notice.startswith(NOT_COMPILED)
    assert stepscope(installed, "report", str(PROFILE))[-1].startswith(NOT_COMPILED)
    checks = json.loads("\n".join(stepscope(installed, "doctor", "--format", "json")))
    (kernels,) = (
        check for check in checks["checks"] if check["name"] == "kernels of stepscope"
    )
    assert kernels["state"] == "warn"
    assert kernels["commands"] == ["apt-get install gcc python3-dev"]


def test_with_compiled_kernels_nothing_is_said_of_them() -> None:
    compiled = sorted(path.name for path in (ROOT / "src/stepscope/_core").glob("*.so"))
    if not compiled:
        pytest.skip("the kernels are not compiled (make core)")
    here = ROOT / "src"
    assert NOT_COMPILED not in "".join(stepscope(here, "--version"))
    assert not stepscope(here, "report", str(PROFILE))[-1].startswith(NOT_COMPILED)
