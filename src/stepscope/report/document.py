"""What a renderer is given: results and findings of one profile, and what it was."""

from __future__ import annotations

from typing import Final

import msgspec

from stepscope.advice.checklist import CheckedStage
from stepscope.advice.finding import Finding
from stepscope.advice.replayed import Together
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

#: Tool whose result a report needs → the field of `Document` with that result.
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
        owner: Owner of the time that it speaks of, in the account; "busy" for all work
            of a device; null where it speaks of no time.
        percent: Share of the judged steps' time, in percent; null likewise. Of a
            finding about several owners it is the sum of theirs.
        finding: Id of the finding that it is about; null for none.
    """

    text: str
    owner: str | None
    percent: float | None
    finding: str | None


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a report of one profile says.

    Attributes:
        profile: Run, hosts and devices that the numbers come from.
        overview, ops, kernels, input_pipeline, memory, tf_data, inference: The result
            of the tool that `REPORTED` names for the field, or why there is none.
        headline: What is said first.
        findings: The findings in the order in which to act on them.
        together: What the costliest findings gain together, and what holds a step
            then.
        checklist: The stages of the checklist, in the order of the guides.
        hardware: What the run had, and how much of its peak the kernels reach.
        quality: Doubts about the recording.
        silent_device: What points at a device whose work was not recorded; null where
            there is no such sign.
        device_in_doubt: Whether nothing shows that the program used that device.
        not_understood: Why the work of a device is in no number although it was
            recorded; null where all of it is understood.
        frameworks: Frameworks that the ops come from; empty where none is recognised.
        annotations: The ranges of the program with most host time; empty where it named
            none.
        recorder: Whose recordings all hosts are: `kineto` or `nsight`; null for those
            of TensorFlow, JAX and stepscope.
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
        """Return the results by the names of their tools."""
        return {tool: getattr(self, field) for tool, field in REPORTED.items()}
