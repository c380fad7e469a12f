"""Actions against slow input: one table for all rules and tools that give advice.

`input_actions.json` has each action once. A tool asks for the action that fits the
known facts and a stage of a pipeline, or a category of host-side input time. The rules
`input.bound` and `input.stage` name keys of the table (`advice/texts/`).
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Collection

#: Conditions of actions.
#:
#: - `no_call_is_slow`: no call of the input pipeline is slow;
#: - `steps_wait`: the steps wait for the pipeline;
#: - `device_pipeline`: the pipeline is that of a device;
#: - `upstream_ready`: the elements of the stage were produced before they were
#:   requested;
#: - `upstream_unseen`: the source of the stage's elements is not known;
#: - `copies_are_small`: most of the time of each copy to a device is its call;
#: - `stage_has_own_threads`: the slowest stage works on separate threads. Only the
#:   analysis of the pipeline can show whether its elements were late or ready;
#: - `workers_are_idle`: no worker process works while steps wait for a batch;
#: - `worker_function_known`: one function takes most of the workers' working time.
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
#: Entry of `stage_types` for an action that fits every stage.
ANY_STAGE: Final = "*"


class InputAction(Frozen, frozen=True, forbid_unknown_fields=True):
    """One advised action.

    Attributes:
        text: What to do; `{place}` is replaced by a function with file and line.
        framework: Framework for whose programs a rule advises the action, or "any".
        code: A line of code to copy.
        workers: The number that replaces `{workers}` in `code`.
        categories: Categories of host-side input time that the action shortens.
        stage_types: Transformations that the action fits, without index and version.
        facts: Conditions, all of which must be true.
        suggestion_kind: Stable name of the suggestion for a stage.
        models: Models that predict the step after the action.
    """

    text: str
    framework: str = "any"
    code: str | None = None
    workers: int | None = None
    categories: tuple[str, ...] = ()
    stage_types: tuple[str, ...] = ()
    facts: tuple[InputFact, ...] = ()
    suggestion_kind: str | None = None
    models: tuple[str, ...] = ()


@lru_cache(maxsize=1)
def input_actions() -> dict[str, InputAction]:
    """Return all actions by key; if several fit, the first one is used."""
    table = Path(__file__).with_name("input_actions.json").read_bytes()
    return msgspec.json.decode(table, type=dict[str, InputAction])


def action_for_stage(stage_type: str, facts: Collection[InputFact]) -> InputAction:
    """Choose the action against the slowest stage of a pipeline.

    Args:
        stage_type: The transformation, without index and version.
        facts: The conditions that are true.
    """
    return next(
        action
        for action in input_actions().values()
        if {stage_type, ANY_STAGE}.intersection(action.stage_types)
        and set(action.facts) <= set(facts)
    )


def action_for_category(category: str, facts: Collection[InputFact]) -> InputAction:
    """Choose the action against one category of host-side input time.

    Args:
        category: A category of the input page, or `waiting_for_workers`,
            `outside_markers`, `not_recorded`.
        facts: The conditions that are true.
    """
    return next(
        action
        for action in input_actions().values()
        if category in action.categories and set(action.facts) <= set(facts)
    )
