"""What each line of a file becomes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.xspace.literal import event, line, plane, space

from stepscope.formats.opening import read

if TYPE_CHECKING:
    from pathlib import Path

DERIVED = -559038737


@pytest.fixture
def tracks(tmp_path: Path) -> Any:
    def of(*planes: Any) -> list[dict[str, Any]]:
        path = tmp_path / "vm.xplane.pb"
        path.write_bytes(space(*planes))
        return read(path).table("tracks").to_dicts()

    return of


@pytest.mark.parametrize(
    ("plane_name", "line_id", "name", "kind", "derived", "device"),
    [
        ("/host:CPU", -6914256465407022058, "tf_Compute/-69", "thread", None, None),
        ("/host:CPU", 2849634697, "tf_Compute/-1445332599", "thread", None, None),
        ("/host:CPU", 5, "Steps", "thread", None, None),
        ("/host:CPU", DERIVED + 49, "region", "derived", "other", None),
        ("/device:GPU:3", 7, "Stream #7(Compute,MemcpyD2D)", "stream", None, 3),
        ("/device:GPU:3", 7, "strange line", "stream", None, 3),
        ("/device:GPU:12", DERIVED, "Steps", "derived", "steps", 12),
        ("/device:GPU:0", DERIVED + 1, "Launch Stats", "derived", "launch_stats", 0),
        (
            "/device:GPU:0",
            DERIVED + 2,
            "TensorFlow Name Scope",
            "derived",
            "name_scope",
            0,
        ),
        ("/device:GPU:0", DERIVED + 3, "Framework Ops", "derived", "framework_ops", 0),
        ("/device:GPU:0", DERIVED + 4, "XLA Modules", "derived", "xla_modules", 0),
        ("/device:GPU:0", DERIVED + 5, "XLA Ops", "derived", "xla_ops", 0),
        ("/device:GPU:0", DERIVED + 7, "Source code", "derived", "source", 0),
        ("/device:GPU:0", DERIVED + 295, "XLA Ops - from #7", "derived", "xla_ops", 0),
        ("/device:GPU:0", DERIVED + 389, "unnamed", "derived", "other", 0),
        ("/device:GPU:0", DERIVED + 390, "Stream #9(Compute)", "stream", None, 0),
        ("/device:GPU:0", DERIVED - 1, "Stream #9(Compute)", "stream", None, 0),
        ("/device:GPU:0", DERIVED + 6, "anything", "overhead", None, 0),
        ("/device:GPU:0", 99, "CUPTI overhead", "overhead", None, 0),
        ("/device:GPU:0", 2**63 - 1, "_counters_", "counters", None, 0),
        ("/device:TPU:1", 3, "XLA Ops", "core", None, 1),
        ("/device:TPU:1", 2, "XLA Modules", "derived", "xla_modules", 1),
        ("/device:TPU:1", 1, "Steps", "derived", "steps", 1),
        ("/device:TPU:1", 4, "Async XLA Ops", "asynchronous", None, 1),
        ("/device:TPU:1", 6, "XLA TraceMe", "asynchronous", None, 1),
        ("/device:TPU:1 SparseCore 0", 3, "XLA Ops", "asynchronous", None, 1),
        ("#Chip TPU Non-Core", 1, "HBM", "asynchronous", None, None),
        ("/device:CUSTOM:Megascale", 1, "transfers", "asynchronous", None, None),
    ],
)
def test_a_line_is_what_plane_id_and_name_say(  # noqa: PLR0917 - one column each
    tracks: Any,
    plane_name: str,
    line_id: int,
    name: str,
    kind: str,
    derived: str | None,
    device: int | None,
) -> None:
    (track,) = tracks(plane(plane_name, line(line_id, name)))
    assert track["plane"] == plane_name
    assert (track["kind"], track["derived"], track["device"]) == (kind, derived, device)
    assert track["id"] == line_id


def test_a_display_name_is_shown_and_an_unnamed_line_is_named_by_its_id(
    tracks: Any,
) -> None:
    found = tracks(
        plane("/host:CPU", line(5, "tid5", display_name="main"), line(6, "")),
        plane("", line(1, "x"), plane_id=9),
    )
    assert [(it["plane"], it["name"]) for it in found] == [
        ("/host:CPU", "main"),
        ("/host:CPU", "line 6"),
        ("plane 9", "x"),
    ]


def test_threads_of_one_name_stay_apart(tracks: Any) -> None:
    found = tracks(plane("/host:CPU", *(line(it, "python") for it in (3, 1, 2))))
    assert [it["id"] for it in found] == [3, 1, 2]


def test_the_process_comes_from_the_plane_or_its_name(tracks: Any) -> None:
    found = tracks(
        plane("/host:CPU", line(1, "main"), stats={"process_id": 23499}),
        plane("/host:CPU [77]", line(1, "main"), stats={"process_id": 5}),
        plane("/device:GPU:0 [77]", line(7, "Stream #7(Compute)")),
        plane("/device:GPU:0", line(7, "Stream #7(Compute)")),
    )
    assert [(it["plane"], it["process"], it["device"]) for it in found] == [
        ("/host:CPU", 23499, None),
        ("/host:CPU [77]", 77, None),
        ("/device:GPU:0 [77]", 77, 0),
        ("/device:GPU:0", None, 0),
    ]


def test_planes_of_one_name_are_merged_line_by_line(tracks: Any) -> None:
    found = tracks(
        plane("/device:GPU:0", line(7, "Stream #7(Compute)", event("a", 0, 5))),
        plane("/host:CPU", line(1, "main", event("b", 0, 5))),
        plane(
            "/device:GPU:0",
            line(8, "Stream #8(Compute)", event("c", 0, 5)),
            line(7, "Stream #7(Compute)", event("d", 9, 5), event("e", 20, 5)),
        ),
    )
    assert [(it["name"], it["event_begin"], it["event_end"]) for it in found] == [
        ("Stream #7(Compute)", 0, 3),
        ("main", 3, 4),
        ("Stream #8(Compute)", 4, 5),
    ]


def test_a_collectors_own_plane_joins_the_threads_of_the_host(tracks: Any) -> None:
    found = tracks(
        plane("/host:CUPTI", line(11, "driver", event("cuLaunchKernel", 5, 1))),
        plane("/host:CPU", line(11, "main", event("train", 0, 50)), line(12, "other")),
        plane("/host:python-tracer", line(12, "python", event("$x.py:1 f", 0, 9))),
    )
    assert [(it["plane"], it["id"], it["event_end"]) for it in found] == [
        ("/host:CPU", 11, 2),
        ("/host:CPU", 12, 3),
    ]


def test_ranges_of_another_tool_do_not_join_a_thread_of_the_same_id(
    tracks: Any,
) -> None:
    found = tracks(
        plane("/host:CPU", line(11, "main", event("train", 0, 50))),
        plane("/host:NVTX-CUPTI", line(11, "NVTX", event("range", 10, 99))),
    )
    assert [(it["plane"], it["name"]) for it in found] == [
        ("/host:CPU", "main"),
        ("/host:NVTX-CUPTI", "NVTX"),
    ]
