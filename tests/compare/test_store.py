"""The file of promises: answered by later runs, written whole, and never trusted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from stepscope.compare.store import (
    PromiseFile,
    answer_promises,
    promise_file,
    read_promises,
    write_promises,
)
from stepscope.errors import BadInput
from stepscope.thresholds import THRESHOLDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.compare.measured import MeasuredSteps

    RunOf = Callable[[str], MeasuredSteps]


def kept_of(run: MeasuredSteps) -> PromiseFile:
    return answer_promises(PromiseFile(), run, thresholds=THRESHOLDS)[0]


@pytest.fixture(scope="module")
def stored(run_of: RunOf) -> PromiseFile:
    return kept_of(run_of("gpu/torch_healthy"))


def test_a_later_run_answers_as_the_comparison_does(
    stored: PromiseFile, run_of: RunOf, against: Any, tmp_path: Path
) -> None:
    file = tmp_path / "logs.promises.json"
    write_promises(file, stored)
    after, answers = answer_promises(
        read_promises(file), run_of("gpu/torch_graph"), thresholds=THRESHOLDS
    )
    (answer,) = answers
    direct = against("gpu/torch_graph", "gpu/torch_healthy").promises
    assert msgspec.to_builtins(answer.outcomes) == msgspec.to_builtins(direct)
    (first, second) = after.runs
    assert list(after.runs[first].answers) == [second]


def test_asking_again_changes_nothing(stored: PromiseFile, run_of: RunOf) -> None:
    run = run_of("gpu/torch_graph")
    once, _ = answer_promises(stored, run, thresholds=THRESHOLDS)
    twice, _ = answer_promises(once, run, thresholds=THRESHOLDS)
    assert once == twice


def test_no_run_answers_for_a_later_one(run_of: RunOf) -> None:
    later = kept_of(run_of("gpu/torch_graph"))
    _, answers = answer_promises(
        later, run_of("gpu/torch_healthy"), thresholds=THRESHOLDS
    )
    assert answers == ()


def test_other_work_gives_no_answer_but_a_reason(
    stored: PromiseFile, run_of: RunOf
) -> None:
    after, (answer,) = answer_promises(
        stored, run_of("gpu/torch_overlap"), thresholds=THRESHOLDS
    )
    assert answer.outcomes == ()
    assert answer.unavailable is not None
    (first, *_) = after.runs
    assert after.runs[first].answers == {}


def test_names_of_the_program_stay_out_of_the_file(stored: PromiseFile) -> None:
    text = msgspec.json.encode(stored).decode()
    assert "aten::" not in text
    assert "nvjet" not in text


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("logs", "logs.promises.json"),
        ("logs/plugins/profile/run", "logs.promises.json"),
        ("logs/plugins/profile/run/host.xplane.pb", "logs.promises.json"),
        ("traces/w0.pt.trace.json", "traces.promises.json"),
    ],
)
def test_the_file_lies_beside_the_log_directory(
    tmp_path: Path, path: str, name: str
) -> None:
    place = tmp_path / path
    if place.suffix:
        place.parent.mkdir(parents=True)
        place.write_bytes(b"")
    else:
        place.mkdir(parents=True)
    assert promise_file(place) == tmp_path / name


def test_promises_have_no_place_beside_an_object_store() -> None:
    with pytest.raises(BadInput, match="local log directory"):
        promise_file("s3://bucket/logs")


def test_a_file_that_does_not_exist_holds_nothing(tmp_path: Path) -> None:
    assert read_promises(tmp_path / "none.json") == PromiseFile()


def hostile(stored: PromiseFile) -> dict[str, bytes]:
    good: Any = json.loads(msgspec.json.encode(stored))
    (name,) = good["runs"]

    def changed(**fields: Any) -> bytes:
        return json.dumps(
            {"schema": 1, "runs": {name: good["runs"][name] | fields}}
        ).encode()

    work = good["runs"][name]["work"]
    return {
        "empty": b"",
        "text": b"not json",
        "cut": msgspec.json.encode(stored)[:-40],
        "list": b"[]",
        "number": b"1",
        "no version": b"{}",
        "no runs of that kind": b'{"schema": 1, "runs": []}',
        "unknown field": b'{"schema": 1, "runs": {}, "evil": 1}',
        "not UTF-8": b'{"schema": 1, "runs": {"\xff\xfe": 1}}',
        "deep": b'{"schema": 1, "runs": ' + b"[" * 200_000,
        "infinite": b'{"schema": 1, "runs": {"a": 1e999}}',
        "no windows": changed(window_ps=[]),
        "negative windows": changed(window_ps=[-1]),
        "windows as text": changed(window_ps=["1"]),
        "no hosts": changed(hosts=0),
        "negative promise": changed(
            promises=[
                {"finding": "a", "title": "", "low_ms": 0, "high_ms": -1}
                | {"basis": "bound", "effect_ms": None}
            ]
        ),
        "null kernels": changed(work=work | {"kernels": {"a": None}}),
    }


HOSTILE = [
    *("empty", "text", "cut", "list", "number", "no version", "no runs of that kind"),
    *("unknown field", "not UTF-8", "deep", "infinite", "no windows"),
    *("negative windows", "windows as text", "no hosts", "negative promise"),
    "null kernels",
]


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_damaged_file_is_one_clear_line(
    stored: PromiseFile, tmp_path: Path, kind: str
) -> None:
    file = tmp_path / "logs.promises.json"
    file.write_bytes(hostile(stored)[kind])
    with pytest.raises(
        BadInput, match="not a file of promises, or is damaged"
    ) as error:
        read_promises(file)
    text = str(error.value)
    assert text.startswith(str(file))
    assert "\n" not in text
    assert text.endswith("creates a new one.")


def test_a_file_of_another_version_says_so(tmp_path: Path) -> None:
    file = tmp_path / "logs.promises.json"
    file.write_text('{"schema": 2, "runs": {"a": {"future": true}}}')
    with pytest.raises(BadInput, match="version 2"):
        read_promises(file)


def test_a_directory_of_that_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="is a directory, not a file"):
        read_promises(tmp_path)


def test_absurd_numbers_give_no_number(stored: PromiseFile, run_of: RunOf) -> None:
    ((name, run),) = stored.runs.items()
    absurd = {
        "no counts": {"kernels": {}, "ops": {}, "shapes": {}, "launches": {}},
        "zeros": {
            "kernels": {"a": 0.0},
            "ops": {"a": 0.0},
            "shapes": {"a": {"b": 0.0}},
        },
        "negative": {"kernels": {"a": -1.0}, "ops": {"a": -5.0}},
    }
    for fields in absurd.values():
        work = msgspec.convert(msgspec.to_builtins(run.work) | fields, type(run.work))
        tampered = PromiseFile(runs={name: msgspec.structs.replace(run, work=work)})
        _, (answer,) = answer_promises(
            tampered, run_of("gpu/torch_graph"), thresholds=THRESHOLDS
        )
        assert answer.outcomes == ()
        assert answer.unavailable is not None


def test_a_failed_write_leaves_the_old_file(
    stored: PromiseFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "logs.promises.json"
    write_promises(file, stored)
    before = file.read_bytes()

    def fail(self: Path, target: Path) -> None:
        message = f"no space for {self} at {target}"
        raise OSError(message)

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="no space"):
        write_promises(file, PromiseFile())
    assert file.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == [file.name]


def test_the_mode_of_the_file_stays(stored: PromiseFile, tmp_path: Path) -> None:
    file = tmp_path / "logs.promises.json"
    write_promises(file, stored)
    file.chmod(0o600)
    write_promises(file, stored)
    assert file.stat().st_mode & 0o777 == 0o600
