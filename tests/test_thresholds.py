"""Every threshold stands once in the table, with a source that is explained."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest

import stepscope
from stepscope import thresholds
from stepscope.advice.catalogue import catalogue
from stepscope.thresholds import THRESHOLDS

SOURCE = Path(stepscope.__file__).parent


@pytest.mark.parametrize(
    "table",
    ["thresholds.json", "remedies.json", "derive/verdicts/input_actions.json"],
)
def test_no_key_of_a_table_is_declared_twice(table: str) -> None:
    twice: list[str] = []

    def check(pairs: list[tuple[str, object]]) -> dict[str, object]:
        twice.extend(
            key for key, n in Counter(key for key, _ in pairs).items() if n > 1
        )
        return dict(pairs)

    text = (SOURCE / table).read_text(encoding="utf-8")
    json.loads(text, object_pairs_hook=check)
    assert twice == []


def test_every_threshold_has_a_meaning_and_a_source_that_is_explained() -> None:
    explained = set(re.findall(r'"([\w ]+)"', thresholds.__doc__ or ""))
    for name in THRESHOLDS.__struct_fields__:
        threshold = getattr(THRESHOLDS, name)
        assert threshold.meaning, name
        assert threshold.source in explained, name


def test_every_threshold_is_used() -> None:
    text = "\n".join(
        path.read_text(encoding="utf-8")
        for path in SOURCE.rglob("*.py")
        if path.name != "thresholds.py"
    )
    used = set(re.findall(r"\b[a-z_0-9]+\b", text))
    levels = {item.level for item in catalogue().rules.values()}
    used |= {f"{level}_{kind}" for level in levels for kind in ("warn", "critical")}
    assert set(THRESHOLDS.__struct_fields__) - used == set()


def test_every_level_of_a_rule_is_a_threshold() -> None:
    levels = {item.level for item in catalogue().rules.values()} - {""}
    names = set(THRESHOLDS.__struct_fields__)
    assert {f"{level}_warn" for level in levels} <= names
