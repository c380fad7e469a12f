"""`ss.log_to`: one call that puts a report into a run of Weights & Biases or MLflow.

    ss.log_to(wandb.run, "logs")
    ss.log_to(mlflow.active_run(), "logs")

Definition: docs/tracking.md.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from stepscope.errors import BadUsage
from stepscope.formats.opening import newest_run
from stepscope.report import to_json
from stepscope.report.compose import compose
from stepscope.report.outline import as_markdown
from stepscope.report.outline.whole import report_outline
from stepscope.session import open_found
from stepscope.tracking import mlflow_run, wandb_run
from stepscope.tracking.logged import Logged, finding_rows, numbers

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    from stepscope.report.document import Document
    from stepscope.rundir import Run

#: Top of the module that a run's class comes from → who logs to it.
_TRACKERS: Final[dict[str, Callable[..., None]]] = {
    "wandb": wandb_run.log,
    "mlflow": mlflow_run.log,
}


def log_to(
    run: object, logdir: str | os.PathLike[str], *, step: int | None = None
) -> Logged:
    """Put the report on the newest profile of a log directory into a tracker's run.

    Args:
        run: A run of Weights & Biases (`wandb.run`, what `wandb.init` returns) or of
            MLflow (`mlflow.active_run()`, what `mlflow.start_run` returns).
        logdir: What `ss.open` takes: a log directory (its newest run), the directory
            of a run, or a file.
        step: The step of training that the numbers are logged at.

    Raises:
        BadUsage: It is no such run.
        BadInput: There is no profile that can be read.
    """
    log = _tracker(run)
    found = newest_run(logdir)
    document = compose(open_found(found), _Silent())
    with tempfile.TemporaryDirectory(prefix="stepscope-report-") as folder:
        files = (*_traces(found), *_reports(document, Path(folder)))
        logged = Logged(found.name, numbers(document), finding_rows(document), files)
        log(run, logged, step=step)
    return logged


def _tracker(run: object) -> Callable[..., None]:
    for kind in type(run).__mro__:
        log = _TRACKERS.get(kind.__module__.partition(".")[0])
        if log is not None:
            return log
    raise BadUsage(
        f"a {type(run).__name__} is no run of a tracker; give wandb.run or "
        "mlflow.active_run() of a run that has begun."
    )


def _traces(found: Run) -> Sequence[Path]:
    return [path for host in found.hosts for path in host.paths]


def _reports(document: Document, folder: Path) -> tuple[Path, ...]:
    texts = {
        "report.json": to_json.render_document(document),
        "report.md": as_markdown.render(report_outline(document)).encode(),
    }
    for name, text in texts.items():
        (folder / name).write_bytes(text)
    return tuple(folder / name for name in texts)


class _Silent:
    def stage(self, what: str) -> None:
        """Say nothing."""
