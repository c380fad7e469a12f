"""`mem.peak` over literal memories and on whole traces."""

from __future__ import annotations

from typing import Any

import pytest
from tests.advice.memories import memory, told
from tests.support.traces.training import (
    WATCHED,
    allocating,
    findings,
    on_host,
    together,
)

from stepscope.advice.rules.memory.device_memory import judge_peak as evaluate
from stepscope.derive.facts.evidence import Part
from stepscope.derive.facts.hosts.pipeline_buffers import (
    PipelineBuffer,
    pipeline_buffers,
)
from stepscope.derive.facts.program_traits import ProgramTraits, program_traits
from stepscope.reporting.words.findings import finding_headline

GIB = 2**30
MIB = 2**20


@pytest.mark.parametrize(
    ("gib", "status", "severity"),
    [
        (36.7, "pass", "info"),
        (36.9, "fail", "warn"),
        (38.9, "fail", "critical"),
    ],
)
def test_how_full_it_gets_decides(
    signals_of: Any, gib: float, status: str, severity: str
) -> None:
    finding = evaluate(signals_of(told(memory(peak_gib=gib))))
    assert (finding.status, finding.severity) == (status, severity)
    assert finding.value == pytest.approx(gib / 40)
    facts = {fact.name: fact.value for fact in finding.facts if fact.value is not None}
    assert facts == pytest.approx(
        {"used": 100 * gib / 40, "limit": 92.0, "peak_gib": gib, "capacity_gib": 40.0}
    )


@pytest.mark.parametrize(
    ("updates", "engine", "advised"),
    [
        (True, False, "backward pass"),
        (False, True, "key-value cache"),
        # A notebook that multiplies matrices is no server of requests.
        (False, False, "for gradients"),
    ],
)
def test_what_is_advised_fits_the_kind_of_program(
    signals_of: Any, advised: str, *, updates: bool, engine: bool
) -> None:
    full = told(memory(peak_gib=38.0))
    traits = {program_traits: ProgramTraits(updates=updates, engine=engine)}
    finding = evaluate(signals_of(full, traits))
    said = " ".join(one.text for one in finding.actions)
    assert advised in said
    assert ("requests" in said) is engine
    assert ("backward" in said) is updates
    # The cache of an engine fills the memory on purpose.
    assert finding.severity == ("info" if engine else "warn")
    assert ("in advance" in finding_headline(finding)) is engine


def test_the_fullest_memory_is_judged(signals_of: Any) -> None:
    alive = (Part(name="Pad", share_percent=60.0),)
    memories = (
        memory(name="GPU_0_bfc", peak_gib=10.0),
        memory(name="GPU_1_bfc", peak_gib=39.5, alive=alive),
    )
    finding = evaluate(signals_of(told(*memories)))
    assert finding.devices == ("vm:GPU_1_bfc", "vm:GPU_0_bfc")
    assert finding.parts == alive


def test_what_is_not_known_cannot_tell(signals_of: Any) -> None:
    for memories in (
        (),
        (memory(capacity_bytes=None),),
        (memory(peak_bytes=None),),
        # Older blocks are in use beside what was counted.
        (memory(counted=False),),
        # That of the process says nothing of a device's.
        (memory(name="process"),),
    ):
        finding = evaluate(signals_of(told(*memories)))
        assert finding.status == "cannot_tell"


def test_a_full_process_is_found_without_an_allocator(signals_of: Any) -> None:
    full = memory(name="process", peak_gib=39.0)
    assert evaluate(signals_of(told(full))).status == "fail"


def buffer(kind: str, type_: str, gib: float, **fields: Any) -> PipelineBuffer:
    """A buffer of a pipeline, whose elements have an unknown size."""
    sizes = {"element_bytes": None, "smallest_bytes": None} | fields
    return PipelineBuffer(kind=kind, type=type_, held_bytes=round(gib * GIB), **sizes)


SHUFFLED = buffer("shuffle", "Shuffle", 16.0, element_bytes=MIB, smallest_bytes=8)
FETCHED = buffer("prefetch", "Prefetch", 6.0, element_bytes=MIB)


