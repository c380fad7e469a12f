"""Real profiles with each table deleted: a verdict may be lost, never turned round."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.results.statements import read

from stepscope.cli.progress import Progress
from stepscope.report import to_json, to_text
from stepscope.report.compose import compose
from stepscope.trace.tables import TABLES
from stepscope.unavailable import Unavailable

GONE = Unavailable(code="NOT_RECORDED", reason="It was deleted.", remedy="Keep it.")


@pytest.mark.parametrize("name", ["gpu_tf/t4_starved", "tf_cpu/input_bound"])
@pytest.mark.parametrize("table", sorted(TABLES))
@pytest.mark.sweep(every=4)
def test_a_deleted_table_turns_no_fail_into_a_pass(
    name: str, table: str, shared_profile: Any
) -> None:
    profile, before = read(shared_profile(name))
    after = compose(profile.without(table, GONE), Progress(stages=9))
    failed = {one.id for one in before.findings if one.status == "fail"}
    passed = {one.id for one in after.findings if one.status == "pass"}
    assert failed
    assert failed & passed == set()
    assert all(one.unavailable for one in after.findings if one.status == "cannot_tell")
    assert to_text.render(after, width=80)
    assert to_json.render_document(after)
