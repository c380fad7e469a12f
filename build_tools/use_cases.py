"""Write which ways of recording were tried where into the page of use cases.

python build_tools/use_cases.py

Each cell names the test that tries it. What no test tries was never run.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "use-cases.md"
_BEGIN, _END = "<!-- use cases:begin -->", "<!-- use cases:end -->"

PLATFORMS: Final = ("CPU", "GPU", "TPU")
LOCAL, REMOTE, MANY = "local", "remote", "many workers"
#: Way of recording → where it can record at all.
WAYS: Final = {
    "`ss.Profile`, `ss.start`": (LOCAL,),
    "`ss.schedule`": (LOCAL,),
    "`ss.keras.ProfilerCallback`": (LOCAL, MANY),
    "`ss.integrations.huggingface`": (LOCAL, MANY),
    "`ss.integrations.lightning`": (LOCAL, MANY),
    "`ss.integrations.accelerate`": (LOCAL, MANY),
    "`ss.integrations.ray`": (MANY,),
    "`ss.Profiler` (TensorFlow 1)": (LOCAL,),
    "`ss.flight_recorder`": (LOCAL, MANY),
    "`stepscope run`": (LOCAL, MANY),
    "`stepscope run --serve`, `capture --attach`": (REMOTE, MANY),
    "`stepscope capture`, `ss.client.trace` of our server": (REMOTE, MANY),
    "the same, of TensorFlow's and JAX's": (REMOTE, MANY),
    "TensorFlow's and XProf's clients, of our server": (REMOTE, MANY),
}
WHERES: Final = (LOCAL, REMOTE, MANY)


class Tried(NamedTuple):
    """One way of recording that a test tries.

    Attributes:
        way: One of `WAYS`.
        where: One of `WHERES`.
        platform: One of `PLATFORMS`.
        frameworks: Whose programs are recorded.
        test: File and function.
        stored: The test reads what was recorded there once; it records nothing.
    """

    way: str
    where: str
    platform: str
    frameworks: str
    test: str
    stored: bool = False


_PROFILE, _SCHEDULE, _KERAS, _TRANSFORMERS, _LIGHTNING, _ACCELERATE, _RAY, *_REST = WAYS
_OLDER, _FLIGHT, _RUN, _SERVE, _OURS, _THEIRS, _CLIENTS = _REST
_ALL: Final = "TensorFlow, JAX, PyTorch"
_CPU: Final = "tests/frameworks/"
_GPU: Final = "tests/gpu/test_recorded_on_gpu.py::"
_STEPS_OF_RANKS: Final = "test_optimizer_steps_are_recorded_by_each_rank_into_one_run"
_WAYS_ON_GPU: Final = (
    "tests/gpu/test_ways_on_gpu.py::test_steps_and_the_work_of_the_device_are_there"
)
TRIED: Final = (
    Tried(
        *(_PROFILE, LOCAL, "CPU", _ALL),
        f"{_CPU}test_loops_recorded.py::test_the_steps_are_those_of_the_loop",
    ),
    Tried(
        *(_PROFILE, LOCAL, "GPU", "JAX, PyTorch"),
        f"{_GPU}test_steps_are_those_that_the_program_timed",
        stored=True,
    ),
    Tried(*(_SCHEDULE, LOCAL, "GPU", "PyTorch"), _WAYS_ON_GPU, stored=True),
    Tried(
        *(_FLIGHT, LOCAL, "GPU", "PyTorch"),
        "tests/gpu/test_ways_on_gpu.py::"
        "test_the_flight_recorder_wrote_the_slow_step_and_its_reason",
        stored=True,
    ),
    Tried(*(_RUN, LOCAL, "GPU", "JAX, PyTorch"), _WAYS_ON_GPU, stored=True),
    Tried(*(_SERVE, REMOTE, "GPU", "JAX, PyTorch"), _WAYS_ON_GPU, stored=True),
    Tried(*(_OURS, REMOTE, "GPU", "JAX"), _WAYS_ON_GPU, stored=True),
    Tried(*(_THEIRS, REMOTE, "GPU", "JAX"), _WAYS_ON_GPU, stored=True),
    Tried(
        *(_SCHEDULE, LOCAL, "CPU", "PyTorch"),
        f"{_CPU}test_examples_recorded.py::"
        "test_an_example_records_its_steps_and_its_framework",
    ),
    Tried(
        *(_KERAS, LOCAL, "CPU", _ALL),
        f"{_CPU}test_keras_recorded.py::"
        "test_ten_to_fifteen_are_recorded_on_every_back_end",
    ),
    *(
        Tried(
            *(way, where, "CPU", "PyTorch"),
            f"tests/integrations/test_{library}.py::{_STEPS_OF_RANKS}",
        )
        for way, library in {
            _TRANSFORMERS: "huggingface",
            _LIGHTNING: "lightning",
            _ACCELERATE: "accelerate",
        }.items()
        for where in (LOCAL, MANY)
    ),
    Tried(
        *(_RAY, MANY, "CPU", "PyTorch"),
        "tests/integrations/test_ray.py::test_workers_record_into_one_run",
    ),
    Tried(
        *(_OLDER, LOCAL, "CPU", "TensorFlow"),
        f"{_CPU}test_older_api.py::test_the_graph_shows_every_execution",
    ),
    Tried(
        *(_FLIGHT, LOCAL, "CPU", "plain Python"),
        "tests/capture/test_flight_recorder.py::"
        "test_a_slow_step_is_written_and_what_it_waited_for_is_said",
    ),
    Tried(
        *(_RUN, LOCAL, "CPU", f"{_ALL}, Keras"),
        f"{_CPU}test_run_live.py::"
        "test_ten_steps_are_skipped_and_ten_recorded_and_nothing_changes",
    ),
    Tried(
        *(_RUN, MANY, "CPU", "PyTorch"),
        f"{_CPU}test_run_live.py::test_workers_of_torchrun_are_hosts_of_one_run",
    ),
    Tried(
        *(_SERVE, REMOTE, "CPU", "Keras on TensorFlow, JAX, PyTorch"),
        f"{_CPU}test_served_live.py::"
        "test_a_program_that_knows_nothing_of_it_is_recorded_by_steps",
    ),
    Tried(
        *(_SERVE, MANY, "CPU", "PyTorch"),
        f"{_CPU}test_served_live.py::"
        "test_ranks_of_torchrun_are_recorded_by_the_number_of_who_started_them",
    ),
    Tried(
        *(_OURS, REMOTE, "CPU", "plain Python"),
        "tests/remote/test_client.py::test_our_own_server_is_recorded",
    ),
    Tried(
        *(_OURS, MANY, "CPU", "PyTorch, next to JAX and TensorFlow"),
        f"{_CPU}test_remote_live.py::"
        "test_our_client_records_one_server_and_all_kinds_at_once",
    ),
    Tried(
        *(_THEIRS, REMOTE, "CPU", "TensorFlow, JAX"),
        f"{_CPU}test_remote_live.py::"
        "test_our_client_records_one_server_and_all_kinds_at_once",
    ),
    Tried(
        *(_THEIRS, MANY, "CPU", "TensorFlow, JAX, next to PyTorch"),
        f"{_CPU}test_remote_live.py::"
        "test_our_client_records_one_server_and_all_kinds_at_once",
    ),
    Tried(
        *(_CLIENTS, REMOTE, "CPU", "TensorFlow"),
        f"{_CPU}test_remote_live.py::"
        "test_their_client_records_one_of_our_servers_and_two",
    ),
    Tried(
        *(_CLIENTS, MANY, "CPU", "TensorFlow, plain Python"),
        f"{_CPU}test_remote_live.py::"
        "test_their_client_records_one_of_our_servers_and_two",
    ),
)


@cache
def tests_of(file: str) -> frozenset[str]:
    """Return the names of the test functions of a file."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return frozenset(
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    )


