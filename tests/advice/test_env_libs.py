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
from stepscope.reporting.words.findings import finding_headline
from stepscope.unavailable import require_available

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.advice.finding import Finding

RULE = "env.libs"


def versions(**fields: Any) -> HostVersions:
    usual: dict[str, Any] = {
        "runtime": 12040,
        "driver": 12040,
        "newest": (9, 0),
        "device": "NVIDIA H100",
    }
    return HostVersions(**(usual | fields))


def judged(signals_of: Any, **fields: Any) -> Finding:
    return evaluate(signals_of({version_signals: {"vm": versions(**fields)}}))


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
    combinations = {"combinations": None}
    assert said == {"runtime": 11.0, "driver": 10.0, "wanted": 12.0} | combinations


CONV3D = ("aten::relu", "aten::conv3d")


@pytest.mark.parametrize(
    ("torch", "cudnn", "names", "affected"),
    [
        ("2.9.0+cu128", "9.10.2", CONV3D, True),
        ("2.9.1", "9.14.0", CONV3D, True),
        # The release notes of 2.9.1 ask for cuDNN 9.15.
        ("2.9.1", "9.15.0", CONV3D, False),
        ("2.8.0+cu128", "9.10.2", CONV3D, False),
        ("2.10.0a0+git1234567", "9.10.2", CONV3D, False),
        ("2.9.0", "9.10.2", ("aten::conv2d",), False),
        ("2.9.0", None, CONV3D, False),
        (None, "9.10.2", CONV3D, False),
        ("nightly", "9.10.2", CONV3D, False),
    ],
)
def test_convolutions_without_cudnn_are_a_note(
    signals_of: Any,
    torch: str | None,
    cudnn: str | None,
    names: tuple[str, ...],
    *,
    affected: bool,
) -> None:
    libraries = {"torch": torch, "cudnn": cudnn}
    known = {name: version for name, version in libraries.items() if version}
    finding = judged(signals_of, libraries=known, names=names)
    assert (finding.status, finding.severity) == (
        "fail" if affected else "pass",
        "info",
    )
    assert finding.because == (("conv3d_without_cudnn",) if affected else ())
    if affected:
        assert torch is not None
        release = torch.partition("+")[0]
        assert f"recorded: torch {release}, cudnn {cudnn}" in finding_headline(finding)
        assert [action.id for action in finding.actions] == ["update_cudnn"]


@pytest.mark.parametrize(
    ("nccl", "newest", "names", "affected"),
    [
        ("2.18.1", (9, 0), ("ncclKernel_AllReduce_TREE_LL128_Sum_float",), True),
        ("2.18.3", (9, 0), ("ncclDevKernel_AllReduce_Sum_f32",), False),
        ("2.17.1", (9, 0), ("ncclKernel_AllReduce_TREE_LL128_Sum_float",), False),
        ("2.18.1", (8, 0), ("ncclKernel_AllReduce_TREE_LL128_Sum_float",), False),
        ("2.18.1", None, ("ncclKernel_AllReduce_TREE_LL128_Sum_float",), False),
        ("2.18.1", (9, 0), ("aten::mm",), False),
    ],
)
def test_a_known_fault_of_nccl_is_named_where_it_is_used(
    signals_of: Any,
    nccl: str,
    newest: tuple[int, int] | None,
    names: tuple[str, ...],
    *,
    affected: bool,
) -> None:
    fields = {"libraries": {"nccl": nccl}, "names": names, "newest": newest}
    finding = judged(signals_of, **fields)
    assert finding.because == (("nccl_corrupts",) if affected else ())
    assert ("corrupt data" in finding_headline(finding)) is affected


