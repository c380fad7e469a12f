"""The table of what to do about slow input: each action is given, and by whom."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import pytest

import stepscope
from stepscope.derive.verdicts.input_actions import (
    InputAction,
    InputFact,
    action_for_category,
    action_for_stage,
    input_actions,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE = Path(stepscope.__file__).parent
DOCS = SOURCE.parents[1] / "docs" / "tools" / "tf_data_bottleneck_analysis.md"
CATEGORIES = {
    *("outside_markers", "not_recorded", "enqueue", "preprocessing"),
    *("advanced_file_read", "demanded_file_read", "waiting_for_workers"),
    "unclassified",
}


def keys_of_rules() -> Iterator[str]:
    """The keys that files of rules name."""
    for path in (SOURCE / "advice" / "texts").glob("*.toml"):
        actions = tomllib.loads(path.read_text(encoding="utf-8")).get("actions", {})
        for key, action in actions.items():
            if action.get("same_as") == "input_actions":
                yield key


def test_every_action_is_given_by_a_tool_or_named_by_a_rule() -> None:
    named = set(keys_of_rules())
    assert named <= input_actions().keys()
    unused = [
        key
        for key, action in input_actions().items()
        if not (action.categories or action.stage_types or key in named)
    ]
    assert unused == []


def test_every_fact_decides_and_every_category_has_an_action() -> None:
    actions = input_actions().values()
    assert {fact for it in actions for fact in it.facts} == set(get_args(InputFact))
    assert {name for it in actions for name in it.categories} == CATEGORIES


def test_every_action_of_a_tool_is_the_first_that_fits_somewhere() -> None:
    for key, action in input_actions().items():
        chosen: list[InputAction] = [
            *(action_for_category(it, action.facts) for it in action.categories),
            *(action_for_stage(it, action.facts) for it in action.stage_types),
        ]
        assert all(it is action for it in chosen), key


def test_a_suggestion_for_a_stage_has_a_kind_that_is_explained() -> None:
    explained = DOCS.read_text(encoding="utf-8")
    for key, action in input_actions().items():
        assert bool(action.stage_types) is bool(action.suggestion_kind), key
        assert f"`{action.suggestion_kind or 'not_slow'}`" in explained, key
        assert action.text.endswith("."), key


@pytest.mark.parametrize(
    ("stage", "facts", "kind"),
    [
        ("Prefetch", ["upstream_ready"], "consumer_found_data"),
        ("Prefetch", ["upstream_unseen"], "upstream_unseen"),
        ("Prefetch", [], "upstream_slow"),
        ("Generator", ["device_pipeline"], "host_pipeline"),
        ("Generator", [], "slow_python"),
        # A stage that fetches ahead and is none of those.
        ("ParallelMap", ["upstream_ready"], "slow_although_parallel"),
        ("Map", ["no_call_is_slow", "steps_wait"], "not_slow"),
    ],
)
def test_the_facts_choose_between_the_actions_for_one_stage(
    stage: str, facts: list[InputFact], kind: str
) -> None:
    assert action_for_stage(stage, facts).suggestion_kind == kind
