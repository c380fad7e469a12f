"""`show model_views` from the command line, on profiles that the project recorded."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from stepscope.cli.main import main

pytestmark = pytest.mark.usefixtures("opened_once")

DATA = Path(__file__).resolve().parents[1] / "data"


def shown(*arguments: str, profile: str = "jax_marked") -> str:
    command = ["show", "model", str(DATA / profile), *arguments]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def test_json_has_every_view_under_its_contract_name() -> None:
    answer = json.loads(shown("--format", "json"))
    assert answer["tool"] == "model_views"
    for view in ("scope", "graph", "op", "code"):
        row = answer["data"][view][0]
        assert {
            *("id", "parent", "depth", "name", "occurrences", "total_us", "self_us"),
            *("device_us", "parameters", "flops"),
        } <= row.keys()
    # Nothing ran on a device: null, and said why.
    assert answer["data"]["op"][0]["device_us"] is None
    codes = {one["field"]: one["code"] for one in answer["missing"]}
    assert codes["op.device_us"] == "NO_DEVICE_PLANE"


@pytest.mark.parametrize("view", ["scope", "graph", "op", "code"])
@pytest.mark.sweep(every=4)
def test_the_view_asked_for_is_the_table(view: str) -> None:
    rows = list(csv.DictReader(io.StringIO(shown("--view", view, "--format", "csv"))))
    assert rows[0]["depth"] == "1"
    assert shown("--view", view).splitlines()[2].split()[0] == view


def test_options_reach_the_tool() -> None:
    arguments = ("--format", "csv", "--select", "float_ops,params", "--max-depth", "1")
    rows = list(csv.DictReader(io.StringIO(shown(*arguments))))
    assert set(rows[0]) == {
        *("id", "parent", "depth", "name", "flops", "self_flops"),
        *("flops_known_percent", "parameters"),
    }
    assert {row["depth"] for row in rows} == {"1"}
    hidden = shown("--format", "csv", "--hide-name-regexes", ".*", "--view", "op")
    assert len(hidden.splitlines()) == 1
    preset = shown("--preset", "float_operation", "--format", "csv")
    assert int(preset.splitlines()[1].split(",")[4]) >= 1


def test_pprof_is_written_into_a_file(tmp_path: Path) -> None:
    file = tmp_path / "model.pb.gz"
    shown("--format", "pprof", "-o", str(file), "--view", "code")
    body = gzip.decompress(file.read_bytes())
    assert b"microseconds" in body
    again = CliRunner().invoke(
        main,
        [
            "show",
            "model",
            str(DATA / "jax_marked"),
            "--format",
            "pprof",
            "-o",
            str(file),
        ],
    )
    assert again.exit_code == 2
    assert "--force" in again.stderr


def test_annotations_are_a_view_and_one_of_them_a_page() -> None:
    """What the recorded program's source says: 15 steps, a batch loaded in each."""
    profile = "jax_cpu/annotations"
    rows = list(
        csv.DictReader(
            io.StringIO(
                shown("--view", "annotation", "--format", "csv", profile=profile)
            )
        )
    )
    assert {row["name"]: row["occurrences"] for row in rows} == {
        "train": "15",
        "load_batch": "15",
        "load": "15",
        "compute": "15",
        "checkpoint": "3",
    }
    assert {row["device_us"] for row in rows} == {""}
    page = shown("--op", "load_batch", profile=profile)
    assert "annotation load_batch" in page
    assert "15 calls" in page
    calls = shown(
        *("--op", "load_batch", "--table", "detail.calls", "--format", "csv"),
        profile=profile,
    )
    assert len(calls.splitlines()) == 16


def test_an_annotation_that_is_not_there_is_bad_usage() -> None:
    command = ["show", "model", str(DATA / "jax_cpu/annotations"), "--op", "compte"]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 2
    assert "compute" in result.stderr
