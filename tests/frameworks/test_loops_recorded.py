"""Hand-written loops, recorded here and now with `ss.Profile` by each framework."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.programs.frameworks import (
    check_every_tool,
    interpreter,
    only_file,
    run_program,
    steps_of,
    xprof_events,
)
from tests.support.traces.torch_tables import assert_same_tables

import stepscope as ss

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import polars as pl

    from stepscope.derive.profile_data import ProfileData

pytestmark = pytest.mark.framework

#: A program whose frameworks note Python's calls, and what is not the program's.
CALLS = """
import json, sys
for name in sys.argv[2:]: __import__(name)
import stepscope as ss
def work(): return sum(range(10))
options = ss.ProfilerOptions(python_tracer_level=1)
with ss.Profile(sys.argv[1], options=options) as profile:
    for step in range(10):
        with ss.StepTrace(step): work()
"""
ENDING = "_found|_stopped|described_space|assemble|merge|planes_of|_handed_over"
PROGRAM = Path(__file__).parent / "loop_program.py"
FRAMEWORKS = ("tensorflow", "jax", "torch")
#: What the program marks.
STEPS = list(range(40, 46))
#: An op of each loop that a recording at the usual levels shows.
OPS = {
    "tensorflow": "MatMul",
    "jax": "PjitFunction(update)",
    "torch": "aten::addmm",
}


#: Levels of the host's, the device's and the Python tracer.
LEVELS = ((0, 1, 0), (2, 1, 0), (2, 1, 1))
#: What PyTorch's own trace is compared for.
OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "plain": {},
    "shapes": {"record_shapes": True},
    "memory": {"record_shapes": True, "profile_memory": True},
    "calls": {"python_tracer_level": 1},
}
_LEVEL_NAMES = ("host_tracer_level", "device_tracer_level", "python_tracer_level")
_OF_LEVELS = {
    f"levels {it}": ("record", dict(zip(_LEVEL_NAMES, it, strict=True)))
    for it in LEVELS
}
_OF_ALL = {"nested": ("nested", {}), "faults": ("faults", {})}
#: Framework → name of a recording → what the program does, and with which options.
RECORDINGS: Mapping[str, Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    "tensorflow": {"usual": ("record", {}), **_OF_LEVELS, **_OF_ALL},
    "jax": {"usual": ("record", {}), **_OF_LEVELS, **_OF_ALL},
    "torch": {
        "usual": ("record", {}),
        **{name: ("planes", options) for name, options in OPTIONS.items()},
        "exported": ("exported", {}),
        **_OF_ALL,
    },
}


def ran(
    framework: str,
    folder: Path,
    recordings: Mapping[str, tuple[str, Mapping[str, Any]]],
    *,
    environment: Mapping[str, str] | None = None,
) -> None:
    """Have one program make several recordings."""
    arguments = (framework, folder, json.dumps(recordings))
    run_program(interpreter(framework), PROGRAM, *arguments, environment=environment)


def truth_of(folder: Path) -> Any:
    """What the program knows of a recording."""
    return json.loads((folder / "truth.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Path]:
    """The folder of a recording; one program of a framework makes all of them."""

    @cache
    def of(framework: str) -> Path:
        folder = tmp_path_factory.mktemp(framework)
        ran(framework, folder, RECORDINGS[framework])
        return folder

    return lambda framework, name: of(framework) / name


@pytest.fixture(scope="module", params=FRAMEWORKS)
def recorded(
    request: pytest.FixtureRequest, made: Callable[[str, str], Path]
) -> tuple[str, Path, dict[str, Any]]:
    """Framework, file and truth of a recording at the usual levels."""
    folder = made(request.param, "usual")
    return request.param, only_file(folder), truth_of(folder)


def levels_of(profile: ProfileData) -> tuple[int, int, int]:
    (host,) = profile.hosts
    row = profile.table(host, "environment").row(0, named=True)
    return (
        row["host_tracer_level"],
        row["device_tracer_level"],
        row["python_tracer_level"],
    )


def event_names(profile: ProfileData) -> pl.Series:
    (host,) = profile.hosts
    types = profile.table(host, "event_types")["name"]
    return types.gather(profile.table(host, "events")["type"])


def test_the_steps_are_those_of_the_loop(
    recorded: tuple[str, Path, dict[str, Any]],
) -> None:
    _, path, truth = recorded
    assert truth["warnings"] == []
    assert steps_of(ss.open(path)) == [("train", number) for number in STEPS]


def test_the_frameworks_ops_are_there_and_the_levels_are_told(
    recorded: tuple[str, Path, dict[str, Any]],
) -> None:
    framework, path, _ = recorded
    profile = ss.open(path)
    assert levels_of(profile) == (2, 1, 0)
    names = event_names(profile)
    assert names.str.contains(OPS[framework], literal=True).sum() >= len(STEPS)


def test_every_annotation_stands_in_the_file_once(
    recorded: tuple[str, Path, dict[str, Any]],
) -> None:
    _, path, _ = recorded
    assert (event_names(ss.open(path)) == "train").sum() == len(STEPS)


def test_every_tool_answers(recorded: tuple[str, Path, dict[str, Any]]) -> None:
    check_every_tool(ss.open(recorded[1]))


def test_the_model_is_described(recorded: tuple[str, Path, dict[str, Any]]) -> None:
    framework, path, _ = recorded
    profile = ss.open(path)
    (host,) = profile.hosts
    rows = profile.table(host, "parameters").drop("dtype").sort("name").rows()
    expected = {
        "tensorflow": [
            ("sequential/answer/bias", "sequential/answer", [10], True),
            ("sequential/answer/kernel", "sequential/answer", [64, 10], True),
            ("sequential/hidden/bias", "sequential/hidden", [64], True),
            ("sequential/hidden/kernel", "sequential/hidden", [32, 64], True),
        ],
        "jax": [
            ("answer/bias", "answer", [10], None),
            ("answer/kernel", "answer", [64, 10], None),
            ("hidden/kernel", "hidden", [32, 64], None),
        ],
        "torch": [
            ("0.bias", "0", [64], True),
            ("0.weight", "0", [64, 32], True),
            ("2.bias", "2", [10], True),
            ("2.weight", "2", [10, 64], True),
        ],
    }
    assert rows == expected[framework]
    dtypes = profile.table(host, "parameters")["dtype"].unique().to_list()
    assert dtypes == ["float32"]


def test_xprof_shows_our_lines_beside_the_frameworks(
    recorded: tuple[str, Path, dict[str, Any]],
) -> None:
    framework, path, _ = recorded
    events = xprof_events(path)
    hosts = {
        event["pid"]
        for event in events
        if event.get("name") == "process_name" and "/host:CPU" in event["args"]["name"]
    }
    (host,) = hosts
    shown = [event for event in events if event.get("pid") == host]
    names = [event.get("name", "") for event in shown]
    # It names steps by their numbers where it has understood that they are steps.
    marked = [name for name in names if name.startswith("train")]
    assert marked == [f"train {number}" for number in STEPS]
    assert any(OPS[framework] in name for name in names)
    lines = {
        event["args"]["name"] for event in shown if event.get("name") == "thread_name"
    }
    assert len(lines) > 1


@pytest.mark.parametrize("framework", ["tensorflow", "jax"])
def test_levels_take_effect(framework: str, made: Callable[[str, str], Path]) -> None:
    counts = {}
    for levels in LEVELS:
        folder = made(framework, f"levels {levels}")
        profile = ss.open(only_file(folder))
        assert levels_of(profile) == levels
        assert steps_of(profile) == [("train", number) for number in STEPS]
        counts[levels] = len(event_names(profile))
        warnings = truth_of(folder)["warnings"]
        told = [line for line in warnings if "listens on all" in line]
        asked_more = framework == "tensorflow" and levels != (2, 1, 0)
        assert len(warnings) == len(told) == asked_more
    assert counts[0, 1, 0] < counts[2, 1, 0] < counts[2, 1, 1]


def test_without_its_server_tensorflow_says_which_levels_it_took(
    tmp_path: Path,
) -> None:
    ran(
        "tensorflow",
        tmp_path,
        {"without": ("record", {"host_tracer_level": 1})},
        environment={"STEPSCOPE_TF_SERVER": "0"},
    )
    folder = tmp_path / "without"
    assert levels_of(ss.open(only_file(folder))) == (2, 1, 0)
    assert truth_of(folder)["warnings"] == [
        (
            "TensorFlow records at its default tracer levels (host 2, device 1, python "
            "0): its server is forbidden (STEPSCOPE_TF_SERVER=0)"
        ),
        (
            "TensorFlow recorded with tracer levels host 2, device 1, python 0; "
            "requested were host 1, device 1, python 0"
        ),
    ]


@pytest.mark.parametrize("name", list(OPTIONS))
def test_pytorch_fills_the_tables_that_its_own_trace_fills(
    name: str, made: Callable[[str, str], Path], tmp_path: Path
) -> None:
    def compared(folder: Path) -> ProfileData:
        warnings = truth_of(folder)["warnings"]
        told = [it for it in warnings if "allocations only for the thr" in it]
        asked = OPTIONS[name].get("profile_memory", False)
        assert len(warnings) == len(told) == asked
        theirs = ss.open(folder / "exported.pt.trace.json")
        ours = ss.open(folder / "planes.xplane.pb")
        assert_same_tables(theirs, ours)
        return ours

    try:
        ours = compared(made("torch", name))
    except AssertionError:
        # On a busy machine PyTorch's two ways out have differed once. A fault of ours
        # would come again.
        ran("torch", tmp_path, {name: ("planes", OPTIONS[name])})
        ours = compared(tmp_path / name)
    (host,) = ours.hosts
    assert ours.table(host, "iterators").height == len(STEPS)


def test_annotations_survive_a_pytorch_that_only_exports(
    made: Callable[[str, str], Path],
) -> None:
    """Its export makes "unknown" of names with anything but plain letters in them."""
    truth = truth_of(made("torch", "exported"))
    assert truth["warnings"] == []
    profile = ss.open(truth["path"])
    assert steps_of(profile) == [("train", number) for number in STEPS]
    assert "unknown" not in event_names(profile).to_list()
    check_every_tool(profile)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_no_failure_of_a_collector_changes_the_training(
    framework: str, made: Callable[[str, str], Path]
) -> None:
    answers = truth_of(made(framework, "faults"))
    expected, _, _ = answers.pop("nothing")
    for name, (losses, warnings, path) in answers.items():
        assert losses == expected, name
        # Whatever became of the framework's part, our own is there.
        assert steps_of(ss.open(path)) == [("train", number) for number in STEPS], name
        # Annotations that cannot be handed on stay in our own lines.
        if name in ("none", "after") or name.endswith(
            (".make_annotation", "_Forward.__call__")
        ):
            assert warnings == [], name
        else:
            assert any(f"{name} was made to fail" in it for it in warnings), name


@pytest.mark.parametrize(
    ("framework", "words"),
    [
        ("tensorflow", "own TensorFlow profiler runs already"),
        ("jax", "own JAX profiler runs already"),
        ("torch", "own PyTorch profiler runs already"),
    ],
)
def test_a_profiler_of_the_programs_own_goes_on(
    framework: str, words: str, made: Callable[[str, str], Path]
) -> None:
    folder = made(framework, "nested")
    truth = truth_of(folder)
    (warning,) = truth["warnings"]
    assert words in warning
    assert truth["own_bytes"] > 1000
    profile = ss.open(only_file(folder / "ours"))
    assert steps_of(profile) == [("train", number) for number in STEPS]


@pytest.mark.sweep(every=2)
@pytest.mark.parametrize(
    ("environment", "imported"),
    [
        ("torch", ("torch",)),
        ("jax", ("jax",)),
        # Where both are imported, the calls are TensorFlow's too.
        pytest.param("tensorflow", ("tensorflow",), marks=pytest.mark.thorough),
        ("jax_tfdata", ("tensorflow", "jax")),
    ],
)
def test_what_a_recording_does_to_end_is_not_among_the_python_calls(
    environment: str, imported: tuple[str, ...], tmp_path: Path
) -> None:
    """Our search for models made 1.4 million events, and `stop` last a minute."""
    program = tmp_path / "calls.py"
    program.write_text(CALLS, encoding="utf-8")
    python = interpreter(environment)
    run_program(python, program, tmp_path / "logs", *imported)
    profile = ss.open(only_file(tmp_path / "logs"))
    (host,) = profile.hosts
    trace = profile.trace(host)
    types = trace.table("event_types")["name"]
    names = types.gather(trace.table("events")["type"].to_physical())
    is_work = names.str.contains(r"calls\.py(\(|:)\d+\)?:? work$")
    assert is_work.sum() == 10
    ours = names.filter(names.str.contains(rf"\.py(:\d+|\(\d+\):) ({ENDING})$"))
    assert ours.to_list() == []
    # What starts and halts the other collectors is all that is not the program's.
    assert len(names) < 5_000
