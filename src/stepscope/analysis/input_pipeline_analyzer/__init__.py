"""Input pipeline analyzer: whether the program waits for data, and for which stage."""

from stepscope.analysis.input_pipeline_analyzer.analyzer import (
    NEEDS,
    InputPipelineResult,
    Options,
    analyse,
)

__all__ = ["NEEDS", "InputPipelineResult", "Options", "analyse"]
