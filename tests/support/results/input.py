"""What `input_pipeline_analyzer` answers, for tests of several subjects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepscope.analysis.input_pipeline_analyzer import InputPipelineResult
from stepscope.analysis.tools import analyse

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData


def analysed(profile: ProfileData, **options: Any) -> InputPipelineResult:
    result = analyse(profile, "input_pipeline_analyzer", options)
    assert isinstance(result, InputPipelineResult), result
    return result


def missing_of(result: InputPipelineResult) -> dict[str, str]:
    return {one.field: one.code for one in result.missing}
