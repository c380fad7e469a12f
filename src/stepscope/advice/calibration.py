"""Which rules have failed on recorded programs, and on which.

All others have failed on made-up programs only: their thresholds are not proven, and
every finding of theirs says so. Tests judge the recordings that are named here.

Definition: docs/findings.md#uncalibrated-rules.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Rules that only collect numbers.
JUDGES_NOTHING: Final = frozenset({"score.card"})

#: Rule → a recording on which it fails: a folder of the repository, a planted fault of
#: the experiments ("experiment …"), or a public profile ("public …").
CALIBRATED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "capture.quality": "tests/data/gpu/jax_input_bound",
        "capture.steps": "tests/data/gpu/kernels",
        "capture.window": "tests/data/jax_cpu/python_tracer",
        "recording.cost": "tests/data/gpu/check_torch",
        "input.bound": "tests/data/gpu/jax_input_bound",
        "input.stage": "tests/data/tf_cpu/input_bound",
        "gaps.between": "tests/data/gpu/jax_unmarked",
        "host.work": "experiment jax slow_transform",
        "gap.callbacks": "experiment plain callback",
        "gap.readback": "tests/data/gpu/check_jax",
        "gap.output": "tests/data/gpu/torch_copies",
        "gap.gc": "experiment plain collect",
        "launch.delay": "tests/data/gpu/check_jax",
        "launch.small": "tests/data/gpu/torch_launch_bound",
        "launch.eager": "tests/data/tf_cpu/no_step_markers",
        "kernel.fill": "tests/data/gpu/planted_kernels",
        "gpu.worth": "tests/data/gpu/check_jax",
        "copy.exposed": "tests/data/gpu/torch_copies",
        "tc.unused": "tests/data/gpu/kernels",
        "fuse.runs": "tests/data/gpu/kernels",
        "layout.transpose": "public gpu_jax_amd/jax08_conv",
        "op.hot": "tests/data/gpu/kernels",
        "kernel.occupancy": "tests/data/gpu/planted_kernels",
        "kernel.coalescing": "tests/data/gpu/planted_kernels",
        "kernel.conflicts": "tests/data/gpu/planted_kernels",
        "kernel.spills": "tests/data/gpu/planted_kernels",
        "kernel.bound": "tests/data/gpu/tiers",
        "amp.share": "tests/data/gpu/check_jax",
        "amp.fallback": "tests/data/gpu/kernels",
        "amp.cast": "tests/data/gpu/kernels",
        "xla.off": "tests/data/gpu/check_torch",
        "xla.recompile": "experiment jax recompile",
        "multi.batch": "tests/data/gpu/check_jax",
        "multi.sequential": "public gpu_jax_amd/jax08_conv",
        "comm.exposed": "public kineto/dlrm_8rank_v100",
        "multi.balance": "experiment torch straggler",
        "allreduce.arrival": "public kineto/dlrm_8rank_v100",
        "multi.stagger": "public kineto/dlrm_8rank_v100",
        "mem.leak": "experiment torch leak",
        "step.outlier": "tests/data/jax_ahead",
        "step.periodic": "public nsys_ladder/8workers.sqlite.gz",
        "cpu.threads": "experiment torch collect",
        "debug.print": "experiment jax debug",
    }
)


def is_calibrated(rule: str) -> bool:
    """Return whether a rule has failed on a recorded program, or never fails."""
    return rule in CALIBRATED or rule in JUDGES_NOTHING
