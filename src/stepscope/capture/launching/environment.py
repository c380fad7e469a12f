"""The environment that arms every Python process of a program."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from stepscope.capture.launching.plan import VARIABLE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepscope.capture.launching.plan import RunPlan

__all__ = ["armed_environment"]

_INJECTED: Final = Path(__file__).parent / "injected"
_PATH: Final = "PYTHONPATH"


def armed_environment(plan: RunPlan, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment with the plan, our `sitecustomize` first on Python's path.

    Children inherit it: what they start is part of the run.
    """
    armed = {**environment, VARIABLE: plan.to_text()}
    before = environment.get(_PATH)
    # An empty entry would mean the working directory.
    armed[_PATH] = f"{_INJECTED}{os.pathsep}{before}" if before else str(_INJECTED)
    return armed
