"""`amp.share` over literal signals: fires, stays silent, near miss, cannot tell."""

from __future__ import annotations

from typing import Any

import pytest
from tests.advice.kernels import kernel, worked

from stepscope.advice.catalogue import rule_item
from stepscope.advice.judging.program_facts import narrow_type_facts
from stepscope.advice.rules.precision.amp_share import (
    evaluate,
    narrower_kernel_changes,
)
from stepscope.derive.facts.devices.kernel_precision import precision_signals
from stepscope.derive.facts.devices.kernel_work import kernel_work
from stepscope.derive.facts.program_traits import ProgramTraits, program_traits
from stepscope.derive.verdicts.recorded_devices import DeviceSignals, device_signals

US = 1_000_000
MS = 1_000_000_000
ALL_WIDE = {
    "narrow_ps": 0,
    "eligible_narrow_ps": 0,
    "narrow_kernels": 0,
    "wide_per_step_ps": 6 * MS,
}


def device(*capability: tuple[int, int] | None) -> DeviceSignals:
    return DeviceSignals(recorded="recorded", compute_capability=capability)


def test_products_in_float32_fail_with_the_gain_of_the_guide(
    signals_of: Any, precision_of: Any
) -> None:
    finding = evaluate(signals_of({precision_signals: precision_of(**ALL_WIDE)}))
    assert (finding.status, finding.severity) == ("fail", "warn")
    assert finding.value == 0.0
    assert finding.saving_ms is not None
    assert finding.saving_ms.low == pytest.approx(6 * (1 - 1 / 1.3))
    assert finding.saving_ms.high == pytest.approx(4.0)
    assert any("bfloat16" in (action.code or "") for action in finding.actions)


def test_bfloat16_products_pass(signals_of: Any, precision_of: Any) -> None:
    finding = evaluate(signals_of({precision_signals: precision_of()}))
    assert (finding.status, finding.value) == ("pass", 100.0)


def test_hardware_without_the_units_is_not_applicable(
    signals_of: Any, precision_of: Any
) -> None:
    finding = evaluate(
        signals_of(
            {
                device_signals: device((6, 1)),
                precision_signals: precision_of(**ALL_WIDE),
            }
        )
    )
    assert finding.status == "not_applicable"


def test_an_unknown_capability_is_no_evidence_of_absence(
    signals_of: Any, precision_of: Any
) -> None:
    finding = evaluate(
        signals_of(
            {device_signals: device(None), precision_signals: precision_of(**ALL_WIDE)}
        )
    )
    assert finding.status == "fail"


@pytest.mark.parametrize(
    ("capability", "expected", "unexpected"),
    [((7, 5), "float16", "mixed_bfloat16"), ((9, 0), "bfloat16", "mixed_float16")],
)
def test_the_type_offered_is_one_the_hardware_has(
    signals_of: Any,
    precision_of: Any,
    capability: tuple[int, int],
    expected: str,
    unexpected: str,
) -> None:
    finding = evaluate(
        signals_of(
            {
                device_signals: device(capability),
                precision_signals: precision_of(**ALL_WIDE),
            }
        )
    )
    code = " ".join(action.code or "" for action in finding.actions)
    assert expected in code
    assert unexpected not in code


@pytest.mark.parametrize(
    ("capability", "offered", "not_known_to_it"),
    [
        ((7, 0), "float16", ("bfloat16", "set_float32_matmul_precision")),
        ((8, 0), "bfloat16", ("mixed_float16", "torch.float16", "jnp.float16")),
        (None, "float16", ("bfloat16", "set_float32_matmul_precision")),
    ],
)
@pytest.mark.parametrize("rule", ["amp.share", "tc.unused"])
def test_units_are_offered_types_that_they_take(
    signals_of: Any,
    rule: str,
    capability: tuple[int, int] | None,
    offered: str,
    not_known_to_it: tuple[str, ...],
) -> None:
    """Matrix units of Volta and Turing know neither bfloat16 nor TF32."""
    signals = signals_of({device_signals: device(capability)})
    chosen = rule_item(rule).actions_for(*narrow_type_facts(signals))
    assert {one.framework for one in chosen} == {"TensorFlow", "PyTorch", "JAX"}
    code = " ".join(one.code or "" for one in chosen)
    assert offered in code
    assert not [word for word in not_known_to_it if word in code]


