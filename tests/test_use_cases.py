"""The page of use cases names tests that exist, and holds no claim without one."""

from __future__ import annotations

import importlib.util
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


@cache
def tool() -> Any:
    path = ROOT / "build_tools" / "use_cases.py"
    spec = importlib.util.spec_from_file_location("use_cases", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_every_test_that_is_named_exists() -> None:
    assert tool().missing_tests() == []


def test_the_page_is_up_to_date() -> None:
    page = tool().PAGE.read_text(encoding="utf-8")
    assert page == tool().with_cases(page), "run python build_tools/use_cases.py"


def test_each_use_case_is_tried_never_run_or_no_way() -> None:
    page = tool().render()
    rows = [line.strip("| ").split(" | ") for line in page.splitlines()[2:]]
    assert len(rows) == len(tool().WAYS) * len(tool().WHERES)
    for way, where, *cells in rows:
        assert len(cells) == len(tool().PLATFORMS)
        for cell in cells:
            assert cell in {"–", "never run"} or re.search(r"\[test_\w+\]\(", cell), (
                cell
            )
        assert ("–" in cells) == (where not in tool().WAYS[way])
    claims = {(one.way, one.where, one.platform) for one in tool().TRIED}
    assert len(claims) == len(tool().TRIED)
    for way, where, platform in claims:
        assert where in tool().WAYS[way]
        assert platform in tool().PLATFORMS


def test_what_runs_on_a_cpu_is_no_proof_for_a_gpu() -> None:
    for one in tool().TRIED:
        assert one.stored == (one.platform != "CPU")
        assert one.stored == one.test.startswith("tests/gpu/")
