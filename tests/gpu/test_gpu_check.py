"""`make gpu-check` without a GPU: it says so, and its comparison works and can fail."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.programs.frameworks import interpreter

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

CHECK = Path(__file__).with_name("gpu_check.py")


def run(
    *arguments: object, path: str | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, CHECK, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        env={**os.environ, **({} if path is None else {"PATH": path})},
    )


@pytest.mark.slow
def test_without_a_gpu_it_says_so_in_one_line(tmp_path: Path) -> None:
    """No program that lists GPUs is found on an empty path."""
    done = run("--output", tmp_path / "bundle", path=str(tmp_path))
    assert done.returncode == 2, done.stderr
    (line,) = done.stdout.splitlines()
    assert "this machine has no GPU" in line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.framework
@pytest.mark.sweep(every=3)
@pytest.mark.parametrize("framework", ["jax", "torch", "tensorflow"])
def test_the_same_comparison_holds_on_the_cpu(tmp_path: Path, framework: str) -> None:
    python = interpreter(framework)
    done = run(
        *("--pretend-cpu", "--only", framework, "--python", f"{framework}={python}"),
        *("--output", tmp_path),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = tmp_path.iterdir()
    assert path.stat().st_size < 2**20
    with tarfile.open(path) as archive:
        names = archive.getnames()
        member = archive.extractfile(f"{names[0]}/verdict.json")
        assert member is not None
        verdict = json.loads(member.read())
    assert any(name.endswith(".xplane.pb") for name in names)
    assert verdict["pretended_on_cpu"] is True
    found = verdict["frameworks"][framework]
    (ops,) = found["checks"]
    assert ops["group"] == "host ops"
    assert ops["ours"] == ops["theirs"]
    assert ops["ours"]["events"] > 100
    assert "overview_page" in found["tools"]
    assert len(found["losses"]) == 6


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> tuple[ModuleType, ModuleType]:
    monkeypatch.syspath_prepend(str(CHECK.parent))
    import gpu_check  # noqa: PLC0415 - its folder is on the path only now
    import own_results  # noqa: PLC0415 - its folder is on the path only now

    return gpu_check, own_results


def test_what_differs_is_named(modules: tuple[ModuleType, ModuleType]) -> None:
    check, results = modules
    theirs = {"kernels": {"gemm": results.Sums(3, 300.0), "add": results.Sums(1, 5.0)}}
    same = check.compared(theirs, theirs, times=True)
    assert [it["ok"] for it in same] == [True]
    for changed in (
        {"gemm": results.Sums(2, 300.0)},
        {"gemm": results.Sums(3, 310.0)},
        {"other": results.Sums(1, 1.0)},
    ):
        mine = {"kernels": {**theirs["kernels"], **changed}}
        (line,) = check.compared(theirs, mine, times=True)
        assert not line["ok"]
        assert [it["name"] for it in line["differ"]] == list(changed)
    # Another recording of the same steps has other times.
    slower = {"kernels": {**theirs["kernels"], "gemm": results.Sums(3, 310.0)}}
    assert check.compared(theirs, slower, times=False)[0]["ok"]


@pytest.mark.slow(seconds=0.3)
@pytest.mark.parametrize("framework", ["jax", "torch"])
def test_what_was_recorded_on_an_h100_is_what_its_framework_handed_over(
    modules: tuple[ModuleType, ModuleType],
    framework: str,
    repository: Path,
    tmp_path: Path,
) -> None:
    """The archive that `make gpu-check` wrote there, compared again."""
    import stepscope as ss  # noqa: PLC0415 - what is compared

    check, results = modules
    folder = repository / "tests" / "data" / "gpu" / f"check_{framework}"
    for stored in folder.glob("*.gz"):
        (tmp_path / stored.stem).write_bytes(gzip.decompress(stored.read_bytes()))
    (own,) = tmp_path.glob("own.*")
    theirs = results.own(own)
    profile = ss.open(folder)
    mine = results.ours(profile, host_ops=theirs[results.HOST_OPS])
    lines = check.compared(theirs, mine, times=True)
    assert {line["group"] for line in lines} == {"kernels", "copies", "host ops"}
    assert all(line["ok"] for line in lines), lines
    assert min(line["ours"]["events"] for line in lines) >= 18
    if framework == "torch":
        averages = results.averages(tmp_path / "averages.json")
        assert sum(it.count for it in averages["kernels"].values()) == 96
        assert all(it["ok"] for it in check.compared(averages, mine, times=False))
    answers = check.tools_of(profile, needed=check.DEVICE_TOOLS)
    assert not [it for it in answers.values() if it.startswith("WRONG")]


@pytest.mark.profiles
def test_kernels_and_copies_of_real_gpus_are_those_of_their_files(
    modules: tuple[ModuleType, ModuleType], shared_profile: Callable[[str], Path]
) -> None:
    """The comparison itself."""
    import stepscope as ss  # noqa: PLC0415 - what is compared

    check, results = modules
    path = shared_profile("gpu_tf")
    file = min(path.rglob("*.xplane.pb"), key=lambda it: it.stat().st_size)
    theirs = results.own(file)
    theirs.pop(results.HOST_OPS, None)
    mine = results.ours(ss.open(file), host_ops=())
    assert theirs["kernels"]
    assert check.compared(theirs, mine, times=True)
    assert all(line["ok"] for line in check.compared(theirs, mine, times=True)), mine
