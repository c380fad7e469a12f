"""Write the list of rules, by stage, into the page of findings.

python build_tools/rule_list.py
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from stepscope.advice.checklist import STAGES
from stepscope.advice.registry import RULES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stepscope.advice.rule import Rule

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "findings.md"
_BEGIN, _END = "<!-- rules:begin -->", "<!-- rules:end -->"


def render(rules: Iterable[Rule]) -> str:
    """Write a table of rules, in their order."""
    lines = ["| stage | rule | fails where |", "|---|---|---|"]
    for rule in rules:
        name, stage = rule.item.id, rule.item.stage
        page = f"advice/{name.replace('.', '_')}.md"
        cells = (f"{stage} {STAGES[stage]}", f"[`{name}`]({page})", rule.item.title)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def with_rules(page: str, rules: Iterable[Rule]) -> str:
    """Put the table between its marks.

    Raises:
        ValueError: The page has no such marks.
    """
    before, begun, rest = page.partition(_BEGIN)
    _, ended, after = rest.partition(_END)
    if not (begun and ended):
        raise ValueError(f"the page lacks the marks {_BEGIN} and {_END}")
    return f"{before}{_BEGIN}\n{render(rules)}\n{_END}{after}"


if __name__ == "__main__":
    written = with_rules(PAGE.read_text(encoding="utf-8"), RULES)
    PAGE.write_text(written, encoding="utf-8")
