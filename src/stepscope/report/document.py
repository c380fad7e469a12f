"""What a renderer is given: results and findings of one profile, and what it was."""

from __future__ import annotations

from typing import Final

import msgspec

from stepscope.advice.finding import Finding
from stepscope.analysis.framework_op_stats import FrameworkOpStatsResult
from stepscope.analysis.inference_profile import InferenceProfileResult
from stepscope.analysis.input_pipeline_analyzer import InputPipelineResult
from stepscope.analysis.kernel_stats import KernelStatsResult
from stepscope.analysis.memory_profile import MemoryProfileResult
from stepscope.analysis.overview_page import OverviewPageResult
from stepscope.analysis.tf_data_bottleneck_analysis import (
    TfDataBottleneckAnalysisResult,
)
from stepscope.unavailable import Missing, Unavailable

__all__ = ["REPORTED", "Device", "Document", "Doubt", "Envelope", "Profile"]

#: Tools whose results a report is made of → the field of `Document` that has them.
REPORTED: Final = {
    "overview_page": "overview",
    "input_pipeline_analyzer": "input_pipeline",
    "framework_op_stats": "ops",
    "kernel_stats": "kernels",
    "memory_profile": "memory",
    "tf_data_bottleneck_analysis": "tf_data",
    "inference_profile": "inference",
}


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """An accelerator that the capture listed.

    Attributes:
        host: Its host.
        device: Ordinal.
        type: "GPU", "TPU" or another kind.
        name: Product name; null where not recorded.
        compute_capability: `major.minor`; null where not recorded.
        activities: How much work was recorded on it, in pieces.
    """

    host: str
    device: int
    type: str
    name: str | None
    compute_capability: str | None
    activities: int


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """Where the numbers come from."""

    run: str
    hosts: tuple[str, ...]
    devices: tuple[Device, ...]


class Doubt(msgspec.Struct, frozen=True, kw_only=True):
    """One doubt about a recording (a row of `quality`); without host of the run."""

    host: str | None
    kind: str
    severity: str
    scope: str
    message: str
    count: int | None
    remedy: str | None


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """One tool's answer with its circumstances.

    Definition: docs/definitions/times-and-values.md#the-json-of-an-answer.

    Attributes:
        schema: Number of this shape.
        tool: Name of the tool.
        profile: Where the numbers come from.
        unavailable: Why there is no answer at all.
        missing: Null fields with their reasons.
        quality: Doubts about the recording.
        inputs: What was read, counted.
        data: The result; null where `unavailable` says why.
    """

    schema: int = 1
    tool: str
    profile: Profile
    unavailable: Unavailable | None
    missing: tuple[Missing, ...]
    quality: tuple[Doubt, ...]
    inputs: dict[str, object]
    data: msgspec.Struct | None


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a report of one profile says.

    Attributes:
        profile: Where the numbers come from.
        overview: Result of the tool of that name, or why there is none.
        ops: Likewise, `framework_op_stats`.
        kernels: Likewise, `kernel_stats`.
        input_pipeline: Likewise, `input_pipeline_analyzer`.
        memory: Likewise, `memory_profile`.
        tf_data: Likewise, `tf_data_bottleneck_analysis`.
        inference: Likewise, `inference_profile`.
        findings: In the order in which to act.
        quality: Doubts about the recording.
        silent_device: What points at a device whose work was not recorded; null where
            there is no such sign.
        frameworks: Whose names the ops bear; empty where none is recognised.
    """

    profile: Profile
    overview: OverviewPageResult | Unavailable
    ops: FrameworkOpStatsResult | Unavailable
    kernels: KernelStatsResult | Unavailable
    input_pipeline: InputPipelineResult | Unavailable
    memory: MemoryProfileResult | Unavailable
    tf_data: TfDataBottleneckAnalysisResult | Unavailable
    inference: InferenceProfileResult | Unavailable
    findings: tuple[Finding, ...]
    quality: tuple[Doubt, ...]
    silent_device: str | None = None
    frameworks: tuple[str, ...] = ()

    @property
    def tools(self) -> dict[str, msgspec.Struct | Unavailable]:
        """The results by the names of their tools."""
        return {tool: getattr(self, field) for tool, field in REPORTED.items()}
