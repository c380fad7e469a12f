"""`stepscope demo`: a loop recorded here, one of an H100, and what to do next."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

import stepscope as ss
from stepscope.cli.demo import RECORDED
from stepscope.cli.main import main
from stepscope.derive.host.placed_frames import function_frames
from stepscope.unavailable import Unavailable

#: A page of text in a usual terminal, with what `run` says above it; what other
#: programs did to the loop meanwhile may take some lines more.
MOST_LINES, MORE_LINES = 50, 12


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What the demonstration prints, by line."""
    done = subprocess.run(
        [sys.executable, "-m", "stepscope", "demo"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TMPDIR": str(tmp_path_factory.mktemp("demo"))},
    )
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    return done.stdout.rstrip().splitlines()


@pytest.mark.slow
def test_the_loop_that_is_recorded_here_stands_first(told: list[str]) -> None:
    live = told[: told.index("On a GPU")]
    assert "Where the step time went" in live
    assert any(line.startswith("  mean of 10 steps, ") for line in live)


@pytest.mark.skipif(
    any(map(importlib.util.find_spec, ("torch", "jax", "tensorflow"))),
    reason="another loop is recorded where a framework is installed",
)
@pytest.mark.slow
def test_the_recording_holds_the_function_that_is_the_planted_fault(
    told: list[str],
) -> None:
    (full,) = (line for line in told if line.startswith("  Full report of this loop"))
    profile = ss.open(shlex.split(full)[-1])
    (host,) = profile.hosts
    frames = profile.derived(host, function_frames)
    assert not isinstance(frames, Unavailable)
    time_ps: Counter[int] = Counter()
    for kind, own in zip(frames.type.tolist(), frames.self_ps.tolist(), strict=True):
        time_ps[kind] += own
    ((slowest, slowest_ps),) = time_ps.most_common(1)
    assert frames.names[slowest].function == "clip_gradients"
    assert 2 * slowest_ps > sum(time_ps.values())
    file, line = frames.names[slowest].file, frames.names[slowest].line
    assert file is not None
    assert line is not None
    text = Path(file).read_text(encoding="utf-8").splitlines()
    assert text[line - 1].startswith("def clip_gradients(")


@pytest.mark.slow
def test_then_comes_what_a_gpu_would_show_and_that_it_was_recorded_elsewhere(
    told: list[str],
) -> None:
    part = told[told.index("On a GPU") : told.index("What next")]
    assert part[1].startswith(
        "  This recording ships with stepscope: a PyTorch loop on an H100"
    )
    report = CliRunner().invoke(main, ["report", str(RECORDED)])
    shown = part[part.index("") + 1 :]
    # What a report of that profile begins with, to the letter.
    assert "1 × NVIDIA H100 80GB HBM3" in shown[1]
    assert shown == report.stdout.splitlines()[: len(shown)]


def test_the_recording_of_the_h100_has_the_fault_that_is_told() -> None:
    report = CliRunner().invoke(main, ["report", str(RECORDED), "--format", "json"])
    findings = json.loads(report.stdout)["findings"]
    failed = [one["id"] for one in findings if one["status"] == "fail"]
    assert failed[0] == "input.bound"


@pytest.mark.slow
def test_all_of_it_fits_on_a_screen(told: list[str]) -> None:
    assert len(told) <= MOST_LINES + MORE_LINES
    assert max(map(len, told[: told.index("What next")])) <= 100


@pytest.mark.slow
def test_the_commands_that_come_next_work(told: list[str]) -> None:
    at = told.index("What next")
    commands = dict(
        re.split(r"  +", line.strip(), maxsplit=1) for line in told[at + 1 :]
    )
    assert list(commands) == [
        "Both recordings in a browser",
        "Full report of this loop",
        "Full report of the H100",
        "Record your own program",
    ]
    words = {what: shlex.split(it) for what, it in commands.items()}
    called = words["Full report of this loop"][:-3]
    assert called == [sys.executable, "-m", "stepscope"]
    for what in ("Full report of this loop", "Full report of the H100"):
        report = CliRunner().invoke(main, words[what][len(called) :])
        assert "Findings" in report.stdout.splitlines(), what
    *serve, logdir = words["Both recordings in a browser"]
    assert serve == [*called, "serve"]
    runs = {path.parent.parent.parent.parent.name for path in recorded(Path(logdir))}
    assert runs == {"here", "h100"}


def recorded(logdir: Path) -> list[Path]:
    return list(logdir.rglob("*.xplane.pb*"))


@pytest.mark.slow
def test_commands_name_the_program_as_the_shell_finds_it(tmp_path: Path) -> None:
    """After `make demo` it is in an environment that nobody activated."""
    script = tmp_path / "bin" / "stepscope"
    script.parent.mkdir()
    script.write_text(
        f"#!{sys.executable}\nfrom stepscope.cli.main import main\nmain()\n"
    )
    script.chmod(0o755)
    bare = os.pathsep.join(
        it
        for it in os.environ["PATH"].split(os.pathsep)
        if shutil.which("stepscope", path=it) is None
    )
    within = f"{script.parent}{os.pathsep}{bare}"
    asked = (
        "import sys; sys.argv[0] = {!r}; from stepscope.cli import demo as it;"
        "print(it._stepscope_command())"
    )
    for path, called in ((bare, str(script)), (within, "stepscope")):
        done = subprocess.run(
            [sys.executable, "-c", asked.format(str(script))],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PATH": path},
        )
        assert done.stdout.strip() == called