def missing_tests() -> list[str]:
    """Return the tests that are named and do not exist."""
    return [
        one.test
        for one in TRIED
        if one.test.partition("::")[2] not in tests_of(one.test.partition("::")[0])
    ]


def cell(way: str, where: str, platform: str) -> str:
    """Return what is known of one use case."""
    if where not in WAYS[way]:
        return "–"
    found = [
        one
        for one in TRIED
        if (one.way, one.where, one.platform) == (way, where, platform)
    ]
    return "; ".join(map(_said, found)) or "never run"


def render() -> str:
    """Write the table: ways of recording by where, and platforms."""
    lines = [
        f"| recorded by | where | {' | '.join(PLATFORMS)} |",
        f"|---|---|{'---|' * len(PLATFORMS)}",
    ]
    for way in WAYS:
        for where in WHERES:
            cells = [cell(way, where, platform) for platform in PLATFORMS]
            lines.append(f"| {' | '.join((way, where, *cells))} |")
    return "\n".join(lines)


def with_cases(page: str) -> str:
    """Put the table between its marks.

    Raises:
        ValueError: The page has no such marks.
    """
    before, begun, rest = page.partition(_BEGIN)
    _, ended, after = rest.partition(_END)
    if not (begun and ended):
        raise ValueError(f"the page lacks the marks {_BEGIN} and {_END}")
    return f"{before}{_BEGIN}\n{render()}\n{_END}{after}"


def _said(tried: Tried) -> str:
    file, _, name = tried.test.partition("::")
    how = "stored recording, " if tried.stored else ""
    return f"{tried.frameworks}: {how}[{name}](../{file})"


if __name__ == "__main__":
    PAGE.write_text(with_cases(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
