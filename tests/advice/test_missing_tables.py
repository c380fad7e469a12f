"""Real profiles with each table deleted: a verdict may be lost, never turned round."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from stepscope.cli.progress import Progress
from stepscope.report import to_json, to_text
from stepscope.report.compose import compose
from stepscope.session import open_profile
from stepscope.trace.tables import TABLES
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.derive.profile_data import ProfileData
    from stepscope.report.document import Document

GONE = Unavailable(code="NOT_RECORDED", reason="It was deleted.", remedy="Keep it.")


@cache
def whole(path: Path) -> tuple[ProfileData, Document]:
    """A profile and what is found in it while every table is there."""
    profile = open_profile(path)
    return profile, compose(profile, Progress(stages=9))


@pytest.mark.parametrize("name", ["gpu_tf/t4_starved", "tf_cpu/input_bound"])
@pytest.mark.parametrize("table", sorted(TABLES))
def test_a_deleted_table_turns_no_fail_into_a_pass(
    name: str, table: str, shared_profile: Any
) -> None:
    profile, before = whole(shared_profile(name))
    after = compose(profile.without(table, GONE), Progress(stages=9))
    failed = {one.id for one in before.findings if one.status == "fail"}
    passed = {one.id for one in after.findings if one.status == "pass"}
    assert failed
    assert failed & passed == set()
    assert all(one.unavailable for one in after.findings if one.status == "cannot_tell")
    assert to_text.render(after, width=80)
    assert to_json.render_document(after)
