"""`env.libs`: an old runtime on a new device, a fitting one, and what says neither."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.traces import blueprint
from tests.support.traces.training import findings, on_host, together

from stepscope.advice.engine import evaluate as evaluate_all
from stepscope.advice.engine import signals_of as signals_of_profile
from stepscope.advice.rules.recording_quality.env_libs import evaluate
from stepscope.derive.facts.recording import HostVersions, version_signals
from stepscope.derive.verdicts.recorded_devices import DeviceSignals
from stepscope.unavailable import require_available

if TYPE_CHECKING:
    from pathlib import Path

RULE = "env.libs"


def versions(**fields: Any) -> HostVersions:
    usual: dict[str, Any] = {
        "runtime": 12040,
        "driver": 12040,
        "newest": (9, 0),
        "device": "NVIDIA H100",
    }
    return HostVersions(**(usual | fields))


def recorded(runtime: int | None) -> Any:
    """B1s on an A100, by a producer that notes the version of its runtime."""
    trace = blueprint.trace(together(), devices={0: blueprint.A100})
    environment = require_available(trace.table("environment")).with_columns(
        cuda_runtime=runtime, cuda_driver=runtime
    )
    profile = blueprint.profile(blueprint.substitute(trace, environment=environment))
    found = evaluate_all(signals_of_profile(profile))
    return next(one for one in found if one.id == RULE)


@pytest.mark.parametrize(
    ("runtime", "status"), [(10020, "fail"), (11000, "pass"), (None, "cannot_tell")]
)
def test_an_old_runtime_of_a_whole_recording_is_a_note(
    runtime: int | None, status: str
) -> None:
    found = recorded(runtime)
    assert (found.status, found.severity) == (status, "info")


@pytest.mark.parametrize(
    ("fields", "status", "note"),
    [
        ({}, "pass", None),
        ({"runtime": 11080}, "fail", None),
        ({"runtime": 11080, "newest": (8, 9)}, "pass", None),
        ({"runtime": 12040, "newest": (10, 0)}, "fail", None),
        ({"driver": 12020}, "fail", "driver"),
        ({"driver": None}, "pass", None),
        ({"newest": (6, 1), "runtime": 8000, "driver": 8000}, "pass", None),
        ({"newest": None}, "cannot_tell", None),
        ({"runtime": None}, "cannot_tell", None),
    ],
)
def test_generation_and_driver_decide(
    signals_of: Any, fields: Any, status: str, note: str | None
) -> None:
    given = {version_signals: {"vm": versions(**fields)}}
    finding = evaluate(signals_of(given))
    assert (finding.status, finding.severity, finding.note) == (status, "info", note)
    assert (finding.unavailable is not None) == (status == "cannot_tell")


@pytest.mark.parametrize(
    ("newest", "wanted"),
    [
        ((10, 0), 12080),
        ((9, 1), 12000),
        ((9, 0), 12000),
        ((8, 9), 11080),
        ((8, 8), 11010),
        ((8, 6), 11010),
        ((8, 5), 11000),
        ((8, 0), 11000),
        ((7, 9), 10000),
        ((7, 5), 10000),
        ((7, 4), 9000),
        ((7, 0), 9000),
    ],
)
def test_each_generation_wants_the_first_version_that_has_kernels_for_it(
    signals_of: Any, newest: tuple[int, int], wanted: int
) -> None:
    for runtime, because in ((wanted, ()), (wanted - 1, ("runtime",))):
        old = versions(newest=newest, runtime=runtime, driver=runtime)
        # Another host, whose libraries are newer, is not said.
        known = {"newer": versions(runtime=wanted + 10), "vm": old, "vm2": old}
        finding = evaluate(signals_of({version_signals: known}))
        assert (finding.because, finding.devices) == (because, ("vm",))


@pytest.mark.parametrize(
    ("absent", "named"), [("newest", "compute capability"), ("runtime", "CUDA version")]
)
def test_the_reason_names_what_was_not_recorded(
    signals_of: Any, absent: str, named: str
) -> None:
    given = {version_signals: {"vm": versions(**{absent: None})}}
    finding = evaluate(signals_of(given))
    assert finding.unavailable is not None
    assert named in finding.unavailable.reason


def test_the_action_names_the_one_library_to_move(signals_of: Any) -> None:
    given = {version_signals: {"vm": versions(runtime=11000, driver=10000)}}
    finding = evaluate(signals_of(given))
    assert [action.cause for action in finding.actions] == ["runtime"]
    said = {fact.name: fact.value for fact in finding.facts}
    assert said == {"runtime": 11.0, "driver": 10.0, "wanted": 12.0}


def test_without_the_tables_it_cannot_tell() -> None:
    for table in ("devices", "environment"):
        assert findings(together(), without=table)[RULE].status == "cannot_tell"


def test_a_run_on_the_host_alone_is_not_applicable(signals_of: Any) -> None:
    assert findings(on_host(), devices=None)[RULE].status == "not_applicable"
    device = DeviceSignals(recorded="host_only")
    signals = signals_of({version_signals: {}}, device=device)
    assert evaluate(signals).status == "not_applicable"


def test_the_versions_that_pytorch_notes_are_read(tmp_path: Path) -> None:
    path = tmp_path / "worker0.1.pt.trace.json"
    path.write_text(
        '{"schemaVersion": 1, "cuda_runtime_version": 12040, '
        '"cuda_driver_version": "new", "traceEvents": [{"ph": "X", "cat": "cpu_op", '
        '"name": "aten::mul", "pid": 1, "tid": 1, "ts": 1, "dur": 5}]}',
        encoding="utf-8",
    )
    row = require_available(blueprint.read(path).table("environment")).row(
        0, named=True
    )
    assert (row["cuda_runtime"], row["cuda_driver"]) == (12040, None)
