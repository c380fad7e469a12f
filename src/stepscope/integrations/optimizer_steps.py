"""Steps of a PyTorch loop, which end when an optimizer has stepped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepscope.errors import BadUsage
from stepscope.integrations.training import Training

if TYPE_CHECKING:
    from os import PathLike

    from stepscope.integrations.training import TrainingOptions


class OptimizerSteps:
    """A recorded training whose steps are those of the optimizer that steps first.

    With gradient accumulation, a step has several batches. The first step is not
    recorded, because only its end is known.

    Attributes:
        training: The recording.
    """

    def __init__(self, logdir: str | PathLike[str], chosen: TrainingOptions) -> None:
        """Count steps until `end_training`; arguments as for `make_training`."""
        from torch.optim.optimizer import (  # noqa: PLC0415 - the program's framework
            register_optimizer_step_post_hook,
        )

        self.training = make_training(logdir, chosen)
        self._counted: int | None = None
        self._hook = register_optimizer_step_post_hook(self.note_step)

    def note_step(self, optimizer: object, _args: Any, _kwargs: Any) -> None:
        """Note that an optimizer has stepped; PyTorch calls it."""
        if self._counted == id(optimizer):
            self.training.next_step()
        elif self._counted is None:
            self._counted = id(optimizer)
            self.training.begin_training(first_step=1)

    def end_training(self) -> None:
        """Store the recording in progress, and print the report's first lines."""
        self._hook.remove()
        self.training.end_training()


def make_training(logdir: str | PathLike[str], chosen: TrainingOptions) -> Training:
    """Return a training that a hook of the optimizer can record.

    Raises:
        BadUsage: A number is negative, or nothing would be recorded; or a recording
            would begin within the range of the optimizer in which one ends.
    """
    between = chosen.get("wait", 9) + chosen.get("warmup", 1)
    if chosen.get("repeat", 1) != 1 and not between:
        raise BadUsage(
            "recordings that repeat need a step between them: PyTorch's profiler must "
            "not start within the op in which it stops. Give wait=1."
        )
    return Training(logdir, chosen)
