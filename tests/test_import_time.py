"""Starting is cheap: nothing heavy is imported before it is needed."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow(seconds=0.1)

HEAVY = [
    "numpy",
    "polars",
    "werkzeug",
    "google.protobuf",
    "grpc",
    "tensorflow",
    "jax",
    "torch",
]
#: What a report shows only where it is asked for, and what no report of steps needs.
SELDOM = [
    "statistics",
    "stepscope.advice.explanation",
    "stepscope.analysis.framework_op_stats.detail",
    "stepscope.derive.steps.inferred",
    "stepscope.derive.trace_rows.drawn_rows",
    "stepscope.formats.hlo",
    "stepscope.formats.remote",
    "stepscope.reporting.to_json",
    "stepscope.reporting.to_table",
]
PROGRAM = """
import sys
{statement}
loaded = [name for name in {heavy!r} if name in sys.modules]
print(",".join(loaded))
"""
HELP = """
from click.testing import CliRunner
from stepscope.cli.main import main
result = CliRunner().invoke(main, {arguments!r})
assert result.exit_code == 0, result.output
"""


def loaded_by(statement: str, heavy: list[str] = HEAVY) -> str:
    program = PROGRAM.format(statement=statement, heavy=heavy)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert loaded_by("import stepscope", [*HEAVY, "logging"]) == ""


def test_annotating_loads_nothing_heavy() -> None:
    names = ("Trace", "StepTrace", "mark_step", "trace_function", "ProfilerOptions")
    used = "; ".join(f"stepscope.{name}" for name in names)
    entered = "with stepscope.Trace('train', step_num=1): pass"
    assert loaded_by(f"import stepscope; {used}\n{entered}") == ""


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["show", "--help"],
        ["report", "--help"],
        ["run", "--help"],
        ["demo", "--help"],
        ["serve", "--help"],
    ],
)
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    assert loaded_by(HELP.format(arguments=arguments)) == ""


COMPLETING = """
import contextlib, os
os.environ |= {asked!r}
from stepscope.cli.main import main
with contextlib.suppress(SystemExit), contextlib.redirect_stdout(None):
    main()
"""


@pytest.mark.parametrize("line", ["stepscope ", "stepscope show o", "stepscope try i"])
def test_completing_a_word_loads_nothing_heavy(line: str) -> None:
    asked = {
        "_STEPSCOPE_COMPLETE": "bash_complete",
        "COMP_WORDS": line,
        "COMP_CWORD": str(line.count(" ")),
    }
    assert loaded_by(COMPLETING.format(asked=asked)) == ""


@pytest.mark.parametrize("name", ["torch_train", "gpu/torch_healthy"])
def test_a_report_loads_only_what_it_shows(repository: Path, name: str) -> None:
    """Of a small profile, a fifth of the time is that of loading modules."""
    recorded = repository / "tests" / "data" / name
    call = f"report.compose_with_progress([{str(recorded)!r}])"
    reported = f"from stepscope.cli import report; {call}"
    assert loaded_by(reported, SELDOM) == ""


def test_one_tool_is_shown_without_the_rules() -> None:
    rules = ["stepscope.advice.engine", "stepscope.advice.registry"]
    assert loaded_by("from stepscope.cli import show", rules) == ""
