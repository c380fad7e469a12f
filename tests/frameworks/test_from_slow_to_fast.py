"""The programs of "From slow to fast": they run with every fix, and learn the same."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
from tests.support.programs.frameworks import interpreter, run_program

from stepscope.advice.catalogue import rule_item

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "examples" / "from_slow_to_fast"
FRAMEWORKS = ("tensorflow", "jax", "torch")
#: One process imports the framework once, for all numbers of fixes.
RUN_ALL = """
import train_{framework} as program
for fixes in range(6):
    program.main(fixes, steps=6)
"""


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("from_slow_to_fast")


@pytest.mark.framework
@pytest.mark.slow(seconds=12)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_no_fix_changes_what_a_program_learns(framework: str, tmp_path: Path) -> None:
    program = tmp_path / "all_fixes.py"
    program.write_text(RUN_ALL.format(framework=framework), "utf-8")
    done = run_program(
        interpreter(framework),
        program,
        environment={"PYTHONPATH": f"{ROOT / 'src'}:{PROGRAMS}"},
    )
    losses = [
        float(line.removeprefix("loss "))
        for line in done.stdout.splitlines()
        if line.startswith("loss ")
    ]
    assert len(losses) == 6
    assert losses == pytest.approx([losses[0]] * 6, rel=1e-3)
    assert losses[0] > 0


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_each_fix_is_a_line_of_its_program_and_an_advice_of_its_rule(
    measured: Any, framework: str
) -> None:
    program = (PROGRAMS / f"train_{framework}.py").read_text("utf-8")
    fixes = measured.FIXES[framework]
    assert len(fixes) == 5
    assert [fix.line for fix in fixes if fix.line not in program] == []
    for fix in fixes:
        assert fix.action in rule_item(fix.rule).declared_actions, fix


def test_the_page_has_a_table_of_each_program() -> None:
    page = (ROOT / "docs" / "from-slow-to-fast.md").read_text("utf-8")
    for framework in FRAMEWORKS:
        table = page.partition(f"<!-- {framework}:begin -->")[2]
        table = table.partition(f"<!-- {framework}:end -->")[0]
        # A row for the program as it was, and after each of five fixes.
        rows = [line for line in table.splitlines() if line[:3].strip("| ").isdigit()]
        assert len(rows) == 6, framework


def test_a_step_is_inside_or_outside_its_prediction(measured: Any) -> None:
    step = importlib.import_module("stepscope.derive.predictions.step_times").StepTime(
        low=9.0, mid=10.0, high=12.0
    )
    cells = measured.prediction_cells
    assert cells(step, 12.0) == ("10.0 (9.0 to 12.0)", "12.0, inside")
    assert cells(step, 12.1)[1] == "12.1, above"
    assert cells(step, 8.9)[1] == "8.9, below"
    assert cells(None, 5.0) == ("not known", "5.0")
