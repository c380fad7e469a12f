"""`show` on profiles that ship with the repository, in every form."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from click.testing import CliRunner, Result

from stepscope.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("opened_once")

TOOLS = ["overview_page", "framework_op_stats", "kernel_stats"]
SHORT = {"overview": "overview_page", "ops": "framework_op_stats"}


@pytest.fixture(scope="module")
def recorded(repository: Path) -> str:
    return str(repository / "tests" / "data" / "tf_custom_loop")


def show(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["show", *arguments])


def as_json(*arguments: str) -> Any:
    result = show(*arguments, "--format", "json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.parametrize("tool", TOOLS)
def test_every_tool_answers_in_the_envelope_of_the_contract(
    tool: str, recorded: str
) -> None:
    answer = as_json(tool, recorded)
    assert list(answer) == [
        "schema",
        "tool",
        "profile",
        "unavailable",
        "missing",
        "quality",
        "inputs",
        "data",
    ]
    assert answer["tool"] == tool
    assert (answer["data"] is None) == (answer["unavailable"] is not None)


def test_a_run_on_the_cpu_has_no_kernels_and_says_why_with_status_0(
    recorded: str,
) -> None:
    answer = as_json("kernel_stats", recorded)
    assert answer["unavailable"]["code"] == "NO_DEVICE_PLANE"
    assert answer["unavailable"]["remedy"]
    text = show("kernel_stats", recorded)
    assert text.exit_code == 0
    assert "Not available" in text.stdout


def test_a_table_that_is_not_there_is_status_1_and_no_file(
    recorded: str, tmp_path: Path
) -> None:
    file = tmp_path / "kernels.csv"
    result = show("kernels", recorded, "--format", "csv", "-o", str(file))
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert not file.exists()


@pytest.mark.parametrize(("short", "name"), SHORT.items())
def test_short_names_are_the_same_tools(short: str, name: str, recorded: str) -> None:
    assert as_json(short, recorded) == as_json(name, recorded)


def test_csv_holds_the_rows_of_the_json(recorded: str) -> None:
    rows = as_json("ops", recorded)["data"]["rows"]
    result = show("ops", recorded, "--format", "csv")
    read = list(csv.DictReader(io.StringIO(result.stdout, newline="")))
    assert [row["name"].removeprefix("'") for row in read] == [
        row["name"] for row in rows
    ]
    assert [float(row["total_self_time_us"]) for row in read] == [
        row["total_self_time_us"] for row in rows
    ]


def test_parquet_holds_the_same_rows(recorded: str, tmp_path: Path) -> None:
    file = tmp_path / "ops.parquet"
    assert show("ops", recorded, "--format", "parquet", "-o", str(file)).exit_code == 0
    read = pl.read_parquet(file)
    rows = as_json("ops", recorded)["data"]["rows"]
    assert read["name"].to_list() == [row["name"] for row in rows]


@pytest.mark.parametrize("tool", ["overview_page", "framework_op_stats"])
@pytest.mark.sweep(every=2)
def test_every_table_that_is_named_can_be_exported(tool: str, recorded: str) -> None:
    refused = show(tool, recorded, "--table", "no such table")
    assert refused.exit_code == 2
    names = refused.stderr.rstrip(". \n").split("known: ")[1].split(", ")
    assert "summary" in names
    for name in names:
        exported = show(tool, recorded, "--table", name, "--format", "csv")
        assert exported.exit_code == 0, exported.stderr
        assert exported.stdout


def test_a_file_is_overwritten_only_when_forced(recorded: str, tmp_path: Path) -> None:
    file = tmp_path / "ops.csv"
    file.write_text("mine", encoding="utf-8")
    arguments = ("ops", recorded, "--format", "csv", "-o", str(file))
    assert show(*arguments).exit_code == 2
    assert file.read_text(encoding="utf-8") == "mine"
    assert show(*arguments, "--force").exit_code == 0
    assert file.read_text(encoding="utf-8").startswith("rank,")
    assert [one.name for one in tmp_path.iterdir()] == ["ops.csv"]


def test_an_unknown_host_names_those_there_are(recorded: str) -> None:
    result = show("ops", recorded, "--host", "elsewhere")
    assert result.exit_code == 2
    assert "localhost" in result.stderr


def test_idle_time_is_an_op_only_when_asked(recorded: str) -> None:
    def types(*more: str) -> set[str]:
        result = show("ops", recorded, "--format", "csv", *more)
        return {row["type"] for row in csv.DictReader(io.StringIO(result.stdout))}

    assert "IDLE" not in types()
    assert "IDLE" in types("--include-idle")


def test_a_tool_that_the_producer_answers_no_differently_answers_as_usual(
    recorded: str,
) -> None:
    assert as_json("ops", recorded, "--compat", "tensorflow") == as_json(
        "ops", recorded
    )


def test_the_table_for_the_terminal_tells_what_it_leaves_out(recorded: str) -> None:
    result = show("ops", recorded)
    assert result.exit_code == 0
    assert "More columns:" in result.stdout
    assert "More tables (--table NAME):" in result.stdout
    assert max(len(one) for one in result.stdout.splitlines()) <= 160
