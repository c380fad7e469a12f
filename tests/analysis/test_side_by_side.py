"""Tools answer the same whether derivations are computed in turn or side by side."""

from __future__ import annotations

import importlib
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.programs.declared import declared

import stepscope
from stepscope.advice.registry import RULES
from stepscope.analysis.tools import TOOLS
from stepscope.analysis.tools import tool_answers as together
from stepscope.cli.output import show_progress
from stepscope.derive import profile_data
from stepscope.derive.derivations import (
    DERIVATIONS,
    FACTS,
    host_derivation,
    run_derivation,
)
from stepscope.derive.host.tracers import tracers
from stepscope.derive.profile_data import ProfileData
from stepscope.reporting import to_json
from stepscope.reporting.compose import compose_report, stage_count
from stepscope.reporting.envelope import describe_profile, recording_doubts
from stepscope.reporting.plain import plain
from stepscope.trace.model import TraceData
from stepscope.trace.tables import TABLES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stepscope.analysis.results.tool import Tool

DECLARED = declared(
    (
        host_derivation(name).compute
        for name in (*DERIVATIONS, *FACTS)
        if run_derivation(name) is None
    ),
    given=TABLES.keys() | {"trace", "strings"},
)


@pytest.fixture(scope="module")
def gpu_file(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few steps in the shape of a GPU profile."""
    path = tmp_path_factory.mktemp("gpu") / "gpu.xplane.pb"
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(repository / "benchmarks"))
        importlib.import_module("gpu_shaped").main(["--events", "10000", str(path)])
    return path


@pytest.fixture(scope="module", params=["gpu", "tf_keras_fit", "torch_train"])
def recorded(request: pytest.FixtureRequest, repository: Path) -> Path:
    """Profiles of a device and of a host, in two formats."""
    if request.param == "gpu":
        found: Path = request.getfixturevalue("gpu_file")
        return found
    return repository / "tests" / "data" / request.param


@cache
def in_turn(path: Path) -> ProfileData:
    """A profile whose derivations are computed one after the other, and kept."""
    return stepscope.open(path)


def answers(profile: ProfileData) -> dict[str, bytes]:
    about, noted = describe_profile(profile), recording_doubts(profile)
    return {
        tool.name: to_json.render_envelope(
            to_json.make_envelope(
                tool.name, profile.tool(tool.name), profile=about, quality=noted
            )
        )
        for tool in TOOLS
    }


@pytest.mark.slow(seconds=1.3)
@pytest.mark.sweep(every=3)
def test_tools_that_run_side_by_side_answer_the_same(
    recorded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [tool.name for tool in TOOLS]
    alone = {name: plain(in_turn(recorded).tool(name)) for name in names}
    for threads in (1, 4):
        monkeypatch.setattr(profile_data, "worth_threads", lambda _, n=threads: n)
        begun: list[Tool] = []
        found = together(stepscope.open(recorded), names, begun=begun.append)
        assert sorted(tool.name for tool in begun) == sorted(names)
        assert list(found) == names
        assert {it for it in names if plain(found[it]) != alone[it]} == set()


@pytest.mark.slow(seconds=1.2)
@pytest.mark.sweep(every=3)
def test_threads_change_no_answer(
    recorded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = answers(in_turn(recorded))
    monkeypatch.setattr(profile_data, "worth_threads", lambda _: 4)
    for _ in range(2):
        beside = answers(stepscope.open(recorded))
        assert {name for name in alone if alone[name] != beside[name]} == set()


@pytest.mark.slow(seconds=0.8)
@pytest.mark.sweep(every=3)
def test_threads_change_no_finding(
    recorded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = report(recorded)
    monkeypatch.setattr(profile_data, "worth_threads", lambda _: 4)
    assert report(recorded) == alone


def report(path: Path) -> bytes:
    with show_progress(stage_count()) as shown:
        return to_json.render_document(compose_report(stepscope.open(path), shown), {})


def with_inputs(names: set[str]) -> set[str]:
    """Names of derivations and tables, and all that those need in turn."""
    known, more = set(names), names
    while (
        more := {it for name in more & DECLARED.keys() for it in DECLARED[name].inputs}
        - known
    ):
        known |= more
    return known


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_a_tool_declares_what_it_asks_for(
    tool: object, gpu_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(tool, type(TOOLS[0]))
    listed = {it.__name__ for it in tool.needs}
    known = with_inputs(listed)
    asked: set[str] = set()
    derived = ProfileData.derived

    def noted(
        profile: ProfileData, host: str, derivation: Callable[..., object]
    ) -> object:
        asked.add(derivation.__name__)
        return derived(profile, host, derivation)

    monkeypatch.setattr(ProfileData, "derived", noted)
    stepscope.open(gpu_file).tool(tool.name)
    # What the remedies of an answer read is asked for where one is missing.
    assert asked - {tracers.__name__} <= known
    assert listed <= asked


def test_facts_declare_the_tables_that_they_ask_for(
    gpu_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is not declared would be built while other derivations wait for it."""
    profile = stepscope.open(gpu_file)
    computed, table = ProfileData._compute_value, TraceData.table
    asked: dict[str, set[str]] = {}
    running: list[str] = []

    def noted_compute(profile: ProfileData, trace: TraceData, found: Any) -> object:
        return noted(found.name, lambda: computed(profile, trace, found))

    def noted_table(trace: TraceData, name: str) -> object:
        if running:
            asked.setdefault(running[-1], set()).add(name)
        return table(trace, name)

    def noted(name: str, ask: Callable[[], object]) -> object:
        running.append(name)
        try:
            return ask()
        finally:
            running.pop()

    monkeypatch.setattr(ProfileData, "_compute_value", noted_compute)
    monkeypatch.setattr(TraceData, "table", noted_table)
    for rule in RULES:
        for one in rule.reads:
            noted(one.name, lambda one=one: profile.of_run(one))
    undeclared = {
        name: more
        for name, tables in asked.items()
        if (more := tables - of_fact(name) - SMALL) and name in FACTS
    }
    assert undeclared == {}


#: Tables that take no time to build.
SMALL = {"environment", "quality", "devices", "tracks", "event_types"}


def of_fact(name: str) -> set[str]:
    """Names of derivations and tables that a fact needs, and all that those need."""
    inputs = {*host_derivation(name).inputs}
    of_run = {it for it in inputs if it in FACTS and run_derivation(it) is not None}
    return with_inputs(inputs - of_run).union(*map(of_fact, of_run))
