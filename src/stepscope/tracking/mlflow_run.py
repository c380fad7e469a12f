"""Logging to a run of MLflow."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from stepscope.tracking.logged import FINDING_COLUMNS

if TYPE_CHECKING:
    from stepscope.tracking.logged import Logged

_FOLDER = "stepscope"


def log(run: Any, logged: Logged, *, step: int | None) -> None:
    """Log metrics, the table of findings as JSON, and files, under `stepscope/`.

    Args:
        run: An `mlflow.ActiveRun` or `mlflow.entities.Run`.
        logged: What is logged.
        step: Of the metrics; None is 0.
    """
    mlflow: Any = sys.modules["mlflow"]
    client = mlflow.MlflowClient()
    number = run.info.run_id
    now_ms = time.time_ns() // 1_000_000
    metrics = [
        mlflow.entities.Metric(metric, value, now_ms, step or 0)
        for metric, value in logged.numbers.items()
    ]
    client.log_batch(number, metrics=metrics)
    # As `mlflow.log_table` writes tables, which would need pandas.
    table = {
        "columns": list(FINDING_COLUMNS),
        "data": [list(row) for row in logged.findings],
    }
    client.log_dict(number, table, f"{_FOLDER}/{logged.run}/findings.json")
    for path in logged.files:
        client.log_artifact(number, str(path), f"{_FOLDER}/{logged.run}")
