"""Logging to a run of Weights & Biases."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

from stepscope.tracking.logged import FINDING_COLUMNS, PREFIX

if TYPE_CHECKING:
    from stepscope.tracking.logged import Logged


def log(run: Any, logged: Logged, *, step: int | None) -> None:
    """Log numbers, a table and an artifact of type `profile`.

    Args:
        run: A `wandb.Run`.
        logged: What is logged.
        step: Of the run's history; None takes the next one.
    """
    wandb: Any = sys.modules["wandb"]
    table = wandb.Table(columns=list(FINDING_COLUMNS), data=logged.findings)
    run.log({**logged.numbers, f"{PREFIX}findings": table}, step=step)
    # Its names hold letters, digits, dashes, underscores and dots.
    artifact = wandb.Artifact(
        "stepscope-" + re.sub(r"[^A-Za-z0-9._-]", "_", logged.run), type="profile"
    )
    for path in logged.files:
        artifact.add_file(str(path), name=path.name)
    run.log_artifact(artifact)
