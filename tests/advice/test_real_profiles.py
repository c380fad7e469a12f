"""Verdicts on real recordings.

Definition: docs/definitions/judging.md#status.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.traces.judged import Judged

from stepscope.advice.engine import signals_of
from stepscope.session import open_profile

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from stepscope.advice.finding import Finding


#: TensorFlow's own recorder keeps no garbage collections, its Python tracer was off,
#: what else ran on the machine nobody recorded, and ten whole steps of an allocator are
#: not in each of them.
NOT_RECORDED = frozenset(
    {
        "gap.gc",
        "cpu.threads",
        "host.wait",
        "step.outlier",
        *(f"mem.{one}" for one in ("fragmentation", "leak", "oom")),
    }
)


@cache
def findings(path: Path) -> Mapping[str, Finding]:
    profile = open_profile(path)
    return Judged(signals_of(profile))


@pytest.mark.parametrize("name", ["healthy", "xla", "keras_fit"])
def test_healthy_runs_pass(name: str, shared_profile: Any) -> None:
    found = findings(shared_profile(f"tf_cpu/{name}"))
    assert found["input.bound"].status == "pass"
    assert found["input.bound"].value < 5
    told = {one.status for name, one in found.items() if name not in NOT_RECORDED}
    assert told == {"pass", "not_applicable"}
    # Some steps are slow where the machine has other work.
    assert found["step.outlier"].severity == "info"
    assert found["host.work"].note == "ops"


@pytest.mark.parametrize(
    # Of all steps of the second one 57.36 %; its first one is cold, 184 ms after which
    # no other takes more than 63 ms, and is left out.
    ("name", "share"),
    [("input_bound", 48.05), ("sequential_map", 66.73)],
)
def test_starved_runs_on_the_cpu_are_critical(
    name: str, share: float, shared_profile: Any
) -> None:
    found = findings(shared_profile(f"tf_cpu/{name}"))["input.bound"]
    assert (found.status, found.severity) == ("fail", "critical")
    # The share counted from the file takes the markers for the whole, ours the windows.
    assert found.share_percent == pytest.approx(share, abs=3)
    assert all("IteratorGetNext" in one.ops[0] for one in found.evidence)


@pytest.mark.profiles
def test_the_starved_gpu_fails_for_its_input_and_for_its_precision(
    shared_profile: Any,
) -> None:
    found = findings(shared_profile("gpu_tf/t4_starved"))
    first = found["input.bound"]
    assert (first.status, first.severity) == ("fail", "warn")
    assert first.note == "few_steps"
    # TensorFlow's own result: 62.2507 %, without the copies of the batch.
    fetch = next(one for one in first.causes if one.cause == "fetch")
    assert fetch.share_percent == pytest.approx(62.25, abs=0.1)
    amp = found["amp.share"]
    assert (amp.status, amp.value) == ("fail", 0.0)
    assert amp.after_stage == 1
    assert found["launch.delay"].status == "pass"


@pytest.mark.profiles
def test_the_launch_bound_gpu_waits_for_launches(shared_profile: Any) -> None:
    found = findings(shared_profile("gpu_tf/turing_launch_bound"))
    launch = found["launch.delay"]
    assert (launch.status, launch.severity) == ("fail", "warn")
    # TensorFlow's own result charges 72.3 % to kernel launch, and to host compute what
    # ops that launch spend on the way there.
    assert launch.share_percent > 72.3
    assert "small_work" in launch.because
    assert found["input.bound"].status != "fail"


@pytest.mark.profiles
@pytest.mark.parametrize(
    ("name", "share"), [("t4_healthy", 15.6), ("v100_large", 7.05)]
)
def test_exposed_copies_of_the_batch_are_input_and_named_as_copies(
    name: str, share: float, shared_profile: Any
) -> None:
    found = findings(shared_profile(f"gpu_tf/{name}"))
    first = found["input.bound"]
    assert (first.status, first.severity) == ("fail", "warn")
    assert first.share_percent == pytest.approx(share, abs=0.3)
    assert first.causes[0].cause == "transfer"
    assert first.actions[0].cause == "transfer"
    assert found["launch.delay"].status != "fail"


def test_batches_made_in_python_are_not_called_input_bound(
    shared_profile: Any,
) -> None:
    for name in ("steps", "nosteps"):
        found = findings(shared_profile(f"jax_cpu/{name}"))["input.bound"]
        assert found.status != "fail"


def test_steps_without_markers_carry_verdicts(shared_profile: Any) -> None:
    found = findings(shared_profile("tf_cpu/no_step_markers"))["input.bound"]
    assert found.status != "fail"
    assert found.steps_clean is not None
    assert found.steps_clean > 150


@pytest.mark.profiles
def test_the_worker_that_waits_most_speaks_for_the_run(shared_profile: Any) -> None:
    found = findings(shared_profile("tf_cpu/two_workers"))["input.bound"]
    assert found.devices == ("localhost_6009", "localhost_6010")
    assert found.share_percent == pytest.approx(29.4, abs=1)


@pytest.mark.profiles
def test_kernels_that_do_no_products_are_no_matter_of_precision(
    shared_profile: Any,
) -> None:
    found = findings(shared_profile("gpu_jax_amd/jax08_gemm"))["amp.share"]
    assert (found.status, found.value) == ("pass", 100.0)
