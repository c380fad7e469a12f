"""Input pipeline analyzer: whether the program waits for data, and for which stage."""

from stepscope.analysis.input_pipeline_analyzer.analyzer import (
    InputPipelineResult,
    Options,
    analyse,
)

__all__ = ["InputPipelineResult", "Options", "analyse"]
