"""Each tool answers each real profile: a result, or a reason and a way out."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from tests.support.results.statements import opened

from stepscope.analysis.tools import TOOLS
from stepscope.reporting import to_json
from stepscope.reporting.envelope import describe_profile, recording_doubts
from stepscope.reporting.plain import plain
from stepscope.unavailable import CODES, Missing, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import msgspec

    from stepscope.analysis.results.tool import Tool
    from stepscope.derive.profile_data import ProfileData

ENVELOPE = ["schema", "tool", "profile", "unavailable", "missing", "quality"]
#: Fields of a result that stand beside its data.
AROUND = {"missing", "quality", "inputs"}


@pytest.fixture(scope="module")
def profile(recorded_run: str, shared_profile: Callable[[str], Path]) -> ProfileData:
    return opened(shared_profile(recorded_run))


@pytest.mark.parametrize("tool", TOOLS, ids=[tool.name for tool in TOOLS])
def test_a_tool_gives_a_result_or_a_reasoned_unavailable(
    profile: ProfileData, tool: Tool
) -> None:
    result = profile.tool(tool.name)
    for lack in getattr(result, "missing", ()):
        assert isinstance(lack, Missing)
        assert lack.field
        check_reasoned(lack)
    if isinstance(result, Unavailable):
        check_reasoned(result)
    check_envelope(tool, profile, result)


def check_reasoned(lack: Unavailable | Missing) -> None:
    """A code of the list, a sentence that says what is absent, and one what to do."""
    assert lack.code in CODES
    for text in (lack.reason, lack.remedy):
        assert len(text.split()) >= 3, lack
        assert text.strip() == text, lack


def check_envelope(
    tool: Tool, profile: ProfileData, result: msgspec.Struct | Unavailable
) -> None:
    """The JSON parses without NaN and holds what the result held."""
    answer = to_json.make_envelope(
        tool.name,
        result,
        profile=describe_profile(profile),
        quality=recording_doubts(profile),
    )
    written = json.loads(to_json.render_envelope(answer), parse_constant=refuse)
    assert list(written)[: len(ENVELOPE)] == ENVELOPE
    assert (written["schema"], written["tool"]) == (1, tool.name)
    assert written["profile"]["hosts"] == list(profile.hosts)
    assert written["missing"] == plain(getattr(result, "missing", ()))
    if isinstance(result, Unavailable):
        assert written["data"] is None
        assert written["unavailable"] == plain(result)
        return
    assert written["unavailable"] is None
    fields = [name for name in result.__struct_fields__ if name not in AROUND]
    assert list(written["data"]) == fields
    for name in fields:
        check_value(getattr(result, name), written["data"][name])


def check_value(held: Any, read: Any) -> None:
    """A value and what became of it; frames by size, the rest by value."""
    if isinstance(held, pl.DataFrame):
        assert len(read) == held.height
        assert not read or list(read[0]) == held.columns
    else:
        assert read == plain(held)


def refuse(constant: str) -> None:
    raise AssertionError(constant)
