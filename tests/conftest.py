"""Fixtures that every test folder may use."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[1]
#: Real profiles that are not part of the repository stand beside the checkout.
PROFILES = Path(
    os.environ.get("STEPSCOPE_PROFILES", ROOT.parent / "shared" / "profiles")
)
#: One that nobody can open; that it is refused has its own tests.
REFUSED = "corrupt/utf8_mangled"


def profile_path(relative: str) -> Path:
    """The path of a real profile, or a skip that says what is missing."""
    path = PROFILES / relative
    if not path.exists():
        pytest.skip(f"the real profile {relative} is not beside this checkout")
    return path


@pytest.fixture(scope="session")
def shared_profile() -> Callable[[str], Path]:
    """`shared_profile("tf_cpu/healthy")`: its path, or a skip with the reason."""
    return profile_path


def recorded_runs() -> list[str]:
    """Folders of real profiles that are one run each: XSpaces or PyTorch's traces."""
    found = {path.parent for path in PROFILES.rglob("*.xplane.pb*")}
    for folder in ("kineto", "torch_cpu"):
        found |= {path.parent for path in (PROFILES / folder).rglob("*.json*")}
    runs = sorted(str(path.relative_to(PROFILES)) for path in found)
    # A name that is not there skips with the reason.
    return [run for run in runs if not run.startswith(REFUSED)] or ["tf_cpu/keras_fit"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every run for a test that asks for a `recorded_run`, one after the other."""
    if "recorded_run" in metafunc.fixturenames:
        runs = recorded_runs()
        ids = [run.partition("/plugins/")[0] for run in runs]
        metafunc.parametrize("recorded_run", runs, ids=ids, scope="module")


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout."""
    return ROOT
