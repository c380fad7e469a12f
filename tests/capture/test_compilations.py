"""Compilations: what JAX reports and PyTorch keeps, made into events."""

from __future__ import annotations

import sys
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import stepscope as ss
from stepscope.capture.collectors.compilations import CompilationsCollector
from stepscope.capture.collectors.contract import Collected
from stepscope.derive.names.event_kinds import HostClass, event_kinds
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

OPTIONS = ss.ProfilerOptions(counters_hz=0, collectors=("host", "compilations"))
TRACE = "/jax/core/compile/jaxpr_trace_duration"
COMPILE = "/jax/core/compile/backend_compile_duration"


class Monitoring:
    """What JAX offers those who want to hear of its durations."""

    def __init__(self) -> None:
        self.listeners: list[Callable[..., None]] = []

    def register_event_duration_secs_listener(
        self, listener: Callable[..., None]
    ) -> None:
        self.listeners.append(listener)

    def unregister_event_duration_listener(self, listener: Callable[..., None]) -> None:
        self.listeners.remove(listener)

    def tell(self, event: str, seconds: float, **told: object) -> None:
        for listener in self.listeners:
            listener(event, seconds, **told)


@pytest.fixture
def monitoring(monkeypatch: pytest.MonkeyPatch) -> Monitoring:
    found = Monitoring()
    monkeypatch.setitem(sys.modules, "jax", SimpleNamespace(monitoring=found))
    monkeypatch.delitem(sys.modules, "torch._dynamo.utils", raising=False)
    return found


def compiled(run: ss.Run) -> list[tuple[str, int]]:
    """Name and whole milliseconds of each compilation."""
    assert run.path is not None
    profile = ss.open(run.path)
    (host,) = profile.hosts
    trace = profile.trace(host)
    names = trace.table("event_types")["name"].to_list()
    classes = profile.derived(host, event_kinds).host_class
    found = []
    for kind, dur in trace.table("events").select("type", "dur_ps").iter_rows():
        if names[kind].startswith("compilation of"):
            assert classes[kind] == HostClass.COMPILE
            found.append((names[kind], dur // 10**9))
    return sorted(found)


def test_what_jax_reports_has_the_function_and_its_time(
    tmp_path: Path, monitoring: Monitoring
) -> None:
    with ss.Profile(tmp_path, OPTIONS) as run:
        time.sleep(0.05)
        monitoring.tell(TRACE, 0.002, fun_name="train_step")
        monitoring.tell(COMPILE, 0.04, fun_name="jit(train_step)")
        monitoring.tell(TRACE, 0.0001, fun_name="add")
        monitoring.tell("/jax/checkpoint/write", 0.5)
    assert compiled(run) == [
        ("compilation of train_step", 2),
        ("compilation of train_step", 40),
    ]
    assert not monitoring.listeners
    assert run.warnings == ()


def test_a_compilation_without_a_name_is_there(
    tmp_path: Path, monitoring: Monitoring
) -> None:
    with ss.Profile(tmp_path, OPTIONS) as run:
        time.sleep(0.02)
        monitoring.tell(COMPILE, 0.01)
    assert compiled(run) == [("compilation of a function", 10)]


def test_what_pytorch_compiled_meanwhile_has_function_source_and_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def metrics(name: str, begin_us: int, **told: object) -> Any:
        return SimpleNamespace(
            co_name=name,
            co_filename="/app/train.py",
            co_firstlineno=7,
            start_time_us=begin_us,
            duration_us=3_000,
            **told,
        )

    kept = [metrics("before", time.time_ns() // 1000 - 60_000_000)]
    utils = SimpleNamespace(get_compilation_metrics=lambda: kept)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", utils)
    with ss.Profile(tmp_path, OPTIONS) as run:
        now = time.time_ns() // 1000 + 1
        kept.append(metrics("forward", now, recompile_reason="size mismatch"))
        kept.append(SimpleNamespace(co_name="unfinished"))
        time.sleep(0.01)
    assert compiled(run) == [("compilation of forward", 3)]
    profile = ss.open(tmp_path)
    (host,) = profile.hosts
    trace = profile.trace(host)
    texts = set(trace.strings)
    stored = bytes(trace.data)
    for said in ("size mismatch", "/app/train.py:7"):
        assert said in texts or said.encode() in stored


def test_without_such_a_framework_it_is_not_available(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("jax", "torch"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    assert isinstance(CompilationsCollector().why_unavailable(), Unavailable)
    assert CompilationsCollector().hand_over() == Collected(b"")
