"""Kernels written out by hand: what the rules about them see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from stepscope.advice.registry import RULES
from stepscope.derive.facts.devices.kernel_kinds import FusableRuns
from stepscope.derive.facts.devices.kernel_work import KernelWork, kernel_work
from stepscope.derive.facts.recording import record_grade

if TYPE_CHECKING:
    from stepscope.advice.finding import Finding
    from stepscope.advice.signals import Signals

MS = 1_000_000_000
US = 1_000_000
RULE = {rule.item.id: rule for rule in RULES}
#: A 16-bit matrix product, in a step that kernels fill for 10 ms.
PRODUCT: dict[str, Any] = {
    "class": 0,
    "kernel": "gemm",
    "full_name": "void gemm<half>",
    "op": "a/MatMul",
    "op_type": "MatMul",
    "category": "MatMul",
    "precision": "16",
    "told": True,
    "matrix_units": True,
    "eligible": True,
    "plain": False,
    "collective": False,
    "converts": False,
    "reorders": False,
    "odd_size": None,
    "sized": True,
    "shape": None,
    "speedup": None,
    "count": 1.0,
    "time_ps": 10 * MS,
}
#: A kernel that multiplies nothing, and one of which nobody knows whether it does.
OTHER = {"kernel": "relu", "full_name": "relu", "op": "a/Relu", "op_type": "Relu"}
OTHER |= {"category": "Relu", "eligible": False, "plain": True, "matrix_units": False}
UNKNOWN = {"op": None, "op_type": None, "eligible": None, "matrix_units": None}
EXCHANGE = {"kernel": "nccl", "full_name": "nccl", "collective": True, "op": None}
EXCHANGE |= {"op_type": None, "eligible": None, "precision": None}


def kernel(ms: float, **fields: Any) -> dict[str, Any]:
    return PRODUCT | {"time_ps": round(ms * MS), **fields}


def worked(*kernels: dict[str, Any], shown: Any = None, **fields: Any) -> KernelWork:
    """Kernels of `vm:0`, classes as numbered, in steps of 20 ms."""
    schema = {"odd_size": pl.Int64, "speedup": pl.Float64, "shape": pl.String}
    rows = pl.DataFrame(
        [row | {"class": at} for at, row in enumerate(kernels)],
        schema_overrides={
            **schema,
            **dict.fromkeys(("op", "op_type", "precision"), pl.String),
            **dict.fromkeys(("eligible", "matrix_units", "converts"), pl.Boolean),
        },
        infer_schema_length=None,
    )
    nothing = pl.DataFrame(
        schema={
            "class": pl.Int32,
            "stream": pl.Int32,
            "start_ps": pl.Int64,
            "end_ps": pl.Int64,
            "event": pl.Int32,
        }
    )
    time = int(rows.filter(~pl.col("collective"))["time_ps"].sum())
    return KernelWork(
        **{
            "label": "vm:0",
            "steps": 12,
            "has_steps": True,
            "step_confidence": 1.0,
            "step_ps": 20 * MS,
            "device_ps": time,
            "rows": rows,
            "shown": nothing if shown is None else shown,
            "tracks": {},
            "runs": FusableRuns(rows.clear(), 0),
            **fields,
        }
    )


def signals(signals_of: Any, work: KernelWork, account: Any, **given: Any) -> Signals:
    extra = given.pop("extra", {})
    found: Signals = signals_of(
        account, {kernel_work: work, record_grade: 0.9, **extra}, **given
    )
    return found


def judged(name: str, seen: Signals) -> Finding:
    return RULE[name].evaluate(seen)


def facts_of(finding: Finding) -> dict[str, float]:
    return {fact.name: fact.value for fact in finding.facts if fact.value is not None}


SLOW = kernel(
    2.0, precision="32", matrix_units=False, kernel="sgemm", full_name="sgemm"
)
