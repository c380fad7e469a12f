"""A profile that was made to do harm is an error or a cut answer, within limits."""

from __future__ import annotations

import gzip
import os
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.sites.serve import OLD, put, running
from tests.support.traces import blueprint

from stepscope.serve.runs import answers, cutting

if TYPE_CHECKING:
    from pathlib import Path

DAMAGE = {
    "empty": b"",
    "garbage": bytes(range(256)) * 64,
    "text": b"not a profile\n" * 100,
    "huge_length": b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
    "cut_gzip": gzip.compress(b"\x0a\x00" * 10_000)[:40],
    "deep_json": b'{"traceEvents":' + b"[" * 200_000,
    "deep_objects": b'{"schemaVersion":1,"traceEvents":[{"args":'
    + b'{"a":' * 100_000
    + b"1"
    + b"}" * 100_000
    + b"}]}",
}


@pytest.mark.parametrize("kind", DAMAGE)
@pytest.mark.sweep(every=4)
def test_a_hostile_profile_is_one_error_and_the_others_open(
    logdir: Path, kind: str
) -> None:
    put(logdir, "hostile", "vm", DAMAGE[kind], unix_s=OLD + 9)
    with running(logdir) as site:
        answer = site.get("data/tool/overview")
        # What stands before damage may be readable; a defect it must not be.
        assert answer.status in (200, 422)
        if answer.status == 422:
            assert answer.error == "unreadable"
            assert "hostile" in answer.json["error"]["message"]
        (good,) = [
            run["id"]
            for run in site.get("data/runs").json["runs"]
            if run["name"] == "r1"
        ]
        assert site.get(f"data/tool/overview?run={good}").status == 200


def test_a_bomb_is_an_error_within_the_limit(
    logdir: Path, a1: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stepscope.serve.runs.source._memory_bytes", lambda: 2**24)
    run = logdir / "plugins" / "profile" / "bomb"
    run.mkdir()
    bomb = run / "vm.xplane.pb.gz"
    bomb.write_bytes(gzip.compress(a1 * (2**25 // len(a1))))
    os.utime(bomb, (OLD + 9, OLD + 9))
    with running(logdir) as site:
        answer = site.get("data/tool/overview")
        assert (answer.status, answer.error) == (422, "unreadable")
        assert (
            "decompresses to more than 8,388,608 bytes"
            in answer.json["error"]["message"]
        )
        assert site.lives


def put_trace(logdir: Path, name: str, content: bytes) -> None:
    """A trace of PyTorch, newer than the other run."""
    path = logdir / "hostile" / name
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    os.utime(path, (OLD + 9, OLD + 9))


def one_huge_name(characters: int) -> bytes:
    return (
        b'{"schemaVersion":1,"traceEvents":['
        b'{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":1,"dur":5},'
        b'{"ph":"X","cat":"cpu_op","name":"'
        + b"A" * characters
        + b'","pid":1,"tid":1,"ts":9,"dur":5}],"traceName":"t"}'
    )


ROUTES = ("tool/overview", "tool/ops", "tool/model_views", "csv/ops", "report")


@pytest.mark.slow
def test_a_packed_name_of_three_hundred_megabytes_is_one_error(logdir: Path) -> None:
    packed = gzip.compress(one_huge_name(300 * 10**6))
    assert len(packed) < 400_000
    put_trace(logdir, "w.pt.trace.json.gz", packed)
    with running(logdir) as site:
        listed = site.get("data/runs").json["runs"]
        # Asked for by its id: what cannot be read is not the first run that is shown.
        (hostile,) = (one["id"] for one in listed if one["name"] == "hostile")
        for route in ROUTES:
            answer = site.get(f"data/{route}?run={hostile}")
            assert (answer.status, answer.error) == (422, "unreadable")
            assert "200 times its size" in answer.json["error"]["message"]
        assert site.lives


@pytest.mark.slow(seconds=0.4)
def test_a_name_of_thirty_megabytes_is_left_out_and_that_is_said(
    logdir: Path,
) -> None:
    put_trace(logdir, "w.pt.trace.json", one_huge_name(30 * 10**6))
    with running(logdir) as site:
        for route in ROUTES:
            answer = site.get(f"data/{route}")
            assert answer.status == 200
            assert len(answer.body) < 2**20
        told = site.get("data/profile").json["quality"]
        assert any("are left out" in note["message"] for note in told)


def test_a_name_with_thousands_of_levels_is_no_tree_of_thousands(
    logdir: Path,
) -> None:
    deep = "a/" * 8000 + "MatMul:MatMul"
    content = bytes(blueprint.trace([("main", deep, 0, 50)]).data)
    put(logdir, "deep", "vm", content, unix_s=OLD + 9)
    with running(logdir) as site:
        begun = time.monotonic()
        answer = site.get("data/tool/model_views")
        assert answer.status == 200
        assert max(row["depth"] for row in answer.json["data"]["scope"]) == 100
        assert len(answer.body) < 2**20
        assert time.monotonic() - begun < 20


@pytest.fixture
def many_ops(logdir: Path) -> Path:
    """A log directory whose newest run has 50 ops with names of 1,000 characters."""
    lines: list[Any] = [
        ("main", f"{at:03d}{'n' * 990}:MatMul", at * 10, 5) for at in range(50)
    ]
    content = bytes(blueprint.trace(lines).data)
    put(logdir, "many", "vm", content, unix_s=OLD + 9)
    return logdir


def test_an_answer_has_no_more_text_than_allowed_and_says_what_was_cut(
    many_ops: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(many_ops) as site:
        whole = site.get("data/tool/ops").json
        page = site.get("data/table/ops").json
    assert len(whole["data"]["rows"]) == len(page["rows"]) >= 50
    assert (whole["cut"], "cut" in page) == ([], False)
    monkeypatch.setattr(cutting.cut_tables, "__kwdefaults__", {"max_bytes": 10_500})
    monkeypatch.setattr(cutting.count_fitting_rows, "__defaults__", (10_500,))
    with running(many_ops) as site:
        answer = site.get("data/tool/ops")
        shown = site.get("data/table/ops").json
    assert len(answer.body) < 40_000
    given = len(answer.json["data"]["rows"])
    assert 0 < given <= 10
    assert {
        "table": "rows",
        "rows": len(whole["data"]["rows"]),
        "given": given,
    } in answer.json["cut"]
    assert 0 < len(shown["rows"]) <= 10
    assert shown["matching"] == page["matching"]
    assert shown["cut"][0]["given"] == len(shown["rows"])


def test_a_table_too_large_to_be_one_file_is_refused_with_the_way_out(
    many_ops: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "_MAX_CSV_BYTES", 10_000)
    with running(many_ops) as site:
        answer = site.get("data/csv/ops")
        assert (answer.status, answer.error) == (413, "too_large")
        assert (
            "stepscope show framework_op_stats PATH" in answer.json["error"]["message"]
        )
