"""The options of every tool by its name, known before any tool is loaded."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from stepscope.analysis.options import (
    framework_op_stats,
    inference_profile,
    input_pipeline_analyzer,
    kernel_stats,
    memory_profile,
    model_views,
    overview_page,
    pod_viewer,
    roofline_model,
    tf_data_bottleneck_analysis,
    trace_viewer,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    import msgspec

OPTIONS: Final[Mapping[str, type[msgspec.Struct]]] = MappingProxyType(
    {
        "overview_page": overview_page.Options,
        "input_pipeline_analyzer": input_pipeline_analyzer.Options,
        "framework_op_stats": framework_op_stats.Options,
        "kernel_stats": kernel_stats.Options,
        "roofline_model": roofline_model.Options,
        "memory_profile": memory_profile.Options,
        "pod_viewer": pod_viewer.Options,
        "trace_viewer": trace_viewer.Options,
        "tf_data_bottleneck_analysis": tf_data_bottleneck_analysis.Options,
        "inference_profile": inference_profile.Options,
        "model_views": model_views.Options,
    }
)
