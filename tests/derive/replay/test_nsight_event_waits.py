"""Streams that were told to wait for each other, in an Nsight Systems database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.support.kept_promises import check_graph
from tests.support.traces.nsight import (
    KERNEL,
    NVTX,
    RUNTIME,
    SYNC,
    call,
    global_id,
    kernel,
    span,
    write,
)

from stepscope.derive.replay.graph import step_graph
from stepscope.derive.replay.nodes import EdgeKind, Graph
from stepscope.session import open_profile

if TYPE_CHECKING:
    from pathlib import Path

EVENTS = "CUPTI_ACTIVITY_KIND_CUDA_EVENT"
STEPS = 6
US = 1_000
ON = {"contextId": 1, "deviceId": 0, "globalPid": global_id()}


def tables(*, numbered: bool, records: bool = True) -> dict[str, Any]:
    """B on stream 8 waits for A on stream 7, and begins 60 µs after it ended.

    A second record of the event comes after the wait, which is not for it. The kernel
    of another device also has a stream 7.
    """
    found: dict[str, list[Any]] = {
        it: [] for it in (NVTX, RUNTIME, KERNEL, SYNC, EVENTS)
    }
    for at in range(STEPS):
        begin, number = 1_000 * US * at, 10 * at

        def us(time: int, begin: int = begin) -> int:
            return begin + time * US

        found[NVTX].append(span(f"step {at}", us(0), us(990)))
        for offset, turn, name in (
            (0, 1, "cudaLaunchKernel_v7000"),
            (8, 2, "cudaEventRecord_v3020"),
            (10, 3, "cudaStreamWaitEvent_v3020"),
            (12, 4, "cudaLaunchKernel_v7000"),
            (16, 5, "cudaLaunchKernel_v7000"),
            (20, 6, "cudaEventRecord_v3020"),
            (40, 7, "cudaDeviceSynchronize_v3020"),
        ):
            dur = 720 if turn == 7 else 2
            found[RUNTIME].append(
                call(name, us(offset), us(offset + dur), number + turn)
            )
        found[KERNEL] += [
            kernel("a", us(10), us(310), number + 1),
            kernel("b", us(370), us(755), number + 4, streamId=8),
            kernel("c", us(20), us(30), number + 5, deviceId=1, contextId=2),
        ]
        event = {"eventId": 5, "streamId": 7, **ON}
        found[EVENTS] += [
            {**event, "correlationId": number + 2, "eventSyncId": 2 * at + 1},
            {**event, "correlationId": number + 6, "eventSyncId": 2 * at + 2},
        ]
        found[SYNC].append(
            {"start": us(312), "end": us(312), "syncType": 2, "streamId": 8}
            | {"eventId": 5, "correlationId": number + 3, **ON}
            | {"eventSyncId": 2 * at + 1 if numbered else None}
        )
    if not records:
        del found[EVENTS]
    return found


def graph_of(path: Path, given: dict[str, Any]) -> Graph:
    profile = open_profile(write(path, given))
    graph = profile.derived(profile.hosts[0], step_graph)
    assert isinstance(graph, Graph)
    check_graph(graph)
    return graph


@pytest.mark.parametrize("numbered", [False, True])
def test_a_wait_for_an_event_is_an_edge_from_its_record(
    tmp_path: Path, *, numbered: bool
) -> None:
    graph = graph_of(tmp_path / "a.sqlite", tables(numbered=numbered))
    waits = np.flatnonzero(graph.edges.kind == EdgeKind.EVENT)
    assert len(waits) == STEPS
    ran = graph.nodes.dur_ps // (1_000 * US)
    assert ran[graph.edges.source[waits]].tolist() == [300] * STEPS
    assert ran[graph.edges.target[waits]].tolist() == [385] * STEPS


def test_without_the_records_nothing_says_what_was_waited_for(tmp_path: Path) -> None:
    given = tables(numbered=False, records=False)
    graph = graph_of(tmp_path / "a.sqlite", given)
    assert not (graph.edges.kind == EdgeKind.EVENT).any()