@pytest.mark.parametrize("trains", [True, False])
def test_a_program_without_gradients_has_no_loss_to_scale(
    signals_of: Any, *, trains: bool
) -> None:
    known = {
        device_signals: device((7, 5)),
        program_traits: ProgramTraits(updates=trains, trains=trains),
    }
    facts = narrow_type_facts(signals_of(known))
    chosen = rule_item("amp.share").actions_for(*facts)
    (told,) = [one for one in chosen if one.framework == "PyTorch"]
    assert "torch.float16" in (told.code or "")
    assert ("GradScaler" in (told.code or "")) is trains


def test_a_run_on_the_host_alone_is_not_applicable(signals_of: Any) -> None:
    signals = signals_of({device_signals: DeviceSignals(recorded="host_only")})
    assert evaluate(signals).status == "not_applicable"


def test_unknown_types_of_a_third_of_the_work_cannot_tell(
    signals_of: Any, precision_of: Any
) -> None:
    found = precision_of(**ALL_WIDE, eligible_unknown_ps=1_800 * US)
    finding = evaluate(signals_of({precision_signals: found}))
    assert finding.status == "cannot_tell"
    assert finding.unavailable is not None
    assert finding.unavailable.code == "NO_SHAPES"


def test_unknown_types_that_could_flip_the_verdict_cannot_tell(
    signals_of: Any, precision_of: Any
) -> None:
    found = precision_of(
        eligible_narrow_ps=2_500 * US,
        narrow_ps=2_500 * US,
        eligible_unknown_ps=900 * US,
    )
    assert evaluate(signals_of({precision_signals: found})).status == "cannot_tell"


def test_kernels_without_ops_cannot_tell(signals_of: Any, precision_of: Any) -> None:
    found = precision_of(
        eligible_ps=0, eligible_narrow_ps=0, narrow_ps=0, undecided_ps=9_000 * US
    )
    assert evaluate(signals_of({precision_signals: found})).status == "cannot_tell"


@pytest.mark.parametrize(
    ("with_op", "reason"),
    [
        (9_000, "neither the names of the kernels nor their ops"),
        (0, "the kernels have no op"),
    ],
)
def test_it_says_why_it_cannot_tell(
    signals_of: Any, precision_of: Any, with_op: int, reason: str
) -> None:
    """Ops of the program's own say no more of what they compute than its kernels."""
    found = precision_of(
        eligible_ps=0,
        eligible_narrow_ps=0,
        narrow_ps=0,
        undecided_ps=9_000 * US,
        undecided_with_op_ps=with_op * US,
    )
    why = evaluate(signals_of({precision_signals: found})).unavailable
    assert why is not None
    assert reason in why.reason
    assert ("custom ops in the program" in why.remedy) is (with_op > 0)


@pytest.mark.parametrize(
    ("tf32_ms", "idle_ms", "severity"),
    # Half of the products' time may go: 1.05 or 0.95 of 10 ms. A device that waits for
    # launches half of the time gains nothing.
    [(2.1, 4.9, "warn"), (1.9, 4.9, "info"), (2.1, 5.1, "info")],
)
def test_the_gain_decides_how_grave_tf32_is(
    signals_of: Any,
    shares: Any,
    precision_of: Any,
    *,
    tf32_ms: float,
    idle_ms: float,
    severity: str,
) -> None:
    found = precision_of(
        **{**ALL_WIDE, "wide_per_step_ps": 0},
        tf32_per_step_ps=round(tf32_ms * MS),
        eligible_tf32_ps=5_000 * US,
    )
    signals = signals_of(shares(launch=idle_ms), {precision_signals: found})
    finding = evaluate(signals)
    assert (finding.status, finding.severity) == ("fail", severity)
    assert finding.note == "tf32"


