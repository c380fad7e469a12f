"""The document that a renderer receives: results and findings of one profile."""

from __future__ import annotations

from typing import Final

import msgspec

from stepscope.advice.checklist import CheckedStage
from stepscope.advice.finding import Finding
from stepscope.advice.predicted_gains import Together
from stepscope.analysis.framework_op_stats import FrameworkOpStatsResult
from stepscope.analysis.inference_profile import InferenceProfileResult
from stepscope.analysis.input_pipeline_analyzer import InputPipelineResult
from stepscope.analysis.kernel_stats import KernelStatsResult
from stepscope.analysis.memory_profile import MemoryProfileResult
from stepscope.analysis.model_views.annotation_rows import TopAnnotation
from stepscope.analysis.ops.hardware import Hardware
from stepscope.analysis.overview_page import OverviewPageResult
from stepscope.analysis.tf_data_bottleneck_analysis import (
    TfDataBottleneckAnalysisResult,
)
from stepscope.report.envelope import Doubt, Profile
from stepscope.unavailable import Unavailable

#: Tool whose result a report needs → field of `Document` that has the result.
REPORTED: Final = {
    "overview_page": "overview",
    "input_pipeline_analyzer": "input_pipeline",
    "framework_op_stats": "ops",
    "kernel_stats": "kernels",
    "memory_profile": "memory",
    "tf_data_bottleneck_analysis": "tf_data",
    "inference_profile": "inference",
}


class Headline(msgspec.Struct, frozen=True, kw_only=True):
    """The first sentence of a report, as data.

    Attributes:
        text: The sentence.
        owner: What the time of the sentence is attributed to; "busy" for all work of a
            device; null if the sentence is not about time.
        percent: Share of the judged steps' time attributed to that owner, or to all
            owners of the finding, in percent; null if the sentence is not about time.
        finding: Id of the finding that the sentence is about; null if it is about none.
    """

    text: str
    owner: str | None
    percent: float | None
    finding: str | None


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """Contents of a report of one profile.

    Attributes:
        profile: Run, hosts and devices that the numbers come from.
        overview, ops, kernels, input_pipeline, memory, tf_data, inference: Result of
            the tool that `REPORTED` names for the field, or why the tool has no result.
        headline: First sentence of the report.
        findings: Findings in the order in which to act on them.
        together: Joint gain of the costliest findings, and the next bottleneck.
        checklist: Stages of the checklist, in the order of the guides.
        hardware: Hardware of the run, and the share of its peak that the kernels reach.
        quality: Doubts about the recording.
        silent_device: Evidence of a device whose work was not recorded; null if none.
        device_in_doubt: Whether no evidence shows that the program used that device.
        windows: Whether the program ran on Windows; only known if `silent_device` is.
        not_understood: Why recorded device work is missing from all numbers; null if
            all recorded work is understood.
        frameworks: Frameworks of the recorded ops; empty if none is recognised.
        annotations: Named ranges of the program with the most host time; empty if the
            program named no range.
        recorder: Recorder of all hosts, `kineto` or `nsight`; null for recordings of
            TensorFlow, JAX and stepscope.
    """

    profile: Profile
    overview: OverviewPageResult | Unavailable
    ops: FrameworkOpStatsResult | Unavailable
    kernels: KernelStatsResult | Unavailable
    input_pipeline: InputPipelineResult | Unavailable
    memory: MemoryProfileResult | Unavailable
    tf_data: TfDataBottleneckAnalysisResult | Unavailable
    inference: InferenceProfileResult | Unavailable
    headline: Headline
    findings: tuple[Finding, ...]
    together: Together
    checklist: tuple[CheckedStage, ...]
    hardware: Hardware
    quality: tuple[Doubt, ...]
    silent_device: str | None = None
    device_in_doubt: bool = False
    windows: bool = False
    not_understood: Unavailable | None = None
    frameworks: tuple[str, ...] = ()
    annotations: tuple[TopAnnotation, ...] = ()
    recorder: str | None = None

    @property
    def is_plain(self) -> bool:
        """Whether the program is known to use no framework."""
        return self.frameworks == ("Python",)

    @property
    def tools(self) -> dict[str, msgspec.Struct | Unavailable]:
        """Return the result of each tool by the name of the tool."""
        return {tool: getattr(self, field) for tool, field in REPORTED.items()}
