"""Write into each rule's page what to do about it, from the rule's own actions.

python build_tools/rule_actions.py
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from stepscope.advice.finding import Action
from stepscope.advice.judging.work_actions import LibraryWork
from stepscope.advice.registry import RULES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepscope.advice.rule import Rule

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "docs" / "advice"
_HEAD, _NEXT = "## What to do\n", "\n## "
#: The section comes before this one; else it is the last.
_BEFORE = "## How to doubt it\n"


def actions_of(rule: Rule) -> list[Action]:
    """Return all actions that a rule can advise, in the order of its module."""
    found: dict[Action, None] = dict.fromkeys((*rule.item.actions, *rule.advises))
    for value in vars(sys.modules[rule.evaluate.__module__]).values():
        found |= dict.fromkeys(_actions(value))
    return list(found)


def _actions(value: object) -> Iterator[Action]:
    if isinstance(value, Action):
        yield value
    elif isinstance(value, LibraryWork):
        yield from value.actions
    elif isinstance(value, tuple | list):
        for one in value:
            yield from _actions(one)
    elif isinstance(value, dict):
        for one in value.values():
            yield from _actions(one)


def render(rule: Rule) -> str:
    """Write the section: each action, for which framework, and what to type."""
    lines = [_HEAD]
    for one in actions_of(rule):
        of = "In recordings of Nsight Systems" if one.recorder == "nsight" else None
        named = None if one.framework == "any" else one.framework
        who = ", ".join(it for it in (of, named) if it is not None)
        who += ": " if who else ""
        lines.append(f"* {who}{one.text}")
        typed = [it for it in (one.code, one.env) if it is not None]
        if typed:
            lines += ["", "```", *typed, "```", ""]
    if len(lines) == 1:
        lines.append("Nothing by itself: the other findings say what to change.")
    return "\n".join(lines).rstrip() + "\n"


def with_actions(page: str, rule: Rule) -> str:
    """Put the section into a page."""
    before, found, rest = page.partition(_HEAD)
    if found:
        _, more, after = rest.partition(_NEXT)
        page = before + more.lstrip("\n") + after
    before, found, rest = page.partition(_BEFORE)
    start = before.rstrip("\n") + "\n\n"
    if not found:
        return start + render(rule)
    return f"{start}{render(rule)}\n{found}{rest}"


def page_of(rule: Rule) -> Path:
    """Return where the page of a rule is."""
    return PAGES / f"{rule.item.id.replace('.', '_')}.md"


if __name__ == "__main__":
    for each in RULES:
        path = page_of(each)
        text = path.read_text(encoding="utf-8")
        path.write_text(with_actions(text, each), encoding="utf-8")
