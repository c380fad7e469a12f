"""All rules, in the order of the optimization guides."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from stepscope.advice.catalogue import catalogue
from stepscope.advice.item import Rule


def _ordered_rules() -> tuple[Rule, ...]:
    """Return the rules of the modules that are named in the declared texts."""
    items = sorted(
        catalogue().rules.values(), key=lambda item: (item.stage, item.place)
    )
    rules = {
        rule.item.id: rule
        for module in dict.fromkeys(item.module for item in items)
        for rule in vars(import_module(f"stepscope.advice.rules.{module}")).values()
        if isinstance(rule, Rule)
    }
    return tuple(rules[item.id] for item in items)


RULES: Final = _ordered_rules()
