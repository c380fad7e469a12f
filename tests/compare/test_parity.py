"""Whether two steps do the same work, from what they run alone."""

from __future__ import annotations

from typing import Any

import pytest

from stepscope.compare.parity import Parity, check_parity, multiset_overlap
from stepscope.compare.work import Work
from stepscope.thresholds import THRESHOLDS

KERNELS = {"gemm": 20.0, "relu": 10.0}
SHAPES = {"mm": {"[[64, 784]]": 20.0}, "relu": {"[[64, 10]]": 10.0}}

TWICE = {"mm": {"[[128, 784]]": 20.0}, "relu": {"[[128, 10]]": 10.0}}


def work(**changed: Any) -> Work:
    fields: dict[str, Any] = {
        "devices": {"H100": 1},
        "processes": 1,
        "steps": 10,
        "step_source": "marker",
        "confidence": 1.0,
        "batches": None,
        "kernels": KERNELS,
        "launches": None,
        "ops": None,
        "shapes": SHAPES,
        "program_inputs": None,
        "batch_sizes": None,
        "copied_bytes": None,
        "variables": None,
    }
    return Work(**(fields | changed))


def of(base: Work, new: Work, *, same_work: bool = False) -> Parity:
    return check_parity(base, new, thresholds=THRESHOLDS, same_work=same_work)


def state(parity: Parity, topic: str) -> str:
    (found,) = (one.status for one in parity.checks if one.topic == topic)
    return found


def test_the_overlap_of_multisets_counts_how_often() -> None:
    assert multiset_overlap({"a": 3.0, "b": 1.0}, {"a": 1.0, "b": 1.0}) == 2 / 4
    assert multiset_overlap({}, {}) == 1.0
    assert multiset_overlap({"a": 1.0}, {"b": 1.0}) == 0.0


def test_equal_work_is_comparable() -> None:
    assert of(work(), work()).comparable


@pytest.mark.parametrize(
    ("field", "value", "topic"),
    [
        ("devices", {"A100": 1}, "devices"),
        ("devices", {"H100": 2}, "devices"),
        ("processes", 2, "devices"),
        ("batch_sizes", (32,), "batch"),
        ("variables", {"5×5": 1}, "model"),
        (
            "shapes",
            {"mm": {"[[128, 784]]": 20.0}, "relu": {"[[128, 10]]": 10.0}},
            "batch",
        ),
    ],
)
def test_what_the_recordings_show_to_differ_no_statement_mends(
    field: str, value: object, topic: str
) -> None:
    known = work(batch_sizes=(64,), variables={"4×4": 1})
    other = work(**({"batch_sizes": (64,), "variables": {"4×4": 1}} | {field: value}))
    for same_work in (False, True):
        found = of(known, other, same_work=same_work)
        assert state(found, topic) == "differs"
        assert not found.comparable


@pytest.mark.parametrize(
    "changed",
    [
        {"shapes": None},
        {"kernels": {"other": 30.0}, "shapes": SHAPES},
        {"kernels": None, "ops": None},
    ],
)
def test_what_they_do_not_show_somebody_may_state(changed: dict[str, Any]) -> None:
    assert not of(work(), work(**changed)).comparable
    stated = of(work(), work(**changed), same_work=True)
    assert stated.comparable
    assert stated.vouched


@pytest.mark.parametrize("changed", [{"steps": 2}, {"steps": 0}, {"confidence": 0.59}])
def test_without_certain_steps_no_statement_helps(changed: dict[str, Any]) -> None:
    found = of(work(), work(**changed), same_work=True)
    assert not found.comparable
    assert state(found, "steps") == "unknown"


def test_other_kernels_of_the_same_ops_are_the_same_work() -> None:
    ops = {"mm": 20.0, "relu": 10.0}
    found = of(work(ops=ops), work(ops=ops, kernels={"bf16_gemm": 20.0}))
    assert state(found, "kernels") == "differs"
    assert found.comparable


def test_a_program_for_another_size_is_another_batch() -> None:
    base = work(
        shapes=None, program_inputs={"jit_step": {"[64,8]": 2.0, "[8,8]": 99.0}}
    )
    new = work(shapes=None, program_inputs={"jit_step": {"[32,8]": 2.0, "[8,8]": 99.0}})
    assert state(of(base, new), "batch") == "differs"
    assert state(of(base, base), "batch") == "same"


def test_the_rest_of_the_programs_does_not_count() -> None:
    inputs = {"jit_step": {"[64,8]": 9.0}}
    more = inputs | {"jit_print": {"[1]": 1.0}}
    base, new = (work(shapes=None, program_inputs=one) for one in (inputs, more))
    assert state(of(base, new), "batch") == "same"


def test_shapes_of_what_runs_rarely_prove_nothing() -> None:
    few = {"mm": {"[[64, 784]]": 1.0}, "cat": {"[[1]]": 5.0}}
    many = {"mm": {"[[64, 784]]": 1.0}, "cat": {"[[1]]": 500.0}}
    assert state(of(work(shapes=few), work(shapes=many)), "batch") == "unknown"


def test_bytes_copied_tell_the_batch_where_nothing_else_does() -> None:
    base, new = (work(shapes=None, copied_bytes=one) for one in (1e6, 1.001e6))
    assert state(of(base, new), "batch") == "same"
    twice = work(shapes=None, copied_bytes=2e6)
    assert state(of(base, twice), "batch") == "unknown"


def test_nothing_at_all_is_no_proof() -> None:
    nothing = work(kernels=None, shapes=None)
    found = of(nothing, nothing)
    assert not found.comparable
    assert {one.status for one in found.checks[2:]} == {"unknown"}
