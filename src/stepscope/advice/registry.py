"""All rules, in the order of the optimization guides."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from stepscope.advice.catalogue import catalogue

if TYPE_CHECKING:
    from stepscope.advice.item import Item
    from stepscope.advice.rule import Rule

#: Stage → folder of its rules.
_FOLDERS: Final = (
    *("trust", "loading", "waiting", "launches", "placement"),
    *("kernels", "precision", "compilation", "devices", "running"),
)


def _rule_of(item: Item) -> Rule:
    """Return the rule of a declared item: its module is named as it is."""
    name = item.id.replace(".", "_")
    folder = f"stepscope.advice.rules.{_FOLDERS[item.stage]}"
    rule: Rule = import_module(f"{folder}.{name}").RULE
    return rule


RULES: Final[tuple[Rule, ...]] = tuple(
    _rule_of(item)
    for item in sorted(
        catalogue().rules.values(), key=lambda item: (item.stage, item.place)
    )
)
