"""Write the list of rules, by stage, and those that no recording confirms, into a page.

python build_tools/rule_list.py
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from stepscope.advice.checklist import STAGES
from stepscope.advice.registry import RULES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from stepscope.advice.item import Item, Rule

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "findings.md"


def render(rules: Iterable[Rule]) -> str:
    """Write a table of rules, in their order."""
    lines = ["| stage | rule | fails where | seen on |", "|---|---|---|---|"]
    for rule in rules:
        stage = f"{rule.item.stage} {STAGES[rule.item.stage]}"
        cells = (stage, _link(rule), rule.item.title, _seen(rule.item))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def unconfirmed(rules: Sequence[Rule]) -> str:
    """Write the list of rules that have failed on no recorded program."""
    silent = [rule for rule in rules if not rule.item.is_calibrated]
    lines = [f"- {_link(rule)}: {rule.item.title}" for rule in silent]
    return "\n".join([f"{len(silent)} of {len(rules)} rules:", "", *lines])


def _link(rule: Rule) -> str:
    name = rule.item.id
    return f"[`{name}`](advice/{name.replace('.', '_')}.md)"


def _seen(item: Item) -> str:
    if item.collects:
        return "never fails"
    return item.seen_on or "made-up programs only"


def with_rules(page: str, rules: Sequence[Rule]) -> str:
    """Put the table and the list between their marks."""
    page = between_marks(page, "rules", render(rules))
    return between_marks(page, "unconfirmed", unconfirmed(rules))


def between_marks(page: str, name: str, text: str) -> str:
    """Put a text between the two marks of a name.

    Raises:
        ValueError: The page has no such marks.
    """
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    before, begun, rest = page.partition(begin)
    _, ended, after = rest.partition(end)
    if not (begun and ended):
        raise ValueError(f"the page lacks the marks {begin} and {end}")
    return f"{before}{begin}\n{text}\n{end}{after}"


if __name__ == "__main__":
    written = with_rules(PAGE.read_text(encoding="utf-8"), RULES)
    PAGE.write_text(written, encoding="utf-8")