@pytest.mark.parametrize(
    ("buffers", "advised", "element"),
    [
        (
            (SHUFFLED, FETCHED),
            ["shuffle_smaller_elements", "prefetch_fewer_elements"],
            8,
        ),
        ((FETCHED,), ["prefetch_fewer_elements"], None),
        ((buffer("cache", "MemoryCacheImpl", 4.1),), ["cache_smaller_elements"], None),
        ((buffer("parallel", "ParallelMap", 4.1),), ["map_before_batch"], None),
    ],
)
def test_the_buffers_that_fill_the_process_are_named(
    signals_of: Any,
    buffers: tuple[PipelineBuffer, ...],
    advised: list[str],
    element: int | None,
) -> None:
    full = told(memory(name="process", peak_gib=40.0))
    finding = evaluate(signals_of(full, {pipeline_buffers: {"vm": buffers}}))
    assert [action.id for action in finding.actions] == advised
    assert finding.parts[0].share_percent == pytest.approx(
        100 * buffers[0].held_bytes / (40 * GIB)
    )
    facts = {fact.name: fact.value for fact in finding.facts}
    assert (facts["held"], facts["before"]) == (buffers[0].held_bytes, element)
    said = finding_headline(finding)
    assert f"stage {buffers[0].type} holds at least" in said
    assert ("8 B before" in said) is (element is not None)


@pytest.mark.parametrize(
    ("where", "gib"), [("process", 3.9), ("GPU_0_bfc", 16.0), ("process", None)]
)
def test_other_memories_and_small_or_unknown_buffers_keep_their_advice(
    signals_of: Any, where: str, gib: float | None
) -> None:
    full = told(memory(name=where, peak_gib=40.0))
    known = {} if gib is None else {"vm": (buffer("shuffle", "Shuffle", gib),)}
    finding = evaluate(signals_of(full, {pipeline_buffers: known}))
    assert (finding.status, finding.note, finding.parts) == ("fail", None, ())
    assert {fact.value for fact in finding.facts if fact.name == "held"} == {None}
    assert "recompute_activations_tensorflow" in {one.id for one in finding.actions}


@pytest.mark.parametrize(("available_gib", "named"), [(1.0, True), (8.0, False)])
def test_a_recorded_shuffle_buffer_that_fills_the_host_is_named(
    *, available_gib: float, named: bool
) -> None:
    # 20,000 images of 1.5 MiB are 29.3 of 32 GiB.
    image = {"shapes": "[512,1024,3]", "types": "uint8", "id": 1}
    lines = [
        ("_counters_", "process RSS (bytes)", 0.0, 0.0, {"value": 32 * GIB}),
        (
            *("_counters_", "memory available (bytes)", 0.0, 0.0),
            {"value": round(available_gib * GIB)},
        ),
        (
            *("loader", "Iterator::Shuffle", 5.0, 50.0),
            image | {"buffered_elements": 20_000},
        ),
    ]
    finding = findings(on_host() + lines, devices=None)["mem.peak"]
    # 32 of 33 GiB are in use, or 32 of 40.
    assert (finding.status == "fail") is named
    assert [one.name for one in finding.parts] == (["Shuffle"] if named else [])
    if named:
        assert "holds at least 29.3 GiB" in finding_headline(finding)


def test_a_memory_that_fills_up_is_found_with_what_was_alive() -> None:
    finding = findings(allocating(peak_gib=38.9))["mem.peak"]
    assert (finding.status, finding.severity) == ("fail", "critical")
    assert finding.parts[0].name == "model/dense/MatMul:MatMul"
    assert finding.evidence[0].track == "GPU_0_bfc"


@pytest.mark.parametrize("lines", [allocating(), allocating(peak_gib=20.0)])
def test_room_passes(lines: list[Any]) -> None:
    assert findings(lines)["mem.peak"].status == "pass"


def test_without_allocations_it_cannot_tell() -> None:
    assert findings(together() + WATCHED)["mem.peak"].status == "cannot_tell"
    found = findings(allocating(peak_gib=39.0), without="allocations")
    assert found["mem.peak"].status == "cannot_tell"