@pytest.mark.parametrize(
    ("driver", "runtime", "names", "because"),
    [
        (12020, 12040, ("PjitFunction(step)",), ("driver", "serial_xla")),
        (12020, 12040, ("aten::mm",), ("driver",)),
        (12040, 12040, ("PjitFunction(step)",), ()),
        (None, 12040, ("PjitFunction(step)",), ()),
        # The version that the driver is compared with is unknown.
        (12020, None, ("PjitFunction(step)",), None),
    ],
)
def test_an_old_driver_makes_xla_compile_one_part_after_the_other(
    signals_of: Any,
    driver: int | None,
    runtime: int | None,
    names: tuple[str, ...],
    because: tuple[str, ...] | None,
) -> None:
    fields = {"driver": driver, "runtime": runtime, "names": names}
    # Later releases of JAX link without the driver.
    newer = judged(signals_of, libraries={"jax": "0.8.0"}, **fields)
    assert "serial_xla" not in newer.because
    finding = judged(signals_of, libraries={"jax": "0.4.24"}, **fields)
    if because is None:
        assert finding.status == "cannot_tell"
    else:
        assert finding.because == because


@pytest.mark.parametrize(
    ("nccl", "newest", "affected"),
    [
        ("2.21.5", (10, 0), True),
        ("2.25.1", (10, 0), False),
        ("2.21.5", (9, 0), False),
        (None, (10, 0), False),
    ],
)
def test_a_new_device_wants_a_new_nccl(
    signals_of: Any, nccl: str | None, newest: tuple[int, int], *, affected: bool
) -> None:
    libraries = {"nccl": nccl} if nccl else {}
    names = ("ncclDevKernel_AllReduce_Sum_f32",)
    fields = {"runtime": 12080, "driver": 12080, "newest": newest}
    finding = judged(signals_of, libraries=libraries, names=names, **fields)
    assert finding.because == (("old_nccl",) if affected else ())


def test_a_combination_is_known_without_the_runtime_and_names_its_host(
    signals_of: Any,
) -> None:
    fields: dict[str, Any] = {
        "libraries": {"torch": "2.9.0", "cudnn": "9.10.2"},
        "names": CONV3D,
    }
    hosts = {"other": versions(runtime=None), "vm": versions(runtime=None, **fields)}
    finding = evaluate(signals_of({version_signals: hosts}))
    assert (finding.status, finding.note) == ("fail", "combination")
    assert finding.devices == ("vm",)
    # Several combinations of several hosts.
    fields["libraries"]["jax"] = "0.4.30"
    fields |= {"driver": 12020, "names": (*CONV3D, "PjitFunction(f)")}
    hosts = {"a": versions(**fields), "b": versions(**fields)}
    finding = evaluate(signals_of({version_signals: hosts}))
    assert finding.because == ("driver", "conv3d_without_cudnn", "serial_xla")
    assert finding.devices == ("a", "b")
    # A runtime that is too old for the device is said first.
    hosts = {"other": versions(runtime=11000), "vm": versions(**fields)}
    finding = evaluate(signals_of({version_signals: hosts}))
    assert finding.because == ("runtime", "conv3d_without_cudnn", "serial_xla")
    assert finding.devices == ("other", "vm")
    assert "is older than" in finding_headline(finding)


def test_every_combination_has_words_an_action_and_a_source() -> None:
    item = evaluate.item
    for key, combination in item.combinations.items():
        assert item.words.causes[key]
        assert item.actions_for(key)
        assert combination.source.startswith("https://")


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
        '"cuda_driver_version": "new", '
        '"distributedInfo": {"backend": "nccl", "nccl_version": "2.18.1"}, '
        '"traceEvents": [{"ph": "X", "cat": "cpu_op", '
        '"name": "aten::mul", "pid": 1, "tid": 1, "ts": 1, "dur": 5}]}',
        encoding="utf-8",
    )
    row = require_available(blueprint.read(path).table("environment")).row(
        0, named=True
    )
    assert (row["cuda_runtime"], row["cuda_driver"]) == (12040, None)
    assert row["libraries"] == "nccl 2.18.1"
