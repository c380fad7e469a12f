"""`ss.log_to`: log a report to a run of Weights & Biases or MLflow.

    ss.log_to(wandb.run, "logs")
    ss.log_to(mlflow.active_run(), "logs")

Definition: docs/tracking.md.
"""

from __future__ import annotations

import re
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from stepscope.errors import BadUsage
from stepscope.formats.opening import newest_run
from stepscope.reporting import to_json
from stepscope.reporting.compose import compose_report
from stepscope.reporting.outline import as_markdown
from stepscope.reporting.outline.report import report_outline
from stepscope.reporting.words.findings import finding_headline
from stepscope.session import open_found
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from stepscope.reporting.document import Document


def log_to(
    run: object, logdir: str | os.PathLike[str], *, step: int | None = None
) -> Logged:
    """Log the report on a log directory's newest profile to a tracker's run.

    Args:
        run: Run of Weights & Biases (`wandb.run`, returned by `wandb.init`) or of
            MLflow (`mlflow.active_run()`, returned by `mlflow.start_run`).
        logdir: As in `ss.open`: a log directory (its newest run is used), the directory
            of a run, or a file.
        step: Training step at which the numbers are logged.

    Raises:
        BadUsage: `run` is not a run of a tracker.
        BadInput: There is no readable profile.
    """
    packages = [kind.__module__.partition(".")[0] for kind in type(run).__mro__]
    log = next((_TRACKERS[it] for it in packages if it in _TRACKERS), None)
    if log is None:
        raise BadUsage(
            f"a {type(run).__name__} is not a run of a tracker; start a run, and give "
            "wandb.run or mlflow.active_run()."
        )
    found = newest_run(logdir)
    document = compose_report(open_found(found), is_short=True)
    with tempfile.TemporaryDirectory(prefix="stepscope-report-") as folder:
        traces = [path for host in found.hosts for path in host.paths]
        reports = {
            Path(folder) / "report.json": to_json.render_document(document),
            Path(folder) / "report.md": as_markdown.render(
                report_outline(document)
            ).encode(),
        }
        for path, content in reports.items():
            path.write_bytes(content)
        logged = Logged(
            found.name,
            logged_numbers(document),
            finding_rows(document),
            (*traces, *reports),
        )
        log(run, logged, step=step)
    return logged


#: Prefix of the logged names, by which trackers group numbers.
PREFIX: Final = "stepscope/"
FINDING_COLUMNS: Final = (
    *("finding", "status", "severity", "share_percent", "ms_per_step"),
    *("saving_low_ms", "saving_high_ms", "text"),
)
#: Statuses of the findings that are logged.
_SHOWN: Final = frozenset({"fail", "cannot_tell"})

Cell = str | float | None


class Logged(NamedTuple):
    """Data that is logged to a tracker.

    Attributes:
        run: Name of the recorded run.
        numbers: Numbers by name.
        findings: Rows of the table of findings, with the columns `FINDING_COLUMNS`.
        files: Files of the artifact: the profile and the report.
    """

    run: str
    numbers: dict[str, float]
    findings: list[list[Cell]]
    files: tuple[Path, ...]


def logged_numbers(document: Document) -> dict[str, float]:
    """Return the numbers of a report by name, without unknown numbers."""
    overview = document.overview
    found: dict[str, float | None] = {
        "findings_failed": sum(it.status == "fail" for it in document.findings)
    }
    if not isinstance(overview, Unavailable):
        step = overview.step_time_ms
        found |= {
            "steps": overview.step_count,
            "step_time_ms": step.mean,
            "step_time_median_ms": step.median,
            "step_time_p95_ms": step.p95,
            "input_percent": overview.input_percent,
            "device_busy_percent": overview.device_execution_percent,
            **{
                f"breakdown_percent/{category}": share
                for category, share in overview.breakdown_percent.items()
            },
        }
    memory = document.memory
    if not isinstance(memory, Unavailable):
        peaks = memory.rows["peak_bytes"].drop_nulls().to_list()
        found["memory_peak_bytes"] = max(peaks, default=None)
    return {PREFIX + name: it for name, it in found.items() if it is not None}


def finding_rows(document: Document) -> list[list[Cell]]:
    """Return rows for failed and undecided findings, in the order of the report."""
    return [
        [
            *(finding.id, finding.status, finding.severity),
            *(finding.share_percent, finding.ms_per_step),
            None if finding.saving_ms is None else finding.saving_ms.low,
            None if finding.saving_ms is None else finding.saving_ms.high,
            finding_headline(finding),
        ]
        for finding in document.findings
        if finding.status in _SHOWN
    ]


_FOLDER: Final = "stepscope"


def _log_to_mlflow(run: Any, logged: Logged, *, step: int | None) -> None:
    """Log metrics (at step 0 if `step` is None), findings as JSON, and files."""
    mlflow: Any = sys.modules["mlflow"]
    client = mlflow.MlflowClient()
    number = run.info.run_id
    now_ms = time.time_ns() // 1_000_000
    metrics = [
        mlflow.entities.Metric(metric, value, now_ms, step or 0)
        for metric, value in logged.numbers.items()
    ]
    client.log_batch(number, metrics=metrics)
    # The JSON format of `mlflow.log_table`, which would need pandas.
    table = {
        "columns": list(FINDING_COLUMNS),
        "data": [list(row) for row in logged.findings],
    }
    client.log_dict(number, table, f"{_FOLDER}/{logged.run}/findings.json")
    for path in logged.files:
        client.log_artifact(number, str(path), f"{_FOLDER}/{logged.run}")


def _log_to_wandb(run: Any, logged: Logged, *, step: int | None) -> None:
    """Log numbers, a table and an artifact; if `step` is None, at the next step."""
    wandb: Any = sys.modules["wandb"]
    table = wandb.Table(columns=list(FINDING_COLUMNS), data=logged.findings)
    run.log({**logged.numbers, f"{PREFIX}findings": table}, step=step)
    # Artifact names may contain letters, digits, dashes, underscores and dots.
    artifact = wandb.Artifact(
        "stepscope-" + re.sub(r"[^A-Za-z0-9._-]", "_", logged.run), type="profile"
    )
    for path in logged.files:
        artifact.add_file(str(path), name=path.name)
    run.log_artifact(artifact)


#: Top-level package of a run's class → function that logs to such a run.
_TRACKERS: Final[dict[str, Callable[..., None]]] = {
    "wandb": _log_to_wandb,
    "mlflow": _log_to_mlflow,
}
