"""Measure what the integrations add to a step outside their window.

    python build_tools/framework_venv.py trainers
    PYTHONPATH=src ~/.cache/stepscope/venvs/trainers/bin/python \
        benchmarks/trainer_hooks.py [--write docs/integrations.md]

Each row is the time that the hooks of one step take, before the recording and after it.
What the library calls otherwise is subtracted: a callback without hooks, its usual
profiler. Blocks of a thousand steps alternate; the figures are medians of blocks.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import stepscope as ss
from pages import machine, replace_section

BLOCKS, STEPS = 41, 1_000
#: Enough steps to measure all blocks before the recording.
NEVER = 1_000_000_000
OPTIONS = ss.ProfilerOptions(collectors=("host",))
#: Actions of Lightning in a step of one batch, with a callback and without validation.
ACTIONS = (
    "[_TrainingEpochLoop].train_dataloader_next",
    "[LightningModule]Model.on_before_batch_transfer",
    "[LightningModule]Model.transfer_batch_to_device",
    "[LightningModule]Model.on_after_batch_transfer",
    "[Strategy]SingleDeviceStrategy.batch_to_device",
    "[Callback]ModelCheckpoint{'monitor': None}.on_train_batch_start",
    "[LightningModule]Model.on_train_batch_start",
    "[Strategy]SingleDeviceStrategy.on_train_batch_start",
    "run_training_batch",
    "[LightningModule]Model.optimizer_step",
    "[Strategy]SingleDeviceStrategy.training_step",
    "[Callback]ModelCheckpoint{'monitor': None}.on_before_zero_grad",
    "[LightningModule]Model.on_before_zero_grad",
    "[LightningModule]Model.optimizer_zero_grad",
    "[Callback]ModelCheckpoint{'monitor': None}.on_before_backward",
    "[LightningModule]Model.on_before_backward",
    "[Strategy]SingleDeviceStrategy.backward",
    "[Callback]ModelCheckpoint{'monitor': None}.on_after_backward",
    "[LightningModule]Model.on_after_backward",
    "[Callback]ModelCheckpoint{'monitor': None}.on_before_optimizer_step",
    "[LightningModule]Model.on_before_optimizer_step",
    "[Callback]ModelCheckpoint{'monitor': None}.on_train_batch_end",
    "[LightningModule]Model.on_train_batch_end",
)


class Hooks(NamedTuple):
    """What a step calls, and what it calls without stepscope."""

    ours: Callable[[], object]
    usual: Callable[[], object]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table of the integrations, and put it into the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", type=Path, metavar="PAGE")
    options = parser.parse_args(arguments)
    begun = machine()
    rows = [
        row("`StepscopeCallback` (Transformers)", callback_hooks),
        row("the calls of an empty callback by Transformers", empty_callback),
        row("the hook of `StepscopeTracker` and `record_workers`", optimizer_hook),
        row("`StepscopeProfiler` (Lightning), 23 actions", profiler_hooks),
    ]
    head = ["| hooks of one step | before the recording, µs | after it, µs |"]
    text = "\n".join([begun, "", *head, "|---|--:|--:|", *rows])
    print(text)
    if options.write:
        replace_section(options.write, "hooks", text)
    return 0


def row(name: str, make_hooks: Callable[[Path, dict[str, Any]], Hooks]) -> str:
    """Measure the hooks of an integration before and after its recording."""
    times = []
    for wait in (NEVER, 0):
        asked = {"wait": wait, "warmup": 0, "active": 1, "options": OPTIONS}
        with tempfile.TemporaryDirectory() as folder:
            hooks = make_hooks(Path(folder), {**asked, "report": False})
            # The recording of one step is over after two.
            hooks.ours()
            hooks.ours()
            times.append(statistics.median(differences(hooks)))
    return f"| {name} | {' | '.join(f'{it:.2f}' for it in times)} |"


def differences(hooks: Hooks) -> list[float]:
    """Return what a step takes with our hooks beyond the usual, in µs, per block."""
    found = []
    for _ in range(BLOCKS):
        ours, usual = (block_us(it) for it in hooks)
        found.append(ours - usual)
    return found


def block_us(run_step: Callable[[], object]) -> float:
    """Return the mean µs of a step in one block."""
    began_ns = time.perf_counter_ns()
    for _ in range(STEPS):
        run_step()
    return (time.perf_counter_ns() - began_ns) / STEPS / 1_000


def callback_hooks(logdir: Path, asked: dict[str, Any]) -> Hooks:
    """Return the hook of a step, and that of a callback which has none."""
    from transformers import TrainerCallback  # noqa: PLC0415 - needed only here

    callback = ss.integrations.huggingface.StepscopeCallback(logdir, **asked)
    state = SimpleNamespace(global_step=0)
    control = SimpleNamespace(should_evaluate=False, should_save=False)
    callback.on_train_begin(None, state, control)

    def call_hook(hook: Callable[..., object]) -> Callable[[], object]:
        return lambda: hook(None, state, control, model=None, optimizer=None)

    return Hooks(
        call_hook(callback.on_step_end), call_hook(TrainerCallback().on_step_end)
    )


def empty_callback(_logdir: Path, _asked: dict[str, Any]) -> Hooks:
    """Return the calls of a step's hooks with one more callback, and without it."""
    from transformers.trainer_callback import (  # noqa: PLC0415 - needed only here
        CallbackHandler,
        TrainerCallback,
        TrainerControl,
    )

    state, control = SimpleNamespace(global_step=0), TrainerControl()

    def call_hooks(callbacks: list[Any]) -> Callable[[], object]:
        handler = CallbackHandler(callbacks, None, None, None, None)

        def run_step() -> None:
            handler.on_step_begin(None, state, control)
            handler.on_pre_optimizer_step(None, state, control)
            handler.on_optimizer_step(None, state, control)
            handler.on_step_end(None, state, control)

        return run_step

    return Hooks(call_hooks([TrainerCallback()]), call_hooks([]))


def optimizer_hook(logdir: Path, asked: dict[str, Any]) -> Hooks:
    """Return the hook that PyTorch's optimizers call, and a call of nothing."""
    from stepscope.integrations.optimizer_steps import OptimizerSteps  # noqa: PLC0415

    options: Any = asked
    note_step = OptimizerSteps(logdir, options).note_step
    optimizer = object()
    note_step(optimizer, (), {})
    return Hooks(lambda: note_step(optimizer, (), {}), lambda: None)


def profiler_hooks(logdir: Path, asked: dict[str, Any]) -> Hooks:
    """Return the actions of a step with our profiler, and with the usual one."""
    from lightning.pytorch.profilers import PassThroughProfiler  # noqa: PLC0415

    profiler = ss.integrations.lightning.StepscopeProfiler(logdir, **asked)
    profiler.start("run_training_epoch")

    def run_actions(profiler: Any) -> None:
        for action in ACTIONS:
            with profiler.profile(action):
                pass

    usual = PassThroughProfiler()
    return Hooks(lambda: run_actions(profiler), lambda: run_actions(usual))


if __name__ == "__main__":
    sys.exit(main())
