"""`show TOOL --op` and `--scope`: from the op on a page to its cause and its calls."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING

import polars as pl
import pytest
from click.testing import CliRunner, Result

from stepscope.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("opened_once")

OP = "gradient_tape/MatMul_1/MatMul"


@pytest.fixture(scope="module")
def recorded(repository: Path) -> str:
    return str(repository / "tests" / "data" / "tf_custom_loop")


def show(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["show", *arguments])


def test_the_page_of_an_op_on_the_cpu_shows_its_calls_and_says_why_no_cause(
    recorded: str,
) -> None:
    page = show("ops", recorded, "--op", OP)
    assert page.exit_code == 0
    lines = page.stdout.splitlines()
    assert lines[1] == f"op {OP}"
    assert lines[2] == "  20 calls"
    assert "The dominating cause is unknown; the reason is below." in page.stdout
    assert "The profile contains no device" in page.stdout
    assert "10 of 20 rows are not shown." in page.stdout
    # Columns of which nothing is known are not drawn.
    assert "device idle" not in page.stdout
    assert max(len(one) for one in lines) <= 160


@pytest.mark.profiles
def test_the_page_of_a_gpu_op_names_what_dominates(
    shared_profile: Callable[[str], Path],
) -> None:
    path = str(shared_profile("gpu_tf/t4_healthy"))
    page = show("ops", path, "--op", "IteratorGetNext/_3").stdout
    assert "Transfer dominates" in page
    assert "96.0 MiB" in page
    scope = show("ops", path, "--scope", "alex_net_3").stdout
    assert "Compute dominates" in scope
    assert "limited by" in scope
    kernels = show("kernels", path, "--scope", "alex_net_3", "--format", "csv").stdout
    rows = list(csv.DictReader(io.StringIO(kernels, newline="")))
    assert rows
    assert {row["op_name"].split("/")[0] for row in rows} == {"alex_net_3"}


@pytest.mark.profiles
@pytest.mark.parametrize("tool", ["ops", "kernels"])
def test_an_unknown_op_is_one_line_with_the_nearest_names_and_status_2(
    tool: str, shared_profile: Callable[[str], Path]
) -> None:
    path = str(shared_profile("gpu_tf/t4_healthy"))
    result = show(tool, path, "--op", "conv2d_16/relu")
    assert result.exit_code == 2
    assert result.stdout == ""
    refused = CliRunner().invoke(main, ["show", tool, path, "--op", "conv2d_16/relu"])
    assert refused.stderr.count("\n") == 1
    assert "the nearest: alex_net_3/conv2d_16/Relu" in refused.stderr


def test_csv_and_parquet_have_all_calls_and_json_says_how_many(
    recorded: str, tmp_path: Path
) -> None:
    # The iterators of the pipeline ran more often than a screen lists.
    chosen = ("ops", recorded, "--scope", "Iterator")
    data = json.loads(show(*chosen, "--format", "json").stdout)["data"]
    assert data["call_count"] == sum(row["occurrences"] for row in data["rows"])
    text = show(*chosen, "--table", "calls", "--format", "csv").stdout
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert len(rows) == data["call_count"]
    file = tmp_path / "calls.parquet"
    written = show(*chosen, "--table", "calls", "--format", "parquet", "-o", str(file))
    assert written.exit_code == 0
    assert len(pl.read_parquet(file)) == data["call_count"]


def test_one_of_its_tables_can_be_shown_alone(recorded: str) -> None:
    page = show("ops", recorded, "--op", OP, "--table", "calls").stdout
    assert page.splitlines()[0].endswith("· calls")
