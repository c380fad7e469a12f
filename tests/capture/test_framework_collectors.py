"""Collectors of frameworks where there is none: they say why, and stop in peace."""

from __future__ import annotations

import os
import sys
import types
from typing import TYPE_CHECKING

import pytest

from stepscope.capture.base import annotate
from stepscope.capture.base.clock import ClockPair
from stepscope.capture.base.options import ProfilerOptions
from stepscope.capture.collectors.frameworks import OpenRecordings
from stepscope.capture.collectors.registry import COLLECTORS, make_collector
from stepscope.capture.collectors.torch import activities

if TYPE_CHECKING:
    from pathlib import Path

FRAMEWORKS = {"tensorflow": "TensorFlow", "jax": "JAX", "torch": "PyTorch"}


@pytest.fixture(params=sorted(FRAMEWORKS))
def framework(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.delitem(sys.modules, request.param, raising=False)
    return str(request.param)


def test_frameworks_start_before_everything_else() -> None:
    assert set(list(COLLECTORS)[:3]) == FRAMEWORKS.keys()


def test_what_is_not_imported_is_not_imported_by_asking(framework: str) -> None:
    why_not = make_collector(framework).why_unavailable()
    assert why_not is not None
    assert why_not.reason == f"The program has not imported {FRAMEWORKS[framework]}."
    assert why_not.remedy == f"Import {framework} before the recording starts."
    assert framework not in sys.modules


def test_a_framework_without_its_profiler_is_said_to_have_none(
    framework: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, framework, types.ModuleType(framework))
    if framework == "jax":
        profiler = types.ModuleType("jax.profiler")
        monkeypatch.setitem(sys.modules, "jax.profiler", profiler)
        monkeypatch.setattr(sys.modules["jax"], "profiler", profiler, raising=False)
    why_not = make_collector(framework).why_unavailable()
    assert why_not is not None
    assert "profiler" in why_not.reason
    assert why_not.remedy.startswith("Install ")


def test_stopping_what_never_began_collects_nothing(framework: str) -> None:
    collected = make_collector(framework).hand_over()
    assert collected.xspace == b""
    assert not collected.holds_annotations


def test_a_start_that_fails_leaves_nothing_behind(
    framework: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, framework, types.ModuleType(framework))
    collector = make_collector(framework)
    with pytest.raises((ImportError, AttributeError)):
        collector.start_collecting(ProfilerOptions(), ClockPair.now())
    assert collector.hand_over().xspace == b""
    assert annotate._receivers.framework is None


def test_the_model_is_looked_for_in_no_framework_that_is_absent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("keras", "torch", "jax"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    collector = make_collector("model")
    assert collector.why_unavailable() is not None
    assert collector.hand_over().xspace == b""


def test_what_is_left_over_is_ended_once_whatever_that_says() -> None:
    ended = []

    def fail() -> None:
        ended.append("fails")
        raise RuntimeError("gone")

    def work() -> None:
        ended.append("works")

    def done() -> None:
        ended.append("done")

    recordings = OpenRecordings()
    for end in (fail, work, done):
        recordings.add_recording(end)
    recordings.forget_recording(done)
    recordings.end_recordings()
    recordings.end_recordings()
    assert ended == ["fails", "works"]


def test_a_thread_that_ends_meanwhile_takes_no_other_threads_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in ("11", "12", "13"):
        (tmp_path / number).mkdir()
        if number != "12":
            (tmp_path / number / "comm").write_text("loader\n", encoding="utf-8")
    monkeypatch.setattr(activities, "_TASKS", tmp_path)
    assert activities.thread_names() == {
        (os.getpid(), number): f"thread {number} (loader)" for number in (11, 13)
    }
    monkeypatch.setattr(activities, "_TASKS", tmp_path / "elsewhere")
    assert activities.thread_names() == {}
