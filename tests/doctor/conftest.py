"""What tests of the doctor share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.programs.machines import healthy_machine

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.doctor.machine import Machine


@pytest.fixture
def healthy(tmp_path: Path) -> Machine:
    """A machine with a GPU, on which all can be recorded."""
    return healthy_machine(tmp_path / "root")
