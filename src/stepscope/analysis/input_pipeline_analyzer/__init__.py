"""Input pipeline analyzer: whether the program waits for data, and for which stage."""

from stepscope.analysis.input_pipeline_analyzer.analyzer import (
    NEEDS,
    InputPipelineResult,
    analyse,
)
from stepscope.analysis.options import InputPipelineOptions as Options

__all__ = ["NEEDS", "InputPipelineResult", "Options", "analyse"]
