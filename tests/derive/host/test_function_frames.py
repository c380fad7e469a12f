"""Which functions ran when: exact frames, else samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.traces import blueprint

from stepscope.derive.host.function_names import FunctionName
from stepscope.derive.host.placed_frames import function_frames
from stepscope.derive.host.values import host_ranges
from stepscope.formats.opening import read
from stepscope.unavailable import Unavailable
from stepscope.xspace.writing.write import XSpaceBuilder

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.derive.host.function_frames import FunctionFrames

SAMPLES = "samples of main, 100 a second"


def frames(lines: list[blueprint.Line]) -> FunctionFrames:
    found = blueprint.profile(blueprint.trace(lines)).derived("vm", function_frames)
    assert not isinstance(found, Unavailable), found
    return found


def rows(found: FunctionFrames) -> list[tuple[int, str, int, int, int, int]]:
    """Thread, function, start, end, caller and own time; microseconds."""
    return [
        (track, found.names[kind].function, start, end, parent, own)
        for track, kind, start, end, parent, own in zip(
            found.track.tolist(),
            found.type.tolist(),
            (found.start_ps // 1_000_000).tolist(),
            (found.end_ps // 1_000_000).tolist(),
            found.parent.tolist(),
            (found.self_ps // 1_000_000).tolist(),
            strict=True,
        )
    ]


def test_samples_are_time_of_the_thread_that_was_looked_at() -> None:
    found = frames(
        [
            ("main", "step", 0, 100),
            ("worker", "load", 0, 100),
            (SAMPLES, "$train.py:3 train", 0, 90),
            (SAMPLES, "$train.py:9 Net.forward", 10, 40),
        ]
    )
    assert rows(found) == [
        (0, "train", 0, 90, -1, 50),
        (0, "Net.forward", 10, 50, 0, 40),
    ]
    assert (found.sampled, found.hz) == (True, 100.0)


def test_exact_frames_of_a_thread_count_and_its_samples_do_not() -> None:
    found = frames(
        [
            ("worker", "$load.py:5 load", 0, 30),
            ("main", "$train.py:3 train", 0, 100),
            (SAMPLES, "$train.py:9 forward", 10, 40),
        ]
    )
    assert rows(found) == [(0, "load", 0, 30, -1, 30), (1, "train", 0, 100, -1, 100)]
    assert (found.sampled, found.hz) == (False, None)


def test_each_thread_has_its_own_source() -> None:
    found = frames(
        [
            ("main", "step", 0, 100),
            ("worker", "$load.py:5 load", 0, 30),
            (SAMPLES, "$train.py:9 forward", 10, 40),
        ]
    )
    assert rows(found) == [(0, "forward", 10, 50, -1, 40), (1, "load", 0, 30, -1, 30)]
    assert found.sampled


def test_samples_of_a_thread_without_any_event_stand_for_it() -> None:
    found = frames([(SAMPLES, "$train.py:9 forward", 10, 40)])
    assert rows(found) == [(0, "forward", 10, 50, -1, 40)]


def test_a_line_of_samples_is_no_thread() -> None:
    trace = blueprint.trace(
        [("main", "step", 0, 100), (SAMPLES, "$train.py:3 train", 0, 90)]
    )
    tracks = trace.table("tracks")
    assert not isinstance(tracks, Unavailable)
    assert tracks["kind"].to_list() == ["thread", "samples"]
    assert host_ranges(tracks) == [(0, 1)]


def test_without_frames_it_says_how_to_get_some() -> None:
    trace = blueprint.trace([("main", "step", 0, 100)])
    found = blueprint.profile(trace).derived("vm", function_frames)
    assert isinstance(found, Unavailable)
    assert "python_sampling_hz" in found.remedy


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("$train.py:12 load", ("load", "train.py", 12, None)),
        ("$a.py:1 f.<locals>.g", ("f.<locals>.g", "a.py", 1, None)),
        ("src/train.py(7): <module>", ("<module>", "src/train.py", 7, False)),
        (
            "/v/lib/python3.12/site-packages/torch/nn/module.py(1): __call__",
            ("__call__", "/v/lib/python3.12/site-packages/torch/nn/module.py", 1, True),
        ),
        ("nn.Module: Linear_0", ("Linear_0", None, None, None)),
        ("<built-in function len>", ("len", None, None, None)),
        (
            "<built-in method run_backward of Engine object at 0x7f>",
            ("run_backward", None, None, None),
        ),
        ("$builtins isinstance", ("builtins isinstance", None, None, None)),
        ("$solver!solve<float>", ("solve<float>", "solver", None, False)),
        ("$<libcuda.so.1>!cuInit", ("cuInit", "libcuda.so.1", None, True)),
        # AutoGraph's version of a function of the program.
        (
            "$__autograph_generated_file1x.py:9 outer.<locals>.inner.<locals>.tf__load",
            ("load", None, None, False),
        ),
    ],
)
def test_names_of_all_tracers_are_read(name: str, expected: tuple[Any, ...]) -> None:
    found = frames([("main", name, 0, 10)])
    kind = found.type.tolist()[0]
    assert found.names[kind] == FunctionName(*expected)
    assert found.names[kind].function == expected[0]


def test_the_whole_path_is_the_recorded_one(tmp_path: Path) -> None:
    space = XSpaceBuilder("vm", start_ns=None)
    plane = space.plane("/host:CPU")
    line = plane.line(2**30 + 7, name="samples of main, 50 a second")
    for at, path in enumerate(("/app/a/__init__.py", "/usr/lib/python3.12/x.py")):
        kind = plane.event_type(f"$f.py:{at} f", stats={"file_path": path})
        line.event(kind, offset_ps=at * 10, dur_ps=5)
    trace = read(space.write(tmp_path / "vm.xplane.pb")[0])
    found = blueprint.profile(trace).derived("vm", function_frames)
    assert not isinstance(found, Unavailable)
    names = [found.names[kind] for kind in found.type.tolist()]
    assert [(it.file, it.library) for it in names] == [
        ("/app/a/__init__.py", False),
        ("/usr/lib/python3.12/x.py", True),
    ]
    assert found.hz == 50


@pytest.mark.parametrize(
    ("name", "library"),
    [
        ("torch/nn/modules/module.py(1782): _call_impl", True),
        ("multiprocessing/queues.py(99): get", True),
        ("train.py(22): validate", False),
        ("models/torch/net.py(5): forward", False),
        # The file's own name alone: one of Python's, or of any package.
        ("random.py(333): choice", None),
        ("$train.py:22 validate", None),
    ],
)
def test_where_the_folder_is_cut_off_the_rest_says_whose_a_file_is(
    name: str, *, library: bool | None
) -> None:
    (found,) = frames([("main", name, 0, 10)]).names.values()
    assert found.library is library


@pytest.mark.parametrize(
    ("file", "line", "shown"),
    [
        ("/app/train.py", 12, "load (train.py:12)"),
        ("solver", None, "load (solver)"),
        (None, None, "load"),
    ],
)
def test_a_function_is_shown_with_as_much_of_its_place_as_is_known(
    file: str | None, line: int | None, shown: str
) -> None:
    assert FunctionName("load", file, line, None).placed() == shown
