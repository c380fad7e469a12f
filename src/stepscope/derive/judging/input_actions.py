"""What to do about slow input: one table for the rules and the tools that advise it.

`input_actions.json` says each action once. A tool asks for what fits a stage of a
pipeline, or a category of the host's work, and the facts that hold; the rules
`input.bound` and `input.stage` name keys (`advice/texts/`).
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Collection

#: What may have to hold for an action to fit.
#:
#: - `no_call_is_slow`: no call of the input pipeline is slow;
#: - `steps_wait`: the steps wait for the pipeline;
#: - `device_pipeline`: the pipeline is that of a device;
#: - `upstream_ready`: what the stage handed out had been made before it was asked;
#: - `upstream_unseen`: where the elements of the stage came from is not known;
#: - `copies_are_small`: most of each copy to a device is its call;
#: - `stage_has_own_threads`: the slowest stage works on threads of its own. Whether its
#:   elements came late, or were ready, only the pipeline's own analysis knows;
#: - `workers_are_idle`: no worker process works while steps wait for a batch;
#: - `worker_function_known`: one function takes most of the workers' work.
InputFact = Literal[
    "no_call_is_slow",
    "steps_wait",
    "device_pipeline",
    "upstream_ready",
    "upstream_unseen",
    "copies_are_small",
    "stage_has_own_threads",
    "workers_are_idle",
    "worker_function_known",
]
#: In place of the types of stages: an action for every other stage.
ANY_STAGE: Final = "*"


class InputAction(Frozen, frozen=True, forbid_unknown_fields=True):
    """One thing to do.

    Attributes:
        text: What to do; `{place}` stands for a function with file and line.
        framework: Framework whose programs a rule advises it to, or "any".
        code: A line of code to copy.
        workers: The number that stands for `{workers}` in that line.
        categories: Kinds of host-side input time that it shortens.
        stage_types: Transformations that it is for, without index and version.
        facts: What must hold, all of it.
        suggestion_kind: Stable name of the suggestion for a stage.
    """

    text: str
    framework: str = "any"
    code: str | None = None
    workers: int | None = None
    categories: tuple[str, ...] = ()
    stage_types: tuple[str, ...] = ()
    facts: tuple[InputFact, ...] = ()
    suggestion_kind: str | None = None

    def is_for_stage(self, stage_type: str) -> bool:
        """Return whether the action is for a transformation, or for every one."""
        return stage_type in self.stage_types or ANY_STAGE in self.stage_types


@lru_cache(maxsize=1)
def input_actions() -> dict[str, InputAction]:
    """Return all actions by key; of those that fit the first one counts."""
    table = Path(__file__).with_name("input_actions.json").read_bytes()
    return msgspec.json.decode(table, type=dict[str, InputAction])


def action_for_stage(stage_type: str, facts: Collection[InputFact]) -> InputAction:
    """Choose what to do about the slowest stage of a pipeline.

    Args:
        stage_type: The transformation, without index and version.
        facts: What holds.
    """
    return next(
        action
        for action in input_actions().values()
        if action.is_for_stage(stage_type) and set(action.facts) <= set(facts)
    )


def action_for_category(category: str, facts: Collection[InputFact]) -> InputAction:
    """Choose what to do about one kind of host-side input time.

    Args:
        category: A category of the input page, `waiting_for_workers`,
            `outside_markers` or `not_recorded`.
        facts: What holds.
    """
    return next(
        action
        for action in input_actions().values()
        if category in action.categories and set(action.facts) <= set(facts)
    )
