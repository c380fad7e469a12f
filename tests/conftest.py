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


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout."""
    return ROOT