def test_little_eligible_work_is_information_only(
    signals_of: Any, precision_of: Any
) -> None:
    found = precision_of(
        **{**ALL_WIDE, "wide_per_step_ps": MS // 2}, eligible_ps=500 * US
    )
    finding = evaluate(signals_of({precision_signals: found}))
    assert (finding.status, finding.severity) == ("fail", "info")
    assert finding.note == "share_of_all"


@pytest.mark.parametrize(
    ("wide_ps", "severity", "note"),
    [(MS // 10, "warn", None), (MS // 10 - 1, "info", "little")],
    ids=["a hundredth of the step", "less"],
)
def test_work_that_takes_no_time_is_information_only(
    signals_of: Any, precision_of: Any, wide_ps: int, severity: str, note: str | None
) -> None:
    """All of it is in 32 bit, and the device hardly works: the step is 10 ms."""
    found = precision_of(**{**ALL_WIDE, "wide_per_step_ps": wide_ps})
    finding = evaluate(signals_of({precision_signals: found}))
    assert (finding.status, finding.severity) == ("fail", severity)
    assert finding.note == note


def test_no_eligible_work_has_no_share(signals_of: Any, precision_of: Any) -> None:
    found = precision_of(eligible_ps=0, eligible_narrow_ps=0, narrow_ps=0)
    finding = evaluate(signals_of({precision_signals: found}))
    assert (finding.status, finding.value) == ("pass", None)


def test_without_steps_the_share_stands_and_no_saving_is_promised(
    signals_of: Any, precision_of: Any
) -> None:
    found = precision_of(
        **{**ALL_WIDE, "wide_per_step_ps": None}, step_ps=None, steps=0
    )
    finding = evaluate(signals_of({precision_signals: found}))
    assert finding.status == "fail"
    assert finding.saving_ms is None
    assert finding.ms_per_step is None


def test_the_gain_over_tf32_is_less_than_over_32_bit(
    signals_of: Any, precision_of: Any
) -> None:
    found = precision_of(
        **{**ALL_WIDE, "wide_per_step_ps": 2 * MS, "tf32_per_step_ps": 4 * MS},
        eligible_tf32_ps=4_000 * US,
    )
    finding = evaluate(signals_of({precision_signals: found}))
    assert finding.ms_per_step == pytest.approx(6)
    assert finding.saving_ms is not None
    # 16 bit runs at most three times as fast as 32 bit, and twice as fast as TF32.
    assert finding.saving_ms.high == pytest.approx(2 * 2 / 3 + 4 / 2)
    assert finding.saving_ms.low == pytest.approx(2 * (1 - 1 / 1.3) + 4 * (1 - 1 / 1.1))


def test_emulated_32_bit_products_gain_most(signals_of: Any, precision_of: Any) -> None:
    """Attention, 5 of 6 ms, computes 32-bit products on matrix units."""
    work = worked(
        kernel(5.0, precision="32", full_name="fmha_cutlassF_f32_aligned_64x64"),
        kernel(1.0, precision="32", matrix_units=False),
    )
    signals = {
        precision_signals: precision_of(**ALL_WIDE, devices=("vm:0",)),
        kernel_work: work,
    }
    saving = evaluate(signals_of(signals)).saving_ms
    assert saving is not None
    assert saving.low == pytest.approx(5 / 2 + 1 - 1 / 1.3)
    assert saving.high == pytest.approx(5 * 3.5 / 4.5 + 2 / 3)
    plain, emulated = narrower_kernel_changes(signals_of(signals))
    assert (list(plain.classes), plain.left) == ([1], (1 / 1.3, 1 / 3))
    assert (list(emulated.classes), emulated.left) == ([0], (1 / 2, 1 / 4.5))


def test_undecided_kernels_in_32_bit_do_not_hide_a_failure(
    signals_of: Any, precision_of: Any
) -> None:
    """If they could be in 16 bit as well, the share would only be lower."""
    found = precision_of(
        **ALL_WIDE,
        eligible_ps=2_000 * US,
        undecided_ps=6_000 * US,
    )
    finding = evaluate(signals_of({precision_signals: found}))
    assert finding.status == "fail"


def test_undecided_kernels_that_may_be_narrow_can_turn_it(
    signals_of: Any, precision_of: Any
) -> None:
    found = precision_of(
        **ALL_WIDE,
        eligible_ps=2_000 * US,
        undecided_ps=6_000 * US,
        undecided_narrow_ps=6_000 * US,
    )
    finding = evaluate(signals_of({precision_signals: found}))
    assert finding.status == "cannot_tell"


def test_little_work_that_is_all_in_16_bit_is_no_finding(
    signals_of: Any, precision_of: Any
) -> None:
    found = precision_of(
        eligible_ps=500 * US, eligible_narrow_ps=500 * US, narrow_ps=500 * US
    )
    finding = evaluate(signals_of({precision_signals: found}))
    assert (finding.status, finding.value) == ("pass", 100.0)
