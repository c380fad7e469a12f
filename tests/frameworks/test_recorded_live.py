"""Frameworks record here and now; what we read is held against their own clocks.

Each recording script times its steps with `time.perf_counter` and writes them beside
the profile: the truth does not come from reading the profile.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.programs.frameworks import interpreter

import stepscope as ss
from stepscope.advice.engine import evaluate, signals_of
from stepscope.derive.account.time_by_cause import account
from stepscope.derive.phases import phases

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

pytestmark = pytest.mark.framework

#: Environment, script, its argument, where it stores the log directory and the truth.
RECORDINGS = {
    "keras_fit": (
        "tensorflow",
        "record_tensorflow.py",
        "keras_fit",
        "tf_keras_fit",
        "tf_keras_fit",
    ),
    "custom_loop": (
        "tensorflow",
        "record_tensorflow.py",
        "custom_loop",
        "tf_custom_loop",
        "tf_custom_loop",
    ),
    "eager": ("tensorflow", "record_tensorflow.py", "eager", "tf_eager", "tf_eager"),
    "jax_marked": ("jax", "record_jax.py", "marked", "jax_marked", "jax_marked"),
    "jax_unmarked": (
        "jax",
        "record_jax.py",
        "unmarked",
        "jax_unmarked",
        "jax_unmarked",
    ),
    "torch_train": (
        "torch",
        "record_torch.py",
        "train",
        "torch_train",
        "torch_train",
    ),
}
#: Steps are as long as the script's clock says, give or take this share.
TOLERANCE = 0.05
#: Recordings of programs that announce their steps.
MARKED = {"keras_fit", "custom_loop", "jax_marked", "torch_train"}


@pytest.fixture(scope="module", params=sorted(RECORDINGS))
def recorded(
    request: pytest.FixtureRequest,
    repository: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[str, Path, dict[str, Any]]:
    """Name, log directory and truth of a profile that was recorded just now."""
    environment, script, argument, logdir, truth = RECORDINGS[request.param]
    python = interpreter(environment)
    folder = tmp_path_factory.mktemp(request.param)
    subprocess.run(
        [python, repository / "tests/data/record" / script, argument, folder],
        check=True,
        capture_output=True,
        timeout=300,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "-1", "JAX_PLATFORMS": "cpu"},
    )
    facts = json.loads((folder / truth / "truth.json").read_text(encoding="utf-8"))
    return request.param, folder / logdir, facts


def test_steps_are_as_many_as_the_program_ran(
    recorded: tuple[str, Path, dict[str, Any]],
) -> None:
    name, logdir, truth = recorded
    overview = ss.open(logdir).tool("overview_page")
    marked = name in MARKED
    assert (overview.step_detection.source == "marker") == marked
    assert abs(len(overview.steps) - truth["steps"]) <= (0 if marked else 1)


def test_step_times_are_those_of_the_programs_own_clock(
    recorded: tuple[str, Path, dict[str, Any]],
) -> None:
    name, logdir, truth = recorded
    overview = ss.open(logdir).tool("overview_page")
    own_windows = truth["begin_to_begin_ms"]
    ours = [step.duration_ms for step in overview.steps[: len(own_windows)]]
    # The first of the steps that are inferred may be the second of the program.
    first_ones = (0,) if name in MARKED else (0, 1)
    found = [length(ours, own_windows[first:]) for first in first_ones]
    assert min(found, key=lambda one: abs(one - 1)) == pytest.approx(1, rel=TOLERANCE)


def length(ours: Sequence[float], own: Sequence[float]) -> float:
    """How long steps of ours are, in steps of the program.

    Half of the recording is looked at, from each step of the first half on; the usual
    answer counts. Ours begin at another place of the loop: a pause that another program
    caused may lie before the one place and behind the other.
    """
    count = min(len(ours), len(own))
    mine, theirs = ([0, *accumulate(each[:count])] for each in (ours, own))
    half = count // 2
    return statistics.median(
        (mine[at + half] - mine[at]) / (theirs[at + half] - theirs[at])
        for at in range(count + 1 - half)
    )


def test_steps_that_are_too_long_are_seen_and_a_pause_is_not() -> None:
    own = [3.0, 3.2, 3.1, 3.0, 12.0, 3.1, 3.0, 3.2]
    paused = [3.0, 6.1, 0.2, 3.0, 12.0, 3.1, 3.0, 3.2]
    assert length(own, own) == pytest.approx(1)
    assert length(paused, own) == pytest.approx(1)
    assert length([1.06 * each for each in own], own) > 1 + TOLERANCE


def test_every_step_is_charged_to_the_last_picosecond(
    recorded: tuple[str, Path, dict[str, Any]],
) -> None:
    _, logdir, _ = recorded
    profile = ss.open(logdir)
    for host in profile.hosts:
        rows = profile.derived(host, account).rows
        buckets = [
            name
            for name in rows.columns
            if name.endswith("_ps")
            and name
            not in {"window_ps", "device_busy_ps", "device_working_ps", "idle_input_ps"}
        ]
        charged = rows.select(buckets).sum_horizontal()
        assert (charged == rows["window_ps"]).all()


@pytest.mark.parametrize("recorded", ["torch_train"], indirect=True)
def test_the_parts_of_a_step_are_those_of_the_programs_own_clock(
    recorded: tuple[str, Path, dict[str, Any]],
) -> None:
    """Ops lie inside what the script timed, and are most of it."""
    _, logdir, truth = recorded
    profile = ss.open(logdir)
    (host,) = profile.hosts
    ours = profile.derived(host, phases).rows
    for phase, least in (("forward", 0.75), ("loss", 0.2), ("backward", 0.75)):
        own = truth[f"{phase}_ms"]
        found = (ours[f"{phase}_ps"] / 1e9).to_list()
        assert all(part <= whole for part, whole in zip(found, own, strict=True))
        assert typical_share(found, own) >= least
    waits = profile.derived(host, account).rows["input_ps"].to_list()
    own = truth["batch_ms"]
    assert all(part / 1e9 <= whole for part, whole in zip(waits, own, strict=True))
    assert typical_share(waits, own) >= 0.9 * 1e9


def typical_share(parts: Sequence[float], wholes: Sequence[float]) -> float:
    """The share of most steps: a pause may lie in a whole and in no part of it."""
    pairs = zip(parts, wholes, strict=True)
    return statistics.median(part / whole for part, whole in pairs)


@pytest.mark.parametrize("recorded", ["keras_fit"], indirect=True)
def test_the_starved_model_is_called_input_bound(
    recorded: tuple[str, Path, dict[str, Any]],
) -> None:
    """The script trained the same model from memory as well, and that was faster."""
    _, logdir, truth = recorded
    fed = statistics.median(truth["step_ms_fed_from_memory"])
    if fed > 0.9 * statistics.median(truth["step_ms"]):
        pytest.skip("this machine is too busy: the model was not starved this time")
    profile = ss.open(logdir)
    (finding,) = (
        found for found in evaluate(signals_of(profile)) if found.id == "input.bound"
    )
    assert finding.status == "fail"


def test_the_peer_opens_what_we_write(repository: Path, tmp_path: Path) -> None:
    """A file of our writer shows its steps and kernels in XProf."""
    python = interpreter("xprof")
    program = repository / "benchmarks" / "gpu_shaped.py"
    target = tmp_path / "plugins" / "profile" / "run" / "vm.xplane.pb"
    target.parent.mkdir(parents=True)
    subprocess.run(
        [sys.executable, program, target, "--events", "40000"],
        check=True,
        capture_output=True,
        timeout=120,
    )
    ask = (
        "import sys; from xprof.convert import raw_to_tool_data as c;"
        "d, _ = c.xspace_to_tool_data([sys.argv[1]], 'kernel_stats', {});"
        "sys.stdout.buffer.write(d if isinstance(d, bytes) else d.encode())"
    )
    done = subprocess.run(
        [python, "-c", ask, target], check=True, capture_output=True, timeout=120
    )
    table = json.loads(done.stdout)
    table = table[0] if isinstance(table, list) else table
    labels = [column["id"] for column in table["cols"]]
    where = labels.index("occurrences")
    theirs = sum(int(row["c"][where]["v"]) for row in table["rows"])
    profile = ss.open(target)
    ours = profile.tool("kernel_stats").rows["occurrences"].sum()
    assert theirs == ours
