"""Hand-written loops, recorded here and now with `ss.Profile` by each framework."""

from __future__ import annotations

import json
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
    from collections.abc import Iterator, Mapping, Sequence

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


def ran(
    what: str,
    framework: str,
    folder: Path,
    *,
    environment: Mapping[str, str] | None = None,
    **options: object,
) -> dict[str, Any]:
    """The truth that the program wrote."""
    arguments = (what, framework, folder, json.dumps(options))
    run_program(interpreter(framework), PROGRAM, *arguments, environment=environment)
    truth: dict[str, Any] = json.loads((folder / "truth.json").read_text("utf-8"))
    return truth


def ran_each(
    what: str, framework: str, folder: Path, options: Sequence[Mapping[str, object]]
) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Folder and truth of each of several recordings that one program makes."""
    each = (json.dumps(it) for it in options)
    run_program(interpreter(framework), PROGRAM, what, framework, folder, *each)
    for number in range(len(options)):
        truth = json.loads((folder / str(number) / "truth.json").read_text("utf-8"))
        yield folder / str(number), truth


@pytest.fixture(scope="module", params=FRAMEWORKS)
def recorded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path, dict[str, Any]]:
    """Framework, file and truth of a recording at the usual levels."""
    folder = tmp_path_factory.mktemp(request.param)
    truth = ran("record", request.param, folder)
    return request.param, only_file(folder), truth


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
def test_levels_take_effect(framework: str, tmp_path: Path) -> None:
    counts = {}
    names = ("host_tracer_level", "device_tracer_level", "python_tracer_level")
    asked = ((0, 1, 0), (2, 1, 0), (2, 1, 1))
    options = [dict(zip(names, levels, strict=True)) for levels in asked]
    made = ran_each("record", framework, tmp_path, options)
    for levels, (folder, truth) in zip(asked, made, strict=True):
        profile = ss.open(only_file(folder))
        assert levels_of(profile) == levels
        assert steps_of(profile) == [("train", number) for number in STEPS]
        counts[levels] = len(event_names(profile))
        told = [line for line in truth["warnings"] if "listens on all" in line]
        asked_more = framework == "tensorflow" and levels != (2, 1, 0)
        assert len(truth["warnings"]) == len(told) == asked_more
    assert counts[0, 1, 0] < counts[2, 1, 0] < counts[2, 1, 1]


def test_without_its_server_tensorflow_says_which_levels_it_took(
    tmp_path: Path,
) -> None:
    truth = ran(
        "record",
        "tensorflow",
        tmp_path,
        environment={"STEPSCOPE_TF_SERVER": "0"},
        host_tracer_level=1,
    )
    assert levels_of(ss.open(only_file(tmp_path))) == (2, 1, 0)
    assert truth["warnings"] == [
        (
            "TensorFlow records at its usual tracer levels (host 2, device 1, python "
            "0): its server is forbidden (STEPSCOPE_TF_SERVER=0)"
        ),
        (
            "TensorFlow recorded with tracer levels host 2, device 1, python 0; asked "
            "for were host 1, device 1, python 0"
        ),
    ]


#: What PyTorch's own trace is compared for.
OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "plain": {},
    "shapes": {"record_shapes": True},
    "memory": {"record_shapes": True, "profile_memory": True},
    "calls": {"python_tracer_level": 1},
}


@pytest.fixture(scope="module")
def planes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A folder for each of `OPTIONS`."""
    folder = tmp_path_factory.mktemp("planes")
    made = ran_each("planes", "torch", folder, list(OPTIONS.values()))
    return {name: path for name, (path, _) in zip(OPTIONS, made, strict=True)}


@pytest.mark.parametrize("name", list(OPTIONS))
def test_pytorch_fills_the_tables_that_its_own_trace_fills(
    name: str, planes: dict[str, Path], tmp_path: Path
) -> None:
    def compared(folder: Path) -> ProfileData:
        truth = json.loads((folder / "truth.json").read_text("utf-8"))
        told = [it for it in truth["warnings"] if "allocations only of the thr" in it]
        asked = OPTIONS[name].get("profile_memory", False)
        assert len(truth["warnings"]) == len(told) == asked
        theirs = ss.open(folder / "exported.pt.trace.json")
        ours = ss.open(folder / "planes.xplane.pb")
        assert_same_tables(theirs, ours)
        return ours

    try:
        ours = compared(planes[name])
    except AssertionError:
        # On a busy machine PyTorch's two ways out have differed once. A fault of ours
        # would come again.
        ran("planes", "torch", tmp_path, **OPTIONS[name])
        ours = compared(tmp_path)
    (host,) = ours.hosts
    assert ours.table(host, "iterators").height == len(STEPS)


def test_annotations_survive_a_pytorch_that_only_exports(tmp_path: Path) -> None:
    """Its export makes "unknown" of names with anything but plain letters in them."""
    truth = ran("exported", "torch", tmp_path)
    assert truth["warnings"] == []
    profile = ss.open(truth["path"])
    assert steps_of(profile) == [("train", number) for number in STEPS]
    assert "unknown" not in event_names(profile).to_list()
    check_every_tool(profile)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_no_failure_of_a_collector_changes_the_training(
    framework: str, tmp_path: Path
) -> None:
    answers = ran("faults", framework, tmp_path)
    expected, _, _ = answers.pop("nothing")
    for name, (losses, warnings, path) in answers.items():
        assert losses == expected, name
        # Whatever became of the framework's part, our own is there.
        assert steps_of(ss.open(path)) == [("train", number) for number in STEPS], name
        # Annotations that cannot be handed on stay in our own lines.
        if name in ("none", "after", "_annotation", "_Forward.__call__"):
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
    framework: str, words: str, tmp_path: Path
) -> None:
    truth = ran("nested", framework, tmp_path)
    (warning,) = truth["warnings"]
    assert words in warning
    assert truth["own_bytes"] > 1000
    profile = ss.open(only_file(tmp_path / "ours"))
    assert steps_of(profile) == [("train", number) for number in STEPS]


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
