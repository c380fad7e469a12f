"""A tracker for Accelerate: it records the loop, and logs nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from accelerate.tracking import GeneralTracker

from stepscope.integrations.optimizer_steps import OptimizerSteps
from stepscope.integrations.training import LOGDIR, TrainingOptions

if TYPE_CHECKING:
    from os import PathLike
    from typing import Unpack

    from stepscope.capture.base.run import Run


class StepscopeTracker(GeneralTracker):
    """Tracker that records some steps of the loop, until `end_training()`.

        Accelerator(log_with=ss.integrations.accelerate.StepscopeTracker("logs"))

    A step ends when an optimizer has stepped; with several optimizers, the one counts
    that steps first. With gradient accumulation, a step has several batches. The first
    step is not recorded, because only its end is known.
    """

    name = "stepscope"
    requires_logging_directory = False
    main_process_only = False

    def __init__(
        self, logdir: str | PathLike[str] = LOGDIR, **chosen: Unpack[TrainingOptions]
    ) -> None:
        super().__init__()
        self._steps = OptimizerSteps(logdir, chosen)

    @property
    def tracker(self) -> tuple[Run, ...]:
        """Recordings of the training, after its end."""
        return self._steps.training.runs

    def store_init_configuration(self, values: Any) -> None:
        """Ignore the configuration: the recording does not contain it."""

    def log(self, values: Any, step: int | None, **_: Any) -> None:
        """Ignore logged values."""

    def finish(self) -> None:
        """Store the recording in progress, and print the report's first lines."""
        self._steps.end_training()
