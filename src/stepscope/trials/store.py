"""Promises of a tried program, in the file that `report --store` reads and writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from stepscope.compare.measured import measure_run
from stepscope.compare.promises import judge_gain
from stepscope.compare.store import (
    answer_promises,
    promise_file,
    read_promises,
    write_promises,
)
from stepscope.thresholds import THRESHOLDS

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.advice.finding import Finding
    from stepscope.compare.store import PromiseFile
    from stepscope.derive.profile_data import ProfileData
    from stepscope.trials.trying import TryAnswer


def check_store(logdir: str) -> None:
    """Raise BadInput if the log directory's file of promises cannot be used."""
    read_promises(promise_file(logdir))


def store_run(
    logdir: Path, profile: ProfileData, findings: tuple[Finding, ...]
) -> None:
    """Store the promises of a recorded turn, and judge those of earlier ones."""
    path = promise_file(logdir)
    run = measure_run(profile, findings)
    # The turns execute one program, so they do the same work.
    kept, _ = answer_promises(
        read_promises(path), run, thresholds=THRESHOLDS, same_work=True
    )
    write_promises(path, kept)


def store_trials(logdir: Path, run: str, answer: TryAnswer) -> TryAnswer:
    """Store what each change brought as outcomes of the promises of a run."""
    path = promise_file(logdir)
    kept = read_promises(path)
    stored = kept.runs.get(run)
    if stored is None:
        return answer
    outcomes = {
        f"{run} try {trial.change}": (judge_gain((trial.promise,), trial.step_time),)
        for trial in answer.trials
        if trial.promise is not None and trial.step_time is not None
    }
    stored = msgspec.structs.replace(stored, answers={**stored.answers, **outcomes})
    runs: PromiseFile = msgspec.structs.replace(kept, runs={**kept.runs, run: stored})
    write_promises(path, runs)
    return msgspec.structs.replace(answer, stored_in=str(path))
