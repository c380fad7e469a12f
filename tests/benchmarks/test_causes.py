"""A generated program is recorded, judged and scored; no framework is needed."""

from __future__ import annotations

import importlib
import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def causes(repository: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(repository / "benchmarks"))
    return importlib.import_module("causes")


@pytest.mark.slow(seconds=4)
def test_a_program_of_numpy_is_scored(causes: Any, tmp_path: Path) -> None:
    drawn = importlib.import_module("causes_drawn")
    law = drawn.read_laws(drawn.LAWS["first"])["python_loop"]
    planted = (drawn.Planted(law, "step", 0.75),)
    program = drawn.Program("one", "plain", 30.0, planted, 0)
    took_s = causes.record_missing([program], tmp_path, 60.0)
    truth = json.loads((tmp_path / "one" / "truth").read_text())
    loop = truth["places"]["python_loop"]
    source = drawn.write_program(program).splitlines()
    assert loop["line"] == 1 + source.index("def count_pairs(rounds):")
    assert len(truth["held_s"]["python_loop"]) >= program.steps
    found = causes.score(program, tmp_path)
    assert 0.3 < found.truth.shares["python_loop"] < 1
    assert found.causes[0].law.name == "python_loop"
    assert found.headline == "right"
    assert "count_pairs" in found.said.functions
    table = "\n".join(causes.table_lines([found], 1, took_s))
    causes.write_results(tmp_path, table, [found])
    assert "| first sentence right | 100 % |" in (tmp_path / "table.md").read_text()
    told = json.loads((tmp_path / "said.json").read_text())
    assert told["one"]["sentence"] == found.said.text
    # What is there is not recorded again.
    assert causes.record_missing([program], tmp_path, 60.0) < took_s / 2


def test_a_program_that_failed_is_named(
    causes: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = importlib.import_module("causes_drawn").Program("one", "plain", 30, (), 0)
    assert causes.score(program, tmp_path) is None
    assert capsys.readouterr().err == "not recorded: one\n"
    assert "0 of 1 drawn programs" in "\n".join(causes.table_lines([], 1, 0.0))
