"""Samples of processor cores: whose functions they are, from when until when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.traces.kineto import check_all, frame
from tests.support.traces.nsight import RUNTIME, call, global_id, read_file, write

from stepscope.derive.host.function_frames import FunctionFrames
from stepscope.derive.host.function_purposes import FunctionPurpose, function_purposes
from stepscope.derive.host.placed_frames import function_frames
from stepscope.derive.profile_data import ProfileData
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from stepscope.trace.model import TraceData

MS = 1_000_000
MAIN, OTHER = global_id(thread=1), global_id(process=77, thread=1)
EXE, LIBC = "/home/me/solver", "/usr/lib/libc.so.6"
DRIVER = "/usr/lib/libcuda.so.550"
START = ((LIBC, "__libc_start_main"), (EXE, "_start"))
MAIN_OF = ((EXE, "main(int, char**)"), *START)


def sampled(
    *looks: tuple[int, int, Sequence[tuple[str, str]]],
) -> dict[str, list[dict[str, Any]]]:
    """The tables of looks: time in ms, thread, and the stack, the innermost first."""
    return {
        RUNTIME: [call("cudaMalloc_v3020", 40 * MS, 41 * MS, 1)],
        "COMPOSITE_EVENTS": [
            {"id": number, "start": at * MS, "globalTid": thread}
            for number, (at, thread, _) in enumerate(looks, 1)
        ],
        "SAMPLING_CALLCHAINS": [
            {
                "id": number,
                "symbol": symbol,
                "module": module,
                "unresolved": 1 if symbol.startswith("0x") else None,
                "stackDepth": depth,
            }
            for number, (_, _, stack) in enumerate(looks, 1)
            for depth, (module, symbol) in enumerate(stack)
        ],
    }


def frames_of(trace: TraceData) -> FunctionFrames | Unavailable:
    return ProfileData("a", {trace.host: trace}).derived(trace.host, function_frames)


def ran(frames: FunctionFrames) -> list[tuple[str, float, float, str | None]]:
    """Function, begin and end in ms after the first look, and the caller."""
    names = [frames.names[kind].function for kind in frames.type.tolist()]
    first = int(frames.start_ps.min()) + MS * 1000 // 2
    return [
        (
            name,
            (begin - first) / (MS * 1000),
            (end - first) / (MS * 1000),
            None if above < 0 else names[above],
        )
        for name, begin, end, above in zip(
            names,
            frames.start_ps.tolist(),
            frames.end_ps.tolist(),
            frames.parent.tolist(),
            strict=True,
        )
    ]


def test_a_function_runs_while_looks_find_it(tmp_path: Path) -> None:
    """A look a millisecond, but none from 10 to 29; at 7 nothing of the program."""
    load = ((LIBC, "read"), (EXE, "load<float>(char const*)"), *MAIN_OF)
    set_device = (
        *((DRIVER, "0x7f00"), (DRIVER, "cuDevicePrimaryCtxRetain")),
        *((EXE, "cudart::init()"), (EXE, "cudaSetDevice"), *MAIN_OF),
    )
    solve = ((EXE, "void ns::solve<float>(int, float*) const"), *MAIN_OF)
    looks = [
        *((at, MAIN, load) for at in range(4)),
        *((at, MAIN, set_device) for at in range(4, 7)),
        (7, MAIN, ((LIBC, "0x7f11"),)),
        *((at, MAIN, solve) for at in (8, 9)),
        *((at, MAIN, MAIN_OF) for at in (30, 31)),
        *((at, OTHER, MAIN_OF) for at in range(3)),
    ]
    trace = read_file(write(tmp_path / "a.sqlite", sampled(*looks)))
    check_all(trace)
    frames = frames_of(trace)
    assert isinstance(frames, FunctionFrames)
    assert ran(frames) == [
        ("main", -0.5, 9.5, None),
        ("load<float>", -0.5, 3.5, "main"),
        ("cudaSetDevice", 3.5, 7.0, "main"),
        ("ns::solve<float>", 7.0, 9.5, "main"),
        ("main", 29.5, 31.5, None),
    ]
    assert frames.sampled
    assert frames.hz == 1000
    assert {(it.function, it.file, it.library) for it in frames.names.values()} == {
        ("main", "solver", False),
        ("load<float>", "solver", False),
        ("ns::solve<float>", "solver", False),
        ("cudaSetDevice", "solver", True),
    }


def test_a_call_of_the_runtime_is_one_with_all_inside(tmp_path: Path) -> None:
    inside = ((EXE, "callback(void*)"), (EXE, "cudaLaunchHostFunc"), *MAIN_OF)
    looks = [(0, MAIN, inside), (1, MAIN, inside)]
    trace = read_file(write(tmp_path / "a.sqlite", sampled(*looks)))
    profile = ProfileData("a", {trace.host: trace})
    frames = profile.derived(trace.host, function_frames)
    purposes = profile.derived(trace.host, function_purposes)
    assert isinstance(frames, FunctionFrames)
    assert not isinstance(purposes, Unavailable)
    assert [name for name, *_ in ran(frames)] == ["main", "cudaLaunchHostFunc"]
    assert purposes.purpose.tolist() == [0, FunctionPurpose.CALL]


def test_of_an_interpreter_and_its_libraries_no_function_is_the_programs(
    tmp_path: Path,
) -> None:
    stack = (
        ("/opt/lib/libtorch_cpu.so", "at::native::add(at::Tensor const&)"),
        ("/usr/bin/python3.11", "_PyEval_EvalFrameDefault"),
        ("/usr/bin/python3.11", "main"),
    )
    looks = [(at, MAIN, stack) for at in range(5)]
    trace = read_file(write(tmp_path / "a.sqlite", sampled(*looks)))
    assert isinstance(frames_of(trace), Unavailable)
    assert "samples" not in frame(trace, "tracks")["kind"].to_list()


def test_damaged_looks_are_left_out(tmp_path: Path) -> None:
    rows = sampled(*((at, MAIN, MAIN_OF) for at in range(5)))
    looks, chains = rows["COMPOSITE_EVENTS"], rows["SAMPLING_CALLCHAINS"]
    looks += [
        {"id": 90, "start": -(2**62), "globalTid": MAIN},
        {"id": 91, "start": 2**62, "globalTid": MAIN},
        {"id": 92, "start": "soon", "globalTid": MAIN},
        {"id": 1, "start": 2 * MS, "globalTid": MAIN},
        {"id": None, "start": 3 * MS, "globalTid": MAIN},
    ]
    chains += [{**chains[0], "id": number} for number in (90, 91, 92, 93)]
    chains += [{**chains[0], "stackDepth": None}, {**chains[0], "symbol": 10**9}]
    trace = read_file(write(tmp_path / "a.sqlite", rows))
    check_all(trace)
    frames = frames_of(trace)
    assert isinstance(frames, FunctionFrames)
    assert ran(frames) == [("main", -0.5, 4.5, None)]


def test_looks_without_stacks_say_nothing(tmp_path: Path) -> None:
    rows = sampled(*((at, MAIN, MAIN_OF) for at in range(5)))
    del rows["SAMPLING_CALLCHAINS"]
    trace = read_file(write(tmp_path / "a.sqlite", rows))
    assert isinstance(frames_of(trace), Unavailable)


def test_what_a_compiler_makes_of_headers_is_its_callers_time(tmp_path: Path) -> None:
    """Templates of the standard library lie in the program's own file."""
    draw = (
        (EXE, "std::generate_canonical<float, 24ul, std::mt19937 >(std::mt19937&)"),
        (EXE, "float std::uniform_real_distribution<float>::operator()<R>(R&)"),
        *((EXE, "std::vector<float> fill(int)"), *MAIN_OF),
    )
    scale = ((EXE, "Matrix ns::operator*(Matrix const&, int)"), *MAIN_OF)
    looks = [(0, MAIN, draw), (1, MAIN, draw), (2, MAIN, scale)]
    frames = frames_of(read_file(write(tmp_path / "a.sqlite", sampled(*looks))))
    assert isinstance(frames, FunctionFrames)
    assert ran(frames) == [
        ("main", -0.5, 2.5, None),
        ("fill", -0.5, 1.5, "main"),
        ("ns::operator*(Matrix const&, int)", 1.5, 2.5, "main"),
    ]
