"""Real profiles with each table deleted: a verdict may be lost, never turned round."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.results.statements import read

from stepscope.advice.engine import signals_of
from stepscope.advice.registry import RULES
from stepscope.cli.output import Progress
from stepscope.reporting import to_json
from stepscope.reporting.compose import compose_report
from stepscope.reporting.outline import as_text
from stepscope.reporting.outline.report import report_outline
from stepscope.session import open_profile
from stepscope.trace.tables import TABLES
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData

DATA = Path(__file__).resolve().parents[1] / "data"
GONE = Unavailable(code="NOT_RECORDED", reason="It was deleted.", remedy="Keep it.")


@pytest.mark.parametrize("name", ["gpu_tf/t4_starved", "tf_cpu/input_bound"])
@pytest.mark.parametrize("table", sorted(TABLES))
@pytest.mark.sweep(every=4)
def test_a_deleted_table_turns_no_fail_into_a_pass(
    name: str, table: str, shared_profile: Any
) -> None:
    profile, before = read(shared_profile(name))
    after = compose_report(profile.without(table, GONE), Progress(stages=9))
    failed = {one.id for one in before.findings if one.status == "fail"}
    passed = {one.id for one in after.findings if one.status == "pass"}
    assert failed
    assert failed & passed == set()
    assert all(one.unavailable for one in after.findings if one.status == "cannot_tell")
    assert as_text.render(report_outline(after), width=80)
    assert to_json.render_document(after)


@cache
def opened(name: str) -> tuple[ProfileData, frozenset[str]]:
    """A recording of the repository, and the rules that fail on it."""
    profile = open_profile(DATA / name)
    signals = signals_of(profile)
    found = (rule.evaluate(signals) for rule in RULES)
    return profile, frozenset(one.id for one in found if one.status == "fail")


@pytest.mark.parametrize(
    "name", ["gpu/kernels", "gpu/torch_copies", "tf_cpu/input_bound"]
)
@pytest.mark.parametrize("table", sorted(TABLES))
@pytest.mark.sweep(every=4)
def test_no_rule_that_fails_passes_for_want_of_a_table(name: str, table: str) -> None:
    """Without the devices' names a share of 16 bit passed that most kernels lacked."""
    profile, failing = opened(name)
    assert failing
    signals = signals_of(profile.without(table, GONE))
    for rule in RULES:
        if rule.item.id in failing:
            found = rule.evaluate(signals)
            assert found.status in {"fail", "cannot_tell"}, rule.item.id
