"""The document that a renderer receives: results and findings of one profile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from stepscope.advice.checklist import CheckedStage
from stepscope.advice.finding import Finding
from stepscope.advice.predicted_gains import Together
from stepscope.analysis.ops.hardware import Hardware
from stepscope.analysis.tools import ToolResults
from stepscope.reporting.envelope import Doubt, Profile
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.analysis.framework_op_stats import FrameworkOpStatsResult
    from stepscope.analysis.inference_profile import InferenceProfileResult
    from stepscope.analysis.input_pipeline_analyzer import InputPipelineResult
    from stepscope.analysis.kernel_stats import KernelStatsResult
    from stepscope.analysis.memory_profile import MemoryProfileResult
    from stepscope.analysis.overview_page import OverviewPageResult
    from stepscope.analysis.tf_data_bottleneck_analysis import (
        TfDataBottleneckAnalysisResult,
    )

#: Tools whose results a report may show.
REPORTED: Final = (
    "overview_page",
    "input_pipeline_analyzer",
    "framework_op_stats",
    "kernel_stats",
    "memory_profile",
    "tf_data_bottleneck_analysis",
    "inference_profile",
)
#: Tools whose results every report shows.
ALWAYS_REPORTED: Final = REPORTED[:1]


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
        results: Result of each tool, or why the tool has no result.
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
        recorder: Recorder of all hosts, `kineto` or `nsight`; null for recordings of
            TensorFlow, JAX and stepscope.
    """

    profile: Profile
    results: ToolResults
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
    recorder: str | None = None

    @property
    def is_plain(self) -> bool:
        """Whether the program is known to use no framework."""
        return self.frameworks == ("Python",)

    @property
    def overview(self) -> OverviewPageResult | Unavailable:
        """Result of `overview_page`."""
        result: OverviewPageResult | Unavailable = self.results["overview_page"]
        return result

    @property
    def ops(self) -> FrameworkOpStatsResult | Unavailable:
        """Result of `framework_op_stats`."""
        result: FrameworkOpStatsResult | Unavailable = self.results[
            "framework_op_stats"
        ]
        return result

    @property
    def kernels(self) -> KernelStatsResult | Unavailable:
        """Result of `kernel_stats`."""
        result: KernelStatsResult | Unavailable = self.results["kernel_stats"]
        return result

    @property
    def input_pipeline(self) -> InputPipelineResult | Unavailable:
        """Result of `input_pipeline_analyzer`."""
        result: InputPipelineResult | Unavailable = self.results[
            "input_pipeline_analyzer"
        ]
        return result

    @property
    def memory(self) -> MemoryProfileResult | Unavailable:
        """Result of `memory_profile`."""
        result: MemoryProfileResult | Unavailable = self.results["memory_profile"]
        return result

    @property
    def tf_data(self) -> TfDataBottleneckAnalysisResult | Unavailable:
        """Result of `tf_data_bottleneck_analysis`."""
        result: TfDataBottleneckAnalysisResult | Unavailable = self.results[
            "tf_data_bottleneck_analysis"
        ]
        return result

    @property
    def inference(self) -> InferenceProfileResult | Unavailable:
        """Result of `inference_profile`."""
        result: InferenceProfileResult | Unavailable = self.results["inference_profile"]
        return result

    @property
    def tools(self) -> dict[str, msgspec.Struct | Unavailable]:
        """Return the result of each reported tool by the name of the tool."""
        return {tool: self.results[tool] for tool in REPORTED}
