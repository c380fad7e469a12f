"""The environment that arms every Python process of a program."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_INJECTED: Final = Path(__file__).parent / "injected"
_PATH: Final = "PYTHONPATH"


def armed_environment(
    environment: Mapping[str, str], variable: str, plan: str
) -> dict[str, str]:
    """Return the environment with a plan, our `sitecustomize` first on Python's path.

    Children inherit it: what they start is part of the run.

    Args:
        environment: The environment without us.
        variable: Which of our variables carries the plan: what arms the processes.
        plan: The plan, written down.
    """
    armed = {**environment, variable: plan}
    before = environment.get(_PATH)
    # An empty entry would mean the working directory.
    armed[_PATH] = f"{_INJECTED}{os.pathsep}{before}" if before else str(_INJECTED)
    return armed
