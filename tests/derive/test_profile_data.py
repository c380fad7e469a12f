"""A run is asked for a derivation by its function, and for a table by its name."""

from __future__ import annotations

import pytest
from tests.support.traces import blueprint

from stepscope.derive import profile_data
from stepscope.derive.host.event_nesting import event_nesting
from stepscope.derive.profile_data import ProfileData
from stepscope.derive.step_windows.windows import windows
from stepscope.derive.steps.chosen import choose_steps, steps
from stepscope.errors import BadUsage
from stepscope.unavailable import Unavailable

LINES: list[blueprint.Line] = [("main", "work", 0, 10)]


def test_a_function_that_is_no_derivation_is_refused_by_name() -> None:
    profile = blueprint.profile(blueprint.trace(LINES))
    with pytest.raises(BadUsage, match="there is no derivation 'choose_steps'; known"):
        profile.derived("vm", choose_steps)
    with pytest.raises(BadUsage, match="there is no derivation 'choose_steps'; known"):
        profile.prepare((choose_steps,))


def test_a_function_that_only_shares_a_name_is_refused() -> None:
    def steps() -> int:
        return 7

    profile = blueprint.profile(blueprint.trace(LINES))
    with pytest.raises(BadUsage, match="there is no derivation 'steps'"):
        profile.derived("vm", steps)


def test_what_is_derived_is_computed_once_and_seen_through_chosen_hosts() -> None:
    profile = blueprint.profile(blueprint.trace(LINES))
    nesting = profile.derived("vm", event_nesting)
    assert not isinstance(nesting, Unavailable)
    assert profile.derived("vm", event_nesting) is nesting
    assert profile.select(["vm"]).derived("vm", event_nesting) is nesting


def test_what_tools_share_is_worked_out_once_for_each_choice_of_hosts() -> None:
    traces = {host: blueprint.trace(LINES, host=host) for host in ("a", "b")}
    profile = ProfileData("run", traces)
    asked = []

    def named(run: ProfileData, ending: str) -> str:
        asked.append(run.hosts)
        return " and ".join(run.hosts) + ending

    chosen = profile.select(["b"])
    assert [profile.kept(named, "!"), profile.kept(named, "!")] == ["a and b!"] * 2
    assert [chosen.kept(named, "!"), chosen.kept(named, "?")] == ["b!", "b?"]
    assert asked == [("a", "b"), ("b",), ("b",)]


def test_an_absent_input_is_the_result_unless_the_signature_takes_it() -> None:
    why = Unavailable(code="CORRUPT", reason="the events are lost.", remedy="Record.")
    profile = blueprint.profile(blueprint.trace(LINES)).without("events", why)
    assert profile.derived("vm", event_nesting) is why
    assert profile.derived("vm", windows) is why
    without = blueprint.profile(blueprint.trace(LINES)).without("launches", why)
    assert not isinstance(without.derived("vm", windows), Unavailable)


def test_a_table_is_prepared_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profile_data, "worth_threads", lambda _: 2)
    profile = blueprint.profile(blueprint.trace(LINES))
    profile.prepare(("quality", steps))
    for name in ("colours", "steps"):
        with pytest.raises(BadUsage, match=f"there is no table '{name}'"):
            profile.prepare((name,))
