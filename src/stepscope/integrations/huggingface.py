"""A callback for `transformers.Trainer`, and for trainers that extend it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback

from stepscope.integrations.training import LOGDIR, Training, TrainingOptions

if TYPE_CHECKING:
    from os import PathLike
    from typing import Unpack


class StepscopeCallback(TrainerCallback):
    """Callback that records some steps of a training.

        Trainer(…, callbacks=[ss.integrations.huggingface.StepscopeCallback("logs")])

    A step is an optimizer step with all its batches, from the end of the previous step.
    Its number is that of `state.global_step` before it. Evaluations and checkpoints are
    ranges that belong to no step.
    """

    def __init__(
        self, logdir: str | PathLike[str] = LOGDIR, **chosen: Unpack[TrainingOptions]
    ) -> None:
        self._training = Training(logdir, chosen)

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Begin to count steps, which continue those of a checkpoint."""
        self._training.begin_training(first_step=state.global_step)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """End a step; begin the next step, or what the trainer does before it."""
        if control.should_evaluate or control.should_save:
            self._training.end_step()
            self._begin_chore(control)
        else:
            self._training.next_step()

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Leave the step that began after the last step of the epoch."""
        if control.should_evaluate or control.should_save:
            self._begin_chore(control)

    def on_prediction_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Continue an evaluation, also one that was not announced."""
        self._training.begin_part("evaluate")

    def on_evaluate(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """End an evaluation."""
        self._training.begin_step()
        if control.should_save:
            self._begin_chore(control)

    on_predict = on_evaluate

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Begin the step after a checkpoint."""
        self._training.begin_step()

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Store the recording in progress, and print the report's first lines."""
        self._training.end_training()

    def _begin_chore(self, control: Any) -> None:
        self._training.begin_part(
            "evaluate" if control.should_evaluate else "save_checkpoint"
        )
