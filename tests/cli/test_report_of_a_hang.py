"""`report` on the dumps of PyTorch's flight recorder, which two real jobs wrote."""

from __future__ import annotations

import gzip
import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.conftest import DATA

from stepscope.cli.main import main

DUMPS = DATA / "collective_dumps"


def report(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["report", *map(str, arguments)])


def told(*arguments: object) -> Any:
    done = report(*arguments, "--format", "json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_the_rank_that_did_not_arrive_is_the_first_sentence() -> None:
    done = report(DUMPS / "not_called")
    assert done.exit_code == 0
    text = " ".join(done.stdout.split())
    assert (
        "The job hangs in all_reduce 4 of group default_pg: rank 3 has not called it, "
        "and ranks 0, 1 and 2 wait." in text
    )
    assert "It is called by train_step (/tmp/fr2.py:8)." in text
    assert "The last call of rank 3 is broadcast 1, called by <module>" in text
    answer = told(DUMPS / "not_called")
    assert answer["cause"] == "not_called"
    assert answer["text"] in text
    states = {each["rank"]: each["state"] for each in answer["ranks"]}
    assert states == {0: "waits", 1: "waits", 2: "waits", 3: "not_called"}


def test_ranks_that_call_different_collectives() -> None:
    answer = told(DUMPS / "mismatch")
    assert answer["cause"] == "mismatch"
    assert "rank 0 all_reduce of [4] Float in <module>" in answer["text"]
    assert "rank 1 broadcast of [4] Float in <module>" in answer["text"]


def test_markdown_files_and_exit_status(tmp_path: Path) -> None:
    files = sorted((DUMPS / "not_called").iterdir())
    written = tmp_path / "hang.md"
    done = report(*files, "--format", "markdown", "-o", written)
    assert done.exit_code == 0
    assert "| 3 | has not called |" in written.read_text("utf-8")
    assert report(*files, "--fail-on", "critical").exit_code == 1
    # Rank 3 alone waits for nothing.
    alone = report(files[3], "--fail-on", "critical")
    assert alone.exit_code == 0
    assert "these dumps show no hang" in alone.stdout


def test_json_dumps_are_read(tmp_path: Path) -> None:
    for file in (DUMPS / "not_called").iterdir():
        held = pickle.loads(file.read_bytes())  # noqa: S301 - of this repository
        (tmp_path / f"{file.name}.json").write_text(json.dumps(held), "utf-8")
    assert told(tmp_path)["text"] == told(DUMPS / "not_called")["text"]


def test_a_group_without_a_description_is_read(tmp_path: Path) -> None:
    for file in (DUMPS / "not_called").iterdir():
        held = pickle.loads(file.read_bytes())  # noqa: S301 - of this repository
        held["pg_config"] = {}
        for entry in held["entries"]:
            entry["process_group"] = entry["process_group"][:1]
        (tmp_path / file.name).write_bytes(pickle.dumps(held))
    answer = told(tmp_path)
    # Without the ranks of the group, those that have called one of its collectives.
    assert answer["cause"] == "not_called"
    assert "all_reduce 4 of group 0: rank 3 has not called it" in answer["text"]


def test_a_damaged_dump_is_told_and_the_others_are_read(tmp_path: Path) -> None:
    shutil.copytree(DUMPS / "not_called", tmp_path / "dumps")
    file = tmp_path / "dumps" / "nccl_trace_rank_1"
    file.write_bytes(file.read_bytes()[:-40])
    answer = told(tmp_path / "dumps")
    assert answer["cause"] == "not_called"
    (unread,) = answer["unread"]
    assert "nccl_trace_rank_1: the pickle is cut or damaged at byte" in unread
    text = " ".join(report(tmp_path / "dumps").stdout.split())
    assert "Not read: " in text


class Called:
    """Would be called by Python's unpickler."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (pytest.fail, ("the pickle was run",))


def test_a_dump_that_calls_code_is_refused(tmp_path: Path) -> None:
    held = {"pg_config": {}, "entries": [Called()]}
    (tmp_path / "nccl_trace_rank_0").write_bytes(pickle.dumps(held))
    done = report(tmp_path)
    assert done.exit_code == 2
    assert "nccl_trace_rank_0" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    "option", [("--format", "html", "-o", "x.html"), ("--explain", "input.bound")]
)
def test_what_needs_steps_is_refused(option: tuple[str, ...]) -> None:
    done = report(DUMPS / "mismatch", *option)
    assert done.exit_code == 2
    assert "dumps of collective calls hold no steps" in done.stderr


def test_a_trace_that_names_process_groups_is_a_profile(tmp_path: Path) -> None:
    (packed,) = (DATA / "torch_train").glob("*.pt.trace.json.gz")
    held = json.loads(gzip.decompress(packed.read_bytes()))
    groups = {"backend": "nccl", "rank": 0, "pg_config": [{"pg_name": "0"}]}
    trace = tmp_path / "rank_0.json"
    trace.write_text(json.dumps({"schemaVersion": 1, "distributedInfo": groups} | held))
    done = report(trace)
    assert done.exit_code == 0, done.stderr
    assert "Where the step time went" in done.stdout


def test_a_folder_that_cannot_be_read_has_one_clear_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> Any:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "iterdir", refuse)
    done = report(tmp_path)
    assert done.exit_code == 2
    assert "defect" not in done.stderr
    assert done.stderr.count("\n") == 1


def test_odd_entries_cost_only_themselves(tmp_path: Path) -> None:
    held = pickle.loads((DUMPS / "mismatch/nccl_trace_rank_0").read_bytes())  # noqa: S301
    odd = [None, 7, {}, {"process_group": []}, {"process_group": ("0", "x")}]
    held["entries"] = [*odd, *held["entries"], {"is_p2p": True}]
    held["pg_config"] = {"0": {"ranks": "not a list"}, "1": None}
    (tmp_path / "trace_rank_0").write_bytes(pickle.dumps(held))
    assert told(tmp_path)["number"] == 4
